"""The words that a steward is told of rows that are being declared: how they fit, whose they are, on what terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from thebes.privacy.faults import Mistake
from thebes.privacy.figures import plural

if TYPE_CHECKING:
    from thebes.data.schema import Schema
    from thebes.ledger import Ledger
    from thebes.site.dataset import DataSet


def tell_figures(figures: dict[str, Any], schema: Schema) -> None:
    """Print what a look at the rows found; a Mistake where a column has no value that fits."""
    from thebes.site.steward.data_check import fitting_nowhere

    typer.echo(f"For your eyes only: {figures['rows']} rows.")
    if "people" in figures:
        most = plural(schema.max_rows_per_unit, "row")
        over = figures["people_over"]
        told = f"of whom {over} {'has' if over == 1 else 'have'} more than {most}: of their rows no more count"
        typer.echo(
            f"  {plural(figures['people'], 'person', 'people')}, {told if over else f'none with more than {most}'}"
        )
    for name, counts in figures["columns"].items():
        told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        typer.echo(f"  {name}: {told or 'everything fits'}")
    for name, remedy in figures["ways"].items():
        typer.echo(f"  {name} looks as if it is written otherwise; if so, declare in the source {remedy}")
    if stray := fitting_nowhere(figures):
        remedy = "correct it, or leave --check out"
        if any(name in figures["ways"] for name in stray):
            remedy = "declare in the source how they are written, as said above, or correct the schema"
        raise Mistake("--schema", f"fits no value of {', '.join(stray)}, so nothing is declared; {remedy}")


def warn_of_no_key(schema: Schema) -> None:
    """Warn where rows are of persons, and nothing says of whom."""
    from thebes.site.steward.proposal import like_key

    if schema.unit == "person" and schema.key is None:
        likely = ", ".join(name for name in schema.columns if like_key(name))
        typer.echo(
            "thebes: warning: no column is the key, so each row counts as a person of its own, and only one row of "
            "somebody who has several is hidden. If a column names the person, declare it with key = true"
            f"{f' (perhaps {likely})' if likely else ''}",
            err=True,
        )


def check_as_before(name: str, ledger: Ledger, *, grows: bool) -> None:
    """Refuse a data set that was declared before and grew then, or did not: it would have a second budget."""
    other = [block.name for block in ledger.blocks(name) if (block.name == name) == grows]
    if any(block == name or block.startswith(f"{name}/") for block in other):
        before, way = ("one table", "without --block-by") if grows else ("blocks of rows that come", "with --block-by")
        raise Mistake(
            "--block-by",
            f"the data set {name!r} was declared before as {before}, and what was spent of its budget stays spent: "
            f"declare it {way} again. Another name is for other rows only",
        )


def check_terms(dataset: DataSet, ledger: Ledger) -> None:
    """Refuse a data set that was declared before with another budget or unit."""
    name, terms = dataset.name, dataset.terms
    check_as_before(name, ledger, grows=False)
    earlier = next((block for block in ledger.blocks(name) if block.name == name), None)
    if earlier is None:
        return
    was = {
        "--epsilon": (earlier.budget.epsilon, terms["epsilon"]),
        "--delta": (earlier.budget.delta, terms["delta"]),
        "--filter": (earlier.filter, terms["filter"]),
        "--schema": (earlier.unit, terms["unit"]),
    }
    for argument, (then, now) in was.items():
        if then != now:
            raise Mistake(
                argument,
                f"the data set {name!r} was declared before with {earlier.budget} (filter {earlier.filter}, "
                f"unit {earlier.unit}), and what was spent of that stays spent: declare it with these again. Another "
                "name is for other rows only, because two budgets for the same rows protect nobody as either promises",
            )
