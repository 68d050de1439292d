"""Noisy sums of products of columns, exact at the speed of a matrix product and in little memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from thebes.learning.budget import FitBudget, Floats, Reach
from thebes.learning.rows import blocks

#: Steps to which the greatest length of a row is cut. Of 2^13 rows no sum of products passes 2^53, so that floats hold
#: it in any order; 64 bits hold the sum over 2^19 such blocks, counted as below.
_STEPS = 2**15
#: What a square counts, and a product of two different columns: 7/5 is just below sqrt 2.
_SQUARE, _PRODUCT = 5, 7


def product_reach(longest: float) -> Reach:
    """The reach of v v' for |v| <= C, whose squares count once and whose products count 7/5 times.

    v v' has Frobenius norm |v|^2 <= C^2, and |v v' - w w'|^2 = |v|^4 + |w|^4 - 2 (v.w)^2 <= 2 C^4. The upper triangle,
    whose off-diagonal entries count no more than sqrt 2 times, is no longer than the matrix.
    """
    return Reach(longest**2, math.sqrt(2) * longest**2)


def noisy_products(
    joint: Callable[[Floats], Floats], columns: Floats, width: int, longest: float, budget: FitBudget, share: Fraction
) -> Floats:
    """The sum of v v' with Gaussian noise, v being what `joint` makes of a row, `width` numbers at most `longest` long
    (L2).

    Each number is cut toward 0 to whole steps, which makes no row longer; so `product_reach` holds for the whole
    numbers as they are added, and no rounding has to be paid for but that of lengths in floats.
    """
    step = longest / _STEPS
    totals = np.zeros((width, width), dtype=np.int64)
    for part in blocks(joint, columns):
        whole = np.trunc(np.where(np.isfinite(part), part, 0.0) / step)
        totals += (whole.T @ whole).astype(np.int64)
    upper = np.triu_indices(width)
    times = np.where(upper[0] == upper[1], _SQUARE, _PRODUCT)
    reach = product_reach(_STEPS * (1 + 1e-9))
    counted = Reach(_SQUARE * reach.length, _SQUARE * reach.distance)
    released = budget.gaussian_counts(totals[upper] * times, reach=counted, share=share)
    products = np.zeros((width, width))
    products[upper] = released.value / times * step**2
    return np.asarray(products + np.triu(products, 1).T)
