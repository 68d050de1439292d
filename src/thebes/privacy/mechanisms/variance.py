"""The private variance of numbers in public bounds, or its root, with a public or a private number of rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from thebes.privacy import exact
from thebes.privacy.grid import Grid
from thebes.privacy.measurement import Floats, Measurement
from thebes.privacy.mechanisms.additive import Ball, Hiding, LeastNoise, stated
from thebes.privacy.mechanisms.columns import grid_of
from thebes.privacy.mechanisms.count import counted
from thebes.privacy.mechanisms.mean import spread_to
from thebes.privacy.mechanisms.rounding import Ends, Rounding, cells_moved, centred_moved
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness
from thebes.privacy.stability import Change, Transformation
from thebes.privacy.transformations.moments import BernsteinSums, CentredMoments

_MEANS = 201  #: how finely the interval searches the unknown mean


def variance(
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
    """The variance (mean squared distance from the mean) of `values` clamped to `bounds`, between 0 and range^2 / 4.

    Number of rows, sum and sum of squares come from one noisy vector with the whole epsilon: three cells between
    which every row hands out one unit where the number of rows is private (`BernsteinSums`), two centred moments
    where it is public (`n`, replace-one; `CentredMoments`). Everything after the noise is post-processing.

    The interval: with the stated probability the noise vector lies in a ball (L1 for Laplace, L2 for Gaussian noise),
    and then every linear statistic of it is bounded by radius times the dual norm of its coefficients. For the true
    mean m and variance v, sum - m count and (sum of squares) - 2 m sum + (m^2 - v) count are such statistics of noise
    alone; the interval holds every v for which some m fits both. `Rounding` says how far the clamped values' variance
    lies from the total's. It speaks of the clamped values, and of the noise only, not of sampling.
    """
    grid = grid_of(bounds, bits)
    numbers, change = counted(values, adjacency=adjacency, n=n)
    transformation: Transformation = BernsteinSums(grid, 2) if n is None else CentredMoments(grid)
    noise = LeastNoise(epsilon, delta).noise(transformation.sensitivity(change))
    vector = noise.add(transformation.total(numbers), randomness)
    moments = VarianceMoments.of_cells(vector) if n is None else VarianceMoments.of_centred(vector, n * grid.steps)
    value = moments.variance(grid.steps) * (grid.high - grid.low) ** 2
    return Measurement(
        value=value,
        event=noise.event,
        adjacency=change.adjacency,
        mechanism=f"variance with {noise.kind} noise",
        parameters={**stated(noise, randomness, unit=1 / grid.steps), "rows": "private" if n is None else "public"},
        spread=spread_to(value, lambda level: moments.ends(noise, level, grid)),
        simulated=randomness.simulated,
    )


def std(
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
    """The standard deviation of `values` clamped to `bounds`: the root of `variance`, between 0 and half the range.

    Post-processing, so it costs what the variance costs. The interval ends at the roots of the variance's ends: a root
    rises, so it holds the standard deviation whenever the variance's holds the variance.
    """
    measured = variance(
        values,
        bounds=bounds,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        n=n,
        bits=bits,
        randomness=randomness,
    )
    value = math.sqrt(measured.value)

    def ends(level: float) -> tuple[float, float]:
        interval = measured.interval(level)
        assert interval is not None  # noqa: S101
        return math.sqrt(max(0.0, float(interval.low))), math.sqrt(float(interval.high))

    return replace(measured, value=value, mechanism=f"root of {measured.mechanism}", spread=spread_to(value, ends))


@dataclass(frozen=True, slots=True)
class VarianceMoments:
    """Noisy (count, sum, sum of squares) of t in [0, 1], and how each depends on the coordinates of the noise."""

    count: float
    sum: float
    squares: float
    by_noise: Floats  #: 3 rows: count, sum, squares; one column for each coordinate
    moved: Callable[[Ends], Ends]  #: by rounding: see `Rounding`

    @classmethod
    def of_cells(cls, cells: Floats) -> VarianceMoments:
        by_noise = np.array([[1.0, 1.0, 1.0], [0.0, 0.5, 1.0], [0.0, 0.0, 1.0]])
        count, total, squares = (by_noise @ cells).tolist()
        return cls(count, total, squares, by_noise, cells_moved)

    @classmethod
    def of_centred(cls, centred: Floats, tokens: int) -> VarianceMoments:
        # t = (1 + u) / 2 with u = c / steps; the coordinates are the sums of u and of 2 u^2, in steps.
        by_noise = np.array([[0.0, 0.0], [0.5, 0.0], [0.5, 0.125]])
        count, total, squares = (by_noise @ centred + tokens * np.array([1.0, 0.5, 0.25])).tolist()
        return cls(count, total, squares, by_noise, centred_moved)

    def variance(self, least_count: float) -> float:
        count = max(self.count, least_count)
        middle = min(max(self.sum / count, 0.0), 1.0)
        return min(max(self.squares / count - middle * middle, 0.0), 0.25)

    def ends(self, noise: Hiding, level: float, grid: Grid) -> tuple[float, float]:
        """The interval of variances of the numbers on `grid`; see `variance`."""
        few, many = (moved / grid.steps for moved in self.moved((0.0, 1.0)))
        low, high = Rounding(grid.steps, 1.0, self.moved).lengths(*self.variances(noise, level, (few, 0.25 + many)))
        return low * low * (grid.high - grid.low) ** 2, min(0.25, high * high) * (grid.high - grid.low) ** 2

    def variances(self, noise: Hiding, level: float, within: Ends) -> tuple[Ends, Ends]:
        """Return between which ends all variances and means lie that fit each other, as the total has them; see
        `variance`. Means are tried on a grid whose coarseness is charged. Any variance lies `within` these ends."""
        anything = within, (0.0, 1.0)
        if self.count <= 0:
            return anything
        ball = noise.ball(self.by_noise.shape[1], level)
        low_mean, high_mean = 0.0, 1.0
        for _ in range(2):  # the means that fit are cut finely again
            m, half = np.linspace(low_mean, high_mean, _MEANS), (high_mean - low_mean) / 2 / (_MEANS - 1)
            zero, one = np.zeros_like(m), np.ones_like(m)
            most = self.count + self._width(ball, one[:1], zero[:1], zero[:1])[0]
            fits = np.abs(self.sum - m * self.count) <= self._width(ball, -m, one, zero) + half * most
            if not fits.any():
                return anything  # nothing fits this noise: it was outside its ball
            m, zero, one = m[fits], zero[fits], one[fits]  # the others need no variances
            low_mean, high_mean = max(0.0, float(m[0]) - half), min(1.0, float(m[-1]) + half)
        # Around a tried mean within `half` of the true one, the mean squared distance is v to v + half^2.
        around = m * m * self.count - 2 * m * self.sum + self.squares
        low, high = zero + within[0], zero + within[1] + half * half
        for _ in range(8):
            width = np.maximum(
                self._width(ball, m * m - low, -2 * m, one),
                self._width(ball, m * m - high, -2 * m, one),
            )
            low = np.maximum(low, (around - width) / self.count)
            high = np.minimum(high, (around + width) / self.count)
        fits = low <= high
        if not fits.any():
            return anything  # nothing fits this noise: it was outside its ball
        return (float(low[fits].min()) - half * half, float(high[fits].max())), (low_mean, high_mean)

    def _width(self, ball: Ball, count: Floats, total: Floats, squares: Floats) -> Floats:
        # The most that noise in its ball can move count * count + total * sum + squares * squares, elementwise.
        return ball.most((self.by_noise.T @ np.stack([count, total, squares])).T)
