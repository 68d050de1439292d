"""`thebes simulate`: one task over a table, without a network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer

from thebes.cli import output
from thebes.privacy.faults import Mistake


def _sites(data: list[str], option: str) -> dict[str, Path]:
    """NAME=FILE of every site; a file alone is called by its own name."""
    from thebes.tasks.site_document import SITE_NAME

    found: dict[str, Path] = {}
    for said in data:
        name, equals, file = said.partition("=")
        path = Path(file if equals else said)
        name = name if equals else path.stem
        if re.match(SITE_NAME, name) is None:
            raise Mistake(option, "the name of a site is up to 63 small letters, digits, dots, dashes or underscores")
        if name in found:
            raise Mistake(option, f"names site {name!r} twice")
        if not path.is_file():
            raise Mistake(option, f"there is no file {str(path)!r}")
        found[name] = path
    return found


def simulate(
    task: Path = typer.Argument(..., metavar="TASK.json", help="The task document."),
    data: list[str] = typer.Argument(
        ...,
        metavar="DATA.csv|.parquet",
        help="One row for each person, or a column person_id. Where sites answer: NAME=FILE for each of them.",
    ),
    schema: Path | None = typer.Option(
        None, "--schema", metavar="FILE", help="The schema, where sites answer (TOML or JSON)."
    ),
    aside: list[str] | None = typer.Option(
        None,
        "--aside",
        metavar="DATA",
        help="Rows kept aside, given like DATA: they take no part, and a model is judged on them.",
    ),
    seed: int | None = typer.Option(None, min=0, help="Make every draw repeatable (which protects nobody)."),
    json: str | None = output.json_option(),
) -> None:
    """Run one task over a table and print the release.

    The table stands for every table the task's SQL names. min_count is not enforced; too few rows only give a warning.

    A task that sites answer needs a schema and one file for each site, under the site's name.

    Example: thebes simulate median.json people.csv --seed 1
    """
    from thebes.data.schema import read_schema
    from thebes.simulation.people_file import people_like
    from thebes.simulation.world import simulate as run
    from thebes.tasks import registry
    from thebes.tasks.site_document import SiteDocument

    document = registry.check(output.read_document(task))
    body = None if schema is None else read_schema(schema)
    if isinstance(document, SiteDocument) and body is None:
        raise Mistake("--schema", "is needed where sites answer: name the file with the columns")

    def read(files: list[str], option: str) -> Any:
        if isinstance(document, SiteDocument):
            return _sites(files, option)
        if len(files) != 1:
            raise Mistake(option, "must be one file: this is a task that people answer")
        return people_like(document, Path(files[0]))

    with output.told_warnings():
        table, kept = read(data, "DATA"), read(aside, "--aside") if aside else None
        release = run(document, table, seed=seed, schema=body, aside=kept)
    if json is not None:
        output.write_json(json, release.as_json())
    else:
        typer.echo(str(release))
