"""A range for a column that nobody declared one of, how many rows lie outside, and what those may do to a statistic.

No interval for a mean can hold for all rows where nobody knows their range: one far value moves it anywhere. So a range
is chosen that cuts few rows, the number of those outside is measured, and the interval states the one thing it assumes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy import exact
from thebes.privacy.events import Composed, PureEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.measurement import Floats, Measurement
from thebes.privacy.mechanisms.additive import Additive, Laplace, stated
from thebes.privacy.mechanisms.bounds import Bounds, NoBounds, estimate_bounds
from thebes.privacy.mechanisms.count import counted
from thebes.privacy.mechanisms.exponential import exponential, part_of
from thebes.privacy.mechanisms.mean import share_between, spread_to
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness
from thebes.privacy.stability import Change
from thebes.privacy.transformations.counts import Count, HistogramCounts

Integers = NDArray[np.int64]

SHARES = (6, 3, 4)  #: of 13 parts of epsilon: where most rows are, how far outward, how many lie outside
_DOUBLINGS = 9  #: 0 .. 8, on either side
_PENALTY = 6  #: a doubling is worth this many rows outside, over epsilon
_LARGEST = sys.float_info.max / 4


@dataclass(frozen=True, slots=True)
class Doublings:
    """The ranges that go outward from low .. high by 0 to 8 doublings of its width on either side. Where all of it lies
    on one side of 0, the first step towards 0 ends there."""

    low: float
    high: float

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """The low ends and the high ones, each from the nearest outward."""
        with np.errstate(over="ignore"):
            out = (self.high - self.low) * (2.0 ** np.arange(_DOUBLINGS) - 1)
            lows, highs = self.low - out, self.high + out
        if self.low > 0:
            lows = np.concatenate([[self.low, 0.0], -out[1:-1]])
        if self.high < 0:
            highs = np.concatenate([[self.high, 0.0], out[1:-1]])
        return np.maximum(lows, min(self.low, -_LARGEST)), np.minimum(highs, max(self.high, _LARGEST))

    def outside(self, values: Floats) -> Integers:
        """The rows outside each range: one line for each low end, one column for each high end."""
        lows, highs = self.ends
        ordered = np.sort(values)
        below = np.searchsorted(ordered, lows, side="left")
        above = values.size - np.searchsorted(ordered, highs, side="right")
        return np.asarray(below[:, None] + above[None, :], dtype=np.int64)

    def chosen(
        self, values: Floats, *, epsilon: Decimal, adjacency: Adjacency, randomness: Randomness
    ) -> tuple[Bounds, Measurement]:
        """One of the ranges by the exponential mechanism: few rows outside, few doublings.

        A range's score is its rows outside, and 6/epsilon, rounded up, for each doubling, which is public. One row that
        comes or goes moves scores by 0 or 1, all the same way (add-remove-one: `monotone`); one that is replaced moves
        each by at most 1, up or down (replace-one). `exponential` turns that into pure epsilon.
        """
        lows, highs = self.ends
        steps, dear = np.arange(_DOUBLINGS), math.ceil(_PENALTY / epsilon)
        scores = self.outside(values) + dear * (steps[:, None] + steps[None, :])
        found = exponential(
            -scores.ravel(),
            sensitivity=1,
            epsilon=epsilon,
            adjacency=adjacency,
            randomness=randomness,
            monotone=adjacency is Adjacency.ADD_REMOVE_ONE,
        )
        i, j = divmod(int(found.value), _DOUBLINGS)
        return Bounds(float(lows[i]), float(highs[j])), found


@dataclass(frozen=True, slots=True)
class EstimatedRange:
    """A range and the noisy number of rows outside it. `cells` are the noisy rows outside and inside, where the number
    of rows is private; else `n` is that number and only those outside were counted."""

    bounds: Bounds
    cells: tuple[float, ...]
    noise: Additive
    n: int | None

    @property
    def width(self) -> float:
        return self.bounds.high - self.bounds.low

    def rows(self, level: float) -> float:
        """Return the rows outside at most: more are there with odds of (1 - level) / 2 at most, as the noise of one
        count is symmetric."""
        most = max(0.0, self.cells[0] + self.noise.width(level))
        return most if self.n is None else min(most, float(self.n))

    def share(self, level: float) -> float:
        """Return their share of all rows at most, with the same odds. Where the number of rows is private it is the far
        end of Fieller's interval of twice the certainty, both of whose ends miss less often than that."""
        if self.n is not None:
            return self.rows(level) / self.n
        outside, inside = self.cells
        return share_between(inside, outside, noise=self.noise, level=(1 + level) / 2)[1]


def estimate_range(
    values: ArrayLike,
    *,
    epsilon: exact.Number,
    adjacency: str | Adjacency | Change,
    n: int | None = None,
    randomness: Randomness,
    false_positive: float = 0.001,
    lowest: int = -32,
) -> Measurement:
    """An `EstimatedRange`, or `NoBounds` where no range can be seen; pure epsilon-DP.

    Three answers, one after another, each of which is private given what the earlier ones said (adaptive composition:
    Dwork & Roth 2014, section 3.5), for 6, 3 and 4 of 13 parts of epsilon, which sum to it exactly:

    1. `estimate_bounds`: where most rows are. Where nothing is seen it ends here, and the whole is charged anyway.
    2. `Doublings.chosen`: how far to go outward from there, so that few rows lie outside.
    3. The rows outside, with Laplace noise. One row, however it changes, moves their number by at most 1 (`Count`), so
       the scale is 1/epsilon. Where the number of rows is private, the rows inside are counted too: a replaced row
       leaves one cell and enters the other, so the scale is 2/epsilon, and 1/epsilon under add-remove-one
       (`HistogramCounts`).
    """
    e = exact.epsilon(epsilon)
    numbers, change = counted(values, adjacency=adjacency, n=n)
    if change.rows != 1:
        raise Mistake("adjacency", "an estimated range needs one row for each unit; bound the rows of a unit first")
    each, promise = part_of(e, sum(SHARES)), change.adjacency
    first, second = SHARES[0] * each, SHARES[1] * each
    third = e - first - second
    seen = estimate_bounds(
        numbers,
        epsilon=first,
        adjacency=promise,
        randomness=randomness,
        false_positive=false_positive,
        lowest=lowest,
    )
    if isinstance(seen.value, NoBounds):
        return replace(seen, event=PureEvent(e))
    bounds, chosen = Doublings(seen.value.low, seen.value.high).chosen(
        numbers, epsilon=second, adjacency=promise, randomness=randomness
    )
    cells, noise = rows_outside(
        numbers, bounds, epsilon=third, change=change, public=n is not None, randomness=randomness
    )
    return Measurement(
        value=EstimatedRange(bounds, cells, noise, n),
        event=Composed((seen.event, chosen.event, noise.event)),
        adjacency=promise,
        mechanism="log histogram bounds with laplace noise, taken outward",
        parameters={
            **seen.parameters,
            "epsilon_shares": [float(first), float(second), float(third)],
            "outside_counts": stated(noise, randomness),
        },
        simulated=randomness.simulated,
    )


def rows_outside(
    values: Floats, bounds: Bounds, *, epsilon: Decimal, change: Change, public: bool, randomness: Randomness
) -> tuple[tuple[float, ...], Additive]:
    """Count the rows outside a range with noise, and those inside where their sum is not `public`; see
    `estimate_range`."""
    outside = (values < bounds.low) | (values > bounds.high)
    counts = Count() if public else HistogramCounts(2)
    noise = Laplace(epsilon).noise(counts.sensitivity(change))
    totals = counts.total(outside if public else np.where(outside, 0, 1).astype(np.int64))
    return tuple(noise.add(totals, randomness).tolist()), noise


#: (low end, high end) over all values, from the ends over the cut ones, the rows outside, their share, and the width
_Moved = Callable[[float, float, float, float, float], tuple[float, float]]
_MOVED: dict[str, _Moved] = {
    "mean": lambda low, high, rows, share, width: (low - share * width, high + share * width),
    "sum": lambda low, high, rows, share, width: (low - rows * width, high + rows * width),
    "variance": lambda low, high, rows, share, width: (low, high + 3 * share * width**2),
    "std": lambda low, high, rows, share, width: (low, math.sqrt(high**2 + 3 * share * width**2)),
}
_ON_AVERAGE = "the values outside lie, on average, within one width of the range"
_IN_SQUARES = "the root mean square distance of the values outside is at most one width of the range"
#: by statistic, what is assumed of values outside the range
ASSUMED = {"mean": _ON_AVERAGE, "sum": _ON_AVERAGE, "variance": _IN_SQUARES, "std": _IN_SQUARES}


def of_all_values(measured: Measurement, found: EstimatedRange, statistic: str) -> Measurement:
    """The `statistic` of values cut to an estimated range, with an interval for the values as they were.

    It holds at its level wherever what is `ASSUMED` is so. Half of what may fail goes to the noise of the statistic,
    half to the number of rows outside (union bound). Let x be a value, c the cut one, d = x - c, p the share of rows
    outside and w the width. *Mean*: the mean of d is p times the mean distance outside, at most p w; of the *sum* it is
    n times that. *Variance*: cutting is a contraction, so it never raises a variance, and the low end stays. Above,
    var x = var c + 2 cov(c, d) + var d. Outside, c is an end, no further than w from the mean of c, so that
    cov(c, d) <= p w^2; and var d <= p w^2: in all at most 3 p w^2 more. *std* is the root of both ends.
    """
    value, moved = measured.value, _MOVED[statistic]

    def ends(level: float) -> tuple[float, float]:
        bar = measured.interval((1 + level) / 2)
        assert bar is not None  # noqa: S101
        return moved(float(bar.low), float(bar.high), found.rows(level), found.share(level), found.width)

    return replace(measured, spread=spread_to(value, ends))
