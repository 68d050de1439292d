"""Stability as code: every transformation knows how far its answer can move between neighbouring data sets.

No sensitivity is ever set by hand: it follows from what one row can add (`reach`) and how far two rows can differ
(`diameter`), both in whole grid steps after rounding, so that rounding is inside the figure and never beside it.
`transformation >> noise` is a mechanism whose noise is calibrated by that map.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Adjacency, Unit, adjacency_of, unit_of

if TYPE_CHECKING:
    from thebes.privacy.measurement import Measurement
    from thebes.privacy.randomness import Randomness

Integers = NDArray[np.int64]

#: Totals are clamped to this on both sides; a clamp never moves two totals further apart.
LARGEST_TOTAL = 2**61


@dataclass(frozen=True, slots=True)
class Change:
    """The distance between neighbouring data sets: the rows of one unit, at most `rows` of them.

    `public_size` says that every unit has exactly one row in both worlds, so their number is public; it is
    possible under replace-one only. `event` is the least claim: a row is a unit.
    """

    adjacency: Adjacency
    rows: int = 1
    unit: Unit = Unit.EVENT
    public_size: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", adjacency_of(self.adjacency))
        object.__setattr__(self, "unit", unit_of(self.unit))
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or not 1 <= self.rows <= 2**20:
            raise Mistake("rows", "must be a whole number between 1 and 2^20")
        if self.rows > 1 and self.unit is Unit.EVENT:
            raise Mistake("unit", "an event is one row; name the unit that has several")
        if self.public_size and (self.adjacency is not Adjacency.REPLACE_ONE or self.rows != 1):
            raise Mistake("adjacency", "the number of rows is public only under replace-one with one row per unit")


def change_of(adjacency: str | Adjacency | Change, *, public_size: bool = False) -> Change:
    """Read a change; a bare adjacency means that one unit is one row."""
    change = adjacency if isinstance(adjacency, Change) else Change(adjacency_of(adjacency))
    if change.public_size == public_size:
        return change
    return Change(change.adjacency, change.rows, change.unit, public_size)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The distance by which a vector of whole numbers can move. The L2 norm is kept squared, because its square is
    whole."""

    l1: int
    l2_squared: int
    coordinates: int = 1

    @property
    def l2(self) -> float:
        """Rounded up."""
        return math.nextafter(math.sqrt(self.l2_squared), math.inf)

    def times(self, rows: int) -> Sensitivity:
        return Sensitivity(self.l1 * rows, self.l2_squared * rows * rows, self.coordinates)

    def or_more(self, other: Sensitivity) -> Sensitivity:
        return Sensitivity(max(self.l1, other.l1), max(self.l2_squared, other.l2_squared), self.coordinates)


class Noise(Protocol):
    """Something that noises whole numbers of a known sensitivity (see `mechanisms.additive`)."""

    def release(
        self, totals: Integers, *, sensitivity: Sensitivity, adjacency: Adjacency, randomness: Randomness
    ) -> Measurement: ...


class Transformation(ABC):
    """A sum over rows of a bounded vector of whole numbers."""

    @property
    @abstractmethod
    def reach(self) -> Sensitivity:
        """The most that one row can add."""

    @property
    @abstractmethod
    def diameter(self) -> Sensitivity:
        """The most by which two rows' additions can differ."""

    @abstractmethod
    def total(self, rows: Any) -> Integers:
        """The exact sum over all rows; each row is clamped and rounded by itself first."""

    def sensitivity(self, change: Change) -> Sensitivity:
        """The map d_in -> d_out.

        add-remove-one: up to `rows` rows come or go, each within `reach`. replace-one with a public size: one row
        becomes another, within `diameter`. replace-one with a private size: a row may also become no row at all,
        so the larger of the two, `rows` times.
        """
        if change.adjacency is Adjacency.ADD_REMOVE_ONE:
            return self.reach.times(change.rows)
        if change.public_size:
            return self.diameter
        return self.diameter.or_more(self.reach).times(change.rows)

    def __rshift__(self, noise: Noise) -> Mechanism:
        return Mechanism(self, noise)


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A transformation and the noise that hides one unit in its answer."""

    transformation: Transformation
    noise: Noise

    def __call__(
        self, rows: Any, *, adjacency: str | Adjacency | Change, randomness: Randomness, public_size: bool = False
    ) -> Measurement:
        change = change_of(adjacency, public_size=public_size)
        sensitivity = self.transformation.sensitivity(change)
        totals = self.transformation.total(rows)
        return self.noise.release(totals, sensitivity=sensitivity, adjacency=change.adjacency, randomness=randomness)
