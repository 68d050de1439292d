"""The private sum of numbers in public bounds."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from thebes.privacy import exact
from thebes.privacy.measurement import Measurement
from thebes.privacy.mechanisms.additive import LeastNoise, spread_of, stated
from thebes.privacy.mechanisms.columns import grid_of
from thebes.privacy.mechanisms.count import counted
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness
from thebes.privacy.stability import Change
from thebes.privacy.transformations.sums import BoundedSum


def sum_(
    values: ArrayLike,
    *,
    bounds: Any,
    epsilon: exact.Number,
    delta: exact.Number = 0,
    adjacency: str | Adjacency | Change,
    n: int | None = None,
    bits: int = 20,
    randomness: Randomness,
) -> Measurement:
    """The sum of `values`, each clamped to `bounds` and rounded to 2^-bits of the larger bound; unbiased for that.

    Sensitivity max(|low|, |high|) under add-remove-one; high - low under replace-one with a public number of rows
    (`n`); the larger of the two under replace-one without it, where a row may also be absent. The interval is exact
    for the noise and speaks of the clamped, rounded values; rounding adds at most half a step for each row.
    Source: `additive`.
    """
    grid = grid_of(bounds, bits)
    numbers, change = counted(values, adjacency=adjacency, n=n)
    transformation = BoundedSum(grid.low, grid.high, grid.bits)
    noise = LeastNoise(epsilon, delta).noise(transformation.sensitivity(change))
    total = noise.add(transformation.total(numbers), randomness)[0]
    return Measurement(
        value=float(total) * transformation.step,
        event=noise.event,
        adjacency=change.adjacency,
        mechanism=f"sum with {noise.kind} noise",
        parameters=stated(noise, randomness, unit=transformation.step),
        spread=spread_of(noise, unit=transformation.step),
        simulated=randomness.simulated,
    )
