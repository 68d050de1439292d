"""Limits beyond which a contribution lies farther from the instances than honest ones do. What it was made from is not
known.

The seed's rule, mean plus or minus three standard deviations for every weight, refuses most honest models of many
weights. Here the multiple follows from the rate at which honest contributions may be refused, over all weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.distributions import student_quantile

Floats = NDArray[np.float64]
LEAST_INSTANCES = 3  #: of fewer the spread says too little
LARGEST = 4.0  #: times its average counts the variance between instances at most


@dataclass(frozen=True, slots=True)
class Outliers:
    """An update B' is an outlier if for some weight |B' - mean| > t sqrt(spread^2 + deviation^2) + reach.

    `deviation` is that of the update's own noise and `reach` the farthest its gradient can move a weight; both are
    public. t is Student's with k - 1 degrees of freedom at the family-wise rate `false_positives` over all weights
    (Sidak): exact where the instances and B' are independent and normal. They are neither (an honest B' is an instance
    plus noise, and instances share ancestors), so the rate is measured by tests.

    `spread` is observed, within public limits. No less than (k + age) / 2 deviation^2, what noise and updates in flight
    make of it on average: it is small for a while whenever one lineage has taken all places, and an update drawn before
    that is honest all the same. No more than LARGEST times what it is on average if gradients point anywhere, at the
    largest rate of which something may still be there: else who always sends what just passes, the same way, widens the
    limits for the next one, and the spread grows without end.
    """

    instances: int
    weights: int
    false_positives: float

    @property
    def active(self) -> bool:
        """Return whether there are instances enough to judge by."""
        return self.instances >= LEAST_INSTANCES

    @property
    def multiple(self) -> float:
        """t: how many standard deviations from the mean are too many."""
        return _multiple(self.instances, self.weights, self.false_positives)

    def allowed(
        self,
        variance: Floats,
        deviation: float | Floats,
        reach: float | Floats,
        *,
        age: float | Floats,
        slowing: float | Floats = 1.0,
    ) -> Floats:
        """Return how far from the mean each weight of an update may lie.

        Updates are usually `age` updates old, and the rate was `slowing` times what it is now when the oldest noise
        came that still counts.
        """
        own, turns = np.square(deviation), (self.instances + np.asarray(age)) / 2
        most = LARGEST * turns * np.square(slowing) * (own + np.square(reach))
        return np.asarray(self.multiple * np.sqrt(np.clip(variance, turns * own, most) + own) + reach)

    @property
    def memory(self) -> int:
        """After so many updates hardly any two instances have different ancestors: older noise is in all or in none."""
        return 2 * self.instances * self.instances

    def aged(self, age: float, seen: int) -> float:
        """The usual age after one more update, `seen` updates old. One alone says little: who claims a great age to
        be let through widens the limits for nobody."""
        return age + (min(float(seen), 2 * age + self.instances) - age) / (8 * self.instances)


@lru_cache(maxsize=64)
def _multiple(instances: int, weights: int, rate: float) -> float:
    each = -math.expm1(math.log1p(-rate) / weights)
    return -student_quantile(instances - 1, each / 2)
