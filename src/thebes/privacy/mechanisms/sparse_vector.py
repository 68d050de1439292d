"""The sparse vector technique: any number of questions "is this count above the threshold?", paid once per "yes".

Every "no" after an opening is free, because all of them share one noisy threshold. After the first "yes" it is
closed: the next question needs a new opening with a new threshold, which is paid again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from thebes.privacy import exact
from thebes.privacy.events import PureEvent, Repeated
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.measurement import Measurement
from thebes.privacy.mechanisms.columns import whole
from thebes.privacy.promise import Adjacency, adjacency_of
from thebes.privacy.randomness import Randomness

_FAR = 2**61


class AlreadyAnswered(Refusal):
    """It has answered "yes" once; a further question needs `reopen`, which costs epsilon again."""


class AboveThreshold:
    """One opening: "no" as often as it takes, "yes" once; epsilon-DP in all, however the questions are chosen.

    A count is "above" when count + Laplace(b) >= threshold + Laplace(b), the threshold's noise drawn once per opening,
    the count's for each question; integers throughout. Proof (Lyu, Su & Li 2017, theorem 2, one positive answer): let
    one unit change every count by at most D = `sensitivity`. Move the threshold's noise by D: every "no" stays "no", at
    a cost of D/b. Move the noise of the "yes" by 2 D, at a cost of 2 D/b. Together 3 D/b, so b = 3 D / epsilon. If all
    counts move the same way (`monotone`, add-remove-one only; theorem 3) moves of D are enough: b = 2 D / epsilon. The
    noisy count behind the "yes" is not released.
    """

    def __init__(
        self,
        threshold: int,
        *,
        epsilon: exact.Number,
        sensitivity: int,
        adjacency: str | Adjacency,
        randomness: Randomness,
        monotone: bool = False,
    ) -> None:
        self.adjacency = adjacency_of(adjacency)
        self.epsilon: Decimal = exact.epsilon(epsilon)
        if monotone and self.adjacency is not Adjacency.ADD_REMOVE_ONE:
            raise Mistake("monotone", "holds under add-remove-one only: replacing may raise one and lower another")
        self._threshold = whole("threshold", threshold, least=-_FAR, most=_FAR)
        self.sensitivity = whole("sensitivity", sensitivity, least=1, most=2**40)
        self.monotone = monotone
        self.scale = exact.scale_of((2 if monotone else 3) * self.sensitivity, self.epsilon)
        self._randomness = randomness
        self.openings = 0
        self.open = False
        self.reopen()

    def reopen(self) -> None:
        """Start again with a fresh threshold: one more epsilon, to be charged before calling this."""
        self._noisy_threshold = self._noised(self._threshold)
        self.openings += 1
        self.open = True

    @property
    def event(self) -> PureEvent | Repeated:
        """The event that must be paid for everything answered so far: epsilon per opening."""
        once = PureEvent(self.epsilon)
        return once if self.openings == 1 else Repeated(once, self.openings)

    def above(self, count: int) -> bool:
        """Answer whether the count is above the threshold, up to noise. True closes it."""
        if not self.open:
            raise AlreadyAnswered("the sparse vector has answered 'above' and is closed: pay for a new opening first")
        yes = self._noised(whole("count", count, least=-_FAR, most=_FAR)) >= self._noisy_threshold
        self.open = not yes
        return yes

    def _noised(self, value: int) -> int:
        return int(self._randomness.laplace(np.array([value], dtype=np.int64), scale=self.scale)[0])

    def secret_state(self) -> dict[str, Any]:
        """Return what continues this opening after a restart. SECRET: the promise does not hold against its readers."""
        return {"noisy_threshold": self._noisy_threshold, "openings": self.openings, "open": self.open}

    def restore(self, secret_state: dict[str, Any]) -> None:
        """Continue an earlier opening instead of the one just made; where the state is lost, pay for a new one."""
        threshold = whole("secret_state", secret_state.get("noisy_threshold"), least=-(2**62), most=2**62)
        openings = whole("secret_state", secret_state.get("openings"), least=1, most=2**40)
        self._noisy_threshold, self.openings, self.open = threshold, openings, secret_state.get("open") is True


def first_above(
    counts: Iterable[int],
    *,
    threshold: int,
    epsilon: exact.Number,
    sensitivity: int,
    adjacency: str | Adjacency,
    randomness: Randomness,
    monotone: bool = False,
) -> Measurement:
    """The position of the first count above the threshold, None where none is; epsilon-DP by `AboveThreshold`."""
    gate = AboveThreshold(
        threshold,
        epsilon=epsilon,
        sensitivity=sensitivity,
        adjacency=adjacency,
        randomness=randomness,
        monotone=monotone,
    )
    return Measurement(
        value=next((place for place, count in enumerate(counts) if gate.above(count)), None),
        event=gate.event,
        adjacency=gate.adjacency,
        mechanism="sparse vector",
        parameters={"threshold": threshold, "sensitivity": gate.sensitivity, "noise_scale": gate.scale},
        simulated=randomness.simulated,
    )


@dataclass(frozen=True, slots=True)
class Calibration:
    """The calibration of how to ask "is a guess further than alpha from the true share?" about n rows with sensitivity
    1, n public.

    Ask whether the distance in rows is above `threshold`. A guess more than alpha off is waved through with
    probability at most beta. One opening costs `opening`; a direct answer, within alpha but for beta, costs `direct`.
    """

    threshold: int
    scale: float
    opening: Decimal
    direct: Decimal


def difference_tail(scale: float, at_least: int) -> float:
    """P(X - Y >= at_least) for two independent discrete Laplace variables of one scale, at_least >= 1; rounded up.

    With r = exp(-1/scale), P(X - Y = k) = ((1-r)/(1+r))^2 r^|k| (|k| + (1+r^2)/(1-r^2)); summed over k >= at_least. In
    the continuous limit it is (1/2 + e/4) exp(-e) at e = at_least / scale.
    """
    r, one_minus_r = math.exp(-1 / scale), -math.expm1(-1 / scale)
    square = -math.expm1(-2 / scale)
    total = (at_least + r / one_minus_r + (1 + r * r) / square) * one_minus_r / (1 + r) ** 2
    return min(1.0, math.exp(-at_least / scale) * total * (1 + 1e-9))


def calibrate(*, n: int, alpha: float, beta: float) -> Calibration:
    """The least epsilon for questions about shares of n rows that are to be right within `alpha`, but for `beta`.

    The threshold lies halfway, at alpha n / 2. A guess off by more than alpha n rows is missed when the difference of
    two noises closes the rest of the gap: `difference_tail` <= beta gives the noise scale b, and one opening costs 3/b.
    For large n this is 3 * 2 e / (n alpha) with (1/2 + e/4) exp(-e) = beta. Sensitivity 1 row: replace-one, n public
    (or n a released size under add-remove-one).
    """
    rows = whole("n", n, least=1, most=2**53)
    for argument, value in (("alpha", alpha), ("beta", beta)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
            raise Mistake(argument, "must lie between 0 and 1")
    allowed = math.floor(alpha * rows)  # a distance of allowed + 1 rows is too far
    threshold = (allowed + 1) // 2
    # waved through: distance + Laplace < threshold + Laplace, so a difference of at least this much
    needed = allowed + 2 - threshold
    scale = _largest_scale(lambda b: difference_tail(b, needed), beta, needed)
    direct = _largest_scale(lambda b: _two_sided_tail(b, allowed + 1), beta, allowed + 1)
    return Calibration(threshold, scale, exact.loss_of(3 / scale), exact.loss_of(1 / direct))


def _two_sided_tail(scale: float, at_least: int) -> float:
    # P(|X| >= at_least) for a discrete Laplace variable, rounded up
    return 2 * math.exp(-at_least / scale) / (1 + math.exp(-1 / scale)) * (1 + 1e-9)


def _largest_scale(tail: Callable[[float], float], beta: float, distance: int) -> float:
    # The tail rises with the scale. At distance/800 it is below any beta that a float can hold.
    low, high = distance / 800, float(distance)
    while tail(high) <= beta:
        high *= 2
    if tail(low) > beta:
        raise Mistake("beta", "is too small to be reached")
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if tail(middle) <= beta else (low, middle)
    return low
