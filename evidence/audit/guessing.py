"""Answers from a guess: all that is told of a course of questions, up to the first that the guess fails, with one
person there or not, who has as many rows as a person may have."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from thebes.curator.cache.pmw import Pmw, PmwParameters
from thebes.curator.cache.purchase import amounts
from thebes.curator.cache.requirement import Wanted
from thebes.curator.cache.smart.check import UNIT, Sought, SparseCheck
from thebes.curator.cache.synopsis import View
from thebes.curator.questions.plans import Integers, QuestionPlan
from thebes.curator.questions.question import Question
from thebes.data.table import Table
from thebes.tasks.audit.case import Audited, Case, Draw, repeatedly
from thebes.tasks.query.audit import ADD, ALIKE, FAST, OTHERS, ROWS, SCHEMA, SummedTable

QUESTIONS = 4
WANTED = Wanted(1000, 0, 12.0, 0.9)
#: the guess is as far off as it takes for a person's rows to matter most, and learns nothing
GUESSED = 9.0
PLAN = Question("count").plan(SCHEMA)


class _Rows:
    def __init__(self, table: Table) -> None:
        self.view: View = ()
        self._totals = PLAN.totals(table)

    def table(self, blocks: View | None = None) -> Table:
        raise NotImplementedError

    def totals(self, plan: QuestionPlan, blocks: View | None = None) -> Integers:
        return self._totals


def cases() -> list[Case]:
    """An opening, and the answer where it ends."""
    pmw, one, other = _draws(_told)
    paid = list(pmw.most(PLAN, WANTED, ()) or ())
    return [Audited("a guess, checked until it fails", float(amounts(paid)[0]), 0.0, ADD, one, other, draws=300)]


def broken() -> list[Case]:
    """A check that goes on with the same threshold after it failed, as if it had been paid again."""
    pmw, one, other = _draws(_told_on)
    paid = list(pmw.most(PLAN, WANTED, ()) or ())
    title = "a guess, checked by what should be over"
    return [Audited(title, float(amounts(paid)[0]), 0.0, ADD, one, other, positive_control=True, draws=40_000)]


def _draws(told: Callable[[Pmw, _Rows], list[float]]) -> tuple[Pmw, Draw, Draw]:
    pmw = Pmw(SCHEMA, PmwParameters(columns=("g",), visits=0, trust=0.0, penalty=100), sizes=lambda view: {"": GUESSED})
    tables = [SummedTable(pd.concat([OTHERS, *rows], ignore_index=True)) for rows in ([ALIKE], [])]
    one, other = (repeatedly(partial(told, pmw, _Rows(table))) for table in tables)
    return pmw, one, other


def _told(pmw: Pmw, rows: _Rows) -> list[float]:
    """Count the answers that came from the guess, and return the one that did not."""
    pmw.restore({})
    for place in range(QUESTIONS):
        answered = pmw.answer(PLAN, WANTED, rows, lambda purchase: None, FAST)
        if answered.made is not None:
            return [float(place), float(answered.totals[0])]
    return [float(QUESTIONS), 1e3]


def _told_on(pmw: Pmw, rows: _Rows) -> list[float]:
    """Count how many more guesses about the person fail than guesses about nobody."""
    sought = Sought(ROWS, 12, 0.45)
    scale = 3 * UNIT / float(SparseCheck().price(sought) or 1)
    distance = abs(int(rows.totals(PLAN)[0]) - round(GUESSED))
    asked = np.repeat([sought.excess(distance), sought.excess(sought.threshold)], 500)
    threshold = FAST.laplace(np.zeros(1, dtype=np.int64), scale=scale)
    failed = FAST.laplace(asked, scale=scale) >= threshold
    return [float(failed[:500].sum() - failed[500:].sum())]
