"""Bounds of a column whose range nobody knows, from a private histogram over powers of two.

Every finite float has a bin, chosen before any data are seen. That no bin stands out is a normal outcome with
its own type: the budget is spent either way, and nothing is guessed.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy import exact
from thebes.privacy.events import PureEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.measurement import Measurement
from thebes.privacy.mechanisms.columns import Floats, column, whole
from thebes.privacy.promise import Adjacency, adjacency_of
from thebes.privacy.randomness import Randomness

Integers = NDArray[np.int64]

_HIGHEST = 1023  # the last bin of either sign starts at 2^1023 and ends at the largest float
_LOWEST = -1022  # the smallest power of two that is a normal float


@dataclass(frozen=True, slots=True)
class Bounds:
    """The outer edges of the first and the last bin that stand out. Rows beyond them are to be clamped."""

    low: float
    high: float

    @property
    def sentence(self) -> str:
        ends = f"{figure(self.low)} and {figure(self.high)}"
        return f"Most values lie between {ends}; the few that may lie outside are cut off there."


@dataclass(frozen=True, slots=True)
class NoBounds:
    """No bin stood out from the noise. The budget of the estimate is spent; no range is guessed."""

    needed: int  #: a bin with at least so many rows would have been seen with high probability

    @property
    def sentence(self) -> str:
        return (
            "No range could be seen through the noise, and the budget for looking is spent. Say which range the values "
            f"have, or ask more people: about {self.needed} of them must have values of similar size."
        )


@dataclass(frozen=True, slots=True)
class PowerBins:
    """Bins [2^e, 2^(e+1)) for e = lowest .. 1023, their mirror images, and one bin around 0 for everything smaller.

    Numbered from the most negative to the most positive; infinities count as the largest finite values.
    """

    lowest: int

    @property
    def per_sign(self) -> int:
        return _HIGHEST - self.lowest + 1

    @property
    def count(self) -> int:
        return 2 * self.per_sign + 1

    def number(self, values: Floats) -> Integers:
        """Each value's own bin, exactly: `frexp` reads the exponent from the float itself."""
        finite = np.clip(values, -sys.float_info.max, sys.float_info.max)
        magnitude = np.frexp(finite)[1].astype(np.int64) - 1 - self.lowest + 1
        size = np.where(finite == 0, 0, np.maximum(magnitude, 0))
        return self.per_sign + np.where(finite < 0, -size, size)

    def edges(self, bin_number: int) -> tuple[float, float]:
        """The bin's lower and upper end, the smaller one first."""
        size = abs(bin_number - self.per_sign)
        inner = 0.0 if size == 0 else math.ldexp(1.0, self.lowest + size - 1)
        outer = math.ldexp(1.0, self.lowest + size) if self.lowest + size <= _HIGHEST else sys.float_info.max
        if size == 0:
            return -outer, outer
        return (inner, outer) if bin_number > self.per_sign else (-outer, -inner)


def estimate_bounds(
    values: ArrayLike,
    *,
    epsilon: exact.Number,
    adjacency: str | Adjacency,
    randomness: Randomness,
    false_positive: float = 1e-3,
    lowest: int = -32,
) -> Measurement:
    """`Bounds` that hold most of the column, or `NoBounds`; pure epsilon-DP.

    Counts per power of two get discrete Laplace noise of scale s = 1/epsilon under add-remove-one (a row is in one bin)
    and 2/epsilon under replace-one (it leaves one bin and enters another). A bin stands out when its noisy count
    reaches s ln(bins / false_positive): P(noise >= t) <= exp(-t/s), so that with probability 1 - false_positive no
    empty bin does. The answer runs from the first bin that stands out to the last; `lowest` (public) is the power of
    two below which values count as zero. Where nothing stands out the answer is `NoBounds`: the caller must then give
    bounds or refuse.
    """
    promise, e = adjacency_of(adjacency), exact.epsilon(epsilon)
    bins = PowerBins(whole("lowest", lowest, least=_LOWEST, most=_HIGHEST - 1))
    if isinstance(false_positive, bool) or not isinstance(false_positive, float) or not 0 < false_positive < 1:
        raise Mistake("false_positive", "must lie between 0 and 1")
    rows = column(values, adjacency=promise)
    scale = exact.scale_of(2 if promise is Adjacency.REPLACE_ONE else 1, e)
    counts = np.bincount(bins.number(rows), minlength=bins.count).astype(np.int64)
    threshold = math.ceil(scale * math.log(bins.count / false_positive))
    standing = np.flatnonzero(randomness.laplace(counts, scale=scale) >= threshold)
    if standing.size == 0:
        # a bin with this many rows falls below the threshold with probability at most `false_positive`
        found: Bounds | NoBounds = NoBounds(threshold + math.ceil(scale * math.log(1 / false_positive)))
    else:
        found = Bounds(*_usable(bins.edges(int(standing[0]))[0], bins.edges(int(standing[-1]))[1]))
    return Measurement(
        value=found,
        event=PureEvent(e),
        adjacency=promise,
        mechanism="log histogram bounds with laplace noise",
        parameters={
            "bins": bins.count,
            "noise_scale": scale,
            "threshold": threshold,
            "false_positive": false_positive,
        },
        simulated=randomness.simulated,
    )


def _usable(low: float, high: float) -> tuple[float, float]:
    # A width beyond the floats could not be divided into steps; both ends are then halved (clamping does the rest).
    return (low, high) if math.isfinite(high - low) else (low / 2, high / 2)
