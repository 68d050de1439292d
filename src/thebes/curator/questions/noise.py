"""The one place where noise is chosen for a question's totals."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache

from thebes.curator.questions.plans import QuestionPlan
from thebes.data.schema import Schema
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.additive import Additive, Gaussian, Laplace, LeastNoise
from thebes.privacy.stability import Sensitivity


def noise_for(plan: QuestionPlan, schema: Schema, *, epsilon: exact.Number, delta: exact.Number) -> Additive:
    """Choose the noise that hides one unit of the schema in the plan's totals: the kind with the smaller deviation.

    The sensitivity follows from the plan's transformation and the schema's change: at most so many rows of one unit
    come or go, each within the transformation's reach.
    """
    try:
        return _least(plan.transformation.sensitivity(schema.change), exact.epsilon(epsilon), exact.delta(delta))
    except Mistake:
        raise Mistake("epsilon", "is too small for this many rows of one person") from None


def noise_made(plan: QuestionPlan, schema: Schema, *, epsilon: exact.Number, delta: exact.Number) -> Additive:
    """The noise that an answer says it holds: Gaussian where it was calibrated to a delta, Laplace where to none."""
    try:
        return _made(plan.transformation.sensitivity(schema.change), exact.epsilon(epsilon), exact.delta(delta))
    except Mistake:
        raise Mistake("epsilon", "is too small for this many rows of one person") from None


@lru_cache(maxsize=1024)
def _made(sensitivity: Sensitivity, epsilon: Decimal, delta: Decimal) -> Additive:
    return (Gaussian(epsilon, delta) if delta else Laplace(epsilon)).noise(sensitivity)


@lru_cache(maxsize=1024)
def _least(sensitivity: Sensitivity, epsilon: Decimal, delta: Decimal) -> Additive:
    return LeastNoise(epsilon, delta).noise(sensitivity)


def loosest(schemas: Iterable[Schema]) -> Schema:
    """The one whose unit may have the most rows: noise for it hides everybody in a total over all of them."""
    return max(schemas, key=lambda schema: schema.max_rows_per_unit)


def delta_of(noises: Iterable[Additive], delta: exact.Number) -> float:
    """The delta that these really need of the one that was offered: none for Laplace noise."""
    return float(exact.delta(delta)) if any(noise.kind == "gaussian" for noise in noises) else 0.0
