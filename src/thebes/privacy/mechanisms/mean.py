"""The private mean of numbers in public bounds, with a public or a private number of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from thebes.privacy import exact
from thebes.privacy.grid import Grid
from thebes.privacy.measurement import Floats, Measurement
from thebes.privacy.mechanisms.additive import Additive, Hiding, LeastNoise, stated
from thebes.privacy.mechanisms.columns import grid_of
from thebes.privacy.mechanisms.count import counted
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness
from thebes.privacy.stability import Change
from thebes.privacy.transformations.moments import BernsteinSums
from thebes.privacy.transformations.sums import BoundedSum

#: (low end, high end) at a level
Shares = Callable[[float], tuple[float, float]]


def mean(
    values: ArrayLike,
    *,
    bounds: Any,
    epsilon: exact.Number,
    delta: exact.Number = 0,
    adjacency: str | Adjacency | Change,
    n: int | None = None,
    bits: int = 20,
    randomness: Randomness,
) -> Measurement:
    """The mean of `values`, each clamped to `bounds`; always inside the bounds.

    With a public number of rows (`n`, replace-one): noisy sum / n. With a private one, every row hands out one unit
    to the two cells "near low" and "near high" by where it lies; both cells are noised at once with the whole epsilon
    and the mean is low + range * high cell / (both cells). Their sum is the count and their difference the centred
    sum, but the pair is no more sensitive than a histogram of two cells, so no budget is split between sum and count
    (an instance of the K-norm mechanism, Hardt & Talwar 2010). Without any rows the answer is noise inside the bounds.

    The interval (Fieller's): at the true share s of the high cell, high - s (low + high) is (1-s) a - s b, with a
    and b the two noises, so {s : |high - s (low + high)| <= width(s)} holds s at the stated level. Half a grid step
    of rounding is added. It speaks of the clamped values, and of the noise only, not of sampling.
    """
    grid = grid_of(bounds, bits)
    numbers, change = counted(values, adjacency=adjacency, n=n)
    least = LeastNoise(epsilon, delta)
    if n is None:
        noise, share, shares = _private_rows(numbers, grid, change, least, randomness)
    else:
        noise, share, shares = _public_rows(numbers, grid, change, least, randomness)
    value = grid.low + min(max(share, 0.0), 1.0) * (grid.high - grid.low)
    return Measurement(
        value=value,
        event=noise.event,
        adjacency=change.adjacency,
        mechanism=f"mean with {noise.kind} noise",
        parameters={**stated(noise, randomness, unit=grid.step), "rows": "private" if n is None else "public"},
        spread=spread_to(value, lambda level: ends_of(shares(level), grid)),
        simulated=randomness.simulated,
    )


def _public_rows(
    numbers: Floats, grid: Grid, change: Change, least: LeastNoise, randomness: Randomness
) -> tuple[Additive, float, Shares]:
    middle = grid.low + (grid.high - grid.low) / 2
    transformation = BoundedSum(grid.low - middle, grid.high - middle, grid.bits)
    noise = least.noise(transformation.sensitivity(change))
    tokens = numbers.size * grid.steps
    share = 0.5 + float(noise.add(transformation.total(numbers - middle), randomness)[0]) / tokens
    return noise, share, lambda level: (share - noise.width(level) / tokens, share + noise.width(level) / tokens)


def _private_rows(
    numbers: Floats, grid: Grid, change: Change, least: LeastNoise, randomness: Randomness
) -> tuple[Additive, float, Shares]:
    transformation = BernsteinSums(grid, 1)
    noise = least.noise(transformation.sensitivity(change))
    low, high = noise.add(transformation.total(numbers), randomness).tolist()
    return noise, share_of(low, high, grid), lambda level: share_between(low, high, noise=noise, level=level)


def share_of(low: float, high: float, grid: Grid) -> float:
    """The share of the high one of two noisy cells. A noisy count below one row stands for one row, so that the answer
    keeps near the middle if nobody is there."""
    return 0.5 + (high - low) / 2 / max(low + high, grid.steps)


def ends_of(shares: tuple[float, float], grid: Grid) -> tuple[float, float]:
    """An interval of shares as one of means: half a step of rounding is added."""
    low, high = (grid.low + share * (grid.high - grid.low) for share in shares)
    return max(grid.low, low - grid.step / 2), min(grid.high, high + grid.step / 2)


def spread_to(value: float, ends: Shares) -> Shares:
    """The spread of a value whose interval has these ends."""

    def spread(level: float) -> tuple[float, float]:
        low, high = ends(level)
        return max(0.0, high - value), max(0.0, value - low)

    return spread


def share_between(low: float, high: float, *, noise: Hiding, level: float) -> tuple[float, float]:
    """All shares s with |high - s (low + high)| <= width(s), as an interval inside [0, 1].

    width(s) is the width of (1-s) a - s b. It falls toward s = 1/2, because the noise is symmetric and log-concave
    (peakedness, Proschan 1965), so over an interval it is greatest at an end. Starting from [0, 1], an interval that
    holds all solutions is shrunk with its own greatest width; each one holds all solutions again.
    """
    total, (first, last) = low + high, (0.0, 1.0)
    if total <= 0:
        return first, last
    for _ in range(100):
        width = max(noise.pair_width(first, level), noise.pair_width(last, level))
        closer = max(first, (high - width) / total), min(last, (high + width) / total)
        if closer[0] > closer[1]:
            return 0.0, 1.0  # no share fits this noise: it was beyond its width
        if closer[0] - first + last - closer[1] < 1e-9:
            break
        first, last = closer
    return first, last
