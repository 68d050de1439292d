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
from thebes.privacy.mechanisms.rounding import Ends, Rounding
from thebes.privacy.mechanisms.summed_noise import weighed_width
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness
from thebes.privacy.stability import Change
from thebes.privacy.transformations.moments import BernsteinProducts

#: coefficients of 1, t and t^2 in the three cells of one number
_POWERS = np.array([[1.0, 1.0, 1.0], [0.0, 0.5, 1.0], [0.0, 0.0, 1.0]])


def correlation(
    values: ArrayLike,
    others: ArrayLike,
    *,
    bounds: Any,
    other_bounds: Any,
    epsilon: exact.Number,
    delta: exact.Number = 0,
    adjacency: str | Adjacency | Change,
    bits: int = 16,
    randomness: Randomness,
) -> Measurement:
    """Pearson's correlation of `values` and `others`, row by row, each clamped to its bounds; between -1 and 1.

    Every row hands out tokens to nine cells (`BernsteinProducts`), all noised at once with the whole epsilon: number
    of rows, sums, sums of squares and the sum of products are linear in them. Without any spread the answer is 0.

    The interval: at the true means, each of six weighed sums of the nine noises (number of rows; distances from the two
    means, their squares and their product) stays within its own width, all of them with the stated probability (union
    bound). What fits the first three bounds the means, and over all means that are left, the other three bound both
    spreads and what the columns have in common, as the cells have them; `Rounding` says how far those of the clamped
    values lie from these, and the correlation is bounded by all of it. It speaks of the clamped values, and of the
    noise only, not of sampling.
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
        """Bounds of the exact correlation, with at least the probability `level`; see `correlation`."""
        each = 1 - (1 - level) / 6
        anywhere = (0.0, 1.0)

        def width(i: int, j: int, means: tuple[Ends, Ends]) -> float:
            # The larger a coefficient, the less concentrated the sum: the largest of each, over these means, will do.
            weights = np.outer(_largest(i, means[0]), _largest(j, means[1])).reshape(9)
            return weighed_width(noise, weights, each)

        count = self.of(_monomial(0, 0))
        most = count + width(0, 0, (anywhere, anywhere))
        if count <= 0:
            return -1.0, 1.0
        means = anywhere, anywhere
        shares = self.of(_monomial(1, 0)) / count, self.of(_monomial(0, 1)) / count
        for _ in range(3):
            off = width(1, 0, means) / count, width(0, 1, means) / count
            means = _within(means[0], shares[0], off[0]), _within(means[1], shares[1], off[1])
        rounding = Rounding(grids[0].steps, most), Rounding(grids[1].steps, most)
        lengths: list[Ends] = []
        for place, powers in enumerate(((2, 0), (0, 2))):
            ends, share = means[place], shares[place]
            slack = width(*powers, means)
            nearest = min(max(share, ends[0]), ends[1])  # around there the squares are least, and most around an end
            own = [self.of(_about(mean, mean, *powers)) for mean in (nearest, *ends)]
            lengths.append(rounding[place].lengths((own[0] - slack, max(own) + slack), ends))
        one, other = lengths
        common = [self.of(_about(first, second, 1, 1)) for first in means[0] for second in means[1]]
        here, there = (made.off for made in rounding)
        slack = width(1, 1, means) + here * (other[1] + there) + there * (one[1] + here) + here * there
        low, high = min(common) - slack, max(common) + slack
        least, largest = one[0] * other[0], one[1] * other[1]
        if least <= 0:
            return -1.0, 1.0
        found = low / (least if low < 0 else largest), high / (least if high > 0 else largest)
        return min(max(found[0], -1.0), 1.0), min(max(found[1], -1.0), 1.0)


def _within(means: Ends, share: float, off: float) -> Ends:
    """Return what of an interval lies within `off` of `share`; all of it where nothing does (noise beyond its
    width)."""
    low, high = max(means[0], share - off), min(means[1], share + off)
    return (low, high) if low <= high else means


def _largest(power: int, means: Ends) -> Floats:
    """The largest size of each of a number's three cells in (t - mean)^power, over an interval of means."""
    tried = [*means, min(max(0.5, means[0]), means[1])]  # m^2 - m is farthest from 0 there
    return np.asarray(np.max([np.abs(_POWERS.T @ _around(mean, power)) for mean in tried], axis=0))


def _monomial(i: int, j: int) -> Floats:
    weights = np.zeros((3, 3))
    weights[i, j] = 1.0
    return weights


def _around(centre: float, power: int) -> Floats:
    """The coefficients of 1, t and t^2 in (t - centre)^power."""
    return np.array({0: [1.0, 0.0, 0.0], 1: [-centre, 1.0, 0.0], 2: [centre * centre, -2 * centre, 1.0]}[power])


def _about(one: float, other: float, i: int, j: int) -> Floats:
    """Weights of t^a u^b in (t - one)^i (u - other)^j."""
    return np.outer(_around(one, i), _around(other, j))


def _weights_of_cells(weights: Floats) -> Floats:
    """Return what each of the nine cells counts for in a sum of products of powers."""
    return np.asarray(_POWERS.T @ weights @ _POWERS)
