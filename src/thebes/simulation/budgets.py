"""The budgets of all simulated people: the ledger of a million people as one array of exact integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thebes.privacy import exact
from thebes.privacy.faults import Fault
from thebes.privacy.guarantees import Price


class SimulatedBudgets:
    """Each person reserves `price` once, rounded up as a ledger does. Spending comes before noise; an overdraft is a
    bug and stops the world."""

    def __init__(self, people: int, price: Price) -> None:
        self._epsilon = np.full(people, exact.steps_up(price.epsilon, exact.EPSILON_STEP), dtype=np.int64)
        self._delta = np.full(people, exact.steps_up(price.delta, exact.DELTA_STEP), dtype=np.int64)

    def of(self, people: NDArray[np.int64]) -> BatchClaim:
        """The claims of some people, taken together."""
        return BatchClaim(self, people)

    def take(self, people: NDArray[np.int64], epsilon: int, delta: int) -> None:
        if (self._epsilon[people] < epsilon).any() or (self._delta[people] < delta).any():
            raise Fault("an owner's half tried to spend more than its document's price")
        self._epsilon[people] -= epsilon
        self._delta[people] -= delta

    def left(self) -> tuple[float, float]:
        """The least that anybody has left, as (epsilon, delta)."""
        epsilon, delta = self._epsilon.min(initial=0), self._delta.min(initial=0)
        return float(epsilon) * float(exact.EPSILON_STEP), float(delta) * float(exact.DELTA_STEP)


class BatchClaim:
    """A claim for a batch of people: each pays the same."""

    def __init__(self, budgets: SimulatedBudgets, people: NDArray[np.int64]) -> None:
        self._budgets = budgets
        self._people = people

    def consume(self, *, epsilon: exact.Number, delta: exact.Number = 0) -> None:
        paid = exact.declared("epsilon", epsilon), exact.declared("delta", delta)
        self._budgets.take(
            self._people,
            exact.steps_up(paid[0], exact.EPSILON_STEP),
            exact.steps_up(paid[1], exact.DELTA_STEP),
        )
