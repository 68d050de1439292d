"""The pieces that an answer is shown in: sections of words, a chart and a table.

A kind says with these, in its `view.py`, how its answers look; pages draw them, downloads write the tables. What must
stay true: every number that is shown was released.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from thebes.privacy.figures import spaced
from thebes.privacy.measurement import Interval
from thebes.tasks.protocols import DocumentRead
from thebes.tasks.release import Release

#: told of figures whose error bar is as wide as all that was possible beforehand
NOTHING_TOLD = (
    "The error bar is as wide as everything that is possible, or wider: this says hardly more than guessing would. Too "
    "few took part for its noise."
)
MOST_DRAWN = 40  #: keys, classes or columns in one chart
MOST_ROWS = 200  #: of a table on the page; the download has all of them

Cells = tuple[tuple[str, ...], list[tuple[Any, ...]]]  #: a head, and every row under it


class AnswerView(Protocol[DocumentRead]):
    """The look of a kind's answers: the module `view.py` of its folder."""

    def sections(self, release: Release, document: DocumentRead) -> Sequence[Section]:
        """Return what the page of an answer shows, in its order."""
        ...

    def table(self, release: Release) -> Cells:
        """Return every number of an answer, for the download."""
        ...


@dataclass(frozen=True, slots=True)
class Bars:
    """A chart of one bar for each key, with its error bar where `low` and `high` name one. `most` is what the whole
    width stands for, where more cannot be."""

    values: Mapping[str, float]
    title: str
    low: Mapping[str, float] | None = None
    high: Mapping[str, float] | None = None
    unit: str = ""
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Spans:
    """A chart of points, each with the line that it lies on: (name, value, low, high). `least` and `most` are declared
    ends, where there are some."""

    rows: Sequence[tuple[str, float, float, float]]
    title: str
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """Rows under a head. Numbers are aligned as numbers."""

    head: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: int = 0  #: rows that only the download has

    def counts(self, place: int) -> bool:
        """Return whether a column holds numbers."""
        return bool(self.rows) and all(counts_as(row[place]) for row in self.rows)

    @classmethod
    def of(cls, head: Sequence[str], rows: Iterable[Sequence[Any]], most: int = MOST_ROWS) -> AnswerTable:
        every = [tuple(plain(cell) for cell in row) for row in rows]
        return cls(tuple(head), tuple(every[:most]), max(0, len(every) - most))


@dataclass(frozen=True, slots=True)
class Section:
    """One piece of an answer."""

    title: str
    words: str = ""
    picture: Bars | Spans | None = None
    table: AnswerTable | None = None
    folded: bool = False  #: the table is behind a summary


def telling(bars: Iterable[tuple[float, float]], possible: tuple[float, float] | None) -> str:
    """Say that an answer tells nothing, where each of its error bars (low, high) is as wide as everything that was
    possible beforehand; empty where one is not, or where that is not known. Where a bar lies does not count: noise
    that is larger than all that is possible may well put it beside that."""
    ends = list(bars)
    if possible is None or not ends or any(high - low < possible[1] - possible[0] for low, high in ends):
        return ""
    return f" {NOTHING_TOLD}"


def one_number(release: Release) -> tuple[float, Interval | None] | None:
    """Return the one number that an answer is, with its 95 % error bar, or None where it is something else. What is
    not finite is no number, and no end of a bar."""
    if not isinstance(release.value, (int, float)) or not math.isfinite(release.value):
        return None
    bar = release.interval() if release.intervals else None
    ends = bar is not None and math.isfinite(float(bar.low)) and math.isfinite(float(bar.high))
    return float(release.value), bar if ends else None


def percent(of: float) -> str:
    """Write a share of one in per cent."""
    return f"{spaced(100 * of, 6)} %"


def short(value: float) -> str:
    """Write a number with six digits that matter."""
    return spaced(value, 6)


def counts_as(cell: Any) -> bool:
    """Return whether a cell is a number."""
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


def plain(cell: Any) -> Any:
    """A cell as Python knows it."""
    return cell.item() if isinstance(cell, np.generic) else cell
