"""The allowance that one step of an attempt may spend, exact: handed out in parts, and never more than there is."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal

from thebes.ledger.amounts import Amount, Budget
from thebes.privacy import exact
from thebes.privacy.faults import Mistake

_DOWN = Context(prec=60, rounding=ROUND_FLOOR)


class Allowance:
    """An epsilon and a delta that were charged already. `epsilon` and `delta` say what of it is left.

    It keeps the books of whoever it was handed to and proves nothing about them: that what is spent here is what a
    mechanism really costs is the promise of the code that runs it.
    """

    def __init__(self, epsilon: exact.Number, delta: exact.Number = 0) -> None:
        whole = exact.declared("epsilon", epsilon)
        if whole < 0:
            raise Mistake("epsilon", "must not be negative")
        self._whole = (whole, exact.delta(delta))
        self._left = self._whole

    @property
    def epsilon(self) -> Amount:
        return Amount(self._left[0])

    @property
    def delta(self) -> Amount:
        return Amount(self._left[1])

    @property
    def spent(self) -> Budget:
        """The amount that was handed out so far."""
        return Budget(Amount(self._whole[0] - self._left[0]), Amount(self._whole[1] - self._left[1]))

    def take(self, share: exact.Number) -> Allowance:
        """A part of its own: `share` of what this one was made with, which is then no longer here."""
        part = exact.declared("share", share)
        if not 0 < part <= 1:
            raise Mistake("share", "must be greater than 0 and at most 1")
        steps = (exact.EPSILON_STEP, exact.DELTA_STEP)
        both = zip(self._whole, steps, strict=True)
        epsilon, delta = (_share(whole, part, step) for whole, step in both)
        return Allowance(*self._taken(epsilon, delta))

    def spend(self, epsilon: exact.Number | None = None, delta: exact.Number | None = None) -> Budget:
        """Take (epsilon, delta) for one mechanism: all that is left without an epsilon, no delta where only an epsilon
        is said. More than is left is a Mistake, and takes nothing."""
        if epsilon is None:
            if delta is not None:
                raise Mistake("epsilon", "is missing; say both, or neither for all that is left")
            asked = self._left
        else:
            asked = (exact.epsilon(epsilon), exact.delta(0 if delta is None else delta))
        taken = self._taken(*asked)
        return Budget(Amount(taken[0]), Amount(taken[1]))

    def _taken(self, epsilon: Decimal, delta: Decimal) -> tuple[Decimal, Decimal]:
        rest = (self._left[0] - epsilon, self._left[1] - delta)
        if rest[0] < 0 or rest[1] < 0:
            left = Budget(self.epsilon, self.delta)
            raise Mistake("budget", f"has {left} left, {Budget(Amount(epsilon), Amount(delta))} was to be taken of it")
        self._left = rest
        return epsilon, delta

    def __repr__(self) -> str:
        return f"<allowance: {Budget(self.epsilon, self.delta)} left>"


def _share(whole: Decimal, part: Decimal, step: Decimal) -> Decimal:
    """Rounded down, so that parts that add up to one never add up to more than the whole; the whole is the whole."""
    return whole if part == 1 else _DOWN.multiply(whole, part).quantize(step, ROUND_FLOOR)
