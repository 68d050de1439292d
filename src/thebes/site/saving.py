"""What a data set's cache has saved, as its steward is shown it: from released answers and public amounts alone."""

from __future__ import annotations

import json
from typing import Any

from thebes.curator.cache.planner import Planner
from thebes.curator.cache.synopsis import View
from thebes.curator.cache.wanted import Wanted
from thebes.curator.questions import Question, question_of
from thebes.privacy.faults import Mistake, Refusal
from thebes.site.dataset import DataSet

MOST_NEXT = 8  #: latest different questions whose price is told


def saved(dataset: DataSet, planner: Planner | None, view: View | None = ()) -> dict[str, Any]:
    """How often an answer came from where, what all of them cost, what they would have cost from a mechanism each, day
    by day, and what the latest questions would cost now."""
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
    return {
        **dataset.cache.as_json(),
        "answers": answers,
        "sources": sources,
        "hit_rate": 1 - sources.get("mechanism", 0) / answers if answers else None,
        "epsilon": cost,
        "worth": worth,
        "days": list(by_day.values()),
        "next": [] if planner is None or view is None else _next(planner, view),
    }


def _next(planner: Planner, view: View) -> list[dict[str, Any]]:
    """What the latest questions, each once, would cost now."""
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
