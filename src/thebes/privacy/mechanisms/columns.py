"""Reading rows that somebody handed to a mechanism: one column or a few, as floats, and public bounds as a grid.

What is refused here is refused for its form (NaN, text, shape), never for its value, and no value is ever
repeated in an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake
from thebes.privacy.grid import Grid
from thebes.privacy.promise import Adjacency

Floats = NDArray[np.float64]


def _numbers(values: Any, argument: str) -> Floats:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise Mistake(argument, "must hold numbers")
        if array.dtype.kind == "O" and any(isinstance(v, (str, bytes, complex)) for v in array.ravel()):
            raise Mistake(argument, "must hold numbers")
        floats = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as problem:
        if isinstance(problem, Mistake):
            raise
        raise Mistake(argument, "must hold numbers that fit into 64-bit floats") from None
    if np.isnan(floats).any():
        raise Mistake(argument, "must not hold missing numbers (NaN); say first what a missing value means")
    return floats


def column(values: Any, *, adjacency: Adjacency, argument: str = "values") -> Floats:
    """One number per unit. Empty is refused only where the number of units is public (replace-one)."""
    floats = _numbers(values, argument)
    if floats.ndim != 1:
        raise Mistake(argument, "must be one column: one number per unit")
    if floats.size == 0 and adjacency is Adjacency.REPLACE_ONE:
        raise Mistake(argument, "must not be empty: under replace-one the number of units is public")
    return floats


def table(values: Any, *, columns: int, adjacency: Adjacency, argument: str = "values") -> Floats:
    """One row of `columns` numbers per unit; a single column may also come flat."""
    floats = _numbers(values, argument)
    if floats.ndim == 1 and (columns == 1 or floats.size == 0):
        floats = floats.reshape(-1, columns)
    if floats.ndim != 2 or floats.shape[1] != columns:
        raise Mistake(argument, f"must have {columns} column{'' if columns == 1 else 's'}: one row per unit")
    if floats.shape[0] == 0 and adjacency is Adjacency.REPLACE_ONE:
        raise Mistake(argument, "must not be empty: under replace-one the number of units is public")
    return floats


def grid_of(bounds: Any, bits: int) -> Grid:
    """The public grid over `bounds`, a pair (low, high)."""
    if isinstance(bounds, (str, bytes)):
        raise Mistake("bounds", "must be a pair of numbers (low, high)")
    try:
        low, high = bounds
        pair = float(low), float(high)
    except (TypeError, ValueError, OverflowError):
        raise Mistake("bounds", "must be a pair of numbers (low, high)") from None
    if isinstance(bits, bool) or not isinstance(bits, int):
        raise Mistake("bits", "must be a whole number")
    return Grid(pair[0], pair[1], bits)


def whole(argument: str, value: Any, *, least: int, most: int) -> int:
    """A whole number between `least` and `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        raise Mistake(argument, f"must be a whole number between {least} and {most}")
    return int(value)


def integers(argument: str, values: Any) -> NDArray[np.int64]:
    """At least one whole number, each within 2^61, so that differences never overflow."""
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0:
        raise Mistake(argument, "must be a list of at least one whole number")
    if array.dtype.kind not in "iu" or (array.dtype.kind == "u" and bool((array > 2**61).any())):
        raise Mistake(argument, "must hold whole numbers within 2^61")
    whole_numbers = array.astype(np.int64)
    if bool((np.abs(whole_numbers) > 2**61).any()) or bool((whole_numbers == np.iinfo(np.int64).min).any()):
        raise Mistake(argument, "must hold whole numbers within 2^61")
    return whole_numbers
