"""A simulated crowd in a task without end, one person after another, as over a network but for the clock: where an
aggregator wants to be asked later, it is later.

A kind that computes the same for many people together has a `crowd.py` for it.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import Rows
from thebes.privacy.randomness import Randomness
from thebes.simulation.budgets import SimulatedBudgets
from thebes.tasks import registry
from thebes.tasks.aggregation.packets import slot_of
from thebes.tasks.contributions import Contributions
from thebes.tasks.document import PeopleDocument
from thebes.tasks.protocols import Aggregator, Ask, OutlyingContribution, Owner, State, TaskClosed, Wait

Integers = NDArray[np.int64]
_BEGUN = datetime(1970, 1, 1, tzinfo=UTC)  #: a simulation has no clock
_MOST_WAITS = 100_000  #: before somebody is asked; an aggregator that wants more will never ask


def take_part(
    document: PeopleDocument,
    aggregator: Aggregator,
    owner: Owner[Any],
    everybody: Rows,
    people: Integers,
    budgets: SimulatedBudgets,
    randomness: Randomness,
    *,
    in_flight: int = 1,
) -> None:
    """Everybody in random order, as often as one may take part. `in_flight` people have been asked and not yet sent at
    any time; with 1, each has sent theirs before the next one is asked."""
    aggregator.expect(len(people) * document.turns(0))
    crowd = registry.crowd(document, aggregator, owner, everybody, randomness, in_flight)
    queue = _Queue(document, aggregator, owner, everybody, budgets, randomness, in_flight)
    for turn in range(document.turns(0)):
        order = people[randomness.permutation(len(people))]
        if crowd is None:
            queue.turn(turn, order)
        else:
            crowd.turn(turn, order, budgets.of(order))
            aggregator.advance(queue.now)
        if aggregator.state is not State.OPEN:
            return
    aggregator.close()


class _Queue:
    """People who go through ask and accept one by one."""

    def __init__(
        self,
        document: PeopleDocument,
        aggregator: Aggregator,
        owner: Owner[Any],
        everybody: Rows,
        budgets: SimulatedBudgets,
        randomness: Randomness,
        in_flight: int,
    ) -> None:
        self._document, self._aggregator, self._owner = document, aggregator, owner
        self._everybody, self._budgets = everybody, budgets
        self._randomness, self._in_flight = randomness, in_flight
        self.now = _BEGUN

    def turn(self, turn: int, order: Integers) -> None:
        """Let these people take part in this order."""
        under_way: deque[Contributions] = deque()
        for start in range(0, len(order), 1000):
            some = self._everybody.select(order[start : start + 1000])
            for place, person in enumerate(order[start : start + 1000]):
                ask = self._ask(turn)
                if ask is None:
                    return
                mine, claim = some.select(np.array([place])), self._budgets.of(np.array([person]))
                given = self._owner.contribute(self._document, ask, mine, claim, randomness=self._randomness)
                under_way.append(given)
                if len(under_way) >= self._in_flight:
                    self._deliver(under_way.popleft())
        while under_way:
            self._deliver(under_way.popleft())

    def _ask(self, turn: int) -> Ask | None:
        slot = slot_of("simulation", turn)
        for _ in range(_MOST_WAITS):
            ask = self._aggregator.ask(slot, turn)
            if not isinstance(ask, Wait):
                return ask if isinstance(ask, Ask) else None
            self.now += timedelta(seconds=max(1.0, ask.seconds))
            self._aggregator.advance(self.now)
        return None

    def _deliver(self, given: Contributions) -> None:
        with suppress(OutlyingContribution, TaskClosed):  # its sender paid
            self._aggregator.accept(given)
        self._aggregator.advance(self.now)
