"""The rows of one site as a task's people: read once, and held for the next round where they are few enough."""

from __future__ import annotations

import hashlib
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thebes.data.table import Table
from thebes.learning.slopes import Slopes, curvatures
from thebes.privacy.held_out import ContentCoins
from thebes.privacy.randomness import Coin, Randomness
from thebes.privacy.stability import LARGEST_TOTAL
from thebes.tasks.train.plan import TrainingPlan

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_HELD = 2**25  #: numbers of rows kept between steps and rounds, at most; more are read again
_AT_ONCE = 2**21  #: numbers of gradients held at a time


@dataclass(frozen=True, slots=True)
class PeopleRows:
    """Some people's rows: person p's are those from `starts[p]` to the next. Inputs are as `Encoding.lines` keeps
    them."""

    inputs: NDArray[Any]
    targets: Floats
    starts: Integers

    @property
    def count(self) -> int:
        return len(self.starts)

    @property
    def numbers(self) -> int:
        return self.inputs.nbytes // 8 + self.targets.size

    def contents(self) -> Iterator[bytes]:
        """Give each person's rows, whatever their order."""
        table = np.column_stack([self.inputs, self.targets]) + 0.0  # no zero below 0
        for start, stop in pairwise([*self.starts.tolist(), len(table)]):
            own = table[start:stop]
            yield (own if len(own) == 1 else own[np.lexsort(own.T)]).tobytes()

    def chosen(self, people: NDArray[np.bool_]) -> PeopleRows:
        """Keep these people alone."""
        sizes = np.diff(np.append(self.starts, len(self.inputs)))
        rows, kept = np.repeat(people, sizes), sizes[people]
        return PeopleRows(self.inputs[rows], self.targets[rows], np.cumsum(kept) - kept)

    def one_each(self) -> tuple[Floats, Floats]:
        """Return one row of each person, chosen by what all of its rows are."""
        sizes = np.diff(np.append(self.starts, len(self.inputs)))
        own = [int.from_bytes(hashlib.blake2b(each, digest_size=8).digest(), "big") for each in self.contents()]
        table = np.column_stack([self.inputs, self.targets])
        rows = [
            table[start : start + size][np.lexsort(table[start : start + size].T)][drawn % size]
            for start, size, drawn in zip(self.starts.tolist(), sizes.tolist(), own, strict=True)
        ]
        found = np.array(rows).reshape(len(rows), table.shape[1])
        return found[:, :-1], found[:, -1]


class SiteRows(Protocol):
    """All people of one site, again and again."""

    def __iter__(self) -> Iterator[PeopleRows]: ...


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums that one step makes, in whole numbers: everybody's clipped gradient, everybody, everybody's loss,
    everybody's second derivatives (without any where they are not wanted)."""

    sums: Integers
    people: int
    loss: int
    curvature: Integers


def read(plan: TrainingPlan, table: Table, *, aside: bool = False) -> Iterator[PeopleRows]:
    """Everybody that the model is made from, as the table clips: some at a time, a person never in two pieces; or, with
    `aside`, those that it is tested on. Without a test nobody is set aside."""
    if not plan.descent.quality:
        yield from () if aside else _everybody(plan, table)
        return
    coins = ContentCoins(plan.descent.digest)
    for people in _everybody(plan, table):
        kept = people.chosen(np.array([coins.toss(own) for own in people.contents()]) == aside)
        if kept.count:
            yield kept


def _everybody(plan: TrainingPlan, table: Table) -> Iterator[PeopleRows]:
    descent, encoding = plan.descent, plan.encoding
    for batch in descent.made.table(table).batches((*descent.inputs, descent.output), plan.where):
        rows = len(batch.people)
        if not rows:
            continue
        # Where a row is the unit, each is one by itself, whoever it is about.
        alone = table.schema.unit == "event"
        new = np.ones(rows, dtype=np.bool_) if alone else np.append(True, batch.people[1:] != batch.people[:-1])
        numbers = np.asarray(batch.numbers, dtype=np.float64)
        yield PeopleRows(encoding.lines(batch), encoding.target(numbers[:, -1]), np.flatnonzero(new))


class RowCache:
    """The rows that were read of a table for a task, held for as long as the table is there."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[int, str], tuple[weakref.ref[Table], list[PeopleRows]]] = OrderedDict()

    def rows(self, plan: TrainingPlan, table: Table) -> SiteRows:
        """The rows of a task at a table, held or read again for every step."""
        key = (id(table), plan.descent.digest)
        found = self._held.get(key)
        if found is not None and found[0]() is table:
            self._held.move_to_end(key)
            return found[1]
        pieces, numbers = [], 0
        for people in read(plan, table):
            pieces.append(people)
            numbers += people.numbers
            if numbers > _HELD:
                return _Anew(plan, table)
        self._held[key] = (weakref.ref(table, lambda _: self._held.pop(key, None)), pieces)
        while sum(people.numbers for _, held in self._held.values() for people in held) > _HELD:
            self._held.popitem(last=False)
        return pieces

    def forget(self, plan: TrainingPlan, table: Table) -> None:
        """The task is done with this table."""
        self._held.pop((id(table), plan.descent.digest), None)


@dataclass(frozen=True, slots=True)
class _Anew:
    plan: TrainingPlan
    table: Table

    def __iter__(self) -> Iterator[PeopleRows]:
        return read(self.plan, self.table)


def totals(
    plan: TrainingPlan, rows: SiteRows, slopes: Slopes, weights: Floats, coin: Coin | None, randomness: Randomness
) -> Totals:
    """One step over everybody, or over those whose own coin comes up: drawn here, told to nobody."""
    sums, people, lost = np.zeros(plan.weights, dtype=np.int64), 0, 0
    curvature = np.zeros(plan.curvature.coordinates if plan.descent.curved else 0, dtype=np.int64)
    for some in rows:
        chosen = np.ones(some.count, dtype=np.bool_) if coin is None else randomness.toss(coin, some.count)
        people += int(chosen.sum())
        most = max(1, _AT_ONCE // (plan.curvature.coordinates if plan.descent.curved else plan.weights))
        for part in _parts(some, chosen, most):
            gradients, losses = _by_person(plan, part, slopes, weights, most)
            # A person adds at most 2^bits to a coordinate, and there are few of them: far below what 64 bits hold.
            added = plan.sums.integers(gradients).sum(axis=0)
            sums = np.clip(sums + added, -LARGEST_TOTAL, LARGEST_TOTAL)
            if plan.descent.loss_share is not None:
                lost += int(plan.losses.total(losses)[0])
            if plan.descent.curved:
                added = plan.curvature.integers(_bends(plan, part, weights)).sum(axis=0)
                curvature = np.clip(curvature + added, -LARGEST_TOTAL, LARGEST_TOTAL)
    return Totals(sums, people, min(lost, LARGEST_TOTAL), curvature)


def _bends(plan: TrainingPlan, some: PeopleRows, weights: Floats) -> Floats:
    """The second derivatives of each person's loss: the mean of those of its rows, or their sum."""
    each = curvatures(some.inputs, weights, logistic=plan.descent.family == "LogisticRegression")
    each = np.where(np.isfinite(each), each, 0.0)
    if len(each) == some.count:
        return each
    added = np.add.reduceat(each, some.starts, axis=0)
    if plan.descent.reduce == "sum":
        return np.asarray(added)
    return np.asarray(added / np.diff(np.append(some.starts, len(each)))[:, None])


def _by_person(
    plan: TrainingPlan, some: PeopleRows, slopes: Slopes, weights: Floats, most: int
) -> tuple[Floats, Floats]:
    """A gradient and a loss for each person; what is no number counts as no gradient and as the worst loss."""
    rows = len(some.inputs)
    if some.count == 1 and rows > most:  # one person's rows a few at a time
        gradients, losses = np.zeros((1, plan.weights)), np.zeros(1)
        for start in range(0, rows, most):
            each, lost = _finite(
                plan, slopes, weights, some.inputs[start : start + most], some.targets[start : start + most]
            )
            with np.errstate(over="ignore", invalid="ignore"):
                gradients, losses = gradients + each.sum(axis=0), losses + lost.sum()
    else:
        gradients, losses = _finite(plan, slopes, weights, some.inputs, some.targets)
        if rows == some.count:
            return gradients, losses
        with np.errstate(over="ignore", invalid="ignore"):
            gradients, losses = np.add.reduceat(gradients, some.starts, axis=0), np.add.reduceat(losses, some.starts)
    each_has = np.diff(np.append(some.starts, rows))
    if plan.descent.reduce == "mean":
        gradients = gradients / each_has[:, None]
    return np.where(np.isfinite(gradients), gradients, 0.0), losses / each_has


def _finite(
    plan: TrainingPlan, slopes: Slopes, weights: Floats, inputs: NDArray[Any], targets: Floats
) -> tuple[Floats, Floats]:
    gradients, losses = slopes.of(weights, plan.encoding.fed(inputs), targets)
    worst = plan.descent.loss_bound
    losses = np.where(np.isfinite(losses), np.clip(losses, 0.0, worst), worst)
    return np.where(np.isfinite(gradients), gradients, 0.0), losses


def _parts(some: PeopleRows, chosen: NDArray[np.bool_], most_rows: int) -> Iterator[PeopleRows]:
    """The people who take part, about so many rows at a time, none of them cut in two."""
    ends = np.append(some.starts[1:], len(some.inputs))
    if chosen.all() and len(some.inputs) <= most_rows:
        yield some
        return
    members = np.flatnonzero(chosen)
    counts = (ends - some.starts)[members]
    place = 0
    while place < len(members):
        until = np.cumsum(counts[place:])
        size = max(1, int(np.searchsorted(until, most_rows, side="right")))
        now = members[place : place + size]
        own = counts[place : place + size]
        first = np.cumsum(own) - own
        where = np.repeat(some.starts[now] - first, own) + np.arange(int(own.sum()))
        yield PeopleRows(some.inputs[where], some.targets[where], first)
        place += size
