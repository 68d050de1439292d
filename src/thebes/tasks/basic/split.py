"""The statistics of split trust: what a person encodes at home, and the answer from sums that both servers noised.

Encodings, sensitivities and what follows from noised sums are those of `privacy.mechanisms` for a public number of
people; only the noise is there twice. The guarantee counts one of the two, error bars count both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.grid import Grid
from thebes.privacy.measurement import Floats, Measurement
from thebes.privacy.mechanisms.additive import Additive, LeastNoise, stated
from thebes.privacy.mechanisms.mean import ends_of, spread_to
from thebes.privacy.mechanisms.summed_noise import together
from thebes.privacy.mechanisms.variance import VarianceMoments
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness, system
from thebes.privacy.stability import Transformation, change_of
from thebes.privacy.transformations.counts import Count, HistogramCounts
from thebes.privacy.transformations.moments import CentredMoments
from thebes.privacy.transformations.sums import BoundedSum, ShiftedSum
from thebes.sharing import Prio3, context_of
from thebes.tasks import split_reports, trusted_columns
from thebes.tasks.aggregation.split_servers import CoordinateNoise
from thebes.tasks.basic.kind import BasicDocument
from thebes.tasks.basic.quantile_of_bins import QuantileOfBins
from thebes.tasks.contributions import Layout
from thebes.tasks.document import Range
from thebes.tasks.missing_values import EpsilonShares

Integers = NDArray[np.int64]
_CHANGE = change_of(Adjacency.REPLACE_ONE, public_size=True)
#: the noised sums and the number of people, as an answer
Answer = Callable[[Floats, int], Measurement]


@dataclass(frozen=True, slots=True)
class SplitStatistic:
    """Everything about one document that both halves need."""

    document: BasicDocument
    make: Callable[[bytes], Prio3]
    encode: Callable[[Floats], Integers]  #: of values with NaN for missing: one row each
    noises: tuple[CoordinateNoise, ...]
    conclude: Answer

    @property
    def influence(self) -> str:
        """Say how far one person who lies can move the answer, by what their proof shows."""
        if self.document.aggregator == "variance":
            return "each of the two sums by no more than one honest person; that they belong together is not proved"
        if self.document.aggregator == "sum" and self.document.missing == "count":
            return "by no more than one honest person, once with a value and once as missing"
        return "by no more than one honest person"

    def missing(self, noised: float) -> Measurement:
        """Return the number of people without a value as it was bought beside the answer."""
        noise = self.noises[1].noise
        width = _even(together([noise, noise]).width)
        return Measurement(noised, noise.event, Adjacency.REPLACE_ONE, "count", spread=width)


def statistic(document: BasicDocument, randomness: Randomness) -> SplitStatistic:
    """Return how a document is answered; `randomness` is only named, as who draws."""
    made = {
        "count": _count,
        "histogram": _histogram,
        "sum": _sum,
        "mean": _mean,
        "variance": _variance,
        "median": _quantile,
        "quantile": _quantile,
    }[document.aggregator]
    return made(_Asked(document, randomness))


@dataclass(frozen=True, slots=True)
class _Asked:
    document: BasicDocument
    randomness: Randomness

    @property
    def bound(self) -> Any:
        return (self.document.bounds or {}).get(self.document.column)

    @property
    def grid(self) -> Grid:
        return Grid(self.bound.low, self.bound.high)

    def noise(self, transformation: Transformation) -> Additive:
        shares = EpsilonShares.of(self.document)
        return LeastNoise(shares.answer, self.document.delta).noise(transformation.sensitivity(_CHANGE))

    def measured(self, value: Any, noise: Additive, spread: Any, *, unit: float = 1.0) -> Measurement:
        name = self.document.aggregator
        return Measurement(
            value=value,
            event=noise.event,
            adjacency=Adjacency.REPLACE_ONE,
            mechanism=f"{name} with {noise.kind} noise of each of two servers",
            parameters={**stated(noise, self.randomness, unit=unit), "noise_at": "each server"},
            spread=spread,
            simulated=self.randomness.simulated,
        )


def _even(width: Callable[[float], float]) -> Callable[[float], tuple[float, float]]:
    return lambda level: (width(level), width(level))


def _count(asked: _Asked) -> SplitStatistic:
    noise = asked.noise(Count())
    both = together([noise, noise])

    def conclude(sums: Floats, people: int) -> Measurement:
        return asked.measured(float(sums[0]), noise, _even(both.width))

    return SplitStatistic(
        asked.document,
        Prio3.count,
        lambda values: (~np.isnan(values)).astype(np.int64)[:, None],
        (CoordinateNoise(noise, 1),),
        conclude,
    )


def _histogram(asked: _Asked) -> SplitStatistic:
    """Count people by cell, the missing in one of their own. Of two cells the second is what the first leaves of the
    people, whose number is public: one count is noised, which one person moves by 1."""
    document, bound = asked.document, asked.bound
    size = document.cells
    cells = size + (document.missing == "count")
    noise = asked.noise(Count() if cells == 2 else HistogramCounts(cells))
    both = together([noise, noise])

    def place(values: Floats) -> Integers:
        there = ~np.isnan(values)
        found = np.full(len(values), size, dtype=np.int64)
        if isinstance(bound, Range):
            grid = asked.grid
            found[there] = np.minimum(grid.integers(values[there]) * size // grid.steps, size - 1)
        else:
            found[there] = values[there].astype(np.int64)
        return found

    def encode(values: Floats) -> Integers:
        one_hot = np.eye(cells, dtype=np.int64)[place(values)]
        return one_hot[:, :1] if cells == 2 else one_hot

    def conclude(sums: Floats, people: int) -> Measurement:
        counts = np.array([sums[0], people - sums[0]]) if cells == 2 else sums
        return asked.measured(counts, noise, _even(both.width))

    width = 1 if cells == 2 else cells
    return SplitStatistic(
        document,
        Prio3.count if cells == 2 else lambda context: Prio3.histogram(cells, context),
        encode,
        (CoordinateNoise(noise, width),),
        conclude,
    )


def _sum(asked: _Asked) -> SplitStatistic:
    """Add up steps of a grid whose middle is 0. Where missing values are counted they add 0, so that the range reaches
    to it, and a bit of its own tells them, for its share of epsilon."""
    document, bound = asked.document, asked.bound
    counted = document.missing == "count"
    low, high = (min(0.0, bound.low), max(0.0, bound.high)) if counted else (bound.low, bound.high)
    noise = asked.noise(BoundedSum(low, high))
    both = together([noise, noise])
    most = max(abs(low), abs(high))
    grid = Grid(-most, most)  # that of BoundedSum: 0 is a step of it
    first, last = grid.integers([low, high]).tolist()

    def encode(values: Floats) -> Integers:
        missing = np.isnan(values)
        found: Integers = (grid.integers(np.where(missing, 0.0, values)) - first)[:, None]
        return np.column_stack([found, missing.astype(np.int64)]) if counted else found

    def conclude(sums: Floats, people: int) -> Measurement:
        value = (float(sums[0]) + people * (first - grid.steps // 2)) * grid.step
        return asked.measured(value, noise, _even(lambda level: both.width(level) * grid.step), unit=grid.step)

    noises = [CoordinateNoise(noise, 1)]
    if counted:
        noises.append(CoordinateNoise(LeastNoise(EpsilonShares.of(document).missing, 0).noise(_ONE), 1))
    return SplitStatistic(
        document,
        (lambda context: Prio3.vector([last - first, 1], context)) if counted else lambda c: Prio3.sum(last - first, c),
        encode,
        tuple(noises),
        conclude,
    )


_ONE = Count().sensitivity(_CHANGE)


def _mean(asked: _Asked) -> SplitStatistic:
    grid = asked.grid
    noise = asked.noise(ShiftedSum(grid, 0))
    both = together([noise, noise])

    def conclude(sums: Floats, people: int) -> Measurement:
        tokens = max(people, 1) * grid.steps
        share = float(sums[0]) / tokens
        value = grid.low + min(max(share, 0.0), 1.0) * (grid.high - grid.low)

        def ends(level: float) -> tuple[float, float]:
            return ends_of((share - both.width(level) / tokens, share + both.width(level) / tokens), grid)

        return asked.measured(value, noise, spread_to(value, ends), unit=grid.step)

    return SplitStatistic(
        asked.document,
        lambda context: Prio3.sum(grid.steps, context),
        lambda values: grid.integers(values)[:, None],
        (CoordinateNoise(noise, 1),),
        conclude,
    )


def _variance(asked: _Asked) -> SplitStatistic:
    """Two centred moments, each moved to begin at 0. That the second is the first one's square is not proved: a liar's
    two numbers are each within an honest person's range."""
    grid = asked.grid
    transformation = CentredMoments(grid)
    noise = asked.noise(transformation)
    both = together([noise, noise])
    lowest = np.array([-grid.steps, 0])

    def conclude(sums: Floats, people: int) -> Measurement:
        moments = VarianceMoments.of_centred(sums + people * lowest, people * grid.steps)
        value = moments.variance(grid.steps) * (grid.high - grid.low) ** 2
        spread = spread_to(value, lambda level: moments.ends(both, level, grid))
        return asked.measured(value, noise, spread, unit=1 / grid.steps)

    return SplitStatistic(
        asked.document,
        lambda context: Prio3.vector([2 * grid.steps, 2 * grid.steps], context),
        lambda values: transformation.cells(values) - lowest,
        (CoordinateNoise(noise, 2),),
        conclude,
    )


def _quantile(asked: _Asked) -> SplitStatistic:
    histogram = _histogram(asked)
    noise, size = histogram.noises[0].noise, asked.document.cells
    alpha = asked.document.quantile or 0.5
    edges = np.linspace(asked.bound.low, asked.bound.high, size + 1)

    def conclude(sums: Floats, people: int) -> Measurement:
        found = QuantileOfBins(histogram.conclude(sums, people).value, people, edges, alpha, noise, asked.grid.step / 2)
        return asked.measured(found.value, noise, spread_to(found.value, found.ends))

    return SplitStatistic(asked.document, histogram.make, histogram.encode, histogram.noises, conclude)


def layout_of(document: BasicDocument, part: str) -> Layout:
    """Return what a contribution looks like: the value itself, or one report in shares."""
    if document.server != "split":
        return trusted_columns.layout_of(document)
    named = statistic(document, system())  # lengths follow from the document alone
    return split_reports.layout_of(named.make(context_of(bytes.fromhex(document.digest), part)))
