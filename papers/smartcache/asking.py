"""Asking a workload through the planner that sites use, in each of its ways; what that cost and how far it was off.

Every strategy is `curator.cache` as it is: the same purchases, the same noise, the same synopses. Only the ledger is
left out; a list of purchases stands for it, which is priced as a block would.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from papers.smartcache.tables import Asked
from thebes.curator.cache.answer import AnswerSource
from thebes.curator.cache.cells import Cells
from thebes.curator.cache.planner import Planner
from thebes.curator.cache.purchase import Purchase, size_of
from thebes.curator.cache.requirement import Wanted
from thebes.curator.cache.store import CacheStore
from thebes.curator.cache.synopsis import View
from thebes.curator.cache.synopsis_kinds import synopsis_of
from thebes.curator.cache.synthesis.allowance import SynthesisAllowance
from thebes.curator.cache.synthesis.domain import Domain
from thebes.curator.cache.synthesis.recipe import Independent
from thebes.curator.questions.plans import Integers, Plan, QuestionPlan, SumPlan
from thebes.curator.questions.question import Question
from thebes.data.engines.source import frame_table
from thebes.data.table import Table
from thebes.ledger.filters import BASIC, CONCENTRATED, charging_events
from thebes.privacy import exact
from thebes.privacy.losses import Concentrated, concentrated_to_approximate
from thebes.privacy.measurement import Floats
from thebes.privacy.randomness import Randomness, seeded_for_simulation

ALPHA, BETA = 0.05, 0.001  #: every total within 5 % of the rows, all of one answer together, but for one in 1,000
DELTA = exact.delta("1e-6")  #: at which what was paid in rho is read
_PLENTY = 1000  #: no answer is refused here for its price
_SYNTHETIC = "0.1"  #: epsilon of made-up rows, once


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to answer. `noise` "gaussian": the budget counts in rho and Gaussian noise may be drawn. `kind`: as a
    data set declares its cache, with `parameters`; "synthetic": everything from made-up rows, which are bought once."""

    name: str
    kind: str = "none"
    noise: str = "laplace"
    parameters: tuple[tuple[str, Any], ...] = ()
    by_epsilon: bool = False  #: what is wanted is said as the epsilon that the accuracy costs, without the accuracy

    @property
    def filter(self) -> str:
        return (CONCENTRATED if self.noise == "gaussian" else BASIC).name

    def in_rho(self) -> Strategy:
        """The same where a budget counts in rho."""
        return replace(self, name=f"{self.name} + Gaussian", noise="gaussian")

    def over(self, columns: tuple[str, ...]) -> Strategy:
        """The same with a synopsis of some columns only; all of them have declared values."""
        return replace(self, parameters=(*self.parameters, ("columns", columns), ("bins", ())))

    def wanted(self, plan: Plan, asked: Asked) -> Wanted:
        delta = DELTA if self.noise == "gaussian" else 0
        width = width_of(plan, asked)
        if not self.by_epsilon:
            return Wanted(_PLENTY, delta, width, BETA)
        _, purchase = Wanted(_PLENTY, 0, width, BETA).calibrated(plan, asked.schema)
        return Wanted(purchase.epsilon, delta)


def smart(threshold: float) -> Strategy:
    """The seed's cache: a guess that the parts agree on is compared every time, with a noisy threshold, and is good
    enough where it is as close as noise would be with this probability."""
    declared = (("threshold", threshold), ("check", "threshold"), ("trust", 0.0))
    return Strategy(f"smart {threshold:g}", "smart", parameters=declared, by_epsilon=True)


NONE = Strategy("none")
EXACT = Strategy("exact", "exact")
GAUSSIAN = EXACT.in_rho()
SMART = Strategy("smart", "smart")
PMW = Strategy("pmw", "pmw")
SYNTHETIC = Strategy("synthetic only", "synthetic")
STRATEGIES = (
    NONE,
    Strategy("Gaussian", noise="gaussian"),
    SYNTHETIC,
    EXACT,
    GAUSSIAN,
    *(smart(threshold) for threshold in (0.9, 0.99, 0.999)),
    PMW,
    SMART,
)


@dataclass(frozen=True, slots=True)
class Trail:
    """The trail of one unit: what it had paid after each question (epsilon, at `DELTA` where it was paid in rho), and
    how far the farthest total of each answer was off, as a share of what it might be."""

    paid: tuple[float, ...]
    errors: tuple[float, ...]
    sources: Counter[str] = field(default_factory=Counter)

    @property
    def missed(self) -> float:
        """The share of answers with a total farther off than it may be."""
        return float(np.mean(np.array(self.errors) > 1))


class Truth:
    """A table's exact totals, added up once for each question however many strategies ask it."""

    def __init__(self, asked: Asked) -> None:
        self.asked, self.open = asked, frame_table(asked.schema, asked.frame)
        self._plans: dict[Question, Plan] = {}
        self._totals: dict[int, tuple[QuestionPlan, Integers]] = {}

    def plan(self, question: Question) -> Plan:
        if question not in self._plans:
            self._plans[question] = question.plan(self.asked.schema, epsilon=1)
        return self._plans[question]

    # --- the rows, as a planner is given them ---------------------------------------------------------------

    view: View = ()

    def table(self, blocks: View | None = None) -> Table:
        return self.open

    def totals(self, plan: QuestionPlan, blocks: View | None = None) -> Integers:
        known = self._totals.get(id(plan))
        if known is None:
            known = self._totals[id(plan)] = plan, plan.totals(self.open)
        return known[1]


@lru_cache(maxsize=4)
def truth(asked: Asked) -> Truth:
    return Truth(asked)


class Paid:
    """Stands for a ledger: what was paid for, in order."""

    def __init__(self, filter: str) -> None:
        self._filter, self._size = filter, 0.0

    def pay(self, purchase: Purchase, number: int) -> None:
        self._size += float(size_of(purchase, self._filter))

    def settle(self, paid: Sequence[Purchase]) -> None:
        """Nothing was set aside."""

    @property
    def epsilon(self) -> float:
        return _read(self._size) if self._filter in charging_events() else self._size


@lru_cache(maxsize=8)
def _read(rho: float) -> float:
    return float(concentrated_to_approximate(Concentrated(repr(rho)), DELTA).epsilon) if rho else 0.0


def ask(asked: Asked, questions: Sequence[Question], strategy: Strategy, seed: int) -> Trail:
    """All of them, one after another."""
    return ask_of(truth(asked), questions, strategy, seed)


def ask_of(rows: Truth, questions: Sequence[Question], strategy: Strategy, seed: int) -> Trail:
    """The same, of a table whose totals are known."""
    paid, randomness = Paid(strategy.filter), seeded_for_simulation(seed)
    costs, errors, sources = [], [], Counter[str]()
    with _answering(rows, strategy, paid, randomness) as answer:
        for question in questions:
            plan = rows.plan(question)
            totals, source = answer(plan)
            off = np.abs(totals - rows.totals(plan)).max()
            sources[source] += 1
            costs.append(paid.epsilon)
            errors.append(float(off / width_of(plan, rows.asked)))
    return Trail(tuple(costs), tuple(errors), sources)


Answer = Callable[[Plan], tuple[Floats, str]]


@contextmanager
def _answering(rows: Truth, strategy: Strategy, paid: Paid, randomness: Randomness) -> Iterator[Answer]:
    asked = rows.asked
    if strategy.kind == "none":
        yield lambda plan: _drawn(plan, rows, strategy, paid, randomness)
    elif strategy.kind == "synthetic":
        cells, mass = _made_up(rows, paid, randomness)
        yield lambda plan: (cells.vectors(plan).totals(mass), AnswerSource.SYNOPSIS)
    else:
        with tempfile.TemporaryDirectory() as folder:
            store = CacheStore(Path(folder) / "cache.db")
            declared = dict(strategy.parameters)
            if strategy.kind != "exact":
                declared = {**declared, "bins": dict(declared.get("bins", asked.bins))}
            made = synopsis_of(strategy.kind, asked.schema, declared, filter=strategy.filter)
            planner = Planner(asked.schema, store, filter=strategy.filter, fresh_for=math.inf, synopsis=made)

            def answer(plan: Plan) -> tuple[Floats, str]:
                answered = planner.answer(
                    plan,
                    strategy.wanted(plan, asked),
                    rows,
                    reserve=lambda most: paid,
                    buy=lambda most, name: paid,
                    randomness=randomness,
                )
                return answered.totals, answered.source

            try:
                yield answer
            finally:
                store.close()


def _drawn(plan: Plan, rows: Truth, strategy: Strategy, paid: Paid, randomness: Randomness) -> tuple[Floats, str]:
    noise, purchase = strategy.wanted(plan, rows.asked).calibrated(plan, rows.asked.schema, filter=strategy.filter)
    paid.pay(purchase, 0)
    return noise.add(rows.totals(plan), randomness), AnswerSource.MECHANISM


def _made_up(rows: Truth, paid: Paid, randomness: Randomness) -> tuple[Cells, Floats]:
    """The seed's generator, made sound: every column by itself. About how many rows each cell has."""
    recipe = Independent(Domain.of(rows.asked.schema, None, rows.asked.bins), SynthesisAllowance(_SYNTHETIC))
    learned = recipe.learned(rows.open, lambda: paid.pay(Purchase.of_pure(recipe.event), 0), randomness)
    return Cells(recipe.domain.cuts), learned.size * learned.distribution.dense()


def width_of(plan: Plan, asked: Asked) -> float:
    """Return how far a total may be off, in its own steps."""
    return ALPHA * asked.rows * (plan.grid.steps if isinstance(plan, SumPlan) else 1)
