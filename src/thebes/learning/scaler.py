"""Private centre and spread of every column, so that all columns speak with equal voice; bought with a small share.

One release gives both: a row's reach in (u, K u^2) is no greater than in u alone, see `SQUARE_WEIGHT`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from thebes.learning.budget import FitBudget, Floats, Reach
from thebes.learning.rows import blocks, shortened

#: Two numbers x, y in [-1, 1] never differ by more than 2 in (u, K u^2), L2: with s = |x + y| the square of their
#: distance is at most (2 - s)^2 (1 + K^2 s^2), and K^2 <= min (4 - s) / (s (2 - s)^2) = 2.772 keeps that below 4.
SQUARE_WEIGHT = 1.66
#: The same in L1: (2 - s)(1 + K s) <= 2 for K <= 1/2.
SQUARE_WEIGHT_L1 = 0.5

#: Standardised values beyond this many spreads are cut off.
FARTHEST = 3.0


@dataclass(frozen=True, slots=True)
class Scaling:
    """Released centre and spread of columns in [-1, 1]."""

    centre: Floats
    spread: Floats

    def standardised(self, units: Floats, length: float, farthest: float = FARTHEST) -> Floats:
        """Columns with centre 0 and spread about 1, every row at most `length` long (L2)."""
        spreads = (units - self.centre) / self.spread
        return shortened(np.minimum(np.maximum(spreads, -farthest), farthest), length)


def learned_scaling(units: Floats, rows: float, budget: FitBudget, share: Fraction) -> Scaling:
    """Centre and spread of columns in [-1, 1]. `rows` is the public or released number of rows."""
    width = units.shape[1]
    pure = budget.pure
    weight = _weight(pure=pure)
    sums = (budget.laplace if pure else budget.gaussian)(
        blocks(lambda u: np.hstack([u, weight * u * u]), units),
        width=2 * width,
        reach=_reach(width, pure=pure),
        share=share,
    )
    deviation = sums.scale * (math.sqrt(2) if pure else 1.0) / rows
    centre = np.clip(sums.value[:width] / rows, -1, 1)
    return Scaling(centre, np.sqrt(steadied(sums.value[width:] / weight / rows - centre**2, deviation / weight)))


def doubt_of_scaling(width: int, budget: FitBudget, share: Fraction) -> float:
    """The deviation of the noise on a column's sum in `learned_scaling`; over the number of rows, of its centre."""
    reach = _reach(width, pure=budget.pure)
    return math.sqrt(2) * budget.laplace_scale(reach, share) if budget.pure else budget.gaussian_scale(reach, share)


def _weight(*, pure: bool) -> float:
    return SQUARE_WEIGHT_L1 if pure else SQUARE_WEIGHT


def _reach(width: int, *, pure: bool) -> Reach:
    weight = _weight(pure=pure)
    if pure:
        return Reach(width * (1 + weight), 2 * width)
    return Reach(math.sqrt(width * (1 + weight * weight)), 2 * math.sqrt(width))


def steadied(variances: Floats, deviation: float) -> Floats:
    """Noisy variances of columns, pulled toward their mean as far as noise of this deviation explains."""
    middle = max(float(variances.mean()), 0.2 * deviation, 1e-4)
    own = max(float(variances.var()) - deviation**2, 1e-12)
    pulled = middle + own / (own + deviation**2) * (variances - middle)
    return np.maximum(pulled, max(0.1 * middle, 1e-6))
