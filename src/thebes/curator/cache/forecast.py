"""The forecast of when a synopsis would start to pay: the questions of the past asked again, of a synopsis that starts
with nothing.

Everything here is public. The rows are played by released answers, whose noise is taken for the truth, and where more
is looked at (marginals) by rows that answer like them; nothing is charged, and nothing that a replay draws is an answer
to anybody.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from thebes.curator.cache.answer import AnswerSource
from thebes.curator.cache.look_alike_rows import Likeness
from thebes.curator.cache.planner import Planner
from thebes.curator.cache.purchase import Purchase, size_of
from thebes.curator.cache.released_answers import key_of
from thebes.curator.cache.requirement import Wanted
from thebes.curator.cache.store import CacheStore
from thebes.curator.cache.synopsis import Synopsis, View
from thebes.curator.questions.plans import CountPlan, Integers, Plan, QuestionPlan
from thebes.curator.questions.question import question_of
from thebes.data.schema import Schema
from thebes.data.table import Table
from thebes.ledger.filters import BASIC, filter_of
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.randomness import seeded_for_simulation

MOST_REPLAYED = 1000  #: latest questions
_SEED = 1  #: a forecast is the same each time it is made


@dataclass(frozen=True, slots=True)
class Forecast:
    """The cost of the questions by exact reuse alone, and with the synopsis, in the terms in which the data set counts
    (`measure`). `pays_from`: after so many questions like these the synopsis has cost less; None where that cannot be
    seen. `seen` says that this was so among the questions already, not read off how the two went on at the end."""

    questions: int
    exact: float
    synopsis: float
    measure: str
    hits: int
    pays_from: int | None
    seen: bool

    def as_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


def asked(store: CacheStore, schema: Schema) -> list[tuple[Plan, Wanted]]:
    """The latest questions that this schema still answers, oldest first."""
    found = []
    for question, wanted in store.asked()[-MOST_REPLAYED:]:
        epsilon, delta, *_ = told = json.loads(wanted)
        try:
            plan, needed = question_of(question).plan(schema, epsilon=epsilon, delta=delta), Wanted(*told)
            needed.calibrated(plan, schema)
            found.append((plan, needed))
        except (Mistake, Refusal):
            continue  # the schema was declared otherwise then
    return found


def forecast(
    store: CacheStore, schema: Schema, made: Callable[[], Synopsis], *, filter: str = BASIC.name
) -> Forecast | None:
    """Tell how a synopsis would have done; None where too little was asked to tell."""
    questions = [(plan, wanted) for plan, wanted in asked(store, schema) if store.latest(key_of(plan, schema))]
    if not questions:
        return None
    rows = _Played(store, schema, [plan for plan, _ in questions])
    try:
        alone, _ = _replayed(questions, rows, schema, None, filter)
        beside, hits = _replayed(questions, rows, schema, made(), filter)
    except Refusal:
        return None  # it would have to look at rows of which nothing was released
    pays_from, seen = _crossing(alone, beside)
    return Forecast(len(questions), alone[-1], beside[-1], filter_of(filter).measure, hits, pays_from, seen)


@dataclass
class _Played:
    """Rows as released answers tell of them."""

    store: CacheStore
    schema: Schema
    plans: Sequence[Plan]
    view: View = ()

    def table(self, blocks: View | None = None) -> Table:
        return self._likeness

    @cached_property
    def _likeness(self) -> Likeness:
        """The rows' likeness that a synopsis finds where it looks at more than what was asked."""
        plans = {key_of(plan, self.schema): plan for plan in self.plans}
        released = [(plan, self.totals(plan).astype(np.float64)) for plan in plans.values()]
        return Likeness.of(self.schema, released, float(self._everybody()))

    def totals(self, plan: QuestionPlan, blocks: View | None = None) -> Integers:
        kept = self.store.latest(key_of(plan, self.schema))
        if kept is not None:
            return np.rint(kept.answered.totals).astype(np.int64)
        if isinstance(plan, CountPlan) and plan.size == 1 and plan.where is None:
            return np.array([self._everybody()], dtype=np.int64)
        return plan.totals(self.table())

    def _everybody(self) -> int:
        """The most rows that a released count tells of."""
        counts = [plan for plan in self.plans if isinstance(plan, CountPlan)]
        if not counts:
            raise Refusal("a forecast does not know how many rows there are")
        return max(1, *(int(self.totals(plan).sum()) for plan in counts))


@dataclass
class _Bill:
    """Adds up what is paid."""

    filter: str
    paid: float = 0.0

    def reserve(self, purchases: Sequence[Purchase], name: str = "") -> _Bill:
        return self

    def pay(self, purchase: Purchase, number: int) -> None:
        self.paid += float(size_of(purchase, self.filter))

    def settle(self, paid: Sequence[Purchase]) -> None:
        """Nothing was set aside."""


def _replayed(
    questions: Sequence[tuple[Plan, Wanted]], rows: _Played, schema: Schema, synopsis: Synopsis | None, filter: str
) -> tuple[list[float], int]:
    """Return what was paid after each question, and how many the synopsis answered."""
    randomness, bill, after, hits = seeded_for_simulation(_SEED), _Bill(filter), list[float](), 0
    with TemporaryDirectory(prefix="thebes-") as folder:
        store = CacheStore(Path(folder) / "replay.db")
        planner = Planner(schema, store, filter=filter, synopsis=synopsis)
        for plan, wanted in questions:
            answered = planner.answer(plan, wanted, rows, reserve=bill.reserve, buy=bill.reserve, randomness=randomness)
            hits += answered.source is AnswerSource.SYNOPSIS
            after.append(bill.paid)
        store.close()
    return after, hits


def _crossing(alone: Sequence[float], beside: Sequence[float]) -> tuple[int | None, bool]:
    """From which question on one sum stays above the other: among those there are, or as both go on as in the latter
    half."""
    gap = np.array(alone) - np.array(beside)  # what the synopsis has saved so far
    if gap[-1] > 0:
        lost = np.flatnonzero(gap <= 0)
        return (int(lost[-1]) + 2 if lost.size else 1), True
    half = (len(gap) - 1) // 2
    gained = (gap[-1] - gap[half]) / max(1, len(gap) - 1 - half)
    if gained <= 0:
        return None, False
    return len(gap) + int(np.ceil(-gap[-1] / gained)) + 1, False
