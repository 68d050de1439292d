"""PrivUnit: one locally private direction that stands for an owner's whole row or gradient.

Must stay true: every report lies on one public grid that is the same for all owners, and the coin's odds are priced
with a cap mass that is rounded down.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy import exact
from thebes.privacy.distributions import normal_quantile
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Pure
from thebes.privacy.mechanisms.local import coins
from thebes.privacy.mechanisms.local.cap import best_cap, depth_at
from thebes.privacy.mechanisms.local.numbers import finite
from thebes.privacy.mechanisms.local.shape import (
    Estimate,
    Floats,
    LocalMechanism,
    about,
    contributors_of,
    integers_within,
    whole_number,
)
from thebes.privacy.randomness import Randomness

Directions = NDArray[np.int16]

STEPS = 2**12  #: a report's largest coordinate; the others are rounded to whole multiples of 1 / STEPS of it
MOST_DIMENSIONS = 20_000
LARGEST_EPSILON = 200.0  #: more would change no report
_MASS_ERROR = Fraction(1, 10**9)  #: relative, far above the error of the incomplete beta function
_ROUNDING = 1 / (12 * STEPS**2)  # variance that the grid adds to a coordinate, at most
_BLOCK = 1 << 21  # coordinates drawn at once


class PrivUnit(LocalMechanism):
    """A whole row of `dimension` numbers, of length at most `radius`, as one report of dimension + 1 small integers.

    Protects the whole row among all rows of that length, up to epsilon (pure). Longer rows are shortened to the
    radius, so `radius` must be public. Mean and second moment of the rows are estimated without bias.

    How: the row x is lifted to u = (x, sign * sqrt(radius^2 - |x|^2)) / radius with a fair sign, a unit vector in D =
    dimension + 1 dimensions. With probability p the report's direction V is uniform on the cap {v: <v, u> >= h} of
    mass q, else uniform on the rest.

    Proof (Bhowmick et al. 2018, theorem 1): V's density takes two values, p / q and (1 - p) / (1 - q), so it differs
    between any two owners by a factor of at most p (1 - q) / ((1 - p) q) = e^epsilon. p is a coin of 64 bits, q is
    taken from the incomplete beta function and rounded down by one in 10^9 before the coin is chosen.

    Moments: by symmetry E V = m u and E V V' = c I + (s - c) u u' with m = E <V, u>, s = E <V, u>^2 and c = (1 - s) /
    (D - 1), hence V / m and (V V' - c I) / (s - c) are unbiased for u and u u'.

    What floating point can and cannot break. V is computed in floats from uniform words: its height by the inverse
    of the beta distribution, the rest of its direction by normal quantiles, then a reflection onto u. The floats
    reached that way differ between owners, so they never leave: the report is V divided by its largest coordinate
    and rounded to multiples of 1/4096, a set of points that is the same for everybody, whose cells are all fat (cubes
    on the faces of a cube). A float error of at most 2^-40 in a coordinate of V carries a direction into a cell only
    from within 2^-39 sqrt(D) of it. Since V's density lies between its two values everywhere, a cell's likelihoods
    for two owners differ by at most e^epsilon times the volume of the cell so widened over that of the cell so
    narrowed. The logarithm of that quotient is below `reserve`, about D^1.5 2^-24, which is charged: cap and coin
    spend epsilon - reserve. Uniform numbers keep 44 significant bits however small they are, so that tails are as
    fine as the middle. That the two quantile functions err by less than 2^-40 is tested, not proved; events that
    need more than 100 bits of chance do not occur. Running time is not hidden.
    """

    name = "privunit"
    delta = Decimal(0)

    def __init__(self, dimension: int, epsilon: exact.Number, *, radius: float = 1.0, aim: str = "mean") -> None:
        """`aim` "mean" or "second-moment" says for which of the two the cap is chosen; both can be had from either."""
        self.dimension = whole_number("dimension", dimension, 1, MOST_DIMENSIONS - 1)
        self.dimensions = self.dimension + 1
        self.epsilon = coins.declared_epsilon(epsilon)
        self.radius = float(exact.declared("radius", radius))
        if self.radius <= 0:
            raise Mistake("radius", "must be greater than 0")
        if aim not in ("mean", "second-moment"):
            raise Mistake("aim", "must be 'mean' or 'second-moment'")
        self.aim = aim
        self.reserve = Decimal(self.dimensions * (math.isqrt(self.dimensions) + 1)) / 2**24
        if 2 * self.reserve > self.epsilon:
            raise Mistake("epsilon", "is too small for so many dimensions")
        spent = self.epsilon - self.reserve
        self.cap = best_cap(self.dimensions, min(float(spent), LARGEST_EPSILON), second=aim == "second-moment")
        self._against = (1 - self._least_mass) / self._least_mass
        self.coin = coins.at_most(coins.WIDE.divide(coins.exponential(spent), coins.ratio(self._against)))
        hold = float(self.coin.probability)
        self.m, self.s = self.cap.first_moment(hold), self.cap.second_moment(hold)
        self.c = max(0.0, 1 - self.s) / (self.dimensions - 1)

    def __repr__(self) -> str:
        return f"PrivUnit({self.dimension}, epsilon={self.epsilon}, radius={self.radius}, aim={self.aim!r})"

    @property
    def _least_mass(self) -> Fraction:
        return Fraction(self.cap.mass) * (1 - _MASS_ERROR)

    def loss(self) -> Pure:
        odds = coins.odds_of(self.coin) * self._against
        return Pure(min(self.epsilon, coins.loss_of(odds, self.epsilon - self.reserve) + self.reserve))

    def parameters(self) -> dict[str, Any]:
        return {
            "dimension": self.dimension,
            "radius": self.radius,
            "aim": self.aim,
            "p": float(self.coin.probability),
            "cap_height": self.cap.height,
            "cap_mass": self.cap.mass,
            "m": self.m,
            "s": self.s,
        }

    # --- at the owner ---------------------------------------------------------------------------------------

    def perturb(self, values: ArrayLike, randomness: Randomness) -> Directions:
        """One report for each row of `dimension` finite numbers."""
        rows = finite("values", values, width=self.dimension)
        reports = np.empty((rows.shape[0], self.dimensions), dtype=np.int16)
        size = max(1, _BLOCK // self.dimensions)
        for start in range(0, rows.shape[0], size):
            some = rows[start : start + size]
            reports[start : start + size] = self.joined(some, self.ahead(len(some), randomness))
        return reports

    def ahead(self, count: int, randomness: Randomness) -> Floats:
        """Draw what `count` reports need and no row decides: each one's sign, and its direction as it would lie around
        the first axis. A line of it serves once."""
        drawn = np.empty((count, self.dimensions + 1))
        drawn[:, 0] = 1.0 - 2.0 * (randomness.words(count) & np.uint64(1)).astype(np.float64)
        inside = coins.toss(randomness, self.coin, count)
        mass = np.where(inside, self.cap.mass, 1 - self.cap.mass)
        depth = depth_at(self.dimensions, uniforms(randomness, count) * mass)
        drawn[:, 1] = np.where(inside, 1 - 2 * depth, 2 * depth - 1)
        around = normals(randomness, count * (self.dimensions - 1)).reshape(count, self.dimensions - 1)
        around *= (2 * np.sqrt(depth * (1 - depth)) / np.sqrt(np.sum(around * around, axis=1)))[:, None]
        drawn[:, 2:] = around
        return drawn

    def joined(self, rows: Floats, drawn: Floats) -> Directions:
        """`perturb` of finite rows with what was drawn ahead."""
        return _on_grid(self._turned(self.lift(rows, drawn[:, 0]), drawn[:, 1:]))

    def lift(self, rows: Floats, sign: Floats) -> Floats:
        """Each row as a unit vector with one coordinate more, of this sign."""
        largest = np.max(np.abs(rows), axis=1, keepdims=True)
        scaled = rows / np.where(largest > 0, largest, 1.0)  # so that squares neither overflow nor vanish
        length = np.sqrt(np.sum(scaled * scaled, axis=1, keepdims=True))
        with np.errstate(over="ignore"):
            share = np.minimum(length * (largest / self.radius), 1.0)
        unit = np.empty((rows.shape[0], self.dimensions))
        unit[:, :-1] = scaled * (share / np.where(length > 0, length, 1.0))
        unit[:, -1] = sign * np.sqrt(np.clip((1 - share) * (1 + share), 0, None))[:, 0]
        return unit

    def _turned(self, own: Floats, drawn: Floats) -> Floats:
        # Reflect the first axis onto -side * own, then turn round: stable wherever `own` points.
        side = np.where(own[:, 0] < 0, -1.0, 1.0)
        mirror = own.copy()
        mirror[:, 0] += side
        along = np.sum(mirror * drawn, axis=1) / (1 + np.abs(own[:, 0]))
        return np.asarray(-side[:, None] * (drawn - along[:, None] * mirror))

    # --- at the server --------------------------------------------------------------------------------------

    def check(self, reports: ArrayLike) -> Directions:
        """Rows of dimension + 1 whole numbers whose largest absolute value is exactly `STEPS`."""
        rows = integers_within("reports", reports, -STEPS, STEPS, width=self.dimensions)
        if (np.max(np.abs(rows), axis=1) != STEPS).any():
            raise Mistake("reports", f"must reach {STEPS} or -{STEPS} in each row")
        return rows.astype(np.int16)

    def directions(self, reports: ArrayLike) -> Floats:
        """Each report as a unit vector in dimension + 1 dimensions."""
        rows = self.check(reports).astype(np.float64)
        rows /= np.sqrt(np.sum(rows * rows, axis=1, keepdims=True))
        return rows

    def decode(self, reports: ArrayLike) -> Floats:
        """Each report as an unbiased row in the rows' own units. One alone says next to nothing."""
        return np.asarray(self.directions(reports)[:, :-1] * (self.radius / self.m))

    def estimate(self, reports: ArrayLike) -> Estimate:
        """Unbiased mean of the contributors' (shortened) rows, coordinate by coordinate."""
        rows = self.decode(reports)
        n = rows.shape[0]
        # What the reports scatter includes the people's own differences: it does not understate the noise.
        worst = self.radius**2 * (max(self.c, self.s - self.m**2) / self.m**2 + _ROUNDING)
        noise = np.minimum(rows.var(axis=0, ddof=1), worst) if n > 1 else np.full(self.dimension, worst)
        return about(rows.mean(axis=0), np.sqrt(noise / n), n)

    def second_moment(self, reports: ArrayLike) -> Estimate:
        """Unbiased mean of x x' over the contributors' (shortened) rows; symmetric, but not always positive."""
        seen = self.directions(reports)[:, :-1]
        n, scale = seen.shape[0], self.radius**2 / (self.s - self.c)
        squares = seen * seen
        mean = seen.T @ seen / n
        spread = np.clip(squares.T @ squares / n - mean * mean, 0, None) if n > 1 else np.ones_like(mean)
        value = (mean - self.c * np.eye(self.dimension)) * scale
        return about(value, np.sqrt(spread / n) * scale, n)

    def second_moment_error(self, square: float) -> float:
        """Return the variance that one report leaves in an entry of the second moment, on average over all entries,
        where the row's squared length is `square`.

        The squares of all entries of V V' but the last row's and column's add up to (1 - L^2)^2 with L the last
        coordinate of V: L = T l + sqrt(1 - T^2) W, where l is that of u and W is uniform across u.
        """
        d, fourth = self.dimension, self.cap.fourth_moment(float(self.coin.probability))
        share = min(square / self.radius**2, 1.0)
        last, across = 1 - share, share / d
        second_last = self.s * last + (1 - self.s) * across
        fourth_last = fourth * last**2 + 6 * (self.s - fourth) * last * across
        fourth_last += 3 * (1 - 2 * self.s + fourth) * share**2 / (d * (d + 2))
        lean = self.s - self.c
        known = d * self.c**2 + 2 * self.c * lean * share + (lean * share) ** 2
        return float((1 - 2 * second_last + fourth_last - known) * (self.radius**2 / lean / d) ** 2)

    def expected_error(self, contributors: int) -> float:
        """Expected squared distance of the estimated mean row at the worst true rows, in squared units."""
        at_zero = self.dimension * self.c / self.m**2
        at_radius = at_zero + (self.s - self.c) / self.m**2 - 1
        return self.radius**2 * (max(at_zero, at_radius) + self.dimension * _ROUNDING) / contributors_of(contributors)


def uniforms(randomness: Randomness, count: int) -> Floats:
    """Numbers of (0, 1], uniform up to their last bit, with 44 significant bits at least however small they are."""
    return _fractions(randomness, randomness.words(count), 64)


def normals(randomness: Randomness, count: int) -> Floats:
    """Standard normal numbers by the inverse of the distribution, as fine in the tails as in the middle; never 0."""
    words = randomness.words(count)
    size = np.maximum(-normal_quantile(_fractions(randomness, words >> np.uint64(1), 63) / 2), 2.0**-60)
    return np.asarray(np.where(words & np.uint64(1), size, -size), dtype=np.float64)


def _fractions(randomness: Randomness, words: NDArray[np.uint64], bits: int) -> Floats:
    numbers = words.astype(np.float64)
    small = np.flatnonzero(words < np.uint64(2**44))
    numbers[small] += (randomness.words(small.size).astype(np.float64) + 0.5) * 2.0**-64
    return numbers * 2.0**-bits


def _on_grid(vectors: Floats) -> Directions:
    largest = np.max(np.abs(vectors), axis=1, keepdims=True)
    return np.asarray(np.rint(vectors * (STEPS / largest)), dtype=np.int16)
