"""The guess about some blocks' rows: shares of cells, and how many answers were heard about each.

Everything here is public: it follows from released answers alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thebes.curator.cache.cells import Cells, mass_of
from thebes.curator.cache.vectors import Vectors
from thebes.privacy.measurement import Floats

MISSING = 0.02  #: of a column, that is guessed before anything is known
UNKNOWN = 0.05  #: the share of rows of which nothing is known, where something was bought
_LEAST = 1e-25  #: of a share, so that none is lost for good
_MOST = np.iinfo(np.uint32).max

Shares = NDArray[np.float32]
Counters = NDArray[np.uint32]


@dataclass
class CellGuess:
    """`shares` of the rows in each cell; `seen` counts the answers that were heard about a cell, and a guess is ready
    where all cells that it is about have at least `due` of them. Twelve bytes for each cell."""

    shares: Shares
    seen: Counters
    due: Counters

    @classmethod
    def uniform(cls, cells: Cells, due: int) -> Self:
        """Of rows of which nothing is known."""
        shares = mass_of(cells, missing=MISSING).astype(np.float32).reshape(cells.shape)
        return cls(shares, np.zeros(cells.shape, np.uint32), np.full(cells.shape, due, np.uint32))

    @classmethod
    def begun(cls, cells: Cells, shares: Floats, due: int) -> Self:
        """Of rows of which something was bought: mixed with what is guessed of unknown ones, so that answers can still
        find rows where noise has hidden them."""
        own = cls.uniform(cells, due)
        own.shares *= np.float32(UNKNOWN)
        own.shares += np.float32(1 - UNKNOWN) * shares.astype(np.float32).reshape(cells.shape)
        return own

    @classmethod
    def mean(cls, others: Sequence[Self], weights: Sequence[float]) -> Self:
        """Of rows that are like those of others: each cell is as well known as where it is known least."""
        whole = sum(weights)
        shares = sum(np.float32(weight / whole) * other.shares for other, weight in zip(others, weights, strict=True))
        seen = np.minimum.reduce([other.seen for other in others])
        due = np.maximum.reduce([other.due for other in others])
        return cls(np.asarray(shares, dtype=np.float32), seen, due)

    def totals(self, vectors: Vectors) -> Floats:
        """Of one row, on average."""
        return vectors.totals(self.shares)

    def tilt(self, vectors: Vectors, strengths: Floats) -> None:
        """Multiply every cell by e to the sum of its weights, each times the strength of its total."""
        factor = np.exp(vectors.pulled(strengths)).astype(np.float32)
        self.shares *= factor
        np.maximum(self.shares, np.float32(_LEAST), out=self.shares)
        self.shares *= np.float32(1 / float(self.shares.sum(dtype=np.float64)))

    def least_seen(self, vectors: Vectors) -> int:
        """Of the cells that a plan asks."""
        least = vectors.along(self.seen, np.minimum)
        return int(least.min(where=vectors.reached, initial=_MOST))

    def ready(self, vectors: Vectors) -> bool:
        """Return whether enough was heard about all cells that a plan asks."""
        lacking = vectors.along(self.seen < self.due, np.logical_or)
        return not bool((lacking & vectors.reached).any())

    def visit(self, vectors: Vectors) -> None:
        """An answer about these cells was heard."""
        self.seen += vectors.reached

    def doubt(self, vectors: Vectors, more: int) -> None:
        """A guess about these cells was wrong: be ready for the next one only after so many more answers."""
        due = min(_MOST, self.least_seen(vectors) + more)
        np.copyto(self.due, due, where=vectors.reached & (self.due < due))

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"shares": self.shares, "seen": self.seen, "due": self.due}

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], shape: tuple[int, ...]) -> Self:
        shares, seen, due = (np.array(arrays[name]).reshape(shape) for name in ("shares", "seen", "due"))
        return cls(shares.astype(np.float32), seen.astype(np.uint32), due.astype(np.uint32))
