"""Totals that a site sends to answer a query: with what is known of their error, or exact ones as whole numbers in two
halves, because what travels as a number is exact up to 2^53 only.

An answer that a site gives from its cache holds noise that was calibrated to another epsilon than this document's, or
no noise but a bound: so each says which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thebes.curator.questions.noise import noise_made
from thebes.curator.questions.plans import MOST_ROWS, QuestionPlan
from thebes.data.schema import Schema
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.stability import LARGEST_TOTAL
from thebes.tasks.aggregation import site_shares
from thebes.tasks.contributions import Layout, Slot
from thebes.tasks.document import LEAST_DELTA, LEAST_EPSILON
from thebes.tasks.query.kind import QueryDocument

Integers = NDArray[np.int64]

TOTALS, UPPER, LOWER = "totals", "upper", "lower"
#: to what the noise in the totals was calibrated (delta 0: Laplace noise), or within which width of the exact totals
#: all of them lie, and the odds of missing that; what does not apply is 0
MADE_EPSILON, MADE_DELTA, WIDTH, BETA = "made_epsilon", "made_delta", "width", "beta"
_TOLD = (MADE_EPSILON, MADE_DELTA, WIDTH, BETA)
_HALF = 30  #: bits of the lower half
_IMPROBABLE = 60.0  #: scales by which noise moves a total less than once in e^60


def layout_of(document: QueryDocument, plan: QuestionPlan) -> Layout:
    """One number for each total; of shares one text."""
    if document.noise == "split":
        return site_shares.layout_of(plan.size)
    if document.exact:
        most = LARGEST_TOTAL >> _HALF
        return {
            UPPER: Slot("integer", -most, most, length=plan.size),
            LOWER: Slot("integer", 0, (1 << _HALF) - 1, length=plan.size),
        }
    return {
        TOTALS: Slot("number", -4.0 * LARGEST_TOTAL, 4.0 * LARGEST_TOTAL, length=plan.size),
        MADE_EPSILON: Slot("number", 0.0, 1e6),
        MADE_DELTA: Slot("number", 0.0, 1.0),
        WIDTH: Slot("number", 0.0, 4.0 * LARGEST_TOTAL),
        BETA: Slot("number", 0.0, 1.0),
    }


@dataclass(frozen=True, slots=True)
class Error:
    """The error in a site's totals, as far as it is known: the noise that was added, calibrated to `made` (epsilon,
    delta), or that all of them lie within `width` of the exact ones but for the odds `beta`; neither, where a synopsis
    promises nothing."""

    noise: Additive | None = None
    made: tuple[float, float] = (0.0, 0.0)
    width: float = 0.0
    beta: float = 0.0

    @property
    def known(self) -> bool:
        return self.noise is not None or self.beta > 0

    @property
    def told(self) -> tuple[float, float, float, float]:
        """As it travels."""
        return *self.made, self.width, self.beta


def noised(
    totals: NDArray[np.float64], *, made: tuple[exact.Number, exact.Number] | None, bound: tuple[float, float] | None
) -> dict[str, NDArray[np.generic]]:
    """Totals as they travel, with the (epsilon, delta) to which their noise was calibrated (delta 0: Laplace noise), or
    the (width, beta) that holds for all of them."""
    fields = dict(zip(_TOLD, (*(made or (0.0, 0.0)), *(bound or (0.0, 0.0))), strict=True))
    return {TOTALS: totals[None, :], **{name: np.array([float(value)]) for name, value in fields.items()}}


def halves(totals: Integers) -> dict[str, NDArray[np.generic]]:
    """Exact totals as they travel."""
    return {UPPER: totals[None, :] >> _HALF, LOWER: totals[None, :] & ((1 << _HALF) - 1)}


def whole(fields: Mapping[str, NDArray[np.generic]]) -> Integers:
    """The inverse of `halves`."""
    upper, lower = (np.asarray(fields[name], dtype=np.int64).reshape(-1) for name in (UPPER, LOWER))
    together: Integers = np.clip((upper << _HALF) + lower, -LARGEST_TOTAL, LARGEST_TOTAL)
    return together


def read(
    document: QueryDocument, plan: QuestionPlan, schema: Schema, fields: Mapping[str, NDArray[np.generic]]
) -> tuple[NDArray[np.generic], Error]:
    """A site's totals and what is known of their error, refused where no rows of its schema could have given them.
    Whether they are those of its rows nobody but the site can tell."""
    ends = np.array(plan.ends_of_totals) * MOST_ROWS
    low, high = np.clip(ends, -LARGEST_TOTAL, LARGEST_TOTAL)
    if document.exact:
        totals = whole(fields)
        if (totals < low).any() or (totals > high).any():
            raise Mistake(f"payload.{UPPER}", "is more than any data set of this schema gives")
        plan.examine(totals)
        return totals, Error()
    answered = np.asarray(fields[TOTALS], dtype=np.float64).reshape(-1)
    error = error_of(plan, schema, [float(np.asarray(fields[name]).reshape(-1)[0]) for name in _TOLD])
    beyond = error.width
    if error.noise is not None:
        if ((answered * error.noise.finer) % 1 != 0).any():
            raise Mistake(f"payload.{TOTALS}", "must be in whole steps of the noise")
        beyond = _IMPROBABLE * error.noise.scale + 1
    if (answered < low - beyond).any() or (answered > high + beyond).any():
        raise Mistake(f"payload.{TOTALS}", "is more than any data set of this schema gives")
    return answered, error


def error_of(plan: QuestionPlan, schema: Schema, told: Sequence[float]) -> Error:
    """The inverse of `Error.told`, refused where there is no such error."""
    epsilon, delta, width, beta = told
    if not epsilon:
        if delta:
            raise Mistake(f"payload.{MADE_DELTA}", "must be 0 where no noise is named")
        if (width and not beta) or beta == 1:
            raise Mistake(f"payload.{BETA}", "must be the odds of missing the width, between 0 and 1")
        return Error(width=width, beta=beta)
    if width or beta:
        raise Mistake(f"payload.{WIDTH}", "must be 0 where noise is named")
    if epsilon < LEAST_EPSILON:
        raise Mistake(f"payload.{MADE_EPSILON}", "is less than any document asks for")
    if delta and not LEAST_DELTA <= delta < 1:
        raise Mistake(f"payload.{MADE_DELTA}", "is no delta that noise can be calibrated to")
    try:
        return Error(noise_made(plan, schema, epsilon=epsilon, delta=delta), (epsilon, delta))
    except Mistake:
        raise Mistake(f"payload.{MADE_EPSILON}", "names noise that this schema cannot have") from None
