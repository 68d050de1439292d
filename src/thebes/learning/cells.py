"""A table or a column as somebody hands it over, cell by cell: what is no number is a missing one, and never an error.

What a cell becomes depends on that cell alone, whatever type the others made of the whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake


def numbers_of(values: Any) -> Any:
    """The same, but columns of texts or of anything as columns of numbers; what has another shape is left to others."""
    if hasattr(values, "columns") and hasattr(values, "assign"):
        mixed = [place for place, kind in enumerate(values.dtypes) if getattr(kind, "kind", "O") not in "biuf"]
        if not mixed:
            return values
        plain = values.copy()
        for place in mixed:
            plain.isetitem(place, _numbers(np.asarray(values.iloc[:, place], dtype=object)))
        return plain
    if isinstance(values, (list, tuple)):
        try:
            values = np.array(values, dtype=object)
        except ValueError:
            return values
    if isinstance(values, np.ndarray) and values.dtype.kind not in "biufc":
        return _numbers(values.astype(object))
    return values


def column_of(y: Any, rows: int) -> NDArray[Any]:
    """One value for each row."""
    if y is None:
        raise Mistake("y", "is missing: requires y to be passed, but the target y is None")
    try:
        column = np.array(y, dtype=object) if isinstance(y, (list, tuple)) else np.asarray(y)
    except (TypeError, ValueError):
        raise Mistake("y", "should be a 1d array: one value for each row") from None
    if column.ndim == 2 and column.shape[1] == 1:
        _warn_of_a_column()
        column = column[:, 0]
    if column.ndim != 1:
        raise Mistake("y", f"should be a 1d array, got an array of shape {column.shape} instead")
    if len(column) != rows:
        raise Mistake("y", f"has {len(column)} values for {rows} rows: inconsistent numbers of samples")
    return column


def _numbers(cells: NDArray[Any]) -> NDArray[np.float64]:
    found = np.fromiter((_number(cell) for cell in cells.reshape(-1)), dtype=np.float64, count=cells.size)
    return found.reshape(cells.shape)


def _number(cell: Any) -> float:
    if isinstance(cell, complex) and cell.imag == 0:
        cell = cell.real  # a column is complex as soon as one cell of it is
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _warn_of_a_column() -> None:
    import warnings

    from sklearn.exceptions import DataConversionWarning

    told = "A column-vector y was passed when a 1d array was expected."
    warnings.warn(told, DataConversionWarning, stacklevel=4)
