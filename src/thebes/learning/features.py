"""Rows as the numbers a model is fed: pieces that are public and know no row, written down beside the model.

Must stay true: what a row becomes depends on that row alone, and no row is longer than `most` says.
A row comes as a batch has it (`thebes.data.table.Batch`): a range's own number, a category's place among its values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from thebes.learning.inputs import columns_of, is_named
from thebes.privacy.faults import Mistake

Floats = NDArray[np.float64]
Value = bool | int | float | str
_MOST_VALUES = 10_000
RANGE_CELLS = 20  #: into which a range is cut where rows are told apart by it


class FeaturePiece(Protocol):
    """The numbers that one column becomes: `width` numbers between 0 and 1, whose squares add up to at most 1."""

    kind: ClassVar[str]
    marks: ClassVar[bool]  #: whether at most one of them is 1 and all others are 0

    @property
    def column(self) -> str: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def usual(self) -> float:
        """The squared length that the piece of a row usually has; a guess that only accuracy depends on."""
        ...

    @property
    def cell_count(self) -> int:
        """Into how many cells it tells rows apart."""
        ...

    def write(self, numbers: Floats, into: Floats) -> None:
        """Fill `into` (zeros, one line for each row)."""
        ...

    def cell(self, numbers: Floats) -> Floats:
        """The number of each row's cell; below 0 or NaN for none."""
        ...

    def number(self, values: NDArray[Any]) -> Floats:
        """A column as somebody writes it, as a batch would have it; what is missing or not declared is NaN."""
        ...

    def as_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Categories:
    """A column of 0 and 1 for each declared value; of two values, one for the second. No value: zeros."""

    column: str
    values: tuple[Value, ...]
    kind: ClassVar[str] = "categories"
    marks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 2 <= len(self.values) <= _MOST_VALUES or len(set(self.values)) != len(self.values):
            raise Mistake(self.column, "needs at least two values, each another")

    @property
    def names(self) -> tuple[str, ...]:
        shown = self.values[1:] if len(self.values) == 2 else self.values
        return tuple(f"{self.column}={value}" for value in shown)

    @property
    def usual(self) -> float:
        return 0.3 if len(self.values) == 2 else 1.0

    @property
    def cell_count(self) -> int:
        return len(self.values)

    def write(self, numbers: Floats, into: Floats) -> None:
        if len(self.values) == 2:
            into[:, 0] = numbers == 1
        else:
            _mark(numbers, into)

    def cell(self, numbers: Floats) -> Floats:
        return np.where(numbers < len(self.values), numbers, np.nan)

    def number(self, values: NDArray[Any]) -> Floats:
        return places_among(self.values, values)

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "column": self.column, "values": list(self.values)}


@dataclass(frozen=True, slots=True)
class Range:
    """A number as its share of the range, 0 to 1; what lies outside counts as the bound."""

    column: str
    low: float
    high: float
    kind: ClassVar[str] = "range"
    marks: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise Mistake(self.column, "needs a low below its high, both finite")

    @property
    def names(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def usual(self) -> float:
        return 0.5

    @property
    def cell_count(self) -> int:
        return RANGE_CELLS

    def write(self, numbers: Floats, into: Floats) -> None:
        share = np.clip((numbers - self.low) / (self.high - self.low), 0.0, 1.0)
        into[:, 0] = np.where(np.isnan(share), 0.5, share)

    def cell(self, numbers: Floats) -> Floats:
        share = np.clip((numbers - self.low) / (self.high - self.low), 0.0, 1.0)
        return np.minimum(np.floor(share * RANGE_CELLS), RANGE_CELLS - 1)

    def number(self, values: NDArray[Any]) -> Floats:
        return written_numbers(self.column, values)

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "column": self.column, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class Bins:
    """A column of 0 and 1 for each bin between edges; what lies beyond an end counts to the last bin there."""

    column: str
    edges: tuple[float, ...]
    kind: ClassVar[str] = "bins"
    marks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        steps = np.diff(self.edges)
        if not 3 <= len(self.edges) <= _MOST_VALUES or not np.isfinite(self.edges).all() or (steps <= 0).any():
            raise Mistake(self.column, "needs at least three edges, each greater than the one before")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.column}<{edge:g}" for edge in self.edges[1:])

    @property
    def usual(self) -> float:
        return 1.0

    @property
    def cell_count(self) -> int:
        return len(self.edges) - 1

    def write(self, numbers: Floats, into: Floats) -> None:
        _mark(self.cell(numbers), into)

    def cell(self, numbers: Floats) -> Floats:
        place = np.searchsorted(np.array(self.edges[1:-1]), numbers, side="right").astype(np.float64)
        return np.where(np.isnan(numbers), np.nan, place)

    def number(self, values: NDArray[Any]) -> Floats:
        return written_numbers(self.column, values)

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "column": self.column, "edges": list(self.edges)}


class Features:
    """Pieces side by side. `columns` are what they are made from, in the order in which a batch must have them."""

    def __init__(self, pieces: Sequence[FeaturePiece]) -> None:
        if not pieces:
            raise Mistake("inputs", "must name at least one column")
        self.pieces = tuple(pieces)
        self.columns = tuple(dict.fromkeys(piece.column for piece in pieces))
        self._places = {name: place for place, name in enumerate(self.columns)}
        widths = [len(piece.names) for piece in pieces]
        self._ends = np.concatenate([[0], np.cumsum(widths)]).tolist()

    @property
    def width(self) -> int:
        return int(self._ends[-1])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for piece in self.pieces for name in piece.names)

    @property
    def most(self) -> float:
        """No row's squares add up to more."""
        return float(len(self.pieces))

    @property
    def usual(self) -> float:
        """The number that a row's squares usually add up to at most; a guess from the pieces alone."""
        return sum(piece.usual for piece in self.pieces)

    @property
    def marks(self) -> list[tuple[int, int]]:
        """From where to where of a row at most one feature is 1 and all others are 0."""
        ends = zip(self.pieces, self._ends, self._ends[1:], strict=False)
        return [(start, stop) for piece, start, stop in ends if piece.marks]

    def of(self, numbers: Floats) -> Floats:
        """One line for each row of a batch that has `columns` in order."""
        table = np.zeros((len(numbers), self.width))
        for piece, start, stop in zip(self.pieces, self._ends, self._ends[1:], strict=False):
            piece.write(numbers[:, self._places[piece.column]], table[:, start:stop])
        return table

    def cells(self, numbers: Floats) -> NDArray[np.int16]:
        """The cell of each row for every piece, -1 for none."""
        found = np.empty((len(numbers), len(self.pieces)), dtype=np.int16)
        for place, piece in enumerate(self.pieces):
            own = piece.cell(numbers[:, self._places[piece.column]])
            found[:, place] = np.where(np.isnan(own) | (own < 0), -1, own)
        return found

    def of_columns(self, columns: Mapping[str, Any]) -> Floats:
        """One line for each row of columns as somebody writes them."""
        return self.of(self.batch(columns))

    def batch(self, rows: Any) -> Floats:
        """A table as somebody writes it (a data frame or a mapping of columns), as a batch would have it; an array is
        one already, with `columns` in order."""
        if not is_named(rows):
            return np.asarray(rows)
        pieces = {piece.column: piece for piece in self.pieces}
        given = columns_of(rows, self.columns)
        found = [pieces[name].number(np.asarray(given[name], dtype=object).reshape(-1)) for name in self.columns]
        if len({len(column) for column in found}) != 1:
            raise Mistake("rows", "must have as many values in every column")
        return np.column_stack(found)

    def as_json(self) -> list[dict[str, Any]]:
        return [piece.as_json() for piece in self.pieces]

    @classmethod
    def of_json(cls, told: Any) -> Self:
        """Read what `as_json` gave; a Mistake where it is something else."""
        try:
            return cls([_piece(dict(piece)) for piece in told])
        except (KeyError, TypeError, ValueError):
            raise Mistake("features", "are not as Thebes writes them") from None


def _piece(told: dict[str, Any]) -> FeaturePiece:
    column = str(told["column"])
    match told["kind"]:
        case "categories":
            return Categories(column, tuple(told["values"]))
        case "range":
            return Range(column, float(told["low"]), float(told["high"]))
        case "bins":
            return Bins(column, tuple(float(edge) for edge in told["edges"]))
    raise KeyError(told["kind"])


def _mark(places: Floats, into: Floats) -> None:
    there = ~np.isnan(places) & (places >= 0) & (places < into.shape[1])
    into[np.flatnonzero(there), places[there].astype(np.int64)] = 1.0


def places_among(declared: Sequence[Value], values: NDArray[Any]) -> Floats:
    """The place of each value among the declared ones, NaN for one that is none of them."""
    place = {value: float(index) for index, value in enumerate(declared)}
    return np.array([_placed(place, value) for value in values.tolist()], dtype=np.float64)


def _placed(place: Mapping[Value, float], value: Any) -> float:
    try:
        return place.get(value, np.nan)
    except TypeError:  # a list or an object is no declared value
        return np.nan


def written_numbers(column: str, values: NDArray[Any]) -> Floats:
    """A column of numbers as somebody writes it, NaN for None."""
    try:
        return np.array([np.nan if value is None else float(value) for value in values.tolist()], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise Mistake("rows", f"must have numbers in {column!r}") from None
