"""What a site sends to answer a query: totals with noise in them, or exact ones as whole numbers in two halves, because
what travels as a number is exact up to 2^53 only."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from thebes.curator.noise import noise_for
from thebes.curator.plans import MOST_ROWS, Plan
from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake
from thebes.privacy.stability import LARGEST_TOTAL
from thebes.tasks.contributions import Layout, Slot
from thebes.tasks.query.kind import QueryDocument

Integers = NDArray[np.int64]

TOTALS, UPPER, LOWER = "totals", "upper", "lower"
_HALF = 30  #: bits of the lower half
_IMPROBABLE = 60.0  #: scales by which noise moves a total less than once in e^60


def layout_of(document: QueryDocument, plan: Plan) -> Layout:
    """One number for each total."""
    if document.exact:
        most = LARGEST_TOTAL >> _HALF
        return {
            UPPER: Slot("integer", -most, most, length=plan.size),
            LOWER: Slot("integer", 0, (1 << _HALF) - 1, length=plan.size),
        }
    return {TOTALS: Slot("number", -4.0 * LARGEST_TOTAL, 4.0 * LARGEST_TOTAL, length=plan.size)}


def halves(totals: Integers) -> dict[str, NDArray[np.generic]]:
    """Exact totals as they travel."""
    return {UPPER: totals[None, :] >> _HALF, LOWER: totals[None, :] & ((1 << _HALF) - 1)}


def whole(fields: Mapping[str, NDArray[np.generic]]) -> Integers:
    """The inverse of `halves`."""
    upper, lower = (np.asarray(fields[name], dtype=np.int64).reshape(-1) for name in (UPPER, LOWER))
    together: Integers = np.clip((upper << _HALF) + lower, -LARGEST_TOTAL, LARGEST_TOTAL)
    return together


def read(
    document: QueryDocument, plan: Plan, schema: Schema, fields: Mapping[str, NDArray[np.generic]]
) -> NDArray[np.generic]:
    """A site's totals, refused where no rows of its schema could have given them. Whether they are those of its rows
    nobody but the site can tell."""
    ends = np.array(plan.ends_of_totals) * MOST_ROWS
    low, high = np.clip(ends, -LARGEST_TOTAL, LARGEST_TOTAL)
    if document.exact:
        totals = whole(fields)
        if (totals < low).any() or (totals > high).any():
            raise Mistake(f"payload.{UPPER}", "is more than any data set of this schema gives")
        plan.examine(totals)
        return totals
    noised = np.asarray(fields[TOTALS], dtype=np.float64).reshape(-1)
    noise = noise_for(plan, schema, epsilon=document.epsilon, delta=document.delta)
    if ((noised * noise.finer) % 1 != 0).any():
        raise Mistake(f"payload.{TOTALS}", "must be in whole steps of the noise")
    beyond = _IMPROBABLE * noise.scale + 1
    if (noised < low - beyond).any() or (noised > high + beyond).any():
        raise Mistake(f"payload.{TOTALS}", "is more than any data set of this schema gives")
    return noised
