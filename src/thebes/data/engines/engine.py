"""The questions that a table asks of whichever engine holds the rows: typed columns lazily, and small answers.

What must stay true: every engine types a value alike (`typed` in each), because everything after it is one set of
expressions that all of them compute.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from thebes.data.filter import RowFilter

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    import pandas as pd

#: The prime to which every portable number is brought before it is mixed.
PRIME = 2**31 - 1
MARK = "_n_"  #: before a column's name: its portable number
MOST_NUMBER = 2**60  #: above every portable number of a text, and of a key


class Engine(Protocol):
    """Rows in one place. Columns come typed: integer as Int64 (what lies beyond 64 bits as the end), float as Float64
    without NaN, string, boolean, timestamp in UTC to the microsecond; a value that is not of its type is missing."""

    def rows(self, columns: Sequence[str], numbered: Collection[str], where: RowFilter | None) -> nw.LazyFrame[Any]:
        """These columns of every row, and for each of `numbered` (of them, never a float) a whole number that is the
        same on every engine: a text's and a key's looks random. Rows may be left out for which `where` is certainly
        not true."""
        ...

    def collected(self, frame: nw.LazyFrame[Any]) -> pd.DataFrame:
        """A small answer."""
        ...

    def parts(self, rows: int) -> int:
        """In how many parts it can sort so many rows, one after another."""
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


class Computed(Protocol):
    """Rows that are not computed again."""

    @property
    def frame(self) -> nw.LazyFrame[Any]: ...

    def close(self) -> None: ...


class KeptRows(Protocol):
    """Rows in a fixed order, outside the memory of Python where they are many."""

    def chunks(self, rows: int) -> Iterator[pd.DataFrame]:
        """The rows in order, so many at a time (the last may be fewer)."""
        ...

    def close(self) -> None: ...


def text_number(text: str) -> int:
    """A text's portable number: the first 60 bits of its MD5, which every engine can compute."""
    import hashlib

    return int(hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()[:15], 16)
