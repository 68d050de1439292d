"""The same total for each of several groups of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Adjacency
from thebes.privacy.stability import Change, Integers, Sensitivity, Transformation


@dataclass(frozen=True, slots=True)
class Grouped(Transformation):
    """The totals of `of` for each of `groups` groups of rows that share none: (the number of each row's group or -1,
    the rows).

    A row is in one group at most, so what it adds lies in that group's coordinates and is as long as without groups:
    the same reach. Rows of two groups share no coordinate: their distance is twice the reach in L1 and twice its
    square in squared L2, unless two rows of one group can be farther apart. One person with several rows may be in
    several groups; `sensitivity` adds up rows, whichever group they are in, and by the triangle inequality that is
    never too little.
    """

    of: Transformation
    groups: int

    def __post_init__(self) -> None:
        if isinstance(self.groups, bool) or not isinstance(self.groups, int) or self.groups < 1:
            raise Mistake("groups", "must be a whole number of at least 1")

    @property
    def _coordinates(self) -> int:
        return self.groups * self.of.reach.coordinates

    @property
    def reach(self) -> Sensitivity:
        one = self.of.reach
        return Sensitivity(one.l1, one.l2_squared, self._coordinates)

    @property
    def diameter(self) -> Sensitivity:
        one, within = self.of.reach, self.of.diameter
        if self.groups == 1:
            return within
        return Sensitivity(max(2 * one.l1, within.l1), max(2 * one.l2_squared, within.l2_squared), self._coordinates)

    def sensitivity(self, change: Change) -> Sensitivity:
        """Under add-remove-one the same as without groups: each row's part lies in its group's coordinates."""
        if change.adjacency is not Adjacency.ADD_REMOVE_ONE:
            return super(Grouped, self).sensitivity(change)
        one = self.of.sensitivity(change)
        return Sensitivity(one.l1, one.l2_squared, self._coordinates)

    def total(self, rows: Any) -> Integers:
        group, values = (np.asarray(part) for part in rows)
        return np.concatenate([self.of.total(values[group == place]) for place in range(self.groups)])
