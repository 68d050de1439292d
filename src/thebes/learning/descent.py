"""Noisy full-batch gradient descent: every step releases one noisy sum of clipped row gradients, nothing else.

Gradients are clipped, so the price never depends on how far the descent got, nor on any minimum being exact. Rows and
pulls are whole numbers, so that sums are exact at the speed of a matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from thebes.learning.budget import FitBudget, Floats, Integers, Reach
from thebes.learning.rows import WHOLE, WholeRows, shortened, whole_weights

#: (scores of rows, targets) -> the loss's derivative by each score
Residual = Callable[[Floats, Any], Floats]
#: Noise is no wider than this many of the units in which gradients are summed: it has to fit 64 bits.
_WIDEST = 2.0**44


@dataclass(frozen=True, slots=True)
class Descent:
    """The way to go down: all of it public, none of it tuned to the rows."""

    steps: int
    rate: float  #: step length, for rows scaled to length 1
    clip: float  #: greatest length of a row's gradient
    length: float  #: greatest length of a row, but for its last number, a 1
    penalty: float = 0.0  #: weight of |w|^2 / 2 beside the mean loss; the last row of weights (intercept) is free
    momentum: float = 0.9
    tail: float = 0.7  #: average the weights after this part of the steps


@dataclass(frozen=True, slots=True)
class DescentPace:
    """A way to go down where rows are as loud over the noise as `least` or more (see `loudness`): public."""

    least: float
    steps: int
    rate: float
    clip: float = 0.5  #: greatest length of a gradient, over that of a row
    room: float = 1.0  #: greatest length of a row, over that of rows as far from the middle as they usually are

    @classmethod
    def of(cls, paces: Iterable[Self], loud: float) -> Self:
        """Return the way that fits rows which are so loud."""
        return max((each for each in paces if each.least <= loud), key=lambda each: each.least)


def loudness(count: float, weights: int, budget: FitBudget) -> float:
    """The length that gradients of all rows together can have over that of one release's noise with everything."""
    noise = budget.gaussian_scale(Reach(1, 2), Fraction(1)) / 2
    return count / (noise * math.sqrt(weights))


def descend(
    rows: Any, targets: Any, residual: Residual, outputs: int, *, plan: Descent, count: float, budget: FitBudget,
    share: Fraction, seen: Callable[[Any], Floats] | None = None, start: Floats | None = None,
) -> Floats:  # fmt: skip
    """Weights (columns of `rows` x `outputs`) after `plan.steps` releases, each with an equal part of `share`.

    `seen` makes floats of some rows where these are kept smaller, row by row; `start` is where to begin and
    what the penalty pulls toward, else 0.

    Proof: a row's gradient is the outer product of its pull and the row, both whole numbers that follow from that
    row and the weights alone (`WholeRows`). Its length is the product of both lengths; the pull is scaled down until
    that is at most `clip` (L2), and then rounded toward 0, which makes nothing longer: so a step is a Gaussian release
    with reach (clip, 2 clip), rounding included. Each step's loss is fixed in advance, and adaptive Gaussian releases
    compose as in `FitBudget`. `count` is the public or released number of rows.
    """
    width = rows.shape[1] if start is None else len(start)
    weights, velocity, tail = (np.zeros((width, outputs)) for _ in range(3))
    weights += 0.0 if start is None else start
    middle = weights
    penalty = np.full((width, 1), plan.penalty)
    penalty[-1] = 0
    first = min(int(plan.tail * plan.steps), plan.steps - 1)
    longest, reach = math.hypot(plan.length, 1), Reach(plan.clip, 2 * plan.clip)
    # A pull of WHOLE is twice what a row of length 1 may have; it is coarser only where noise is far larger than that.
    widest = budget.gaussian_scale(reach, share / plan.steps)
    pull_step = max(2 * plan.clip / WHOLE, widest / _WIDEST / longest * WHOLE)
    release = budget.gaussian_rounds(
        width=width * outputs, times=plan.steps, reach=reach, share=share, unit=longest / WHOLE * pull_step
    )

    def held() -> Iterator[tuple[WholeRows, Floats]]:
        for part in WholeRows.of(rows, targets, longest, seen or np.asarray):
            yield part, np.minimum(plan.clip / pull_step / np.maximum(part.lengths, 1e-300), WHOLE)

    kept = list(held()) if seen is None else None
    for step in range(plan.steps):
        sums: Integers = np.zeros((width, outputs), dtype=np.int64)
        whole, unit = whole_weights(weights)
        for part, allowed in held() if kept is None else kept:
            pull = shortened(residual(part.scores(whole, unit), part.targets) / pull_step, allowed)
            sums += part.pulled(np.trunc(pull))
        released = release(sums.reshape(-1)).reshape(width, outputs)
        velocity = plan.momentum * velocity + released / count + penalty * (weights - middle)
        weights = weights - plan.rate / plan.length**2 * velocity
        if step >= first:
            tail += weights
    return tail / (plan.steps - first)
