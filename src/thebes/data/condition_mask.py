"""The rows of a batch that meet a condition, over numbers as batches hold them: within their bounds, and for a column
with declared values the number of the value among these.

Every row here has a value in every column that is named: others are left out before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.filter import COMPARISONS, Among, Compared, Condition, Every, Present
from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def mask(condition: Condition, columns: Mapping[str, Floats], schema: Schema) -> Flags:
    """Return which rows meet a condition."""
    rows = len(next(iter(columns.values())))
    if isinstance(condition, Present):
        return np.full(rows, condition.there)
    if isinstance(condition, (Compared, Among)):
        column, numbers = schema.column(condition.column), columns[condition.column]
        if column.values is None:
            return np.asarray(_holds(condition, numbers))
        each = np.array([bool(_holds(condition, value)) for value in column.held])  # each declared value is asked once
        return np.asarray(each[numbers.astype(np.int64)])
    parts = [mask(part, columns, schema) for part in condition.parts]
    start = np.full(rows, isinstance(condition, Every))
    return np.asarray((np.logical_and if isinstance(condition, Every) else np.logical_or).reduce([start, *parts]))


def check_masked(condition: Condition, schema: Schema, field: str) -> None:
    """Refuse a condition over a column that batches do not hold: one without bounds or declared values."""
    if isinstance(condition, (Compared, Among, Present)):
        column = schema.column(condition.column, field)
        if not column.ranged and column.values is None:
            raise Mistake(field, f"asks {condition.column!r}, which has neither bounds nor declared values")
        return
    for part in condition.parts:
        check_masked(part, schema, field)


def _holds(condition: Compared | Among, value: Any) -> Any:
    """Return whether a value, or each of several numbers, compares so."""
    if isinstance(condition, Compared):
        return COMPARISONS[condition.operator](value, condition.value)
    if isinstance(value, np.ndarray):
        return np.isin(value, np.array(condition.values, dtype=np.float64), invert=not condition.inside)
    return (value in condition.values) is condition.inside
