"""The one way of a question to an answer: what was released before, then a synopsis of it, then the mechanism.

What must stay true: which of the three it is, and what it costs at most, follow from what was released; a charge is
durable before noise is drawn, and a failed check is over on disk before what follows from it is charged; what is
released is on disk, with the state that gave it, before it leaves; one question at a time is answered about a data set,
but for what was released before: who asks that waits for nobody.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from thebes.curator.cache.answer import NOTHING, Amounts, Answered, AnswerSource
from thebes.curator.cache.purchase import Purchase, amounts
from thebes.curator.cache.released_answers import ReleasedAnswer, best, key_of
from thebes.curator.cache.requirement import Wanted
from thebes.curator.cache.store import CacheStore
from thebes.curator.cache.synopsis import Synopsis, View, ViewRows
from thebes.curator.questions.noise import noise_made
from thebes.curator.questions.plans import Integers, Plan, QuestionPlan
from thebes.data.schema import Schema
from thebes.data.table import Table
from thebes.ledger.filters import BASIC
from thebes.privacy.faults import Fault, Refusal
from thebes.privacy.randomness import Randomness

_EMPTY = Answered(np.zeros(0), None, None, AnswerSource.MECHANISM)
BOUGHT = "cache "  #: how keys of claims begin that buy what a synopsis is made of; nobody who asks has made them
_SPOILED = "spoiled"  #: stands for the key of an answer that was paid for and never made
FRESH_SECONDS = 86_400.0  #: for so long an answer about a data set that does not grow is given again


class Paying(Protocol):
    """A loss that is set aside, in the hands of the planner."""

    def pay(self, purchase: Purchase, number: int) -> None:
        """Charge a part for good, durably; the same part with the same number again changes nothing."""
        ...

    def settle(self, paid: Sequence[Purchase]) -> None:
        """This is all: give back the rest."""
        ...


Reserve = Callable[[Sequence[Purchase]], Paying]  #: set aside what these cost together, or a Refusal; then reach rows
Buy = Callable[[Sequence[Purchase], str], Paying]  #: the same for the data set itself, under a name that is used once


@dataclass(frozen=True, slots=True)
class PlannedPrice:
    """The most that an answer costs, and where it would come from now."""

    source: AnswerSource
    cost: Amounts
    made: Amounts | None  #: to which its noise will be calibrated, where that is known before
    purchases: tuple[Purchase, ...] = ()  #: what is to be paid for at most


@dataclass(slots=True)
class _Payments:
    """Pays what was set aside, each purchase at most as often as it was named before."""

    paying: Paying
    allowed: Counter[Purchase]
    paid: list[Purchase]

    @classmethod
    def of(cls, paying: Paying, most: Sequence[Purchase]) -> _Payments:
        return cls(paying, Counter(most), [])

    def pay(self, purchase: Purchase) -> None:
        if not self.allowed[purchase]:
            raise Fault("a synopsis pays for what it did not say before")
        self.allowed[purchase] -= 1
        self.paying.pay(purchase, self.paid.count(purchase))
        self.paid.append(purchase)

    def settle(self) -> None:
        self.paying.settle(self.paid)


@dataclass
class _Watched:
    """Rows, and whether anything was read of them."""

    rows: ViewRows
    view: View = field(init=False)
    seen: bool = False

    def __post_init__(self) -> None:
        self.view = self.rows.view

    def table(self, blocks: View | None = None) -> Table:
        self.seen = True
        return self.rows.table(blocks)

    def totals(self, plan: QuestionPlan, blocks: View | None = None) -> Integers:
        self.seen = True
        return self.rows.totals(plan, blocks)


class Planner:
    """One data set's. `filter` is how its blocks count; `fresh_for` is for how many seconds an answer is given again
    where the view does not say which rows it is about (a set that does not grow). `rows` names where they lie: what was
    released about others is not given."""

    def __init__(
        self,
        schema: Schema,
        store: CacheStore,
        *,
        filter: str = BASIC.name,
        fresh_for: float = FRESH_SECONDS,
        synopsis: Synopsis | None = None,
        rows: str = "",
    ) -> None:
        self.schema, self.store, self._rows = schema, store, rows
        self._filter, self._fresh_for, self._synopsis = filter, fresh_for, synopsis
        self._loaded: int | None = None  # the generation of state that the synopsis has
        self._gone = frozenset[str]()  # blocks that took no more questions when it was last looked

    def recall(
        self,
        plan: QuestionPlan,
        wanted: Wanted,
        view: View,
        *,
        payer: str = "",
        context: str = "",
        question: str | None = None,
    ) -> Answered | None:
        """A released answer that is good enough, for nothing; to who has paid for it, as it was. What is on disk may
        leave: nothing has to be waited for."""
        known = self._known(plan, wanted, view, context, payer)
        if known is not None and known.source is AnswerSource.CACHE:
            self._note(known, plan, wanted, question)
        return known

    def quote(self, plan: QuestionPlan, wanted: Wanted, view: View, *, context: str = "") -> PlannedPrice:
        """Return what an answer would cost now: from public things alone, and nothing is changed."""
        known = self._known(plan, wanted, view, context, "")
        if known is not None:
            return PlannedPrice(AnswerSource.CACHE, NOTHING, known.made)
        with self.store.alone():
            covering = self._covering(plan, context)
            if covering is not None and not covering[0].preparation(view):
                most = covering[0].most(covering[1], wanted, view)
                if most is not None and _within(amounts(most), wanted):
                    return PlannedPrice(AnswerSource.SYNOPSIS, amounts(most), None, tuple(most))
        return self.mechanism(plan, wanted)

    def mechanism(self, plan: QuestionPlan, wanted: Wanted) -> PlannedPrice:
        """Return what an answer costs that rows are read for, without a synopsis."""
        _, purchase = wanted.calibrated(plan, self.schema, filter=self._filter)
        made = (purchase.epsilon, purchase.delta)
        return PlannedPrice(AnswerSource.MECHANISM, made, made, (purchase,))

    def held(self, plan: QuestionPlan, view: View, *, context: str = "") -> Amounts | None:
        """To what the noise was calibrated of the best answer to a plan that can be given again; None where there is
        none."""
        kept = self.store.answers(key_of(plan, self.schema), self._place(view, context), since=self._since(view))
        made = [one.answered.made for one in kept if one.answered.made is not None]
        return min(made, key=lambda each: self._deviation(plan, each), default=None)

    def ended(self, gone: frozenset[str], over: Callable[[View], bool]) -> None:
        """Some blocks take no more questions: forget the answers about views that are `over`, once for these blocks."""
        if gone != self._gone:
            self.store.ended(over)
            self._gone = gone

    def due(self, view: View) -> Sequence[Purchase]:
        """Return what the synopsis must still buy before it can answer over a view."""
        with self.store.alone():
            synopsis = self._synopsis and self._current(self._synopsis)
            return () if synopsis is None else synopsis.preparation(view)

    def lacking(self, view: View) -> View:
        """The blocks of a view about which the synopsis must still buy something: these pay for it, and no others."""
        return tuple(block for block in view if self._synopsis is not None and self._synopsis.preparation((block,)))

    def _deviation(self, plan: QuestionPlan, made: Amounts) -> float:
        return noise_made(plan, self.schema, epsilon=made[0], delta=made[1]).deviation

    def answer(
        self,
        plan: QuestionPlan,
        wanted: Wanted,
        rows: ViewRows,
        *,
        reserve: Reserve,
        buy: Buy | None = None,
        randomness: Randomness,
        payer: str = "",
        context: str = "",
        question: str | None = None,
    ) -> Answered:
        """The answer. `payer` names for whom it is made: who was answered and asks again under that name gets the same
        answer. `context`: budgets that are separate share no answers. `question`: how it can be asked again, for
        forecasts."""
        told: dict[str, Any] = {"payer": payer, "context": context, "question": question}
        if (known := self.recall(plan, wanted, rows.view, **told)) is not None:
            return known
        key, place = key_of(plan, self.schema), self._place(rows.view, context)
        # A synopsis learns from every answer, one after the other; without one only who asks the same has to wait.
        alone = self.store.alone() if self._synopsis is not None else self.store.alone_with(f"{key} {place}")
        with alone:
            answered = self.recall(plan, wanted, rows.view, **told)  # somebody else may just have paid for it
            if answered is not None:
                return answered
            kept = ReleasedAnswer(key, place, payer, self.store.clock(), _EMPTY)
            covering = self._covering(plan, context)
            try:
                if covering is not None:
                    answered = self._through(covering, kept, wanted, rows, reserve, buy, randomness)
                if answered is None:
                    answered = self._drawn(covering, kept, plan, wanted, rows, reserve, randomness)
            except BaseException:
                self._loaded = None  # whatever it was about to learn was not written
                raise
            self._note(answered, plan, wanted, question)
            return answered

    # --- inside -------------------------------------------------------------------------------------------

    def _place(self, view: View, context: str) -> str:
        """A view by name, as answers about it are kept: other rows, and other budgets, have another."""
        return hashlib.sha256(json.dumps([context, self._rows, *view]).encode()).hexdigest()

    def _since(self, view: View) -> float | None:
        """From when on an answer about a view may be given again."""
        return None if view else self.store.clock() - self._fresh_for

    def _known(self, plan: QuestionPlan, wanted: Wanted, view: View, context: str, payer: str) -> Answered | None:
        key = key_of(plan, self.schema)
        own = self.store.paid_by(payer) if payer else None
        if own is not None:
            if own.key != key:
                raise Refusal("what was paid for this task is used up: it failed, or was answered as declared before")
            return own.answered
        if payer and self.store.paid(payer):
            raise Refusal("what was paid for this task is not kept any more; put it up anew")
        kept = self.store.answers(key, self._place(view, context), since=self._since(view))
        found = best(kept, plan, self.schema, wanted)
        return None if found is None else replace(found.answered, source=AnswerSource.CACHE, cost=NOTHING)

    def _covering(self, plan: QuestionPlan, context: str) -> tuple[Synopsis, Plan] | None:
        """The synopsis with the plan that it may answer; of several statistics at once it answers none."""
        one = plan.single
        if self._synopsis is None or context or one is None or not self._synopsis.covers(one):
            return None
        return self._current(self._synopsis), one

    def _current(self, synopsis: Synopsis) -> Synopsis:
        """The synopsis as it was last written."""
        if self._loaded != (written := self.store.generation):
            synopsis.restore(self.store.pieces())
            self._loaded = written
        return synopsis

    def _through(
        self,
        covering: tuple[Synopsis, Plan],
        kept: ReleasedAnswer,
        wanted: Wanted,
        rows: ViewRows,
        reserve: Reserve,
        buy: Buy | None,
        randomness: Randomness,
    ) -> Answered | None:
        """Return what a synopsis answers; None where it cannot, or costs more than may be paid."""
        synopsis, plan = covering
        if not self._prepared(synopsis, kept.view, rows, buy, randomness):
            return None
        most = synopsis.most(plan, wanted, rows.view)
        if most is None or not _within(amounts(most), wanted):
            return None
        try:
            payments = _Payments.of(reserve(most), most)
        except Refusal:
            return None  # the mechanism may cost less

        watched, spoiled = _Watched(rows), replace(kept, key=_SPOILED) if kept.payer else None

        def pay(purchase: Purchase) -> None:
            # A charge can be seen, also of a process that is killed over it: it says that a check had failed. By then
            # its opening must be over on disk, and so must be what was paid: who tries again would look for nothing.
            changed, again = synopsis.changed(), watched.seen and bool(payments.paid)
            if changed or again:
                self.store.looked(changed, spoiled if again else None)
            payments.pay(purchase)

        try:
            made = synopsis.answer(plan, wanted, watched, pay, randomness)
        except Exception:
            # Whoever is told of it may see that a check had failed: no opening goes on, nor does what they paid.
            self.store.spoil(spoiled if payments.paid else None)
            raise
        answered = replace(made, cost=amounts(payments.paid))
        self._keep(kept, answered, synopsis, rows.view)
        payments.settle()
        return answered

    def _prepared(self, synopsis: Synopsis, view: str, rows: ViewRows, buy: Buy | None, randomness: Randomness) -> bool:
        due = synopsis.preparation(rows.view)
        if not due:
            return True
        if buy is None:
            return False
        what = hashlib.sha256(json.dumps([view, self.lacking(rows.view), repr(due)]).encode()).hexdigest()
        try:
            payments = _Payments.of(buy(due, self.store.buying(what)), due)
        except Refusal:
            return False
        synopsis.prepare(rows, payments.pay, randomness)
        self.store.bought(what, synopsis.changed())
        self._loaded = self.store.generation
        payments.settle()
        return True

    def _drawn(
        self,
        covering: tuple[Synopsis, Plan] | None,
        kept: ReleasedAnswer,
        plan: QuestionPlan,
        wanted: Wanted,
        rows: ViewRows,
        reserve: Reserve,
        randomness: Randomness,
    ) -> Answered:
        noise, purchase = wanted.calibrated(plan, self.schema, filter=self._filter)
        payments = _Payments.of(reserve([purchase]), [purchase])
        payments.pay(purchase)
        made = (purchase.epsilon, purchase.delta)
        answered = Answered(noise.add(rows.totals(plan), randomness), made, None, AnswerSource.MECHANISM, made)
        if covering is not None:
            synopsis, one = covering
            synopsis.heard(one, answered, rows.view)
        self._keep(kept, answered, None if covering is None else covering[0], rows.view)
        payments.settle()
        return answered

    def _keep(self, kept: ReleasedAnswer, answered: Answered, synopsis: Synopsis | None, view: View) -> None:
        pieces = {} if synopsis is None else synopsis.changed()
        self.store.keep(replace(kept, answered=answered), pieces, blocks=view, fresh_for=self._fresh_for)
        if synopsis is not None:
            self._loaded = self.store.generation

    def _note(self, answered: Answered, plan: QuestionPlan, wanted: Wanted, question: str | None) -> None:
        """Count it, beside what a mechanism would have cost, or at least the most that was allowed."""
        try:
            worth = wanted.calibrated(plan, self.schema, filter=self._filter)[1].epsilon
        except Refusal:
            worth = wanted.epsilon
        told = json.dumps([str(wanted.epsilon), str(wanted.delta), wanted.width, wanted.beta, wanted.smooth])
        self.store.note(answered.source, answered.cost, worth, question=question, wanted=told)


def _within(cost: Amounts, wanted: Wanted) -> bool:
    return cost[0] <= wanted.epsilon and cost[1] <= wanted.delta
