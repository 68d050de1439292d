"""The purchase that is paid for: an event, and the guarantee to which it was calibrated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from thebes.curator.cache.answer import NOTHING, Amounts
from thebes.ledger.filters import filter_of
from thebes.privacy import exact
from thebes.privacy.accounting import concentrated, gaussian, pure
from thebes.privacy.accounting.calibration import rho_for
from thebes.privacy.events import Event, GaussianEvent, PureEvent
from thebes.privacy.faults import Fault
from thebes.privacy.losses import Loss
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.promise import Adjacency

_RELATION = Adjacency.ADD_REMOVE_ONE


@dataclass(frozen=True, slots=True)
class Purchase:
    """An event that is `epsilon`-DP, or (`epsilon`, `delta`)-DP where a delta is named. Filters that know how to price
    the event do that; what people are told, and basic filters, add up the guarantees. Who says less than the event
    costs is our mistake."""

    event: Event
    epsilon: Decimal
    delta: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        if isinstance(self.event, GaussianEvent):
            enough = gaussian.delta_of(self.event.ratio, float(self.epsilon)) + self.event.slack <= float(self.delta)
        elif self.delta:
            enough = concentrated.price(self.event, adjacency=_RELATION).rho <= rho_for(self.epsilon, self.delta)
        else:
            enough = pure.price(self.event, adjacency=_RELATION).epsilon <= self.epsilon + exact.EPSILON_STEP
        if not enough:
            raise Fault("an event was to be paid for less than it costs")

    @classmethod
    def pure(cls, epsilon: exact.Number) -> Purchase:
        """Of something that is known only to be epsilon-DP: a sparse vector's opening, for one."""
        event = PureEvent(epsilon)
        return cls(event, event.epsilon)

    @classmethod
    def of_pure(cls, event: Event) -> Purchase:
        """Of events that have a pure price under add-remove-one."""
        return cls(event, pure.price(event, adjacency=_RELATION).epsilon)

    @classmethod
    def of_noise(cls, noise: Additive, *, epsilon: exact.Number, delta: exact.Number) -> Purchase:
        """Of noise that was calibrated to these (`noise_for`); Laplace noise needs no delta."""
        needed = exact.delta(delta) if noise.kind == "gaussian" else Decimal(0)
        return cls(noise.event, exact.epsilon(epsilon), needed)


def amounts(purchases: Iterable[Purchase]) -> Amounts:
    """Add up what all of them cost together: guarantees add up, however each was chosen."""
    epsilon, delta = NOTHING
    for purchase in purchases:
        epsilon, delta = epsilon + purchase.epsilon, delta + purchase.delta
    return epsilon, delta


def loss_of(purchases: Iterable[Purchase], filter: str) -> Loss:
    """Return what all of them cost together where a block counts with this filter."""
    items = list(purchases)
    return filter_of(filter).loss([item.event for item in items], *amounts(items), adjacency=_RELATION)


def size_of(purchase: Purchase, filter: str) -> Decimal:
    """Return in one number what a purchase costs where a block counts with this filter: for comparing."""
    return filter_of(filter).size(purchase.event, purchase.epsilon, adjacency=_RELATION)
