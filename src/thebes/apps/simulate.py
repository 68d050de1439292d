"""`thebes simulate`: one task over a table, without a network."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import typer

from thebes.apps import output


def _numbers(document: Any) -> set[str]:
    """The columns of a table that the task can use as numbers only."""
    from thebes.data.featurizer import read
    from thebes.tasks.document import Range

    named = {name for name, bound in (getattr(document, "bounds", None) or {}).items() if isinstance(bound, Range)}
    named |= {*getattr(document, "inputs", ())} - {*(getattr(document, "bounds", None) or {})}
    if getattr(document, "aggregator", "histogram") not in ("histogram", "count"):
        named |= {*document.gives}
    straight = read(document.featurizer).straight if hasattr(document, "featurizer") else {}
    return {straight[name] for name in named if name in straight}


def simulate(
    task: Path = typer.Argument(..., metavar="TASK.json", help="The task document."),
    data: Path = typer.Argument(
        ..., metavar="DATA.csv|.parquet", help="One row for each person, or a column person_id."
    ),
    seed: int | None = typer.Option(None, min=0, help="Make every draw repeatable (which protects nobody)."),
    json: str | None = output.json_option(),
) -> None:
    """Run one task over a table and print the release.

    The table stands for every table the task's SQL names. min_count is not enforced; too few rows is a warning.

    Example: thebes simulate median.json people.csv --seed 1
    """
    from thebes.simulation.files import load
    from thebes.simulation.world import simulate as run
    from thebes.tasks import registry

    document = registry.check(output.read_document(task))
    table = load(data, numbers=_numbers(document))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release = run(document, table, seed=seed)
    for warning in caught:
        if warning.category is UserWarning:
            typer.echo(f"thebes: warning: {warning.message}", err=True)
    if json is not None:
        output.write_json(json, release.as_json())
    else:
        typer.echo(str(release))
