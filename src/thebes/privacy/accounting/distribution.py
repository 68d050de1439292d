"""Accounting by privacy loss distribution: the tightest figure for mixed events whose parameters were fixed in advance.

Not sound where a parameter was chosen after seeing a release. Convolution is dp-accounting's (pessimistic); we
only ever hand it single applications and multiply ourselves, because its accountant forgets counts (0.6.0).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy import exact
from thebes.privacy.accounting import pure
from thebes.privacy.accounting.tree import priced, unpriced
from thebes.privacy.events import (
    ApproximateEvent,
    ConcentratedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    RandomizedResponseEvent,
    SingleEvent,
)
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Adjacency, adjacency_of

Floats = NDArray[np.float64]
Profile = Callable[[Floats], Floats]  #: x -> the least delta at epsilon x, for positive and negative x

INTERVAL = 1e-4  #: losses are rounded up to multiples of this
SMALLEST_DELTA = 1e-10  #: below this the floats of a convolution would be guessing
_ROUNDING = 1e-13  #: what one convolution may lose of delta to float rounding


@dataclass(frozen=True, slots=True)
class LossDistribution:
    """The distribution of the privacy loss of events, in both directions; `slack` is added to every delta."""

    losses: Any  #: dp_accounting's PrivacyLossDistribution
    interval: float
    slack: float = 0.0
    convolutions: int = 1

    def __add__(self, other: LossDistribution) -> LossDistribution:
        if self.interval != other.interval:
            raise Mistake("interval", "must be the same for distributions that are composed")
        return LossDistribution(
            self.losses.compose(other.losses),
            self.interval,
            self.slack + other.slack,
            self.convolutions + other.convolutions,
        )

    def __mul__(self, times: int) -> LossDistribution:
        if times == 1:
            return self
        if times == 0:
            from dp_accounting.pld import privacy_loss_distribution

            return LossDistribution(privacy_loss_distribution.identity(self.interval), self.interval)
        # One Fourier transform to the power n: its rounding grows with n, as that of n convolutions would.
        return LossDistribution(
            self.losses.self_compose(times), self.interval, self.slack * times, self.convolutions * times
        )

    @property
    def _reserve(self) -> float:
        return self.slack + _ROUNDING * math.sqrt(self.convolutions)

    def epsilon_at(self, delta: float) -> float:
        """The least epsilon at `delta`, rounded up; infinity where delta is too small to compute."""
        if not 0 < delta < 1:
            raise Mistake("delta", "must be greater than 0 and below 1 for a privacy loss distribution")
        spendable = delta - self._reserve
        if delta < SMALLEST_DELTA or spendable <= 0:
            return math.inf
        return float(self.losses.get_epsilon_for_delta(spendable)) * (1 + 1e-12)

    def delta_at(self, epsilon: float) -> float:
        """The least delta at `epsilon`, rounded up."""
        return min(1.0, max(0.0, float(self.losses.get_delta_for_epsilon(epsilon))) * (1 + 1e-12) + self._reserve)


def price(event: Event, *, adjacency: str | Adjacency, interval: float = INTERVAL) -> LossDistribution:
    """The privacy loss distribution of `event`, each loss rounded up to a multiple of `interval`."""
    relation = adjacency_of(adjacency)
    if not (math.isfinite(interval) and interval > 0):
        raise Mistake("interval", "must be a finite number greater than 0")
    return priced(event, lambda single: _once(single, relation, interval))


@lru_cache(maxsize=64)
def _once(event: SingleEvent, adjacency: Adjacency, interval: float) -> LossDistribution:
    match event:
        case GaussianEvent():
            return LossDistribution(_gaussian(event.ratio, 1.0, adjacency, interval), interval, event.slack)
        case PoissonGaussianEvent() if event.slack and adjacency is Adjacency.REPLACE_ONE:
            raise unpriced(event, "privacy loss distribution", "its slack holds under 'add-remove-one'")
        case PoissonGaussianEvent():
            sampled = _gaussian(event.ratio, event.rate, adjacency, interval, sampled=True)
            return LossDistribution(sampled, interval, event.slack)
        case ConcentratedEvent():
            raise unpriced(
                event, "privacy loss distribution", "only its rho is known, use zero-concentrated accounting"
            )
        case LaplaceEvent():
            e = 1 / event.ratio
            return _from_profile(_laplace(e, event.steps), _everywhere(e * (1 + 2 / event.steps), interval), interval)
        case RandomizedResponseEvent():
            e = float(pure.price(event, adjacency=adjacency).epsilon)
            return _from_profile(_response(event.categories, event.keep), _around(interval, -e, 0.0, e), interval)
        case ApproximateEvent():
            e, d = float(event.epsilon), exact.loss_of(float(event.delta), exact.DELTA_STEP)
            return _from_profile(_two_points(e, float(d)), _around(interval, -e, e), interval)
    e = float(pure.price(event, adjacency=adjacency).epsilon)
    return _from_profile(_two_points(e, 0.0), _around(interval, -e, e), interval)


def _gaussian(ratio: float, rate: float, adjacency: Adjacency, interval: float, sampled: bool = False) -> Any:
    # A unit's own contribution, of norm at most 1, comes or goes: two one-sided pairs. Replaced, it moves from u to v,
    # and u = 1, v = -1 is the worst pair: with the part (1-q) N(0) in common,
    # H_g((1-q)N(0) + qN(u), (1-q)N(0) + qN(v)) = q H_g'(N(u), (1-b)N(0) + bN(v)) (Balle, Barthe & Gaboardi 2018,
    # theorem 2), and among tests of one power under N(u), the masses under N(0) and under N(v) are least, both at
    # once, for the half-space towards u when |u| = 1 and v = -u.
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution

    replaced = sampled and adjacency is Adjacency.REPLACE_ONE
    return privacy_loss_distribution.from_gaussian_mechanism(
        standard_deviation=ratio,
        sampling_prob=rate,
        value_discretization_interval=interval,
        neighboring_relation=NeighboringRelation.REPLACE_ONE if replaced else NeighboringRelation.ADD_OR_REMOVE_ONE,
    )


def _from_profile(profile: Profile, points: NDArray[np.int64], interval: float) -> LossDistribution:
    # Connecting the dots of a convex profile lies above it (Doroshenko et al. 2022).
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    deltas = np.clip(profile(np.asarray(points * interval, dtype=np.float64)), 0.0, 1.0)
    deltas = np.maximum.accumulate(deltas[::-1])[::-1]
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(interval, points, deltas)
    return LossDistribution(privacy_loss_distribution.PrivacyLossDistribution(pmf), interval)


def _around(interval: float, *losses: float) -> NDArray[np.int64]:
    """The multiples of `interval` on both sides of each loss that occurs."""
    return np.unique([edge(loss / interval) for loss in losses for edge in (math.floor, math.ceil)])


def _everywhere(epsilon: float, interval: float) -> NDArray[np.int64]:
    reach = math.ceil(epsilon / interval)
    if reach > 10**7:
        raise Mistake("interval", "is too fine for so large a loss")
    return np.arange(-reach, reach + 1)


def _two_points(epsilon: float, delta: float) -> Profile:
    """Any (epsilon, delta) mechanism: delta, or randomised response (Kairouz, Oh & Viswanath 2017, theorem 3.1)."""
    keep = 1 / (1 + math.exp(-epsilon))

    def profile(x: Floats) -> Floats:
        with np.errstate(over="ignore"):
            response = np.maximum(np.maximum(keep - np.exp(x) * (1 - keep), 1 - np.exp(x)), 0.0)
        return delta + (1 - delta) * np.where(x >= epsilon, 0.0, response)

    return profile


def _response(categories: int, keep: float) -> Profile:
    other = (1 - keep) / (categories - 1)
    rest = max(0.0, 1 - keep - other)

    def profile(x: Floats) -> Floats:
        g = np.exp(x)
        height = np.maximum(keep - g * other, 0) + rest * np.maximum(1 - g, 0) + np.maximum(other - g * keep, 0)
        return np.asarray(height, dtype=np.float64)

    return profile


def _laplace(epsilon: float, steps: int) -> Profile:
    # Noise on a grid: the profile is the chord, in e^x, of the continuous one, 1 - e^((x - epsilon)/2), through the
    # losses that occur, (steps - 2m) epsilon / steps. That chord lies below the continuous profile moved by one
    # such gap, which serves where there are too many to list. Shifts of log-concave noise compose like shifts, so
    # a sensitivity that is spread over many numbers costs no more than one that sits in a single number.
    moved = epsilon * (1 + 2 / steps)
    m = np.arange(steps, -1, -1) if steps <= 1000 else np.zeros(1)
    knots, heights = np.exp((steps - 2 * m) * epsilon / steps), -np.expm1(-m * epsilon / steps)

    def profile(x: Floats) -> Floats:
        inside = np.interp(np.exp(x), knots, heights, right=0.0) if steps <= 1000 else _no_less(x, moved)
        return np.where(x < -epsilon, -np.expm1(x), inside)

    return profile


def _no_less(x: Floats, epsilon: float) -> Floats:
    """The profile of continuous Laplace noise, for |x| <= epsilon."""
    height: Floats = -np.expm1(np.minimum(0.0, x - epsilon) / 2)
    return height
