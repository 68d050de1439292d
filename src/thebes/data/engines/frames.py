"""Rows that are a pandas data frame already: for simulation, and for whoever tries a question on made-up people."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date
from typing import Any
from uuid import UUID

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thebes.data.engines.engine import MARK, Divided, KeptRows, text_number
from thebes.data.engines.kept_frame import KeptFrame, lazily
from thebes.data.engines.table import EngineTable
from thebes.data.filter import ENDS, EXACT, RowFilter
from thebes.data.schema import Schema
from thebes.data.table import Sums
from thebes.privacy.faults import Mistake

_KEPT = 64  #: answers to so many questions
_DTYPES = {"integer": "Int64", "float": "float64", "string": "object", "boolean": "boolean"}
#: a date, or a date and a time, as ISO 8601 writes them; finer than microseconds is cut off
_ISO = re.compile(
    r"^\s*\d{4}(-?\d{2}(-?\d{2}([T ]\d{2}(:?\d{2}(:?\d{2}([.,]\d+)?)?)?\s*(Z|[+-]\d{2}(:?\d{2})?)?)?)?)?\s*$", re.ASCII
)
_FINER = re.compile(r"([.,]\d{6})\d+")
_NONE = np.datetime64("NaT", "us")


def frame_of(schema: Schema, columns: Mapping[str, NDArray[Any]], *, rows: int | None = None) -> pd.DataFrame:
    """Made-up values as a data frame with the types that the schema declares; None is a missing value. With `rows`, so
    many, in which columns that are not named are missing, and every row is somebody else's."""
    given = dict(columns)
    if rows is not None:
        empty = np.full(rows, None, dtype=object)
        given = {name: given.get(name, empty) for name in schema.columns}
        if schema.key:
            text = schema.columns[schema.key].type == "string"
            given[schema.key] = np.array([str(n) if text else n for n in range(rows)], dtype=object)
    found = {}
    for name, values in given.items():
        made: Any = pd.Series(np.asarray(values, dtype=object))
        found[name] = made.astype(_DTYPES.get(schema.columns[name].type, "datetime64[us]"))
    return pd.DataFrame(found)


@dataclass
class FrameTable(EngineTable):
    """The rows of a data frame, which stay as they are: what was added up lately is not added up again."""

    _added: dict[str, NDArray[np.int64]] = field(default_factory=dict, init=False, repr=False)

    def sums(self, wanted: Sums) -> NDArray[np.int64]:
        asked = repr(wanted)  # in which 1, 1.0 and True differ
        if asked not in self._added:
            if len(self._added) >= _KEPT:
                self._added.pop(next(iter(self._added)))
            self._added[asked] = super().sums(wanted)
        return self._added[asked].copy()

    def forget(self) -> None:
        self._added.clear()
        super().forget()


class FrameEngine:
    """The engine of a data frame. Columns are typed when they are first asked for."""

    def __init__(self, schema: Schema, frame: pd.DataFrame) -> None:
        missing = [name for name in schema.columns if name not in frame.columns]
        if missing:
            raise Mistake("rows", f"have no column {missing[0]!r}, which the schema declares")
        self._schema = schema
        self._frame = frame
        self._typed: dict[str, pd.Series[Any]] = {}
        for name, column in schema.columns.items():
            if not could_be(frame[name], column.type):
                raise Mistake("rows", f"hold {frame[name].dtype} in column {name!r}; the schema says {column.type}")

    def rows(self, columns: Sequence[str], where: RowFilter | None) -> nw.LazyFrame[Any]:
        made = {name: self._column(name) for name in columns}
        return lazily(pd.DataFrame(made, index=pd.RangeIndex(len(self._frame))))

    def few(self, columns: Sequence[str], where: RowFilter | None) -> None:
        return None

    def numbered(self, frame: nw.LazyFrame[Any], names: Collection[str]) -> nw.LazyFrame[Any]:
        found = self.collected(frame).reset_index(drop=True)
        return lazily(found.assign(**{MARK + name: self._numbers(name, found[name]) for name in names}))

    def divided(self, frame: nw.LazyFrame[Any], owner: str, time: str | None, most: int) -> Divided:
        found = self.collected(frame)
        more = found.groupby(owner)[owner].transform("size") > most
        few, many = found[~more], found[more]
        counting = len(few) + most * many[owner].nunique()
        return Divided(lazily(few), lazily(many) if len(many) else None, len(many), counting)

    def placed(self, frame: nw.LazyFrame[Any], by: Sequence[str], order: Sequence[str], name: str) -> nw.LazyFrame[Any]:
        found = self.collected(frame)
        found = found.sort_values(list(order), kind="stable") if order else found
        return lazily(found.assign(**{name: found.groupby(list(by)).cumcount() + 1}))

    def collected(self, frame: nw.LazyFrame[Any]) -> pd.DataFrame:
        found: pd.DataFrame = frame.collect("pandas").to_native()
        return found

    def parts(self, rows: int) -> int:
        return 1

    def computed(self, frame: nw.LazyFrame[Any]) -> KeptFrame:
        return KeptFrame(self.collected(frame))

    def kept(self, frames: Iterable[nw.LazyFrame[Any]]) -> KeptFrame:
        return KeptFrame(pd.concat([self.collected(frame) for frame in frames], ignore_index=True))

    def holds(self, name: str) -> bool:
        return True

    def raw(self, name: str, kept: KeptRows, key: str) -> Iterator[tuple[str, Any]]:
        wanted = set(self.collected(kept.frame)[key])
        yield from ((of, raw) for of, raw in zip(self._column(name), self._frame[name], strict=True) if of in wanted)

    def forget(self) -> None:
        self._typed.clear()

    def close(self) -> None:
        self.forget()

    def _column(self, name: str) -> pd.Series[Any]:
        if name not in self._typed:
            self._typed[name] = typed(self._frame[name].reset_index(drop=True), self._schema.columns[name].type)
        return self._typed[name]

    def _numbers(self, name: str, values: pd.Series[Any]) -> pd.Series[Any]:
        column = self._schema.columns[name]
        return numbers(values, "string" if column.key else column.type)


def could_be(values: pd.Series[Any], kind: str) -> bool:
    """Return whether a column of this type can hold values of that kind; single values that do not are missing."""
    dtype = values.dtype
    if pd.api.types.is_object_dtype(dtype):
        return True
    if pd.api.types.is_float_dtype(dtype):  # of whole numbers beside a missing cell, and of no cell at all
        return kind in ("integer", "float", "boolean", "string", "timestamp")
    if kind in ("integer", "float"):
        return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
    if kind == "boolean":
        return pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_integer_dtype(dtype)
    if kind == "timestamp":
        return pd.api.types.is_datetime64_any_dtype(dtype) or pd.api.types.is_string_dtype(dtype)
    named = isinstance(dtype, pd.CategoricalDtype)
    return named or pd.api.types.is_string_dtype(dtype) or pd.api.types.is_integer_dtype(dtype)


def typed(values: pd.Series[Any], kind: str) -> pd.Series[Any]:
    """A column as every engine holds it; what is not of its type is missing."""
    if kind in ("boolean", "string") and pd.api.types.is_float_dtype(values.dtype):
        values = pd.Series([_whole(value) for value in values], dtype=object)
    if kind == "string":
        texts = [text(value) for value in values.astype(object)]
        return pd.Series(texts, dtype="str" if texts else object)
    if kind == "boolean":
        return pd.Series([_flag(value) for value in values.astype(object)], dtype="boolean")
    if kind == "timestamp":
        return _moments(values)
    if kind == "float":
        return _floats(values)
    if kind in ("image", "array"):
        return pd.Series([_key(value) for value in values.astype(object)], dtype="str" if len(values) else object)
    return _integers(values)


def _key(value: object) -> str:
    """Return what stands for a picture or an array until it is read; empty where a row has none."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return hashlib.sha256(bytes(value)).hexdigest()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        return ""
    try:
        return hashlib.sha256(repr(value).encode()).hexdigest()
    except (ValueError, RecursionError):  # a number of thousands of digits, lists within lists within lists
        return ""


def text(value: object) -> str | None:
    """Return a value of a row as text; None for what is none, or could be kept by no engine: half a character, or a
    number of thousands of digits. One strange value must not make a question fail, because that would show it."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))
    if not whole and not isinstance(value, (str, UUID)):
        return None
    try:
        written = str(value)
        written.encode()
    except ValueError:
        return None
    return written


def _whole(value: Any) -> int | None:
    """Return the whole number that a float was before pandas made one of it; None where it was none."""
    return int(value) if not pd.isna(value) and abs(value) < EXACT and value == np.floor(value) else None


def _flag(value: object) -> bool | None:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    return bool(value) if isinstance(value, (int, np.integer)) and value in (0, 1) else None


def _floats(values: pd.Series[Any]) -> pd.Series[Any]:
    if not pd.api.types.is_object_dtype(values.dtype):
        return pd.Series(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return pd.Series([_float(value) for value in values], dtype=np.float64)


def _float(value: object) -> float:
    if isinstance(value, (bool, np.bool_, str, bytes)) or value is None:
        return np.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return np.inf if value > 0 else -np.inf  # type: ignore[operator]
    except (TypeError, ValueError):
        return np.nan


def _integers(values: pd.Series[Any]) -> pd.Series[Any]:
    if values.dtype == np.int64:
        return values
    if not pd.api.types.is_object_dtype(values.dtype) and pd.api.types.is_signed_integer_dtype(values.dtype):
        return values.astype("Int64") if values.isna().any() else values.astype("int64")
    return pd.Series([_integer(value) for value in values.astype(object)], dtype="Int64")


def _integer(value: object) -> int | None:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return max(ENDS[0], min(ENDS[1], int(value)))
    number = _float(value)
    if np.isnan(number):
        return None
    if abs(number) >= EXACT:
        return ENDS[int(number > 0)]
    return int(number) if number == np.floor(number) else None


def _moments(values: pd.Series[Any]) -> pd.Series[Any]:
    """Each cell by itself and in microseconds: in the finer unit that one cell needs, dates far away would be none."""
    if isinstance(values.dtype, (np.dtype, pd.DatetimeTZDtype)) and pd.api.types.is_datetime64_any_dtype(values.dtype):
        return _in_microseconds(values.dt.tz_convert(UTC).dt.tz_localize(None) if values.dt.tz is not None else values)
    cells = values.astype(object)
    texts = [_FINER.sub(r"\1", cell) if isinstance(cell, str) and _ISO.match(cell) else None for cell in cells]
    read = pd.to_datetime(
        pd.Series(texts, dtype="str", index=values.index), errors="coerce", utc=True, format="ISO8601", cache=False
    )
    found = _in_microseconds(read.dt.tz_localize(None)).to_numpy(copy=True)
    for place, cell in enumerate(cells):
        if isinstance(cell, (date, np.datetime64)):
            found[place] = _moment(cell)
    return pd.Series(found, index=values.index)


def _moment(cell: date | np.datetime64) -> Any:
    try:
        stamp = pd.Timestamp(cell)
        plain = stamp.tz_convert(UTC).tz_localize(None) if stamp.tz is not None else stamp
        return plain.as_unit("us").to_datetime64()
    except (TypeError, ValueError, OverflowError, NotImplementedError):
        return _NONE


def _in_microseconds(values: pd.Series[Any]) -> pd.Series[Any]:
    """Return moments in microseconds; those beyond what these reach are none."""
    held = values.to_numpy()
    unit = np.datetime_data(held.dtype)[0]
    if unit in ("s", "ms"):
        most = ENDS[1] // (10**6 if unit == "s" else 1000)
        whole = held.astype(np.int64)
        held = np.where((whole < -most) | (whole > most), np.datetime64("NaT"), held)
    return pd.Series(held, index=values.index).dt.as_unit("us")


def numbers(values: pd.Series[Any], kind: str) -> pd.Series[Any]:
    """A typed column's portable numbers."""
    if kind in ("string", "image", "array"):
        codes, known = pd.factorize(values)  # numbers this long are never on the way through floating point
        table = np.array([*(text_number(str(text)) for text in known), 0], dtype=np.int64)
        return pd.Series(table[codes], dtype="Int64").mask(codes < 0)
    if kind == "timestamp":
        whole = values.astype("int64").astype("Int64")
        return whole.mask(values.isna())
    return values.astype("Int64")
