"""Quantiles of one column by the exponential mechanism over a public grid, utility = distance in rank.

Rank error does not depend on the range, only logarithmically on the number of grid points. Everything that
decides the odds is an integer or an exact decimal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy import exact
from thebes.privacy.events import Composed, ExponentialEvent, Repeated
from thebes.privacy.faults import Mistake
from thebes.privacy.grid import Grid
from thebes.privacy.measurement import Interval, Measurement
from thebes.privacy.mechanisms.additive import Laplace, stated
from thebes.privacy.mechanisms.columns import column, grid_of
from thebes.privacy.mechanisms.count import counted
from thebes.privacy.mechanisms.exponential import draw, part_of, rate_of, shortfall
from thebes.privacy.mechanisms.ladder import Ladder
from thebes.privacy.promise import Adjacency, adjacency_of
from thebes.privacy.randomness import Randomness

Integers = NDArray[np.int64]

_FAR = 30.0  # utilities further than (ln candidates + this) / rate count alike
_ROUNDED = 0.51  # steps: how far rounding to the grid, in floats, may have moved a row


@dataclass(frozen=True, slots=True)
class RankTarget:
    """The place in the order that is looked for: `alpha` of the way up.

    The utility of a grid point v is minus its distance max(0, below(v) - alpha n, above(v) - (1-alpha) n), where below
    and above count the rows on either side; it is 0 exactly at the sample quantiles. At the lower end of the grid the
    first term is left out, at the upper end the second (as if infinitely many rows lay beyond), so some point always
    has 0. Distances are whole multiples of 1/denominator of a rank.
    """

    alpha: Fraction

    def spread(self, adjacency: Adjacency) -> Fraction:
        """Return how far one unit can drive two points' utilities apart, in ranks; the bound is reached.

        Add-remove-one: one more row below v changes (below - alpha n, above - (1-alpha) n) by (1-alpha, alpha-1), one
        above v by (-alpha, alpha). So every utility moves by at most max(alpha, 1-alpha), up or down: the spread is
        2 max(alpha, 1-alpha), 1 for the median.
        Replace-one: n stays; points between the old and the new place of the row move by 1, toward the quantile on
        one side of it and away on the other: spread 2. The grid's ends and the cap below are shared by both worlds and
        move nothing further apart.
        """
        return Fraction(2) if adjacency is Adjacency.REPLACE_ONE else 2 * max(self.alpha, 1 - self.alpha)

    def segments(self, ordered: Integers, steps: int, cap: int) -> tuple[Integers, Integers, Integers]:
        """(start, length, distance) of the runs of grid points 0 .. steps that share a distance, at most `cap`.

        `ordered` are the rows' grid points in ascending order. O(rows), whatever the grid.
        """
        n = ordered.size
        p, q = self.alpha.numerator, self.alpha.denominator
        changes = np.flatnonzero(np.diff(ordered, prepend=-1))
        points, upto = ordered[changes], np.append(changes[1:], n)[: changes.size]
        if points.size == 0 or points[0] != 0:
            points, upto = np.insert(points, 0, 0), np.insert(upto, 0, 0)
        if points[-1] != steps:
            points, upto = np.append(points, steps), np.append(upto, n)
        below = np.insert(upto[:-1], 0, 0)  # rows before each point; `upto` counts the point's own rows too
        # points and the gaps after them, the last point having none
        start = np.stack([points, points + 1], axis=1).ravel()[:-1]
        length = np.stack([np.ones_like(points), np.diff(points, append=steps + 1) - 1], axis=1).ravel()[:-1]
        under = np.stack([below, upto], axis=1).ravel()[:-1]
        over = n - np.stack([upto, upto], axis=1).ravel()[:-1]
        too_high = q * under - p * n
        too_low = q * over - (q - p) * n
        too_high[0] = too_low[-1] = 0
        distance = np.minimum(np.maximum(np.maximum(too_high, too_low), 0), cap)
        there = length > 0
        return start[there], length[there], distance[there]


def _fraction(alpha: exact.Number) -> Fraction:
    part = Fraction(exact.declared("alpha", alpha))
    if not 0 < part < 1:
        raise Mistake("alpha", "must lie between 0 and 1; for the ends of the range estimate bounds instead")
    if part.denominator > 10**6:
        raise Mistake("alpha", "must have at most 6 decimals")
    return part


def _find(
    ordered: Integers, grid: Grid, target: RankTarget, epsilon: Decimal, adjacency: Adjacency, randomness: Randomness
) -> int:
    # epsilon-bounded-range with epsilon = rate * spread, see `exponential.rate_of`. The cap is public and a minimum
    # with a constant never drives two utilities further apart.
    rate = rate_of(epsilon, target.spread(adjacency) * target.alpha.denominator)
    cap = min(2**62, math.ceil((math.log(grid.steps + 1) + _FAR) / float(rate)))
    start, length, distance = target.segments(ordered, grid.steps, cap)
    segment, place = draw(distance, length, rate=rate, randomness=randomness)
    return int(start[segment]) + place


def rank_error(
    *, alpha: exact.Number, epsilon: exact.Number, adjacency: str | Adjacency, level: float, bits: int = 20
) -> float:
    """With probability `level` a quantile bought for `epsilon` is at most this many ranks off, whatever the data.

    Source: McSherry & Talwar 2007, theorem 7, with a best utility of 0.
    """
    target = RankTarget(_fraction(alpha))
    return shortfall(2**bits + 1, rate_of(exact.epsilon(epsilon), target.spread(adjacency_of(adjacency))), level)


def quantile(
    values: ArrayLike,
    *,
    alpha: exact.Number,
    bounds: tuple[float, float],
    epsilon: exact.Number,
    adjacency: str | Adjacency,
    randomness: Randomness,
    n: int | None = None,
    bits: int = 20,
    level: float | None = None,
) -> Measurement:
    """The value below which a share `alpha` of the rows lies, up to a few ranks.

    Rows are clamped to `bounds` and rounded to a grid of 2^bits steps; the answer is a grid point. Pure epsilon-DP
    (and epsilon^2/8-zCDP) by the exponential mechanism; the spread of the utility under each adjacency is derived at
    `RankTarget.spread`. Source: Smith 2011, algorithm 2.

    With `level` half of epsilon buys the value and half an interval around it that holds every sample quantile of the
    clamped rows with that probability, half a step of rounding included: noisy counts of the rows between public
    places about the value (`Ladder`). They are narrower where the number of rows is public (`n`, replace-one). It is
    about the rows at hand, not about a population.
    """
    promise, e, part = adjacency_of(adjacency), exact.epsilon(epsilon), _fraction(alpha)
    if level is not None and not (isinstance(level, float) and 0 < level <= 1 - 1e-6):
        raise Mistake("level", "must lie between 0 and 1 - 1e-6")
    grid, numbers = grid_of(bounds, bits), column(values, adjacency=promise)
    _, change = counted(numbers, adjacency=promise, n=n)
    ordered = np.sort(grid.integers(numbers))
    price = e if level is None else part_of(e, 2)
    anchor = _find(ordered, grid, RankTarget(part), price, promise, randomness)
    found = Measurement(
        value=float(grid.values(anchor)),
        event=ExponentialEvent(price),
        adjacency=promise,
        mechanism="exponential quantile",
        parameters={"alpha": float(part), "bounds": [grid.low, grid.high], "bits": bits}
        | _error(part, price, promise, bits),
        simulated=randomness.simulated,
    )
    if level is None:
        return found
    ladder = Ladder(anchor, grid.steps, float(part), level)
    noise = Laplace(price).noise(ladder.counts.sensitivity(change))
    low, high = ladder.interval(ordered, noise, randomness, n)
    ends = np.clip(grid.values([low - _ROUNDED, high + _ROUNDED]), grid.low, grid.high)
    return replace(
        found,
        event=Composed((found.event, noise.event)),
        parameters={**found.parameters, "interval_share": 0.5, "interval_counts": stated(noise, randomness)},
        bought=Interval(level, float(ends[0]), float(ends[1])),
    )


def _error(part: Fraction, epsilon: Decimal, adjacency: Adjacency, bits: int) -> dict[str, float]:
    rate = rate_of(epsilon, RankTarget(part).spread(adjacency))
    return {"rank_error_95": shortfall(2**bits + 1, rate, 0.95)}


def median(
    values: ArrayLike,
    *,
    bounds: tuple[float, float],
    epsilon: exact.Number,
    adjacency: str | Adjacency,
    randomness: Randomness,
    n: int | None = None,
    bits: int = 20,
    level: float | None = None,
) -> Measurement:
    """The middle value: `quantile` with alpha 1/2. Any point between the two middle rows of an even number counts."""
    return quantile(
        values,
        alpha="0.5",
        bounds=bounds,
        epsilon=epsilon,
        adjacency=adjacency,
        randomness=randomness,
        n=n,
        bits=bits,
        level=level,
    )


def quantiles(
    values: ArrayLike,
    *,
    alphas: Sequence[exact.Number],
    bounds: tuple[float, float],
    epsilon: exact.Number,
    adjacency: str | Adjacency,
    randomness: Randomness,
    bits: int = 20,
) -> Measurement:
    """Several quantiles of one column, in the order of `alphas`, for `epsilon` together.

    Each gets an equal share; afterwards they are put into ascending order, which costs nothing and never hurts. Under
    zCDP m of them cost epsilon^2/(8 m). The value is an array.
    """
    promise, e = adjacency_of(adjacency), exact.epsilon(epsilon)
    if isinstance(alphas, (str, bytes)) or not isinstance(alphas, Sequence) or len(alphas) == 0:
        raise Mistake("alphas", "must be a list of at least one share between 0 and 1")
    parts = [_fraction(a) for a in alphas]
    share = part_of(e, len(parts))
    grid = grid_of(bounds, bits)
    ordered = np.sort(grid.integers(column(values, adjacency=promise)))
    found = [_find(ordered, grid, RankTarget(p), share, promise, randomness) for p in parts]
    value = np.empty(len(parts))
    value[np.argsort([float(p) for p in parts], kind="stable")] = grid.values(np.sort(found))
    return Measurement(
        value=value,
        event=Repeated(ExponentialEvent(share), len(parts)),
        adjacency=promise,
        mechanism="exponential quantile",
        parameters={
            "alphas": [float(p) for p in parts],
            "bounds": [grid.low, grid.high],
            "bits": bits,
            "rank_error_95": [_error(p, share, promise, bits)["rank_error_95"] for p in parts],
        },
        simulated=randomness.simulated,
    )


def iqr(
    values: ArrayLike,
    *,
    bounds: tuple[float, float],
    epsilon: exact.Number,
    adjacency: str | Adjacency,
    randomness: Randomness,
    n: int | None = None,
    bits: int = 20,
    level: float = 0.95,
) -> Measurement:
    """The interquartile range of `values` clamped to `bounds`: the quantile 0.75 less the quantile 0.25, at least 0.

    Each is bought with half of epsilon, with an interval that misses half as often; where both hold (union bound) the
    range lies between the nearest ends and the farthest. It holds whichever sample quantiles are meant.
    """
    half = part_of(exact.epsilon(epsilon), 2)
    low, high = (
        quantile(
            values,
            alpha=alpha,
            bounds=bounds,
            epsilon=half,
            adjacency=adjacency,
            randomness=randomness,
            n=n,
            bits=bits,
            level=(1 + level) / 2,
        )
        for alpha in ("0.25", "0.75")
    )
    lower, upper = low.bought, high.bought
    assert lower is not None  # noqa: S101
    assert upper is not None  # noqa: S101
    return replace(
        high,
        value=max(0.0, high.value - low.value),
        event=Composed((low.event, high.event)),
        mechanism="difference of two exponential quantiles",
        parameters={name: told for name, told in high.parameters.items() if name != "alpha"},
        bought=Interval(level, max(0.0, float(upper.low) - float(lower.high)), float(upper.high) - float(lower.low)),
    )
