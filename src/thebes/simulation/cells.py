"""The cells that people's stores hold of the values in somebody's table: every cell has a type of its own, as each
person's collector would have sent it, and one person's missing or odd value changes nobody else's.

A column here is an array of 64-bit integers, of floats (NaN is missing), of text, or of objects: int, float, str, None.
"""

from __future__ import annotations

import datetime as clock
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.store.values import LONGEST_STRING, Cell, kept
from thebes.privacy.faults import Mistake

Column = NDArray[np.generic]

#: how a store declares the type of a cell, and so what SQL makes of it beside values of other types
INTEGER, REAL, TEXT = "INTEGER", "REAL", "TEXT"
_FLAGS = {int: 1, float: 2, str: 4, type(None): 0}
#: for each set of types (flags added up) in one person's cells of a column, how a store must declare it: whole numbers
#: fit into a column of floats, nothing else fits together
_DECLARED = ("", INTEGER, REAL, REAL, TEXT, "", "", "")
DECLARATIONS = ("", INTEGER, REAL, TEXT)
_WHOLE = "must be a whole number of at most 64 bits"
_NOTHING = "must be a number, a truth value, text or a moment"
_EXACT = 2.0**53
_LARGEST = 2**63


class Unkept(Exception):
    """A value that no person's store takes; the words say what it would have to be, without the value."""


def cells_of(values: Any) -> Column:
    """One column as stores hold it, or `Unkept`. What pandas says of missing values is missing, and so are NaN and
    infinities, which no collector can send."""
    if hasattr(values, "isna") and hasattr(values, "to_numpy"):
        return _of_pandas(values)
    if isinstance(values, np.ma.MaskedArray):
        return _of_objects(values.tolist()) if np.ma.getmaskarray(values).any() else _of_array(np.asarray(values))
    if isinstance(values, np.ndarray) or hasattr(values, "__array__"):
        return _of_array(np.asarray(values))
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
        raise Mistake("rows", "every column must be one-dimensional")
    return _of_objects(list(values))


def whole_floats(values: Any) -> bool:
    """Return whether pandas has probably made floats of whole numbers, as it does where some are missing."""
    if not hasattr(values, "isna") or str(getattr(values, "dtype", "")) != "float64":
        return False
    numbers = values.to_numpy()
    there = numbers[~np.isnan(numbers)]
    return len(there) not in (0, len(numbers)) and bool(((there == np.rint(there)) & (np.abs(there) < _EXACT)).all())


def _of_pandas(values: Any) -> Column:
    if whole_floats(values):
        return _of_objects(values.astype("Int64").to_numpy(dtype=object, na_value=None).tolist())
    missing = np.asarray(values.isna())
    own = isinstance(getattr(values, "dtype", None), np.dtype)  # else pandas makes floats of whole numbers here too
    array = np.asarray(values.to_numpy() if own or not missing.any() else values.to_numpy(dtype=object))
    if array.dtype.kind == "O" and missing.any():
        array = array.copy()
        array[missing] = None  # pandas has several words for missing
    return _of_array(array)


def _of_array(array: NDArray[Any]) -> Column:
    if array.ndim != 1:
        raise Mistake("rows", "every column must be one-dimensional")
    kind = array.dtype.kind
    if kind in "bi":
        return array.astype(np.int64, copy=False)
    if kind == "u":
        if len(array) and int(array.max()) >= _LARGEST:
            raise Unkept(_WHOLE)
        return array.astype(np.int64)
    if kind == "f":
        numbers = array.astype(np.float64) + 0.0  # a store has one zero
        numbers[np.isinf(numbers)] = np.nan
        return numbers
    if kind == "M":
        return _of_times(array)
    if kind == "U":
        _check_text(array.tolist())
        return array
    return _of_objects(array.astype(object).tolist())


def _of_times(array: NDArray[Any]) -> Column:
    """Times as a store writes them: "YYYY-MM-DD HH:MM:SS[.ffffff]"."""
    whole = array.astype("datetime64[s]")
    there = ~np.isnat(array)
    years = whole[there].astype("datetime64[Y]").astype(np.int64) + 1970
    if len(years) and not (years.min() >= 1 and years.max() <= 9999):
        raise Unkept("must be a time between the years 1 and 9999")
    texts = np.where(there, whole, np.datetime64(0, "s")).astype("U19")
    texts.view("U1").reshape(len(texts), -1)[:, 10] = " "
    column: NDArray[Any] = texts.astype(object)
    column[~there] = None
    parts = np.where(there, array.astype("datetime64[us]") - whole.astype("datetime64[us]"), 0).astype(np.int64)
    for place in np.flatnonzero(parts):
        column[place] += f".{parts[place]:06d}"
    return column


def _of_objects(cells: list[Any]) -> Column:
    """Cell by cell; all of one type become an array of it."""
    kinds = set(map(type, cells))
    if not kinds <= _FLAGS.keys():
        known: dict[Any, Cell] = {}
        cells = [cell if type(cell) in (int, str) else _cell(cell, known) for cell in cells]
        kinds = set(map(type, cells))
    if float in kinds:
        cells = [_float(cell) if type(cell) is float else cell for cell in cells]
        kinds = set(map(type, cells))
    if str in kinds:
        _check_text([cell for cell in cells if type(cell) is str])
    if int in kinds and not all(-_LARGEST <= cell < _LARGEST for cell in cells if type(cell) is int):
        raise Unkept(_WHOLE)
    if kinds == {int}:
        return np.array(cells, dtype=np.int64)
    if kinds and kinds <= {float, type(None)} and float in kinds:
        return np.array(cells, dtype=np.float64)
    return np.fromiter(cells, dtype=object, count=len(cells))


def _cell(value: Any, known: dict[Any, Cell]) -> Cell:
    """One cell; of values that repeat the work is done once."""
    if value is None or type(value) is float:
        return value
    try:
        if (type(value), value) not in known:
            known[type(value), value] = _kept(value)
        return known[type(value), value]
    except TypeError:  # a list, a dict: nothing that could be looked up
        raise Unkept(_NOTHING) from None


def _float(value: float) -> float | None:
    """A store has one zero, and nothing that is not finite."""
    return value + 0.0 if math.isfinite(value) else None


def _kept(value: Any) -> Cell:
    if type(value).__name__ == "NAType":  # of pandas, which is slow to load
        return None
    if hasattr(value, "to_pydatetime"):
        value = None if value != value else value.to_pydatetime(warn=False)
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Decimal):
        value = float(value)
    elif isinstance(value, clock.date) and not isinstance(value, clock.datetime):
        value = clock.datetime.combine(value, clock.time())
    try:
        if isinstance(value, float):
            return _float(float(value))
        return kept(value)
    except Mistake as refused:
        raise Unkept(refused.message) from None


def _check_text(texts: list[str]) -> None:
    if max(map(len, texts), default=0) > LONGEST_STRING:
        raise Unkept(f"must be text of at most {LONGEST_STRING} characters")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise Unkept("must be text that UTF-8 can hold") from None


def declared(column: Column) -> str | None:
    """Return the type that stores declare for this column; None where people's cells are of several types."""
    if column.dtype.kind in "ifU":
        return {"i": INTEGER, "f": REAL, "U": TEXT}[column.dtype.kind]
    kinds = set(map(type, column.tolist())) - {type(None)}
    return _DECLARED[_FLAGS[kinds.pop()] if kinds else 0] if len(kinds) <= 1 else None


def declared_each(column: Column, person: NDArray[np.int64], people: int) -> NDArray[np.int64]:
    """For every person the place among `DECLARATIONS` of how their store declares the column."""
    flags = np.zeros(people, dtype=np.int64)
    np.bitwise_or.at(flags, person, np.fromiter((_FLAGS[type(cell)] for cell in column), np.int64, len(column)))
    return np.array([DECLARATIONS.index(kind) for kind in _DECLARED])[flags]


def settled(column: Column, person: NDArray[np.int64], people: int) -> Column:
    """The column with everybody's whole numbers as floats who has a float beside them: their store holds floats."""
    if column.dtype.kind != "O" or not {int, float} <= set(map(type, column.tolist())):
        return column
    real = declared_each(column, person, people)[person] == DECLARATIONS.index(REAL)
    cells = [float(c) if mine and type(c) is int else c for c, mine in zip(column.tolist(), real, strict=True)]
    return np.fromiter(cells, dtype=object, count=len(cells))
