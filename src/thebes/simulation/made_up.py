"""Made-up rows: drawn within what a document or a schema declares, so that nothing in them is anybody's data.

Every column is spread evenly and by itself. Where a label is learned there are as many rows of each value; every other
column has one part of its bounds for each label, and a row's value comes from the part of its label as often as
`LEANING` says, else from anywhere. Where a number is learned, a value lies as far up its bounds as that number as
often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.schema import Column, Schema
from thebes.tasks.document import Bound, Range, Values
from thebes.tasks.rehearsal import FOUND

DAYS = 16  #: over which the rows of a growing data set are spread
LEANING = 0.5  #: the chance that a value goes with its row's label, where it is learned what goes with it

#: the ends between which a column's numbers lie, or the values it has
Spread = tuple[float, float] | NDArray[Any]
Columns = dict[str, NDArray[Any]]

_FIRST_DAY = np.datetime64("2000-01-01")


def rows_of(spreads: Mapping[str, Spread], count: int, *, seed: int, label: str | None = None) -> Columns:
    """Draw so many rows; `label` is the column that is learned, if one is."""
    draw = np.random.Generator(np.random.PCG64(seed))  # made-up rows, not noise
    learned = None if label is None else spreads[label]
    classes = len(learned) if isinstance(learned, np.ndarray) else 1
    theirs = draw.permutation(np.arange(count) % classes)
    level = draw.random(count) if isinstance(learned, tuple) else None
    found: Columns = {}
    for name, spread in spreads.items():
        place = draw.random(count)
        if label is not None:
            leaning = level if level is not None else (theirs + (0.5 if name == label else place)) / classes
            place = np.where((name == label) | (draw.random(count) < LEANING), leaning, place)
        if isinstance(spread, tuple):
            found[name] = spread[0] + (spread[1] - spread[0]) * place
        else:
            found[name] = spread[(place * len(spread)).astype(np.int64)]
    return found


def spreads_of(columns: Sequence[str], bounds: Mapping[str, Bound], lent: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Say between what people's columns are spread: their bounds, or the values that are lent to them."""
    return {name: _of_bound(bounds.get(name), lent.get(name, np.zeros(1))) for name in columns}


def _of_bound(bound: Bound | None, lent: NDArray[Any]) -> Spread:
    if isinstance(bound, Range):
        return bound.low, bound.high
    return np.array(bound.values, dtype=object) if isinstance(bound, Values) else lent


def table_of(schema: Schema, count: int, *, seed: int, label: str | None = None) -> Columns:
    """Draw rows that follow a schema, each of somebody else."""
    spreads = {name: _of_column(column) for name, column in schema.columns.items()}
    label = label if label is not None and len(spreads.get(label, ())) > 1 else None
    found = rows_of(spreads, count, seed=seed, label=label)
    for name, column in schema.columns.items():
        if column.key:
            found[name] = np.arange(count) if column.type == "integer" else np.arange(count).astype(str).astype(object)
        elif name == schema.time:
            found[name] = _FIRST_DAY + (np.arange(count) * DAYS // count) * np.timedelta64(1, "D")
        elif column.type == "integer":
            found[name] = np.rint(found[name].astype(np.float64)).astype(np.int64)
    return found


def _of_column(column: Column) -> Spread:
    if column.low is not None and column.high is not None:
        return column.low, column.high
    if column.values is not None:
        return _cells(column.held)
    nothing = {"boolean": (False, True), "string": tuple(found_values()), "timestamp": (datetime(2000, 1, 1),)}
    return _cells(nothing.get(column.type, (0.0,)))


def found_values() -> NDArray[Any]:
    """Return the values of a column that nobody declared, each as often as it is had: some by many, some by few."""
    return _cells([name for name, times in FOUND.items() for _ in range(times)])


def _cells(values: Sequence[Any]) -> NDArray[Any]:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made
