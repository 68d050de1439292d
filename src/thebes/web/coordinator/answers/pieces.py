"""Pieces in which answers are shown: sections of words, a drawing and a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from thebes.web.figures import figure

MOST_DRAWN = 40  #: keys, classes or columns in one drawing
MOST_ROWS = 200  #: of a table on the page; the download has all of them

Cells = tuple[tuple[str, ...], list[tuple[Any, ...]]]  #: a head, and every row under it


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a head. Numbers are aligned as numbers."""

    head: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: int = 0  #: rows that only the download has

    def counts(self, place: int) -> bool:
        """Return whether a column holds numbers."""
        return bool(self.rows) and all(counts_as(row[place]) for row in self.rows)

    @classmethod
    def of(cls, head: Sequence[str], rows: Iterable[Sequence[Any]], most: int = MOST_ROWS) -> Table:
        every = [tuple(plain(cell) for cell in row) for row in rows]
        return cls(tuple(head), tuple(every[:most]), max(0, len(every) - most))


@dataclass(frozen=True, slots=True)
class Section:
    """One piece of a result."""

    title: str
    words: str = ""
    picture: Markup | None = None
    table: Table | None = None
    folded: bool = False  #: the table is behind a summary


def percent(of: float) -> str:
    return f"{figure(100 * of, 6)} %"


def short(value: float) -> str:
    return figure(value, 6)


def counts_as(cell: Any) -> bool:
    """Return whether a cell is a number."""
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


def plain(cell: Any) -> Any:
    """A cell as Python knows it."""
    return cell.item() if isinstance(cell, np.generic) else cell
