"""`thebes dataset propose`: a schema to fill in, from the names of a file's columns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thebes.cli.dataset_sources import source_of
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import plural


def propose(
    source: Annotated[
        str, typer.Argument(help="As --source of create: a file, FILE.sqlite#TABLE, URL#TABLE, or .toml.")
    ],
    out: Annotated[Path, typer.Option(help="The folder for the two files.")] = Path(),
    name: Annotated[str, typer.Option(help="Name of the files.")] = "",
) -> None:
    """Write a schema for rows, and a description of their source, from the names of the columns. No row is read. What
    must be known beforehand is left open, for you to fill in.

    Example: thebes dataset propose patients.csv

    Example: thebes dataset propose patients.toml --name patients-here
    """
    from thebes.data.connectors.registry import open_connector
    from thebes.site.steward.proposal import proposal
    from thebes.site.steward.source_file import source_text

    described = source_of(source)
    connector = open_connector(described, folder=Path.cwd())
    try:
        found = proposal(connector.columns())
    finally:
        connector.close()
    stem = name or Path(str(described.get("path") or described.get("table") or "rows")).name.partition(".")[0]
    schema, place = out / f"{stem}.schema.toml", out / f"{stem}.source.toml"
    for path in (schema, place):
        if path.exists():
            raise Mistake("--name", f"{path} is there already; give another name, or move it away")
    if found.renamed and described["kind"] != "csv":
        raise Mistake(
            "SOURCE", f"has the column {next(iter(found.renamed.values()))[:40]!r}; give it a plain name where it lies"
        )
    out.mkdir(parents=True, exist_ok=True)
    schema.write_text(found.schema, encoding="utf-8")
    told = {**described, "columns": found.renamed} if found.renamed else described
    told = {**told, "files": "files"} if found.pictures and "files" not in told else told
    place.write_text(source_text(told), encoding="utf-8")
    typer.echo(f"{schema} and {place} are written; {plural(found.open, 'place')} of the schema must be filled in.")
    if "files" in told:
        typer.echo(f"{place} says in which folder the pictures lie that the rows name by paths; correct it.")
    typer.echo(f"Then: thebes dataset create NAME --home HOME --schema {schema} --source {place} --epsilon E --check")
