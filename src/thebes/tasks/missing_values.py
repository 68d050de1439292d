"""Measurements that trusted kinds make beside their answer, inside the same epsilon: missing values and failing
featurizers."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import FAILURES
from thebes.privacy import exact
from thebes.privacy.measurement import Measurement
from thebes.privacy.mechanisms.count import count
from thebes.privacy.mechanisms.histogram import histogram
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness
from thebes.tasks.trusted_columns import COUNT_SHARE, TrustedDocument

WORKED = "worked"


@dataclass(frozen=True)
class EpsilonShares:
    """The shares of a document's epsilon: the answer itself, the count of missing values, the diagnostics."""

    answer: Decimal
    missing: Decimal
    diagnostics: Decimal

    @classmethod
    def of(cls, document: TrustedDocument) -> EpsilonShares:
        whole = exact.epsilon(document.epsilon)
        diagnostics = part(whole, Decimal(str(document.diagnostics or 0)))
        missing = part(whole, Decimal(str(COUNT_SHARE))) if document.buys_missing else Decimal(0)
        return cls(whole - diagnostics - missing, missing, diagnostics)


def part(whole: Decimal, share: Decimal) -> Decimal:
    """A share of epsilon, rounded down so that the parts never exceed the whole."""
    return (whole * share).quantize(exact.EPSILON_STEP, ROUND_FLOOR)


def never_empty(values: NDArray[np.float64], stand_in: float = 0.0) -> NDArray[np.float64]:
    """`values`, or a single made-up one where there are none, so that nothing fails because nobody had a value.

    Under replace-one with people who may be absent this costs nothing: "nobody" is treated as one fixed person, and a
    neighbour of "nobody" is one person with another value.
    """
    return values if len(values) else np.full((1, *values.shape[1:]), stand_in)


def middle_of(ends: tuple[float, float]) -> float:
    """Half-way between two ends, however large."""
    return ends[0] + (ends[1] - ends[0]) / 2


def told(missing: Measurement) -> dict[str, Any]:
    """Tell the private number of people without a value, as it stands on a release."""
    bar = missing.interval()
    return {"value": missing.value, "interval": None if bar is None else bar.as_json()}


def measured(
    document: TrustedDocument, missing: NDArray[np.bool_], failures: NDArray[Any] | None, randomness: Randomness
) -> dict[str, Any]:
    """Measure what stands beside the value on the release; pure, under replace-one."""
    shares = EpsilonShares.of(document)
    found: dict[str, Any] = {}
    if document.buys_missing:
        found["missing"] = told(
            count(missing, epsilon=shares.missing, adjacency=Adjacency.REPLACE_ONE, randomness=randomness)
        )
    if failures is not None:
        keys = list(range(1 + len(FAILURES)))
        counts = histogram(
            failures.astype(np.int64),
            keys=keys,
            epsilon=shares.diagnostics,
            adjacency=Adjacency.REPLACE_ONE,
            randomness=randomness,
        )
        found["diagnostics"] = dict(zip((WORKED, *FAILURES), counts.value.tolist(), strict=True))
    return found
