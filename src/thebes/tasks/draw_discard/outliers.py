"""Which contributions lie farther from the instances than honest ones do, without knowing what they were made from.

The seed's rule, mean plus or minus three standard deviations for every weight, refuses most honest models of many
weights. Here the multiple follows from the rate at which honest contributions may be refused, over all weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEAST_INSTANCES = 3  #: of fewer the spread says too little


@dataclass(frozen=True, slots=True)
class Outliers:
    """An update B' is an outlier if for some weight |B' - mean| > t sqrt(spread^2 + deviation^2) + reach.

    `spread` is observed (updates in flight widen it by themselves), `deviation` is that of the update's own noise and
    `reach` the farthest its gradient can move a weight; both are public. t is Student's with k - 1 degrees of freedom
    at the family-wise rate `false_positives` over all weights (Sidak): exact where the instances and B' are independent
    and normal. They are neither: an honest B' is one of the instances plus noise, and nothing among k is farther than
    (k - 1) / sqrt(k) of their own standard deviations from their mean. Both make honest refusals rarer than stated, as
    the tests measure.
    """

    instances: int
    weights: int
    false_positives: float

    @property
    def active(self) -> bool:
        """Whether there are instances enough to judge by."""
        return self.instances >= LEAST_INSTANCES

    @property
    def multiple(self) -> float:
        """t: how many standard deviations from the mean are too many."""
        return _multiple(self.instances, self.weights, self.false_positives)

    def allowed(self, variance: Floats, deviation: float | Floats, reach: float | Floats) -> Floats:
        """How far from the mean each weight of an update may lie."""
        return np.asarray(self.multiple * np.sqrt(variance + np.square(deviation)) + reach)


@lru_cache(maxsize=64)
def _multiple(instances: int, weights: int, rate: float) -> float:
    from scipy.stats import t

    each = -math.expm1(math.log1p(-rate) / weights)
    return float(t.isf(each / 2, instances - 1))
