"""Several totals of the same rows as one vector, so that one noise hides a person in all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Adjacency
from thebes.privacy.stability import Change, Integers, Sensitivity, Transformation


@dataclass(frozen=True, slots=True)
class Joint(Transformation):
    """The totals of `parts`, one after another, each times its whole number of `weights`.

    What a row adds lies in the coordinates of each part, and no two parts share one: L1 distances add up, times their
    weights, and so do squared L2 distances, times the squares. The same holds of how far two rows differ.
    """

    parts: tuple[Transformation, ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.parts or len(self.parts) != len(self.weights):
            raise Mistake("parts", "must be at least one, each with a weight")
        if any(isinstance(weight, bool) or not isinstance(weight, int) or weight < 1 for weight in self.weights):
            raise Mistake("weights", "must be whole numbers of at least 1")

    @property
    def reach(self) -> Sensitivity:
        return self._together([part.reach for part in self.parts])

    @property
    def diameter(self) -> Sensitivity:
        return self._together([part.diameter for part in self.parts])

    def sensitivity(self, change: Change) -> Sensitivity:
        """Add up what each part says of the change: one may know more than how far a row reaches."""
        if change.adjacency is not Adjacency.ADD_REMOVE_ONE:
            return super(Joint, self).sensitivity(change)
        return self._together([part.sensitivity(change) for part in self.parts])

    def total(self, rows: Any) -> Integers:
        """The totals of each part over its own form of the rows."""
        of_each = zip(self.parts, self.weights, rows, strict=True)
        return np.concatenate([weight * part.total(own) for part, weight, own in of_each])

    def _together(self, each: list[Sensitivity]) -> Sensitivity:
        weighed = list(zip(each, self.weights, strict=True))
        return Sensitivity(
            sum(weight * one.l1 for one, weight in weighed),
            sum(weight * weight * one.l2_squared for one, weight in weighed),
            sum(one.coordinates for one in each),
        )
