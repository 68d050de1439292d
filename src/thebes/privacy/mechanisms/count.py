"""The private number of marked rows, and who is counted: whether the number of rows is public."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.measurement import Measurement
from thebes.privacy.mechanisms.additive import LeastNoise
from thebes.privacy.mechanisms.columns import column, whole
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness
from thebes.privacy.stability import Change, change_of
from thebes.privacy.transformations.counts import Count


def count(
    values: ArrayLike,
    *,
    epsilon: exact.Number,
    delta: exact.Number = 0,
    adjacency: str | Adjacency | Change,
    randomness: Randomness,
) -> Measurement:
    """Count how many of `values` (True or False, one per row) are True, unbiased; it may come out below 0.

    One row moves the count by at most 1 under either adjacency. With delta, Gaussian noise is used where its standard
    deviation is smaller. The interval is exact for the noise. Source: `additive`.
    """
    mechanism = Count() >> LeastNoise(epsilon, delta)
    measured = mechanism(values, adjacency=adjacency, randomness=randomness)
    return replace(measured, value=float(measured.value[0]), mechanism=f"count with {measured.mechanism} noise")


def counted(values: Any, *, adjacency: str | Adjacency | Change, n: int | None) -> tuple[NDArray[np.float64], Change]:
    """One number per row, and the change to hide. `n` given: the number of rows is public (replace-one only)."""
    change = change_of(adjacency)
    numbers = column(values, adjacency=Adjacency.ADD_REMOVE_ONE)
    if n is None:
        return numbers, change
    if change.adjacency is Adjacency.ADD_REMOVE_ONE:
        raise Mistake("n", "is private under add-remove-one; leave it out")
    if whole("n", n, least=1, most=2**40) != numbers.size:
        raise Mistake("n", "must be the number of values")
    return numbers, change_of(change, public_size=True)
