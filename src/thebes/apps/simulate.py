"""`thebes simulate`: one task over a table, without a network."""

from __future__ import annotations

import warnings
from pathlib import Path

import typer

from thebes.apps import output


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
    from thebes.simulation.tables import load
    from thebes.simulation.world import simulate as run

    document = output.read_document(task)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release = run(document, load(data), seed=seed)
    for warning in caught:
        if warning.category is UserWarning:
            typer.echo(f"thebes: warning: {warning.message}", err=True)
    if json is not None:
        output.write_json(json, release.as_json())
    else:
        typer.echo(str(release))
