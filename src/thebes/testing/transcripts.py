"""The loss that the noise of a run lets through, read off the noise itself: no luck, and no draw too few.

A `Transcript` draws like its source and writes down every noise with what it was added to. The same run over a
neighbour's rows gets a `Repetition`, which says all results again that the transcript has. Whatever was computed from
earlier noise is then the same in both runs, and what tells them apart is what noise was added to: its distance, over
the scale that was drawn, is the loss. Runs that ask for different noise are told apart by that alone.

Only noise is judged. Of coins (`words`) both runs get the same, so choices that are made by coins need other tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from thebes.privacy.distributions import log_normal_cdf, normal_cdf
from thebes.privacy.randomness import Integers, Randomness, Words, seeded_for_simulation
from thebes.tasks.audit.case import Run


@dataclass(frozen=True, slots=True)
class NoiseCall:
    """One call for noise: its kind and scale, what it was added to, and what came out."""

    kind: str
    scale: float
    before: Integers
    after: Integers


class Transcript(Randomness):
    """Draws like its source (the same each time, where it has none), and writes down what it drew."""

    def __init__(self, source: Randomness | None = None) -> None:
        self._source = source or seeded_for_simulation(0)
        self.simulated, self.drawn_by = self._source.simulated, self._source.drawn_by
        self.noises: list[NoiseCall] = []
        self.coins: list[Words] = []

    def words(self, count: int) -> Words:
        self.coins.append(self._source.words(count))
        return self.coins[-1]

    def laplace(self, values: Integers, *, scale: float) -> Integers:
        return self._written("laplace", values, scale, self._source.laplace)

    def gaussian(self, values: Integers, *, scale: float) -> Integers:
        return self._written("gaussian", values, scale, self._source.gaussian)

    def _written(self, kind: str, values: Integers, scale: float, draw: Callable[..., Integers]) -> Integers:
        before = np.array(values, dtype=np.int64)
        self.noises.append(NoiseCall(kind, scale, before, draw(before, scale=scale)))
        return self.noises[-1].after.copy()


class Repetition(Randomness):
    """Says again what a transcript has, and adds up by what the two inputs of each noise differ."""

    def __init__(self, said: Transcript) -> None:
        self.simulated, self.drawn_by = said.simulated, said.drawn_by
        self._source, self._noises, self._coins = seeded_for_simulation(1), list(said.noises), list(said.coins)
        self._laplace, self._squares, self._largest, self._differs = 0.0, 0.0, 0.0, ""

    def words(self, count: int) -> Words:
        # one person less needs fewer coins: everybody else keeps theirs
        told = self._coins.pop(0)[:count] if self._coins else np.zeros(0, dtype=np.uint64)
        return np.concatenate([told, self._source.words(count - told.size)])

    def laplace(self, values: Integers, *, scale: float) -> Integers:
        return self._again("laplace", values, scale)

    def gaussian(self, values: Integers, *, scale: float) -> Integers:
        return self._again("gaussian", values, scale)

    def _again(self, kind: str, values: Integers, scale: float) -> Integers:
        now = np.asarray(values, dtype=np.int64)
        said = self._noises.pop(0) if self._noises else NoiseCall("none", 0.0, now[:0], now[:0])
        if (kind, scale, now.shape) != (said.kind, said.scale, said.before.shape):
            asked = f"{kind} noise of scale {scale:g} on {now.shape}"
            self._differs = self._differs or f"{asked}, where there was {said.kind} of {said.scale:g}"
            return now.copy()
        apart = (
            np.abs(now - said.before).astype(np.float64) / scale
            if scale > 0
            else np.where(now != said.before, math.inf, 0)
        )
        if kind == "laplace":
            self._laplace += float(apart.sum())
            self._largest = max(self._largest, float(apart.max(initial=0.0)))
        else:
            self._squares += float((apart * apart).sum())
        return said.after.copy()

    def loss(self) -> NoiseLoss:
        """Return the loss that all noises together let through."""
        differs = self._differs or (f"{len(self._noises)} noises fewer" if self._noises else "")
        return NoiseLoss(self._laplace, math.sqrt(self._squares), self._largest, differs)


@dataclass(frozen=True, slots=True)
class NoiseLoss:
    """The loss that noise lets through: Laplace noise by distance, Gaussian noise by distance in deviations."""

    laplace: float
    gaussian: float
    largest: float = field(default=0.0)  #: of one coordinate, by Laplace noise
    differs: str = ""  #: how the noise that was asked for tells the inputs apart, if it does

    def epsilon(self, delta: float = 0.0) -> float:
        """The least epsilon at `delta`, all Laplace noise at its worst (Balle & Wang 2018, theorem 8)."""
        if self.differs or math.isinf(self.laplace + self.gaussian):
            return math.inf
        if self.gaussian == 0 or self._passed(0.0) <= delta:
            return self.laplace
        if delta <= 0:
            return math.inf
        low, high = 0.0, 1.0
        while self._passed(high) > delta:
            low, high = high, 2 * high
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if self._passed(middle) > delta else (low, middle)
        return self.laplace + high

    @property
    def advantage(self) -> float:
        """By how much more often the best guess says the one where it was the one than where it was the other, of
        somebody who sees the Gaussian noise, or one coordinate of the Laplace noise."""
        if self.differs:
            return 1.0
        return max(math.erf(self.gaussian / math.sqrt(8)), -math.expm1(-self.largest / 2))

    def _passed(self, epsilon: float) -> float:
        half, away = self.gaussian / 2, epsilon / self.gaussian
        return normal_cdf(half - away) - math.exp(min(epsilon + log_normal_cdf(-half - away), 0.0))


def loss(here: Run, there: Run, source: Randomness | None = None) -> NoiseLoss:
    """Return what the noise of a run lets through about which of two inputs it was."""
    said = Transcript(source)
    here(said)
    again = Repetition(said)
    there(again)
    return again.loss()
