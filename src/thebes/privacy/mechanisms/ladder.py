"""An interval around a quantile whose value was found before: noisy counts of rows between public rungs about it.

Sums of discrete Laplace noise are told by their exact law, or by one that is wider.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.measurement import Floats
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.mechanisms.summed_noise import farthest
from thebes.privacy.randomness import Randomness
from thebes.privacy.transformations.counts import HistogramCounts

Integers = NDArray[np.int64]

_WIDEST = 128.0  #: sums of noise of a larger scale are bounded by those of this one
_CAUTION = 1e-9  #: above every numerical error
_HALVINGS = 24


def rungs_about(anchor: int, steps: int) -> Integers:
    """The rungs for an anchor on the grid 0 .. steps: it, the next point, and 1, 2, 4, ... steps out from either."""
    out = np.append(0, 2 ** np.arange(steps.bit_length(), dtype=np.int64))
    rungs = np.concatenate([anchor - out[::-1], anchor + 1 + out])
    return rungs[(rungs >= 1) & (rungs <= steps)]


@dataclass(frozen=True, slots=True)
class Ladder:
    """The interval of grid points 0 .. `steps` around `anchor` that holds every sample quantile `alpha`.

    *What is released.* A noisy histogram of the rows in the cells between `rungs_about(anchor)`, each a set of values
    that is public once the anchor is. The rest is made of it. So privacy is that of a histogram: its noise hides the
    moves between cells that one unit can make (`transformations.counts.HistogramCounts`).

    *Ranks.* A rung t lies above the lowest sample quantile where T(t) = (rows below t) - alpha n >= 0, and the point
    before it at or above the highest where T(t) > 0. T is estimated by w left - (1 - w) right + (1 - w - alpha) n, left
    and right being the sums of the noisy cells before t and from t on: right for any w, as left + right is n but for
    noise. Where n is public (`n`), w is the right cells' share of all: the least variance. Where it is private, w is
    1 - alpha, for which n is not needed.

    *Ends by tests in a fixed order.* With c the (1+level)/2 point of the noise in T's estimate (`upper_end`), the low
    end starts at 0 and moves from the lowest rung inwards as long as estimate + c < 0, no further than to the anchor;
    the high end likewise from above, to the point before each rung, as long as estimate - c > 0. T rises with t, so
    among the tests of one end those whose claim is false come after those whose claim is true: for the end to be wrong
    the first false claim must be accepted, and the odds of that one are (1-level)/2, whatever the rows. So both ends
    hold together with probability at least `level`, given any anchor, hence overall; no rung costs anything. (Fixed
    sequence tests: Maurer, Hothorn & Lehmacher 1995.)
    """

    anchor: int
    steps: int
    alpha: float
    level: float

    def interval(self, ordered: Integers, noise: Additive, randomness: Randomness, n: int | None) -> tuple[int, int]:
        """(low, high) from the rows' grid points in ascending order; `noise` is calibrated for a histogram of them."""
        rungs = self.rungs
        cells = np.diff(np.searchsorted(ordered, rungs), prepend=0, append=ordered.size)
        noisy = noise.add(cells.astype(np.int64), randomness)
        left, total = np.cumsum(noisy)[:-1], noisy.sum()
        before = np.arange(1, cells.size)
        share = np.full(rungs.size, 1 - self.alpha) if n is None else 1 - before / cells.size
        rank = share * left - (1 - share) * (total - left) + (1 - share - self.alpha) * (n or 0)
        ends = np.array(
            [
                upper_end(noise.scale, (m, cells.size - m), w, (1 + self.level) / 2)
                for m, w in zip(before.tolist(), share.tolist(), strict=True)
            ]
        )
        up, down = rungs <= self.anchor, rungs > self.anchor
        climbed = _first_false(rank[up] + ends[up] < 0)
        sunk = _first_false((rank[down] - ends[down] > 0)[::-1])
        low = int(rungs[up][climbed - 1]) if climbed else 0
        high = int(rungs[down][-sunk]) - 1 if sunk else self.steps
        return low, high

    @property
    def rungs(self) -> Integers:
        """The places between which rows are counted."""
        return rungs_about(self.anchor, self.steps)

    @property
    def counts(self) -> HistogramCounts:
        """The counts that are noised: how far one unit moves them is known there."""
        return HistogramCounts(self.rungs.size + 1)


def _first_false(passed: NDArray[np.bool_]) -> int:
    """Count those that passed before the first that did not."""
    return int(np.logical_and.accumulate(passed).sum())


@lru_cache(maxsize=4096)
def upper_end(scale: float, cells: tuple[int, int], share: float, level: float) -> float:
    """A number that w A - (1 - w) B exceeds with odds of at most 1 - `level`, where A and B are sums of so many
    discrete Laplace noises of `scale` each and w is `share`.

    P(w A - (1-w) B > c) is summed over the exact law of B. Of a scale s times a smaller one, b: noise is
    floor(b E) - floor(b E') with two standard exponentials, and |floor(s b E) - s floor(b E)| with its twin is less
    than s + 1; so the sum is less than s times that of scale b, plus (s + 1) (w #A + (1-w) #B).
    """
    if scale > _WIDEST:
        larger = scale / _WIDEST
        weights = share * cells[0] + (1 - share) * cells[1]
        return larger * upper_end(_WIDEST, cells, share, level) + (larger + 1) * weights
    (_, tails), (odds, _) = (_sum_of(scale, count) for count in cells)
    reach, others = tails.size // 2, np.arange(odds.size) - odds.size // 2

    def beyond(c: float) -> float:
        place = np.floor((c + (1 - share) * others) / share - _CAUTION)
        return float(odds @ tails[np.clip(place, -reach, reach).astype(np.int64) + reach])

    near, far = 0.0, farthest((share * scale,) * cells[0] + ((1 - share) * scale,) * cells[1])
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        near, far = (middle, far) if beyond(middle) > 1 - level - _CAUTION else (near, middle)
    return far + _CAUTION * max(1.0, far)


@lru_cache(maxsize=1024)
def _sum_of(scale: float, count: int) -> tuple[Floats, Floats]:
    """(P(S = k), P(S > k)) for k from -reach to reach, S the sum of so many discrete Laplace noises.

    From the characteristic function at equally spaced frequencies, which gives the law modulo a period: exactly but for
    odds below 1e-12 of lying beyond it (`farthest`).
    """
    reach = math.ceil(farthest((scale,) * count))
    period = 1 << (2 * reach + 1).bit_length()
    q, half = np.exp(-1 / scale), np.pi * np.arange(period // 2 + 1) / period
    curve = (1 + 4 * q * (np.sin(half) / np.expm1(-1 / scale)) ** 2) ** -count
    whole = np.fft.irfft(curve, period)
    odds = np.maximum(np.concatenate([whole[-reach:], whole[: reach + 1]]), 0.0)
    tails = np.append(np.cumsum(odds[::-1])[::-1][1:], 0.0)
    return odds, tails
