"""The median with Laplace noise scaled to its smooth sensitivity: an option beside the exponential-mechanism median.

The noise scale depends on the data and is therefore never released: no spread, no interval, no scale among the
parameters. Source: Nissim, Raskhodnikova & Smith 2007, with order statistics extended by the ends of the domain.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy import exact
from thebes.privacy.events import ApproximateEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.measurement import Measurement
from thebes.privacy.mechanisms.columns import column, grid_of
from thebes.privacy.promise import Adjacency, adjacency_of
from thebes.privacy.randomness import Randomness

Integers = NDArray[np.int64]

#: taken off beta and added to the scale: far more than all floats on the way may err (below 1e-12, relative)
_SLACK = 1e-11
#: least noise scale in grid steps; the larger of a smooth bound and a constant is smooth too
_LEAST_SCALE = 1 / 16


def smoothness(epsilon: float, delta: float) -> float:
    """The beta with which noise of scale 2 S/epsilon, S a beta-smooth bound, is (epsilon, delta)-DP.

    beta = ln(1 + epsilon / (2 ln(2/delta))). Proof, for neighbours x, y with scales s, s' and discrete Laplace noise
    P_s(k) = tanh(1/2s) exp(-|k|/s). Changing the scale: if s < s', P_s/P_s' <= tanh(1/2s)/tanh(1/2s') <= s'/s <= e^beta
    <= e^(epsilon/2), as tanh is concave and ln(2/delta) >= 1; if s > s', P_s/P_s' <= exp((e^beta - 1) |k|/s) <=
    e^(epsilon/2) unless |k| > s ln(2/delta), which has probability at most delta. Changing the centre, at scale s': it
    moves by at most the local sensitivity of y, so by at most S(y): another e^(epsilon/2).

    A little below the epsilon / (2 ln(2/delta)) of Nissim et al. (2007), because the exact ratio is bounded here.
    """
    return math.log1p(epsilon / (2 * math.log(2 / delta)))


class OrderStatistics:
    """The rows' grid points in ascending order, x_1 .. x_n, with x_i = 0 below and x_i = `steps` above."""

    def __init__(self, ordered: Integers, steps: int) -> None:
        self.n = int(ordered.size)
        pad = self.n + 2
        self._x = np.concatenate([np.zeros(pad, np.int64), ordered, np.full(pad, steps, np.int64)])
        self._zero = pad - 1  # where x_0 stands

    def run(self, first: int, last: int) -> Integers:
        """x_first .. x_last."""
        return self._x[self._zero + first : self._zero + last + 1]

    @property
    def middle(self) -> int:
        """The rank of the median: the lower of the two middle rows where n is even, so that it is one row."""
        return (self.n + 1) // 2

    @property
    def median(self) -> int:
        return int(self.run(self.middle, self.middle)[0])

    def gap(self, k: int, adjacency: Adjacency) -> int:
        """The largest local sensitivity of the median within k changes of these rows; never smaller for larger k.

        Replace-one: max over t = 0 .. k+1 of x_(m+t) - x_(m+t-k-1), m the middle (Nissim et al. 2007, section 3.1).
        Add-remove-one: one more change moves the median of n' rows across one gap only, between ranks n'/2 and n'/2 + 1
        (n' even) or (n'-1)/2 and (n'+1)/2 (odd). k additions and removals shift these ranks within
        floor((n-k)/2) .. floor((n-k)/2) + k + 1 of the old order, and removing k rows between them opens all of it.
        """
        if adjacency is Adjacency.REPLACE_ONE:
            m = self.middle
            return int((self.run(m, m + k + 1) - self.run(m - k - 1, m)).max())
        low = (self.n - k) // 2
        return int(self.run(low + k + 1, low + k + 1)[0] - self.run(low, low)[0])


def smooth_sensitivity(gap: Callable[[int], int], last: int, beta: float) -> float:
    """max over k = 0 .. last of gap(k) exp(-beta k), for a gap that never falls, without visiting every k.

    Between two visited places a < b no value exceeds gap(b) exp(-beta (a+1)); spans whose ceiling is not above the
    best value seen are dropped, the others halved, the highest ceiling first. Same floats as the plain maximum.
    """
    at = {k: gap(k) for k in {0, last}}
    best = max(g * math.exp(-beta * k) for k, g in at.items())
    spans = [(-at[last] * math.exp(-beta), 0, last, at[last])]
    while spans and -spans[0][0] > best:
        _, a, b, gap_b = heapq.heappop(spans)
        if b - a < 2:
            continue
        k = (a + b) // 2
        gap_k = gap(k)
        best = max(best, gap_k * math.exp(-beta * k))
        heapq.heappush(spans, (-gap_k * math.exp(-beta * (a + 1)), a, k, gap_k))
        heapq.heappush(spans, (-gap_b * math.exp(-beta * (k + 1)), k, b, gap_b))
    return best


def noise_scale(ordered: Integers, steps: int, *, epsilon: float, delta: float, adjacency: Adjacency) -> float:
    """The scale in grid steps of the noise on the median. SECRET: it depends on the data."""
    beta = smoothness(epsilon, delta) - _SLACK
    rows = OrderStatistics(ordered, steps)
    floor = _LEAST_SCALE * epsilon / 2
    last = min(rows.n, math.ceil(math.log(steps / floor) / beta))  # beyond, every value is below the floor
    bound = smooth_sensitivity(lambda k: rows.gap(k, adjacency), last, beta)
    return max(bound, floor) * 2 / epsilon * (1 + _SLACK)


def smooth_median(
    values: ArrayLike,
    *,
    bounds: tuple[float, float],
    epsilon: exact.Number,
    delta: exact.Number,
    adjacency: str | Adjacency,
    randomness: Randomness,
    bits: int = 20,
) -> Measurement:
    """The middle row (the lower one of two) plus noise, clamped to `bounds`; (epsilon, delta)-DP.

    Rows are clamped and rounded to a grid of 2^bits steps and everything happens on its integers. Proof: `smoothness`
    and `OrderStatistics.gap`. `quantile.median` needs no delta and usually errs less; no interval can be stated here,
    because the width of the noise is itself private.
    """
    promise, e, d = adjacency_of(adjacency), exact.epsilon(epsilon), exact.delta(delta)
    if not 0 < d <= exact.declared("delta", "0.5"):
        raise Mistake("delta", "must be greater than 0 and at most 0.5 for this median")
    if float(e) < 1e-6:
        raise Mistake("epsilon", "must be at least 1e-6 for this median")
    grid = grid_of(bounds, bits)
    if grid.steps / float(e) > 2**48:
        raise Mistake("bits", "must be smaller for so small an epsilon: the noise would not fit into 64 bits")
    ordered = np.sort(grid.integers(column(values, adjacency=promise)))
    centre = OrderStatistics(ordered, grid.steps).median
    scale = noise_scale(ordered, grid.steps, epsilon=float(e), delta=float(d), adjacency=promise)
    noisy = int(randomness.laplace(np.array([centre], dtype=np.int64), scale=scale)[0])
    return Measurement(
        value=float(grid.values(min(max(noisy, 0), grid.steps))),
        event=ApproximateEvent(e, d),
        adjacency=promise,
        mechanism="smooth-sensitivity median",
        parameters={"bounds": [grid.low, grid.high], "bits": bits},
        simulated=randomness.simulated,
    )
