"""Other ways to keep a model that many people train, for comparison with the kind's own: section V-B of the paper.

All are told the same by their owners (the kind's encoding, gradient and mechanism) and differ only in which model is
drawn and what becomes of a changed one. They live in experiments only: none has the kind's limits on outliers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.randomness import Randomness
from thebes.tasks.draw_discard.features import PeopleBatch
from thebes.tasks.draw_discard.instances import Floats, Instances
from thebes.tasks.draw_discard.owner import Prepared
from thebes.tasks.draw_discard.plan import plan

Integers = NDArray[np.int64]


class Server(Protocol):
    """One architecture: what the next person is given, what becomes of what they send, what is shown to everybody."""

    def draw(self) -> tuple[int, Floats]: ...

    def take(self, place: int, changed: Floats) -> None: ...

    def average(self) -> Floats: ...


class DrawAndDiscard:
    """The kind's own: a changed model takes the place of any instance. With one instance, training at a server."""

    def __init__(self, document: Any, randomness: Randomness) -> None:
        made, rate = plan(document), document.rates[0]
        self.randomness = randomness
        self.instances = Instances.around(made.start, document.instances, made.first_deviation * rate, randomness)

    def draw(self) -> tuple[int, Floats]:
        drawn = self.instances.draw(self.randomness)
        return drawn.place, drawn.weights

    def take(self, place: int, changed: Floats) -> None:
        self.instances.discard(changed, self.randomness)

    def average(self) -> Floats:
        return np.asarray(self.instances.models.mean(axis=0))


class SameInstance(DrawAndDiscard):
    """A changed model takes the place of the one that was drawn: nothing is discarded, and everybody who sees the
    instances sees which one an update came from."""

    def take(self, place: int, changed: Floats) -> None:
        self.instances.replace(place, changed)


class AveragedDiscard(DrawAndDiscard):
    """A changed model and any instance are averaged, and the average takes that instance's place."""

    def take(self, place: int, changed: Floats) -> None:
        other = int(self.randomness.below(self.instances.count, 1)[0])
        self.instances.replace(other, (changed + self.instances.models[other]) / 2)


class AveragedSame(DrawAndDiscard):
    """A changed model is averaged with the one it was made from: half the learning rate."""

    def take(self, place: int, changed: Floats) -> None:
        self.instances.replace(place, (changed + self.instances.models[place]) / 2)


class OneInK:
    """One model; of k changed ones one is taken on average, the others are thrown away."""

    def __init__(self, document: Any, randomness: Randomness) -> None:
        self.model, self.k, self.randomness = plan(document).start.copy(), document.instances, randomness

    def draw(self) -> tuple[int, Floats]:
        return 0, self.model

    def take(self, place: int, changed: Floats) -> None:
        if int(self.randomness.below(self.k, 1)[0]) == 0:
            self.model = changed

    def average(self) -> Floats:
        return self.model


class Batches:
    """One model; `size` changed ones are awaited, their average is the next one."""

    def __init__(self, document: Any, randomness: Randomness, *, size: int) -> None:
        self.model, self.size = plan(document).start.copy(), size
        self._sum, self._waiting = np.zeros_like(self.model), 0

    def draw(self) -> tuple[int, Floats]:
        return 0, self.model

    def take(self, place: int, changed: Floats) -> None:
        self._sum += changed
        self._waiting += 1
        if self._waiting == self.size:
            self.model, self._sum, self._waiting = self._sum / self.size, np.zeros_like(self.model), 0

    def average(self) -> Floats:
        return self.model


ARCHITECTURES: dict[str, Callable[[Any, Randomness], Server]] = {
    "draw and discard": DrawAndDiscard,
    "1/k of updates accepted": OneInK,
    "same instance replaced": SameInstance,
    "draw and discard, averaged": AveragedDiscard,
    "same instance, averaged": AveragedSame,
}


def trained(
    document: Any, prepared: Prepared, people: int, server: Server, randomness: Randomness, *, looks: Sequence[int]
) -> Iterator[Floats]:
    """The averages after so many passes over all people (`looks`, growing), each pass in a new random order. Rates
    that decay do so with the number of updates that were sent."""
    sent = 0
    for number in range(1, looks[-1] + 1):
        order = randomness.permutation(people)
        for start in range(0, people, _TOGETHER):
            chunk = order[start : start + _TOGETHER]
            _some(document, prepared, prepared.batch(chunk), server, randomness, sent)
            sent += len(chunk)
        if number in looks:
            yield server.average()


_TOGETHER = 250  #: people whose rows are encoded at once


def _some(
    document: Any, prepared: Prepared, batch: PeopleBatch, server: Server, randomness: Randomness, sent: int
) -> None:
    ahead = prepared.ahead(len(batch.x), randomness)
    for place in range(len(batch.x)):
        one = slice(place, place + 1)
        rate = np.array([document.rate(0, sent + place)])
        drawn, model = server.draw()
        server.take(drawn, prepared.changed(model[None, :], rate, batch.some(one), ahead[one])[0])
