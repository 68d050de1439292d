"""A plan read over a view's guesses: what they say of its totals, and how much a released answer moves them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thebes.curator.cache.pmw.guess import CellGuess
from thebes.curator.cache.purchase import Purchase
from thebes.curator.cache.smart.check import Sought
from thebes.curator.cache.synopsis import View
from thebes.curator.cache.vectors import Vectors
from thebes.privacy.measurement import Floats
from thebes.privacy.mechanisms.additive import Additive


@dataclass(frozen=True)
class GuessReading:
    """A plan over one view's nodes: the guesses about each, and how many rows that has."""

    vectors: Vectors
    guesses: tuple[CellGuess, ...]
    sizes: tuple[float, ...]

    @property
    def totals(self) -> Floats:
        found = np.zeros(self.vectors.size)
        for guess, size in zip(self.guesses, self.sizes, strict=True):
            found += size * guess.totals(self.vectors)
        return found

    @property
    def moments(self) -> tuple[Floats, Floats]:
        """The totals, and those of squared weights."""
        first, second = np.zeros(self.vectors.size), np.zeros(self.vectors.size)
        for guess, size in zip(self.guesses, self.sizes, strict=True):
            totals, squares = self.vectors.moments(guess.shares)
            first, second = first + size * totals, second + size * squares
        return first, second

    def strengths(self, gap: Floats, squares: Floats, noise: Additive, rate: float) -> Floats:
        """Return how much to tilt: as much as one total by itself would need (Newton's step, damped), no more than its
        noise allows to say, and never more than the rate."""
        vectors = self.vectors
        most = max(abs(vectors.low), abs(vectors.high))
        wished = gap * most / (squares + noise.deviation * most)
        moved: Floats = np.clip(np.sign(wished) * np.log1p(np.abs(wished)), -rate, rate)
        together = float(np.abs(vectors.weights).sum(axis=0).max())
        return moved / max(most, together)


@dataclass(frozen=True)
class GuessCourse:
    """The course by which a question is answered now: the guess, and what is paid to compare it (where no opening
    serves) and, if it fails, to answer."""

    reading: GuessReading
    guess: Floats
    sought: Sought
    check: View
    opens: Purchase | None
    noise: Additive
    answers: Purchase
    alone: Purchase  #: what a mechanism would have cost
