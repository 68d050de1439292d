"""The questions that every filter answers: the price of a loss, the capacity of a block, what is left in one number.

What must stay true: whatever sequence of requests a filter grants, each chosen after seeing all answers before it,
everything released together is (epsilon, delta)-private. Prices round up, capacities down.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from thebes.ledger.amounts import Budget, Steps
from thebes.privacy.accounting import concentrated
from thebes.privacy.events import Event
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Loss, Pure, compose
from thebes.privacy.promise import Adjacency

EPSILON, DELTA, RHO, PURE = "epsilon", "delta", "rho", "pure"


class Filter(ABC):
    """One way of counting. `firm`: every place of a block must hold; otherwise one place of several suffices."""

    name: str
    firm = True
    measure: str  #: of `size`: what its one number is

    @abstractmethod
    def loss(self, events: Sequence[Event], epsilon: Decimal, delta: Decimal, *, adjacency: str | Adjacency) -> Loss:
        """Return what a block is charged for releasing these events, which together are promised to be (epsilon,
        delta)-private. A Mistake where the filter has no price for one of them."""

    @abstractmethod
    def size(self, event: Event, epsilon: Decimal, *, adjacency: str | Adjacency) -> Decimal:
        """Return in one number what releasing an event costs that is promised `epsilon`: for comparing and adding up,
        never for charging. A Mistake where there is none."""

    @abstractmethod
    def most_of_an_answer(self, most: str, left: Mapping[str, int]) -> str:
        """Say that one answer may cost up to `most`, an epsilon in words, where `left` is left."""

    @abstractmethod
    def capacity(self, epsilon: Decimal, delta: Decimal, orders: Iterable[float] | None = None) -> Steps:
        """Return what a block of (epsilon, delta) can pay at each place; a Mistake where that is nothing at all."""

    def allowance(self, epsilon: Decimal, delta: Decimal, places: Iterable[str]) -> Steps:
        """Return what a cap of (epsilon, delta) allows at the places of a block; may be nothing."""
        try:
            return self.capacity(epsilon, delta) if epsilon > 0 else dict.fromkeys(places, 0)
        except Mistake:
            return dict.fromkeys(places, 0)

    @abstractmethod
    def price(self, loss: Loss, places: Iterable[str]) -> Steps:
        """Return what `loss` costs at each of a block's places; places where it costs nothing are left out."""

    def fits(self, price: Steps, left: Mapping[str, int]) -> bool:
        """Return whether a price may be granted where `left` is left."""
        return all(amount <= left.get(place, 0) for place, amount in price.items())

    def pure_answers(self, left: Mapping[str, int], epsilon: Decimal) -> int:
        """Count the answers of one pure epsilon that can be granted, one after another, where `left` is left."""
        price = self.price(Pure(epsilon), left)
        counted = [left[place] // amount for place, amount in price.items()]
        return min(counted) if self.firm else max(counted)

    @abstractmethod
    def reading(self, steps: Mapping[str, int], delta: int) -> Budget:
        """Steps that are left as (epsilon, delta): for `basic` themselves; else the largest pure epsilon that costs no
        more, beside the block's own delta, which the conversion holds and requests do not use up."""

    def worth(self, price: Mapping[str, int], delta: int) -> Budget:
        """Return a price as (epsilon, delta): the largest that costs no more, so as `reading`."""
        return self.reading(price, delta)

    def rho_worth(self, price: Mapping[str, int]) -> Decimal:
        """Return a price as rho: the largest of an answer with Gaussian noise that costs no more; 0 where such an
        answer has no price, or would take from a block more than its price."""
        return Decimal(0)


class EventFilter(Filter):
    """A filter that charges what was released, in losses that add up to much less than epsilons do where noise is
    Gaussian; what was promised of it does not matter. Its blocks convert at their own delta."""

    measure = RHO
    guarantee: str  #: the word on a certificate for what its losses come to

    @abstractmethod
    def of_event(self, event: Event, *, adjacency: str | Adjacency) -> Loss:
        """Return what a block is charged for releasing an event; a Mistake where there is no price."""

    @abstractmethod
    def of_pure(self, loss: Pure) -> Loss:
        """Return what a block is charged for something that is only known to be epsilon-private."""

    @abstractmethod
    def pure_within(self, loss: Loss, most: Decimal) -> Decimal:
        """Return the largest epsilon, up to `most`, of something that costs nowhere more than `loss` (one of
        `of_event`) when nothing but its epsilon is known."""

    @abstractmethod
    def rho_within(self, loss: Loss) -> Decimal:
        """Return the largest rho of something with Gaussian noise that costs nowhere more than `loss` (one of
        `of_event`); 0 where there is none."""

    def loss(self, events: Sequence[Event], epsilon: Decimal, delta: Decimal, *, adjacency: str | Adjacency) -> Loss:
        return compose(self.of_event(event, adjacency=adjacency) for event in events)

    def size(self, event: Event, epsilon: Decimal, *, adjacency: str | Adjacency) -> Decimal:
        return concentrated.price(event, adjacency=adjacency).rho

    def most_of_an_answer(self, most: str, left: Mapping[str, int]) -> str:
        return f"one more answer without a delta may cost epsilon {most} (by the filter {self.name})"
