"""Is a guess near enough to the exact totals? Looked at with noise, paid for before, and told as one bit.

All distances are counted in shares of what one unit can move the totals by, cut into whole steps, so that questions of
every kind can share one sparse vector.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.additive import Additive, Laplace
from thebes.privacy.mechanisms.sparse_vector import AboveThreshold, difference_tail
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness
from thebes.privacy.stability import Sensitivity

UNIT = 2**20  #: steps of a distance in which one unit can move totals by all that it can
_FAR = 2**60
_MARGIN = 0.98  #: of the largest scale: so that an opening also serves questions whose widths round a little smaller
_ADDED = Adjacency.ADD_REMOVE_ONE


@dataclass(frozen=True, slots=True)
class Sought:
    """A guess shall be passed where its distance is at most `threshold`, and must not be where that is above `width`,
    but for `beta`. `reach` is the most that one unit moves a distance; all in the steps of what was counted. Of totals
    the distance is the largest that one has, and the threshold half the width."""

    reach: int
    width: int
    beta: float
    at: int | None = None  #: the threshold, where it is not half the width

    @property
    def threshold(self) -> int:
        return self.width // 2 if self.at is None else self.at

    @property
    def gap(self) -> int:
        """The distance above the threshold, in steps of the check, of a guess that must not be passed."""
        return max(0, (self.width + 1 - self.threshold) * UNIT // self.reach)

    def excess(self, distance: int) -> int:
        """Return how far above the threshold a distance is. One unit moves the distance (a largest difference of
        totals) by at most `reach`, hence this by at most UNIT: rounding down keeps whole steps apart."""
        return max(-_FAR, min(_FAR, (distance - self.threshold) * UNIT // self.reach))


class SparseCheck:
    """Compares any number of guesses until one fails: a sparse vector, paid once for each opening.

    A guess that is more than its width off passes with probability at most beta, however questions and guesses were
    chosen. Proof: let opening k begin with the noise Y of its threshold. The question that comes i questions later
    passes in error only if its own noise X, drawn for this question alone, is below Y - gap; whether that happens does
    not depend on anything that led there. When k begins is decided before Y is drawn, so a given question meets opening
    k and errs with probability at most P(Y - X > gap), which `difference_tail` bounds; opening k is made so that this
    is at most its part of beta (`_part`). Summed over k it is at most beta. (One beta for all k would not do: whoever
    asks until a threshold's noise happens to be high, and is open for long, meets such openings more often.)
    """

    def __init__(self) -> None:
        self.openings = 0
        self._epsilon: Decimal | None = None
        self._secret: dict[str, Any] | None = None  #: of the opening, while it is one

    @property
    def open(self) -> bool:
        return self._secret is not None

    def price(self, sought: Sought) -> Decimal | None:
        """The epsilon of a new opening that serves this; None where none does."""
        scale = _largest_scale(sought.gap, _part(sought.beta, self.openings + 1))
        return None if scale is None else exact.loss_of(3 * UNIT / (_MARGIN * scale))

    def gap(self, beta: float, epsilon: exact.Number) -> int:
        """Return how far beyond its threshold a guess must be, in steps of the check, to pass with probability at most
        `beta`: of the present opening, or of the next one of this epsilon."""
        given = self._epsilon if self.open else exact.epsilon(epsilon)
        assert given is not None  # noqa: S101
        scale, odds = exact.scale_of(3 * UNIT, given), _part(beta, self.openings + (not self.open))
        low, high = 0, math.ceil(800 * scale)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if difference_tail(scale, middle) <= odds else (middle, high)
        return high

    def serves(self, sought: Sought) -> bool:
        """Return whether the present opening can promise this."""
        if self._epsilon is None or not self.open or sought.gap < 1:
            return False
        scale = exact.scale_of(3 * UNIT, self._epsilon)
        return difference_tail(scale, sought.gap) <= _part(sought.beta, self.openings)

    def begin(self, epsilon: exact.Number, randomness: Randomness) -> None:
        """A new opening, which was paid for."""
        vector = _vector(epsilon, randomness)
        self._epsilon, self._secret = vector.epsilon, vector.secret_state()
        self.openings += 1

    def passes(self, sought: Sought, distance: int, randomness: Randomness) -> bool:
        """Return whether the guess passes. No closes the opening."""
        assert self._epsilon is not None  # noqa: S101
        assert self._secret is not None  # noqa: S101
        vector = _vector(self._epsilon, randomness)
        vector.restore(self._secret)
        failed = vector.above(sought.excess(distance))
        self._secret = None if failed else vector.secret_state()
        return not failed

    def public(self) -> dict[str, Any]:
        epsilon = None if self._epsilon is None else str(self._epsilon)
        return {"openings": self.openings, "open": self.open, "epsilon": epsilon}

    def secret(self) -> dict[str, Any]:
        """SECRET: the promise does not hold against its readers."""
        return dict(self._secret or {})

    def restore(self, public: Mapping[str, Any], secret: Mapping[str, Any]) -> None:
        """Go on; where the secret is lost, the opening is over."""
        self.openings = int(public["openings"])
        self._epsilon = None if public["epsilon"] is None else Decimal(public["epsilon"])
        self._secret = dict(secret) if public["open"] and secret else None


@dataclass(frozen=True, slots=True)
class ThresholdCheck:
    """Compares one guess, with Laplace noise on its distance: paid every time. What passes is within `width` but for
    the beta that was asked, whatever came before."""

    noise: Additive
    threshold: int
    beta: float

    @property
    def width(self) -> float:
        """P(noise < -m) is half of P(|noise| > m)."""
        return self.threshold + self.noise.width(1 - 2 * self.beta)

    @classmethod
    def of(cls, epsilon: exact.Number, *, reach: int, threshold: int, beta: float) -> ThresholdCheck | None:
        """With noise on one number that one unit moves by at most `reach`; None where none can be drawn."""
        try:
            noise = Laplace(epsilon).noise(Sensitivity(reach, reach**2))
        except Mistake:
            return None
        return cls(noise, threshold, min(beta, 0.25))

    @classmethod
    def within(cls, width: float, *, reach: int, beta: float) -> tuple[Decimal, ThresholdCheck] | None:
        """One whose guesses are within a width, and its epsilon: half of the width is for the noise."""
        odds = min(beta, 0.25)
        epsilon = exact.loss_of(2 * reach * -math.log(2 * odds) / width)
        check = cls.of(epsilon, reach=reach, threshold=0, beta=odds)
        if check is None or check.width >= width:
            return None
        return epsilon, cls(check.noise, math.floor(width - check.width), odds)

    def passes(self, distance: int, randomness: Randomness) -> bool:
        noisy = self.noise.add(np.array([min(distance, _FAR)], dtype=np.int64), randomness)
        return bool(noisy[0] <= self.threshold)


def _part(beta: float, opening: int) -> float:
    """Of all the odds of an error, those of one opening: proportional to k^-1.2, which add up to less than 5.6."""
    return float(beta / (5.6 * opening**1.2))


def _vector(epsilon: exact.Number, randomness: Randomness) -> AboveThreshold:
    return AboveThreshold(0, epsilon=epsilon, sensitivity=UNIT, adjacency=_ADDED, randomness=randomness)


def _largest_scale(gap: int, beta: float) -> float | None:
    """The largest noise scale with which what is `gap` too far passes with probability at most `beta`."""
    if gap < 1:
        return None
    low, high = gap / 800, float(gap)
    if difference_tail(low, gap) > beta:
        return None
    while difference_tail(high, gap) <= beta:
        high *= 2
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if difference_tail(middle, gap) <= beta else (low, middle)
    return low
