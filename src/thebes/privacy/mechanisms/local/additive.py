"""Noise added to one number: Laplace (pure) and Gaussian (with delta), both whole numbers on the public grid."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from thebes.privacy import exact
from thebes.privacy.accounting import gaussian
from thebes.privacy.events import Event, GaussianEvent, LaplaceEvent
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.losses import Approximate, Pure
from thebes.privacy.mechanisms.local.numbers import NumberMechanism, Positions
from thebes.privacy.mechanisms.local.shape import Floats, Integers
from thebes.privacy.randomness import Randomness

_LARGEST_SCALE = 2.0**50
_FARTHEST = 2**60  # where no sampler clamps yet


class _Additive(NumberMechanism):
    scale: float

    def _reach(self, distance: float) -> None:
        # Reports are clamped where less than one in 2^64 lies: post-processing, so that a server can refuse the rest.
        far = min(math.ceil(distance), _FARTHEST)
        self.least, self.most = -far, self.grid.steps + far

    def _shares(self, reports: Integers) -> Floats:
        return np.asarray(reports / self.grid.steps, dtype=np.float64)

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"scale": self.scale * self.grid.step}


class LocalLaplace(_Additive):
    """The value plus discrete Laplace noise of scale (high - low) / epsilon (Tiresias, eq. 4.5).

    Protects the value among all of [low, high], up to epsilon.

    Proof: P(noise = k) is proportional to exp(-|k| / scale) exactly, two values differ by at most `steps`, so a
    report's likelihoods differ by a factor of at most e^(steps / scale) (Dwork et al. 2006; Ghosh et al. 2009).
    """

    name = "local-laplace"

    def __init__(self, low: float, high: float, epsilon: exact.Number, *, bits: int = 20) -> None:
        super().__init__(low, high, epsilon, bits=bits)
        self.scale = float(Fraction(self.grid.steps) / Fraction(self.epsilon))
        while Fraction(self.scale) * Fraction(self.epsilon) < self.grid.steps:
            self.scale = math.nextafter(self.scale, math.inf)
        if self.scale > _LARGEST_SCALE:
            raise Mistake("bits", "are too many for so small an epsilon")
        self._reach(45 * self.scale)

    def loss(self) -> Pure:
        spent = Fraction(self.grid.steps) / Fraction(self.scale)
        if spent > Fraction(self.epsilon):
            raise Fault("the scale of local Laplace noise exceeds its epsilon")
        return Pure(min(self.epsilon, exact.loss_of(float(spent))))

    def event(self) -> Event:
        return LaplaceEvent(self.scale / self.grid.steps, self.grid.steps)

    def _draw(self, steps: Integers, randomness: Randomness) -> Integers:
        return np.clip(randomness.laplace(steps, scale=self.scale), self.least, self.most)

    def _moment(self, share: Positions, k: int) -> Positions:
        r, left = math.exp(-1 / self.scale), -math.expm1(-1 / self.scale)
        in_steps = {2: 2 * r / left**2, 3: 0.0, 4: 2 * r * (1 + 10 * r + r * r) / left**4}[k]
        found: Positions = in_steps / self.grid.steps**k + 0 * share
        return found


class LocalGaussian(_Additive):
    """The value plus discrete Gaussian noise with the least scale that keeps (epsilon, delta).

    Protects the value among all of [low, high], up to (epsilon, delta). (Tiresias' eq. 4.6 has the squared range and
    holds for epsilon below 1 only.)

    Proof: the continuous mechanism is (epsilon, delta)-DP exactly where Balle & Wang's theorem 8 (2018) says. The
    discrete one's delta exceeds its by at most `slack` (`accounting.gaussian.grid_slack`), two values being at most
    `steps` apart.
    """

    name = "local-gaussian"

    def __init__(self, low: float, high: float, epsilon: exact.Number, delta: exact.Number, *, bits: int = 30) -> None:
        super().__init__(low, high, epsilon, delta, bits=bits)
        if not self.delta:
            raise Mistake("delta", "must be greater than 0 for Gaussian noise")
        e, d = self._epsilon_below, float(self.delta) * (1 - 1e-15)
        reserve = 2 * self._slack(gaussian.ratio_for(e, d))
        if reserve >= d:
            raise Mistake("bits", "are too few for so small a delta")
        self.ratio = gaussian.ratio_for(e, d - reserve)
        for _ in range(20):  # `delta_of` is rounded up and jumps in its last digits: widen past such a jump
            if gaussian.delta_of(self.ratio, e) + reserve <= d:
                break
            self.ratio *= 1 + 1e-9
        self.scale = self.ratio * self.grid.steps
        self.slack = self._slack(self.ratio)
        if not 1000 <= self.scale <= _LARGEST_SCALE:
            raise Mistake("bits", "do not suit this epsilon and delta")
        if self._spent() > float(self.delta):
            raise Fault("the scale of local Gaussian noise exceeds its delta")
        self._reach(9.5 * self.scale)

    def loss(self) -> Approximate:
        return Approximate(self.epsilon, min(self.delta, exact.loss_of(self._spent(), exact.DELTA_STEP)))

    def event(self) -> Event:
        return GaussianEvent(self.ratio, self.slack)

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"ratio": self.ratio}

    @property
    def _epsilon_below(self) -> float:
        return math.nextafter(float(self.epsilon), 0.0)

    def _slack(self, ratio: float) -> float:
        return gaussian.grid_slack(ratio * self.grid.steps, self.grid.steps)

    def _spent(self) -> float:
        return gaussian.delta_of(self.ratio, self._epsilon_below) + self.slack

    def _draw(self, steps: Integers, randomness: Randomness) -> Integers:
        return np.clip(randomness.gaussian(steps, scale=self.scale), self.least, self.most)

    def _moment(self, share: Positions, k: int) -> Positions:
        return {2: 1.0, 3: 0.0, 4: 3.0}[k] * float(self.ratio) ** k + 0 * share
