"""The savings of a data set's cache, as its steward is shown them: from released answers and public amounts alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from thebes.curator.cache.planner import Planner
from thebes.curator.cache.purchase import loss_of
from thebes.curator.cache.requirement import Wanted
from thebes.curator.cache.synopsis import View
from thebes.curator.cache.synopsis_kinds import SYNOPSES
from thebes.curator.questions.question import Question, question_of
from thebes.ledger import Block, Ledger
from thebes.privacy.faults import Mistake, Refusal
from thebes.site.budget.purchases import shares
from thebes.site.dataset import DataSet

MOST_NEXT = 8  #: latest different questions whose price is told


def saved(
    dataset: DataSet,
    planner: Planner | None,
    view: View | None = (),
    *,
    ledger: Ledger | None = None,
    blocks: Sequence[Block] = (),
) -> dict[str, Any]:
    """Return how often an answer came from where, what all of them cost, what they would have cost from a mechanism
    each, day by day, what the latest questions would cost now, and what a synopsis has bought in these blocks of the
    ledger."""
    days = [] if planner is None else planner.store.days()
    sources: dict[str, int] = {}
    by_day: dict[str, dict[str, Any]] = {}
    for day in days:
        sources[day.source] = sources.get(day.source, 0) + day.count
        one = by_day.setdefault(day.day, {"day": day.day, "answers": 0, "free": 0, "epsilon": 0.0, "worth": 0.0})
        one["answers"] += day.count
        one["free"] += 0 if day.source == "mechanism" else day.count
        one["epsilon"] += day.epsilon
        one["worth"] += day.worth
    answers, cost, worth = (sum(one[name] for one in by_day.values()) for name in ("answers", "epsilon", "worth"))
    synoptic = dataset.cache.kind in SYNOPSES
    return {
        **dataset.cache.as_json(),
        "answers": answers,
        "sources": sources,
        "hit_rate": 1 - sources.get("mechanism", 0) / answers if answers else None,
        "epsilon": cost,
        "worth": worth,
        "days": list(by_day.values()),
        "next": [] if planner is None or view is None else _next(planner, view),
        **({"own": _own(dataset, ledger, blocks, planner, view)} if ledger is not None and synoptic else {}),
    }


def _own(
    dataset: DataSet, ledger: Ledger, blocks: Sequence[Block], planner: Planner | None, view: View | None
) -> dict[str, Any]:
    """Return which share of a block's budget its synopsis has cost, in the block where that is most, and may cost;
    `short` where what is lacking would be more than that: it is not bought then."""
    allowed, taken = dataset.cache.own_share, max(shares(ledger, blocks).values(), default=0.0)
    due = () if planner is None or view is None else planner.due(view)
    if not due:
        return {"share": allowed, "spent": taken, "short": False}
    lacking = set(planner.lacking(view) if view and planner is not None else (block.name for block in blocks))
    more = loss_of(due, dataset.budget.filter)
    after = shares(ledger, [block for block in blocks if block.name in lacking], more=more)
    needs = max(after.values(), default=0.0)
    return {"share": allowed, "spent": taken, "needs": needs, "short": needs > allowed}


def _next(planner: Planner, view: View) -> list[dict[str, Any]]:
    """Return what the latest questions, each once, would cost now."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for question, wanted in reversed(planner.store.asked()):
        if len(found) >= MOST_NEXT:
            break
        if (question, wanted) in found:
            continue
        price = _priced(planner, question, wanted, view)
        if price is not None:
            found[question, wanted] = price
    return list(found.values())


def _priced(planner: Planner, question: str, wanted: str, view: View) -> dict[str, Any] | None:
    try:
        read, needed = question_of(question), Wanted(*json.loads(wanted))
        plan = read.plan(planner.schema, epsilon=needed.epsilon, delta=needed.delta)
        price = planner.quote(plan, needed, view)
    except (Mistake, Refusal):
        return None
    within = {} if needed.width is None else {"within": needed.width * plan.step, "beta": needed.beta}
    return {
        "question": in_words(read),
        **within,
        "source": str(price.source),
        "epsilon": float(price.cost[0]),
        "delta": float(price.cost[1]),
    }


def in_words(question: Question) -> str:
    """A question in one line."""
    of = f" of {' and '.join(question.columns)}" if question.columns else ""
    by = f" by {' and '.join(question.by)}" if question.by else ""
    where = f" where {question.where}" if question.where else ""
    return f"{question.statistic}{of}{by}{where}"
