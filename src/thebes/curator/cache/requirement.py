"""The requirement that a requestor has of every total of a plan: at most so much loss, or also so much accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache, partial

from thebes.curator.cache.purchase import Purchase, size_of
from thebes.curator.questions.noise import noise_for
from thebes.curator.questions.plans import QuestionPlan
from thebes.data.schema import Schema
from thebes.ledger.filters import BASIC
from thebes.privacy import exact
from thebes.privacy.accounting import gaussian
from thebes.privacy.distributions import normal_quantile
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.mechanisms.additive import Additive, Gaussian, Laplace, LeastNoise
from thebes.privacy.stability import Sensitivity

Calibrated = tuple[Additive, Purchase]  #: a noise, and what it costs

LEAST = Decimal("1e-6")  #: no accuracy is bought for less: below, an answer is noise alone

_DIGITS = 4  #: of an epsilon that is searched for
_DOUBLINGS = 40


@dataclass(frozen=True, slots=True)
class Wanted:
    """`epsilon` and `delta` are the most that an answer may cost one unit; without `width` the noise is calibrated to
    them. With it, every total of the plan, all of them together, shall lie within `width` (in the totals' own steps) of
    the exact one with probability at least 1 - `beta`, and the noise is the cheapest that gives this. `smooth`: of
    noise without a width, that it be Gaussian, also where Laplace noise of this epsilon would deviate less."""

    epsilon: Decimal
    delta: Decimal
    width: float | None = None
    beta: float | None = None
    smooth: bool = False

    def __init__(
        self,
        epsilon: exact.Number,
        delta: exact.Number = 0,
        width: float | None = None,
        beta: float | None = None,
        smooth: bool = False,
    ) -> None:
        object.__setattr__(self, "epsilon", exact.epsilon(epsilon))
        object.__setattr__(self, "delta", exact.delta(delta))
        if (width is None) != (beta is None):
            raise Mistake("accuracy", "needs both a width and the odds of missing it")
        if width is not None and not 0 < width < float("inf"):
            raise Mistake("accuracy.alpha", "must be a finite number greater than 0")
        if beta is not None and not 0 < beta < 1:
            raise Mistake("accuracy.beta", "must lie between 0 and 1")
        if smooth and (width is not None or self.delta < exact.DELTA_STEP):
            raise Mistake("smooth", "needs a delta, and no width")
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "beta", beta)
        object.__setattr__(self, "smooth", smooth)

    def level(self, plan: QuestionPlan) -> float:
        """At which each total must lie within the width, so that all of them do together (union bound)."""
        return 1 - (self.beta or 0.0) / plan.size

    def satisfied(self, plan: QuestionPlan, noise: Additive) -> bool:
        """Return whether this noise gives the width that is wanted."""
        return self.width is None or noise.width(self.level(plan)) <= self.width

    def calibrated(self, plan: QuestionPlan, schema: Schema, *, filter: str = BASIC.name) -> Calibrated:
        """The noise with which a mechanism answers, and what it costs: calibrated to what is allowed, or to the least
        that gives the width. Of Laplace and Gaussian noise a basic filter takes the one with the smaller epsilon,
        the others the one with the smaller rho. A Refusal where that is more than is allowed."""
        if self.width is None:
            noise_for(plan, schema, epsilon=self.epsilon, delta=self.delta)  # whether any can be drawn
        return _calibrated(self, plan.transformation.sensitivity(schema.change), self.level(plan), filter)


@lru_cache(maxsize=4096)
def _calibrated(wanted: Wanted, sensitivity: Sensitivity, level: float, filter: str) -> Calibrated:
    if wanted.width is None:
        kind = Gaussian if wanted.smooth else LeastNoise
        noise = kind(wanted.epsilon, wanted.delta).noise(sensitivity)
        return noise, Purchase.of_noise(noise, epsilon=wanted.epsilon, delta=wanted.delta)
    found = [one for one in _least(sensitivity, wanted.width, level, wanted.delta) if one[1].epsilon <= wanted.epsilon]
    if not found:
        raise Refusal("this accuracy costs more than the most that may be paid; allow more, or ask for less")
    return min(found, key=lambda one: size_of(one[1], filter))


@lru_cache(maxsize=1024)
def _least(sensitivity: Sensitivity, width: float, level: float, delta: Decimal) -> tuple[Calibrated, ...]:
    """The least Laplace and, with a delta, the least Gaussian noise on one coordinate that lies within the width at
    this level, each calibrated to an epsilon of a few digits."""
    kinds: list[tuple[float, Decimal, Callable[[Decimal], Laplace | Gaussian]]] = [
        (sensitivity.l1 * -math.log(1 - level) / (width + 1), Decimal(0), Laplace)
    ]
    if delta >= exact.DELTA_STEP:
        ratio = width / _normal(level) / sensitivity.l2
        kinds.append((gaussian.epsilon_of(ratio, float(delta)), delta, partial(Gaussian, delta=delta)))
    found = []
    for guess, own, kind in kinds:
        epsilon = _smallest(guess, kind, sensitivity, width, level)
        if epsilon is not None:
            noise = kind(epsilon).noise(sensitivity)
            found.append((noise, Purchase(noise.event, epsilon, own)))
    return tuple(found)


def _smallest(
    guess: float, kind: Callable[[Decimal], Laplace | Gaussian], sensitivity: Sensitivity, width: float, level: float
) -> Decimal | None:
    """The least epsilon near or above a guess whose noise lies within the width; None where none does."""

    def enough(epsilon: Decimal) -> bool:
        try:
            return kind(epsilon).noise(sensitivity).width(level) <= width
        except Mistake:  # none can be drawn
            return False

    first = max(LEAST, exact.loss_of(guess))
    if not first.is_finite():
        return None
    high = _rounded(first)
    low = max(LEAST, high / 2)
    if enough(low):
        return low
    for _ in range(_DOUBLINGS):
        if enough(high):
            break
        low, high = high, _rounded(2 * high)
    else:
        return None
    while low < (middle := _rounded((low + high) / 2)) < high:
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _rounded(epsilon: Decimal) -> Decimal:
    """To a few digits, upwards: an epsilon that people can read."""
    step = Decimal(1).scaleb(epsilon.adjusted() - _DIGITS + 1)
    return max(exact.EPSILON_STEP, epsilon.quantize(step, ROUND_CEILING))


def _normal(level: float) -> float:
    return float(normal_quantile((1 + level) / 2))
