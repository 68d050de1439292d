"""The private correlation (Pearson's) of two columns of numbers in public bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.grid import Grid
from thebes.privacy.measurement import Floats, Measurement
from thebes.privacy.mechanisms.additive import Hiding, LeastNoise, stated
from thebes.privacy.mechanisms.columns import grid_of
from thebes.privacy.mechanisms.count import counted
from thebes.privacy.mechanisms.mean import spread_to
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness
from thebes.privacy.stability import BernsteinProducts, Change

#: coefficients of 1, t and t^2 in the three cells of one number
_POWERS = np.array([[1.0, 1.0, 1.0], [0.0, 0.5, 1.0], [0.0, 0.0, 1.0]])
#: by so many steps rounding may move a row's moment around any place, for each power in it: a number by 2 (half a step
#: on its grid and 3/2 in the cells), its squared distance by 6, a product of distances by 5
_ROUNDED = 4


def correlation(
    values: ArrayLike,
    others: ArrayLike,
    *,
    bounds: Any,
    other_bounds: Any,
    epsilon: exact.Number,
    delta: exact.Number = 0,
    adjacency: str | Adjacency | Change,
    bits: int = 14,
    randomness: Randomness,
) -> Measurement:
    """Pearson's correlation of `values` and `others`, row by row, each clamped to its bounds; between -1 and 1.

    Every row hands out tokens to nine cells (`BernsteinProducts`), all noised at once with the whole epsilon: number
    of rows, sums, sums of squares and the sum of products are linear in them. Without any spread the answer is 0.

    The interval: with the stated probability the nine noises lie in a ball, and then every moment around the noisy
    means, whichever these are, is off by at most radius times the dual norm of its coefficients. The correlation that
    these ranges allow is bounded term by term. It speaks of the clamped values, and of the noise only, not of sampling.
    """
    grids = grid_of(bounds, bits), grid_of(other_bounds, bits)
    first, change = counted(values, adjacency=adjacency, n=None)
    second, _ = counted(others, adjacency=adjacency, n=None)
    if first.size != second.size:
        raise Mistake("others", "must have as many numbers as values")
    transformation = BernsteinProducts(*grids)
    noise = LeastNoise(epsilon, delta).noise(transformation.sensitivity(change))
    moments = ProductMoments.of_cells(noise.add(transformation.total(np.stack([first, second], axis=1)), randomness))
    value = moments.correlation(transformation.tokens)
    return Measurement(
        value=value,
        event=noise.event,
        adjacency=change.adjacency,
        mechanism=f"correlation with {noise.kind} noise",
        parameters={**stated(noise, randomness, unit=1 / transformation.tokens), "rows": "private"},
        spread=spread_to(value, lambda level: moments.ends(noise, level, grids)),
        simulated=randomness.simulated,
    )


@dataclass(frozen=True, slots=True)
class ProductMoments:
    """Noisy sums of products of powers of two numbers in [0, 1]: `of(i, j)` is that of t^i u^j, in tokens."""

    cells: Floats  #: 3 by 3

    @classmethod
    def of_cells(cls, cells: Floats) -> ProductMoments:
        return cls(np.asarray(cells, dtype=np.float64).reshape(3, 3))

    def of(self, weights: Floats) -> float:
        """The sum that has these weights (3 by 3) of t^i u^j."""
        return float((_weights_of_cells(weights) * self.cells).sum())

    def _means(self, tokens: float) -> tuple[float, float, float]:
        count = max(self.of(_monomial(0, 0)), tokens)
        one, other = self.of(_monomial(1, 0)) / count, self.of(_monomial(0, 1)) / count
        return count, min(max(one, 0.0), 1.0), min(max(other, 0.0), 1.0)

    def correlation(self, tokens: float) -> float:
        """The correlation; a noisy count below one row (`tokens`) stands for one row."""
        count, one, other = self._means(tokens)
        spread = [self.of(_about(one, other, *powers)) / count for powers in ((2, 0), (0, 2), (1, 1))]
        if min(spread[0], spread[1]) <= 0:
            return 0.0
        return min(max(spread[2] / math.sqrt(spread[0] * spread[1]), -1.0), 1.0)

    def ends(self, noise: Hiding, level: float, grids: tuple[Grid, Grid]) -> tuple[float, float]:
        """Bounds of the exact correlation, with at least the probability `level`."""
        count, one, other = self._means(grids[0].steps * grids[1].steps)
        ball = noise.ball(9, level)

        def bounds(i: int, j: int, most: float) -> tuple[float, float]:
            weights = _about(one, other, i, j)
            middle, width = self.of(weights), float(ball.most(_weights_of_cells(weights).reshape(9)))
            width += _ROUNDED * (i + j) / min(grid.steps for grid in grids) * most
            return middle - width, middle + width

        fewest, most = bounds(0, 0, count)
        if fewest <= 0:
            return -1.0, 1.0
        shift = [max(abs(end) for end in bounds(*powers, most)) for powers in ((1, 0), (0, 1))]
        # What the noisy means are off by is taken from the spreads: N var = S2 - S1^2 / N, N cov = S11 - S1 T1 / N.
        variances = [
            (max(0.0, low - off * off / fewest), high)
            for (low, high), off in zip((bounds(2, 0, most), bounds(0, 2, most)), shift, strict=True)
        ]
        low, high = bounds(1, 1, most)
        low, high = low - shift[0] * shift[1] / fewest, high + shift[0] * shift[1] / fewest
        least, largest = (math.sqrt(variances[0][end]) * math.sqrt(max(0.0, variances[1][end])) for end in (0, 1))
        if least <= 0:
            return -1.0, 1.0
        return (
            max(-1.0, low / (least if low < 0 else largest)),
            min(1.0, high / (least if high > 0 else largest)),
        )


def _monomial(i: int, j: int) -> Floats:
    weights = np.zeros((3, 3))
    weights[i, j] = 1.0
    return weights


def _about(one: float, other: float, i: int, j: int) -> Floats:
    """Weights of t^a u^b in (t - one)^i (u - other)^j."""

    def around(centre: float, power: int) -> list[float]:
        return {0: [1.0, 0.0, 0.0], 1: [-centre, 1.0, 0.0], 2: [centre * centre, -2 * centre, 1.0]}[power]

    return np.outer(around(one, i), around(other, j))


def _weights_of_cells(weights: Floats) -> Floats:
    """What each of the nine cells counts for in a sum of products of powers."""
    return np.asarray(_POWERS.T @ weights @ _POWERS)
