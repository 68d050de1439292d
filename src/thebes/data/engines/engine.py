"""The questions that a table asks of whichever engine holds the rows: typed columns lazily, and small answers.

What must stay true: every engine types a value alike (`typed` in each), because everything after it is one set of
expressions that all of them compute.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from thebes.data.filter import RowFilter

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    import pandas as pd
    from numpy.typing import NDArray

#: The prime to which every portable number is brought before it is mixed.
PRIME = 2**31 - 1
MARK = "_n_"  #: before a column's name: its portable number
MOST_NUMBER = 2**60  #: above every portable number of a text, and of a key


class Engine(Protocol):
    """Rows in one place. Columns come typed: integer as Int64 (what lies beyond 64 bits as the end), float as Float64
    without NaN, string, boolean, timestamp in UTC to the microsecond; a value that is not of its type is missing."""

    def rows(self, columns: Sequence[str], where: RowFilter | None) -> nw.LazyFrame[Any]:
        """Return these columns of every row. Rows may be left out for which `where` is certainly not true."""
        ...

    def few(self, columns: Sequence[str], where: RowFilter | None) -> Mapping[str, NDArray[Any]] | None:
        """Return the same columns at once where the rows are few, masked where a value is missing; None where they are
        many, or where an engine does not give them so."""
        ...

    def numbered(self, frame: nw.LazyFrame[Any], names: Collection[str]) -> nw.LazyFrame[Any]:
        """Add, for each of these columns (never a float), a whole number that is the same on every engine: a text's
        and a key's looks random. A text costs a hash, so it is asked of few rows."""
        ...

    def divided(self, frame: nw.LazyFrame[Any], owner: str, time: str | None, most: int) -> Divided:
        """Tell the rows of people who have at most `most` from those of people who have more."""
        ...

    def placed(self, frame: nw.LazyFrame[Any], by: Sequence[str], order: Sequence[str], name: str) -> nw.LazyFrame[Any]:
        """Add a column that numbers the rows from 1 within those that are equal in `by`, in this order. None of these
        columns lacks a value."""
        ...

    def collected(self, frame: nw.LazyFrame[Any]) -> pd.DataFrame:
        """Return a small answer."""
        ...

    def parts(self, rows: int) -> int:
        """Return in how many parts it can sort so many rows, one after another."""
        ...

    def computed(self, frame: nw.LazyFrame[Any]) -> Computed:
        """The same rows, computed once to be asked several times."""
        ...

    def kept(self, frames: Iterable[nw.LazyFrame[Any]]) -> KeptRows:
        """Sorted rows, those of each frame after those of the one before, to be read more than once."""
        ...

    def forget(self) -> None:
        """Read the rows anew when they are next asked for."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Divided:
    """Rows by how many the person has that they are of; None is no rows. An engine that would have to look for who has
    more in a pass of its own says that all have."""

    few: nw.LazyFrame[Any] | None
    #: with a time only those that are at least as late as the person's latest that may count, ties and all
    many: nw.LazyFrame[Any] | None
    many_rows: int  #: at most so many
    counting: int  #: of all rows, so many count once those of `many` are chosen


class Computed(Protocol):
    """Rows that are not computed again, until they are closed."""

    @property
    def frame(self) -> nw.LazyFrame[Any]: ...

    @property
    def rows(self) -> int: ...

    def close(self) -> None: ...


class KeptRows(Computed, Protocol):
    """Rows in a fixed order, outside the memory of Python where they are many."""

    def chunks(self, rows: int) -> Iterator[pd.DataFrame]:
        """Give the rows in order, so many at a time (the last may be fewer)."""
        ...


def text_number(text: str) -> int:
    """A text's portable number: the first 60 bits of its MD5, which every engine can compute."""
    import hashlib

    return int(hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()[:15], 16)
