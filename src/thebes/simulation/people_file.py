"""The people of a file: each cell is read as the document declares its column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thebes.data.featurizer import read
from thebes.data.given_rows import given_file
from thebes.privacy.faults import Mistake
from thebes.simulation.files import load
from thebes.simulation.population import People
from thebes.simulation.tables import Population, people_of
from thebes.tasks.document import Document, PeopleDocument, Range, Values


def given_people(document: PeopleDocument, rows: Any, argument: str = "rows") -> Population:
    """Read rows in any of the forms in which they may be given, or a dict of tables, as a population."""
    path = given_file(rows, argument)
    if path is None:
        return people_of(rows.columns if isinstance(rows, People) else rows, argument)
    try:
        return people_like(document, path)
    except Mistake as wrong:
        raise Mistake(argument, wrong.message) from None


def _numbers(document: PeopleDocument) -> set[str]:
    """The columns of a table that the task can use as numbers only."""
    bounds = document.bounds or {}
    named = {name for name, bound in bounds.items() if isinstance(bound, Range)}
    named |= {*getattr(document, "inputs", ())} - {*bounds}
    if getattr(document, "aggregator", "histogram") not in ("histogram", "count"):
        named |= {*document.gives}
    straight = read(document.featurizer).straight
    return {straight[name] for name in named if name in straight}


def _sets(document: PeopleDocument) -> dict[str, Any]:
    """The columns of a table that hold the values which the task declares, and these."""
    straight, bounds = read(document.featurizer).straight, (document.bounds or {}).items()
    return {straight[name]: bound.values for name, bound in bounds if name in straight and isinstance(bound, Values)}


def people_like(document: Document, file: Path) -> Population:
    """The people of a table, each cell read as the document declares its column."""
    if not isinstance(document, PeopleDocument):
        raise Mistake("type", "is not a kind that people answer")
    return load(file, numbers=_numbers(document), sets=_sets(document))
