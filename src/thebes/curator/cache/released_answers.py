"""Answers that were released, and when one of them is good enough for who asks the same again.

What must stay true: what counts as the same question follows from the plan and the schema alone; whether an answer is
good enough follows from its noise or its promise, never from its value (an honest 0.0 is one).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from thebes.curator.cache.answer import Answered
from thebes.curator.cache.requirement import Wanted
from thebes.curator.questions.noise import noise_made
from thebes.curator.questions.plans import Plan, QuestionPlan
from thebes.data.filter import Among, Condition, Either, Every
from thebes.data.schema import Schema
from thebes.privacy.mechanisms.additive import Additive


@dataclass(frozen=True, slots=True)
class ReleasedAnswer:
    """One released answer: who paid for it (a name of the home's own), and when, in seconds since 1970."""

    key: str
    view: str
    payer: str
    at: float
    answered: Answered


def key_of(plan: QuestionPlan, schema: Schema) -> str:
    """Return what two questions have in common that the same totals answer: what is summed and how far a row moves it,
    over columns that are declared alike. Columns that are made of others are the same where they are made the same way
    of columns that are declared alike. Several statistics are the same question where all that is measured for them is
    the same, in the same order and each as many times."""
    if plan.single is not None:
        return _key_of_one(plan.single, schema)
    told = [(_key_of_one(part, schema), times) for part, times in plan.measured]
    return hashlib.sha256(repr((type(plan).__name__, told)).encode()).hexdigest()


def _key_of_one(plan: Plan, schema: Schema) -> str:
    sums = plan.sums
    own = plan.features.needs(sums.columns)
    asked = own if sums.where is None else (*own, *sums.where.columns)
    columns = {name: schema.columns[name] for name in sorted(set(asked)) if name in schema.columns}
    where = None if sums.where is None else ordered(sums.where.condition)
    made = (plan.features,) if plan.features else ()
    said = (type(plan).__name__, plan.transformation, replace(sums, where=None), where, *made)
    hidden = (schema.unit, schema.max_rows_per_unit, schema.time, schema.key)
    return hashlib.sha256(repr((said, columns, hidden)).encode()).hexdigest()


def ordered(condition: Condition) -> Condition:
    """The same condition, whichever way round it was written."""
    if isinstance(condition, (Every, Either)):
        return type(condition)(tuple(sorted(map(ordered, condition.parts), key=repr)))
    if isinstance(condition, Among):
        return replace(condition, values=tuple(sorted(condition.values, key=repr)))
    return condition


def best(kept: Iterable[ReleasedAnswer], plan: QuestionPlan, schema: Schema, wanted: Wanted) -> ReleasedAnswer | None:
    """Of these answers to a plan the one with the least noise that gives what is wanted; None where none does."""
    found = [(noise, one) for one in kept if (noise := _noise(one, plan, schema, wanted)) is not None]
    return min(found, key=lambda pair: pair[0], default=(0.0, None))[1]


def _noise(one: ReleasedAnswer, plan: QuestionPlan, schema: Schema, wanted: Wanted) -> float | None:
    """The deviation, or the width that is promised, of an answer that gives what is wanted."""
    answered = one.answered
    if answered.made is None:
        if answered.bound is None or wanted.width is None or wanted.beta is None:
            return None
        width, beta = answered.bound
        return width if width <= wanted.width and beta <= wanted.beta else None
    noise = noise_made(plan, schema, epsilon=answered.made[0], delta=answered.made[1])
    return noise.deviation if _enough(noise, plan, schema, wanted) else None


def _enough(noise: Additive, plan: QuestionPlan, schema: Schema, wanted: Wanted) -> bool:
    if wanted.width is not None:
        return wanted.satisfied(plan, noise)
    return noise.deviation <= wanted.calibrated(plan, schema)[0].deviation
