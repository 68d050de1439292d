"""Laplace and Gaussian noise on whole numbers of known sensitivity: the makers behind `transformation >> noise`.

Must stay true: the scale that is drawn is never below sensitivity times the ratio that is priced, and everything
that decides it (sensitivity, epsilon, delta, number of coordinates) is public.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thebes.privacy import exact
from thebes.privacy.accounting import gaussian
from thebes.privacy.distributions import gamma_quantile, normal_quantile
from thebes.privacy.events import Event, GaussianEvent, LaplaceEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.measurement import Floats, Measurement
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness
from thebes.privacy.samplers import LARGEST_SCALE
from thebes.privacy.stability import LARGEST_TOTAL, Sensitivity

Integers = NDArray[np.int64]

#: Gaussian noise is drawn on a grid this much finer than needed for delta: its slack takes this share of delta.
SLACK_SHARE = Fraction(1, 1000)
LARGEST_EPSILON = 700  #: of Gaussian noise, so that e^epsilon is a number
#: No refinement may leave room for fewer rows than this: totals beyond the room are clamped.
ROWS = 2**28


@dataclass(frozen=True, slots=True)
class Ball:
    """The ball in which a vector of noise lies at a stated probability: within `radius` of 0 in L1 (`norm` 1) or L2
    (2)."""

    radius: float
    norm: int

    def most(self, coefficients: Floats) -> Floats:
        """The most that noise in it can move a weighed sum of the coordinates; the weights are in the last axis."""
        size = np.abs(coefficients)
        dual = size.max(axis=-1) if self.norm == 1 else np.sqrt((size * size).sum(axis=-1))
        return np.asarray(self.radius * dual)


class Hiding(Protocol):
    """The noise that hides totals: one noise, or several that were added independently of each other (`Several`).
    Symmetric and log-concave; every statement holds with at least the probability `level`."""

    @property
    def kind(self) -> str: ...

    def width(self, level: float) -> float:
        """The noise on one coordinate lies within this of 0."""
        ...

    def pair_width(self, share: float, level: float) -> float:
        """With a and b two coordinates' noises, (1 - share) a - share b lies within this of 0."""
        ...

    def ball(self, size: int, level: float) -> Ball:
        """Return the ball in which the noises of `size` coordinates lie together."""
        ...


@dataclass(frozen=True, slots=True)
class Additive:
    """Noise of one kind and scale, in steps of the totals' grid. `finer` steps of the noise make one of the totals."""

    kind: str  #: "laplace" or "gaussian"
    drawn_scale: float  #: in steps of the noise's own grid
    finer: int
    event: Event

    @property
    def scale(self) -> float:
        return self.drawn_scale / self.finer

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on one coordinate (from above for Laplace noise on few steps)."""
        return self.scale * math.sqrt(2) if self.kind == "laplace" else self.scale

    def width(self, level: float) -> float:
        """The noise on one coordinate lies within this of 0 with probability at least `level`."""
        if self.kind == "laplace":
            # P(|k| > m) = 2 q^(m+1) / (1+q) with q = exp(-1/scale), in steps of the noise's own grid; the least such
            # whole m, cautious in the last bit.
            q = math.exp(-1 / self.drawn_scale)
            steps = self.drawn_scale * math.log(2 / ((1 + q) * (1 - level))) * (1 + 1e-12)
            return max(0.0, math.ceil(steps) - 1.0) / self.finer
        # Half a step of the fine grid is what separates rounded from continuous noise.
        return (self.drawn_scale * float(normal_quantile((1 + level) / 2)) + 0.5) / self.finer

    def pair_width(self, share: float, level: float) -> float:
        """See `Hiding`. One step is added for noise in whole steps."""
        p, q = max(share, 1 - share), min(share, 1 - share)
        if self.kind == "gaussian":
            return self.width(level) * math.hypot(p, q)

        def beyond(y: float) -> float:
            if p - q < 1e-3:  # both as wide as the wider one: the formula below loses its digits here
                return (1 + y / (2 * p)) * math.exp(-y / p)
            return (p * p * math.exp(-y / p) - (q * q * math.exp(-y / q) if q > 0 else 0.0)) / (p * p - q * q)

        near, far = 0.0, -math.log(1 - level) + 1e-9
        for _ in range(60):
            middle = (near + far) / 2
            near, far = (middle, far) if beyond(middle) > 1 - level else (near, middle)
        return far * self.scale + 1

    def ball(self, size: int, level: float) -> Ball:
        """See `Hiding`. |discrete Laplace| is stochastically at most |continuous| + 1, and the sum of |continuous| is
        Gamma(size)."""
        if self.kind == "laplace":
            return Ball(self.scale * gamma_quantile(size, level) + size, 1)
        return Ball(self.scale * math.sqrt(2 * gamma_quantile(size / 2, level)) + math.sqrt(size) / self.finer, 2)

    def add(self, totals: Integers, randomness: Randomness) -> Floats:
        """Noised totals, in the totals' own steps. Clamping to what fits into 64 bits comes before the noise."""
        room = LARGEST_TOTAL // self.finer
        fine = np.clip(totals, -room, room) * self.finer
        draw = randomness.laplace if self.kind == "laplace" else randomness.gaussian
        return draw(fine, scale=self.drawn_scale).astype(np.float64) / self.finer

    def drawn(self, shape: tuple[int, ...], randomness: Randomness) -> Integers:
        """Noise alone, in steps of its own grid, for `joined`: many draws at once, before there are totals."""
        draw = randomness.laplace if self.kind == "laplace" else randomness.gaussian
        return draw(np.zeros(shape, dtype=np.int64), scale=self.drawn_scale)

    def joined(self, totals: Integers, drawn: Integers) -> Floats:
        """Return what `add` gives, with noise that was drawn before and serves once. Samplers stop at 2^61; of scales
        they take, noise gets there less than once in e^2000."""
        room = LARGEST_TOTAL // self.finer
        return (np.clip(totals, -room, room) * self.finer + drawn).astype(np.float64) / self.finer


@dataclass(frozen=True, slots=True)
class Laplace:
    """Discrete Laplace noise (the two-sided geometric mechanism) of scale L1 sensitivity / epsilon, rounded up.

    Pure epsilon: the ratio of two neighbouring probabilities of any vector of whole numbers is at most
    exp(L1 distance / scale). Source: Ghosh, Roughgarden & Sundararajan 2009; Dwork, McSherry, Nissim & Smith 2006.
    """

    epsilon: Decimal

    def __init__(self, epsilon: exact.Number) -> None:
        object.__setattr__(self, "epsilon", exact.epsilon(epsilon))

    def noise(self, sensitivity: Sensitivity) -> Additive:
        ratio = exact.scale_of(1, self.epsilon)
        scale = _product_up(ratio, sensitivity.l1)
        if scale > LARGEST_SCALE:
            raise Mistake("epsilon", "is too small for bounds cut this finely; use fewer bits")
        return Additive("laplace", scale, 1, LaplaceEvent(ratio, sensitivity.l1))

    def release(
        self, totals: Integers, *, sensitivity: Sensitivity, adjacency: Adjacency, randomness: Randomness
    ) -> Measurement:
        return released(totals, noise=self.noise(sensitivity), adjacency=adjacency, randomness=randomness)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Discrete Gaussian noise with the least analytic ratio for (epsilon, delta), for any epsilon.

    The ratio is that of continuous noise (Balle & Wang 2018, theorem 8) at delta less the slack; the slack pays for
    drawing on a grid (proof at `gaussian.grid_slack`), which is refined until it is at most delta / 1000. As zCDP no
    slack is needed: 1 / (2 ratio^2) holds for the discrete Gaussian itself (Canonne, Kamath & Steinke 2020,
    theorem 14).
    """

    epsilon: Decimal
    delta: Decimal

    def __init__(self, epsilon: exact.Number, delta: exact.Number) -> None:
        object.__setattr__(self, "epsilon", exact.epsilon(epsilon))
        object.__setattr__(self, "delta", exact.delta(delta))
        if self.delta < exact.DELTA_STEP:
            raise Mistake("delta", "must be at least 1e-18 for Gaussian noise")

    def noise(self, sensitivity: Sensitivity) -> Additive:
        if self.epsilon > LARGEST_EPSILON:
            raise Mistake("epsilon", "is too large for Gaussian noise; Laplace noise serves any epsilon")
        slack = float(self.delta) * float(SLACK_SHARE)
        ratio = gaussian.ratio_for(
            math.nextafter(float(self.epsilon), 0), math.nextafter(float(self.delta) - slack, 0) * (1 - 1e-15)
        )
        scale = _product_up(ratio, sensitivity.l2)
        finer = 1
        farthest = min(sensitivity.l1, math.sqrt(sensitivity.coordinates) * sensitivity.l2)  # in L1
        while (charged := gaussian.grid_slack(scale * finer, farthest * finer)) > slack or scale * finer < 2**10:
            finer *= 2
            if finer * sensitivity.l2 * ROWS > LARGEST_TOTAL:
                many = f"{sensitivity.coordinates:,} numbers"
                raise Mistake("delta", f"is too small for Gaussian noise on {many}; take a larger one")
        if scale * finer > LARGEST_SCALE:
            raise Mistake("epsilon", "is too small for bounds cut this finely; use fewer bits")
        return Additive("gaussian", scale * finer, finer, GaussianEvent(ratio, charged))

    def release(
        self, totals: Integers, *, sensitivity: Sensitivity, adjacency: Adjacency, randomness: Randomness
    ) -> Measurement:
        return released(totals, noise=self.noise(sensitivity), adjacency=adjacency, randomness=randomness)


@dataclass(frozen=True, slots=True)
class LeastNoise:
    """Laplace noise or, where delta allows it and its standard deviation is smaller, Gaussian noise.

    The choice depends on public things only: epsilon, delta and the sensitivity.
    """

    epsilon: Decimal
    delta: Decimal

    def __init__(self, epsilon: exact.Number, delta: exact.Number) -> None:
        object.__setattr__(self, "epsilon", exact.epsilon(epsilon))
        object.__setattr__(self, "delta", exact.delta(delta))

    def noise(self, sensitivity: Sensitivity) -> Additive:
        laplace = Laplace(self.epsilon).noise(sensitivity)
        if self.delta < exact.DELTA_STEP:
            return laplace
        try:
            smooth = Gaussian(self.epsilon, self.delta).noise(sensitivity)
        except Mistake:  # such a delta buys no Gaussian noise here
            return laplace
        return smooth if smooth.deviation < laplace.deviation else laplace

    def release(
        self, totals: Integers, *, sensitivity: Sensitivity, adjacency: Adjacency, randomness: Randomness
    ) -> Measurement:
        return released(totals, noise=self.noise(sensitivity), adjacency=adjacency, randomness=randomness)


def released(totals: Integers, *, noise: Additive, adjacency: Adjacency, randomness: Randomness) -> Measurement:
    """Noised totals with the event to pay for. The spread holds for each coordinate by itself."""
    return Measurement(
        value=noise.add(totals, randomness),
        event=noise.event,
        adjacency=adjacency,
        mechanism=noise.kind,
        parameters=stated(noise, randomness),
        spread=spread_of(noise),
        simulated=randomness.simulated,
    )


def stated(noise: Additive, randomness: Randomness, *, unit: float = 1.0) -> dict[str, object]:
    """Return what a certificate says about the noise; `unit` is what one step is worth."""
    return {"noise": noise.kind, "scale": noise.scale * unit, "drawn_by": randomness.drawn_by}


def spread_of(noise: Additive, *, unit: float = 1.0, beside: float = 0.0) -> Callable[[float], tuple[float, float]]:
    """The two-sided spread of one coordinate; `beside` is what else may have moved the answer (rounding)."""

    def spread(level: float) -> tuple[float, float]:
        width = noise.width(level) * unit + beside
        return width, width

    return spread


def _product_up(ratio: float, sensitivity: float) -> float:
    exactly = Fraction(ratio) * Fraction(sensitivity)
    nearest = float(exactly)
    return nearest if Fraction(nearest) >= exactly else math.nextafter(nearest, math.inf)
