"""A simulated crowd that trains one model without end, one person after another: draw, change, discard.

Each update depends on the one that wrote the instance it draws, and on no other, so updates of the same generation are
computed together: with k instances about k at a time. What comes out is what one after another gives, outliers
included.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import Rows
from thebes.privacy.randomness import Randomness
from thebes.tasks.draw_discard.aggregator import DrawDiscardAggregator
from thebes.tasks.draw_discard.instances import Instances
from thebes.tasks.draw_discard.kind import DrawDiscardDocument
from thebes.tasks.draw_discard.mechanisms import Drawn
from thebes.tasks.draw_discard.owner import Prepared
from thebes.tasks.draw_discard.plan import plan
from thebes.tasks.protocols import Aggregator, Claim, OutlyingContribution

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_MOST_TOGETHER, _LEAST_TOGETHER = 4096, 16  #: updates that are planned together
_NUMBERS = 2**21  #: and at most so many numbers


class TrainingCrowd:
    """A simulated crowd that trains the models of one task together."""

    def __init__(
        self,
        document: DrawDiscardDocument,
        aggregator: DrawDiscardAggregator,
        prepared: Prepared,
        randomness: Randomness,
        in_flight: int,
    ) -> None:
        self._document, self._aggregator, self._prepared = document, aggregator, prepared
        self._randomness, self._in_flight = randomness, in_flight

    def turn(self, turn: int, order: Integers, claim: Claim) -> None:
        """Let these people take part in this order; all of them pay."""
        paying, several = plan(self._document), len(self._aggregator.lanes)
        claim.consume(epsilon=paying.epsilon, delta=paying.delta)
        source = self._randomness
        chosen = source.below(several, len(order)) if several > 1 else np.zeros(len(order), dtype=np.int64)
        for lane in range(several):
            crew = TrainingCrew(self._document, self._aggregator, lane, self._prepared, source, self._in_flight)
            self._aggregator.counts[turn] += crew.work(order[chosen == lane])


def crowd(
    document: DrawDiscardDocument,
    aggregator: Aggregator,
    owner: Any,
    everybody: Rows,
    randomness: Randomness,
    in_flight: int,
) -> TrainingCrowd | None:
    """Return the crowd that computes together; None where people must be asked one by one."""
    if not isinstance(aggregator, DrawDiscardAggregator) or document.diagnostics is not None:
        return None
    prepared = owner.prepared(document, everybody)
    return None if prepared is None else TrainingCrowd(document, aggregator, prepared, randomness, in_flight)


@dataclass(frozen=True, slots=True)
class _Order:
    """The order of draws and deliveries: which of the known models an update draws and which one its delivery replaces,
    as numbers. Instance i is i, the models under way follow, then the updates that are planned here."""

    drawn: list[int]
    generation: list[int]
    replaced: list[int]
    left: list[int]  #: what stands at each place in the end


def _ordered(draws: list[int], discards: list[int], instances: int, waiting: int, in_flight: int) -> _Order:
    known = instances + waiting
    drawn, replaced, left = [], [], list(range(instances))
    generation = [0] * known
    delivery = waiting - in_flight + 1
    for place in draws:
        source = left[place]
        drawn.append(source)
        generation.append(generation[source] + 1)
        if delivery >= 0:
            where = discards[delivery]
            replaced.append(left[where])
            left[where] = instances + delivery
        delivery += 1
    return _Order(drawn, generation[known:], replaced, left)


class _Places:
    """Places at random, each with the same chance; what was planned and not used serves the next plan."""

    def __init__(self, count: int, randomness: Randomness) -> None:
        self._count, self._randomness = count, randomness
        self._ready: list[int] = []

    def first(self, count: int) -> list[int]:
        missing = count - len(self._ready)
        if missing > 0:
            self._ready += self._randomness.below(self._count, missing).tolist()
        return self._ready[:count]

    def drop(self, count: int) -> None:
        del self._ready[:count]


class _Ahead:
    """Noise for contributions to come, drawn for many together; what was not used serves the next plan."""

    def __init__(self, prepared: Prepared, randomness: Randomness) -> None:
        self._prepared, self._randomness = prepared, randomness
        self._ready = prepared.ahead(0, randomness)

    def first(self, count: int, most: int) -> Drawn:
        """The next so many; where some are missing, `most` are drawn together."""
        missing = count - len(self._ready)
        if missing > 0:
            drawn = self._prepared.ahead(max(missing, most), self._randomness)
            self._ready = np.concatenate([self._ready, drawn])
        return self._ready[:count]

    def drop(self, count: int) -> None:
        self._ready = self._ready[count:]


class TrainingCrew:
    """The people who train one lane, `in_flight` at a time."""

    def __init__(
        self,
        document: DrawDiscardDocument,
        aggregator: DrawDiscardAggregator,
        lane: int,
        prepared: Prepared,
        randomness: Randomness,
        in_flight: int,
    ) -> None:
        self._document, self._aggregator, self._lane = document, aggregator, lane
        self._prepared, self._randomness, self._in_flight = prepared, randomness, in_flight
        self._instances: Instances = aggregator.lanes[lane]
        self._under_way = np.empty((0, self._instances.models.shape[1]))
        self._versions = np.empty(0, dtype=np.int64)  # of what those under way were made from
        self._draws = _Places(self._instances.count, randomness)
        self._discards = _Places(self._instances.count, randomness)
        self._ahead = _Ahead(prepared, randomness)
        self._together = _MOST_TOGETHER
        self._taken = 0

    def work(self, people: Integers) -> int:
        """Let these people take part in this order; how many contributions were taken."""
        if not len(people):
            return 0
        most = max(_LEAST_TOGETHER, min(_MOST_TOGETHER, _NUMBERS // self._prepared.numbers(people)))
        start = 0
        while start < len(people) and not self._aggregator.settled:
            size = min(self._together, most, self._until_look())
            planned = people[start : start + size]
            start += self._block(planned, min(most, len(people) - start))
        self._deliver_rest()
        return self._taken

    def _until_look(self) -> int:
        """No block reaches beyond the next point of the history, or the next look at the target."""
        updates, target = self._instances.updates, self._document.target
        left = self._instances.stride - updates % self._instances.stride
        if target is not None and self._lane == self._document.kept:
            left = min(left, target.over - updates % target.over)
        return left

    def _block(self, people: Integers, most: int) -> int:
        """Plan and compute the next updates; how many people have drawn. An outlier ends the block: what came after it
        was planned as if it had been mixed in, and is planned again. What hides `most` is drawn together."""
        instances, waiting, flight = self._instances, len(self._under_way), self._in_flight
        count, n = instances.count, len(people)
        deliveries = max(0, waiting + n - flight + 1)
        draws, discards = self._draws.first(n), self._discards.first(deliveries)
        order = _ordered(draws, discards, count, waiting, flight)
        versions = instances.updates + np.maximum(0, waiting + np.arange(n) - flight + 1)
        rates = np.full(n, 1.0) * self._document.rate(self._lane, versions)
        models, rows = self._computed(order, people, rates, self._ahead.first(n, most))
        arrived = models[rows[count : count + deliveries]]
        versions = np.concatenate([self._versions, versions])
        ages = self._ages(versions[:deliveries])
        outlier = self._first_outlier(arrived, models[rows[order.replaced]], versions[:deliveries], ages)
        mixed = deliveries if outlier is None else outlier
        if outlier is not None:
            n = outlier - waiting + flight  # who drew until it arrived
            self._together = max(_LEAST_TOGETHER, self._together // 2)
            order = _ordered(draws[:n], discards, count, waiting, flight)
            order.left[discards[outlier]] = order.replaced[outlier]
            self._set_aside()
        else:
            self._together = min(_MOST_TOGETHER, self._together * 2)
        heard = mixed if outlier is None else mixed + 1
        self._draws.drop(n)
        self._ahead.drop(n)
        self._discards.drop(heard)
        left = rows[count + heard : count + waiting + n]
        self._under_way, self._versions = models[left], versions[heard : waiting + n]
        instances.age = ages[mixed]
        instances.jump(models[rows[order.left]], mixed)
        self._taken += mixed
        if mixed:
            self._aggregator.look_at_target(self._lane)
        return n

    def _computed(self, order: _Order, people: Integers, rates: Floats, ahead: Drawn) -> tuple[Floats, Integers]:
        """(every known model and every update, in which line each of them stands), generation by generation."""
        instances, known = self._instances, self._instances.count + len(self._under_way)
        generation = np.array(order.generation)
        sorted_ = np.argsort(generation, kind="stable")
        rows = np.arange(known + len(people))
        rows[known + sorted_] = known + np.arange(len(people))
        models = np.empty((known + len(people), instances.models.shape[1]))
        models[: instances.count], models[instances.count : known] = instances.models, self._under_way
        batch = self._prepared.batch(people[sorted_])
        sources, rates, ahead = rows[np.array(order.drawn)[sorted_]], rates[sorted_], ahead[sorted_]
        ends = np.flatnonzero(np.diff(generation[sorted_], append=-1)) + 1
        start = 0
        for end in ends.tolist():
            span = slice(start, end)
            models[known + start : known + end] = self._prepared.changed(
                models[sources[span]], rates[span], batch.some(span), ahead[span]
            )
            start = end
        return models, rows

    def _ages(self, versions: Integers) -> list[float]:
        """The usual age of contributions before each of these arrives, and after the last."""
        age, aged, updates = self._instances.age, self._aggregator.outliers.aged, self._instances.updates
        ages = [age]
        for place, version in enumerate(versions.tolist()):
            age = aged(age, updates + place - version)
            ages.append(age)
        return ages

    def _first_outlier(
        self, arrived: Floats, replaced: Floats, versions: Integers, ages: Sequence[float]
    ) -> int | None:
        """The first arrival that lies too far from the instances as they stand just then."""
        outliers, count = self._aggregator.outliers, self._instances.count
        if not outliers.active or not len(arrived):
            return None
        origin, sums, squares = self._instances.about()
        new, old = arrived - origin, replaced - origin
        sums = sums + _before(new - old)
        squares = squares + _before(new * new - old * old)
        variance = np.maximum((squares - sums * sums / count) / (count - 1), 0.0)
        usual = np.array(ages[: len(arrived)])[:, None]
        far = np.abs(new - sums / count) > self._aggregator.limits(self._lane, variance, versions[:, None], usual)
        found = np.flatnonzero(far.any(axis=1))
        return int(found[0]) if len(found) else None

    def _deliver_rest(self) -> None:
        """Send what those answer who still hold a drawn model."""
        for weights, version in zip(self._under_way, self._versions[:, None], strict=True):
            if self._aggregator.settled:
                return
            ages = self._ages(version)
            place = self._discards.first(1)[0]
            self._discards.drop(1)
            replaced = self._instances.models[[place]]
            if self._first_outlier(weights[None, :], replaced, version, ages) is not None:
                self._set_aside()
            else:
                self._instances.age = ages[1]
                self._instances.replace(place, weights)
                self._taken += 1
                self._aggregator.look_at_target(self._lane)

    def _set_aside(self) -> None:
        with suppress(OutlyingContribution):
            self._aggregator.set_aside(self._lane)
            self._taken += 1


def _before(changes: Floats) -> Floats:
    """The sum of all changes before each."""
    summed = np.cumsum(changes, axis=0)
    summed -= changes
    return summed
