"""The allowance that may be spent on a distribution, in shares: of epsilon, or of rho where there is a delta."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from thebes.ledger.filters import filter_of
from thebes.privacy import exact
from thebes.privacy.accounting import concentrated, pure
from thebes.privacy.accounting.calibration import rho_for
from thebes.privacy.events import Event, ExponentialEvent
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.losses import Loss
from thebes.privacy.mechanisms.additive import Additive, Laplace
from thebes.privacy.mechanisms.concentrated import ConcentratedNoise
from thebes.privacy.promise import Adjacency
from thebes.privacy.stability import Sensitivity

_DOWN = Context(prec=50, rounding=ROUND_FLOOR)
_RELATION = Adjacency.ADD_REMOVE_ONE


class SynthesisAllowance:
    """Everything that is spent out of it is together epsilon-DP or, with a delta, rho-zCDP with the rho that implies
    (epsilon, delta)-DP (`rho_for`). Shares that add up to 1 spend at most all of it: each is rounded down."""

    def __init__(self, epsilon: exact.Number, delta: exact.Number = 0) -> None:
        self.epsilon, self.delta = exact.epsilon(epsilon), exact.delta(delta)
        self.rho = rho_for(self.epsilon, self.delta) if self.delta else None

    def measuring(self, share: Fraction, sensitivity: Sensitivity) -> Additive:
        """Noise for whole numbers of this sensitivity."""
        part = self._part(share)
        return (Laplace(part) if self.rho is None else ConcentratedNoise(part)).noise(sensitivity)

    def choosing(self, share: Fraction, times: int) -> ExponentialEvent:
        """One of so many choices by the exponential mechanism: rho-zCDP with rho = epsilon^2 / 8 (see the event)."""
        part = _DOWN.divide(self._part(share), Decimal(times))
        if self.rho is not None:
            part = _DOWN.sqrt(_DOWN.multiply(part, Decimal(8)))  # rounded to nearest; made smaller below
        part = part.quantize(exact.EPSILON_STEP, ROUND_FLOOR)
        if part <= 0:
            raise Mistake("epsilon", f"is too small for {times} choices")
        return ExponentialEvent(part)

    def within(self, event: Event) -> Event:
        """An event that stays within all of it; a Fault where it does not."""
        if self.rho is None:
            fits = pure.price(event, adjacency=_RELATION).epsilon <= self.epsilon
        else:
            fits = concentrated.price(event, adjacency=_RELATION).rho <= self.rho
        if not fits:
            raise Fault("the shares of a budget came out larger than the budget")
        return event

    def loss(self, event: Event, filter: str) -> Loss:
        """Return what an event within it costs a block that counts with this filter; a basic one is charged all of
        it."""
        return filter_of(filter).loss([self.within(event)], self.epsilon, self.delta, adjacency=_RELATION)

    def _part(self, share: Fraction) -> Decimal:
        if not 0 < share <= 1:
            raise Fault("a share lies between 0 and 1")
        whole = self.epsilon if self.rho is None else self.rho
        step = exact.EPSILON_STEP if self.rho is None else Decimal("1e-18")
        product = _DOWN.multiply(whole, Decimal(share.numerator))
        part = _DOWN.divide(product, Decimal(share.denominator)).quantize(step, ROUND_FLOOR)
        if part <= 0:
            raise Mistake("epsilon", "is too small to be shared out")
        return part
