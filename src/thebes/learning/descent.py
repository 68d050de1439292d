"""Noisy full-batch gradient descent: every step releases one noisy sum of clipped row gradients, nothing else.

Gradients are clipped, so the price never depends on how far the descent got, nor on any minimum being exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from thebes.learning.budget import FitBudget, Floats, Reach
from thebes.learning.rows import blocks, lengths, scores

#: (scores of rows, targets) -> the loss's derivative by each score
Residual = Callable[[Floats, Any], Floats]


@dataclass(frozen=True, slots=True)
class Descent:
    """The way to go down: all of it public, none of it tuned to the rows."""

    steps: int
    rate: float  #: step length, for rows scaled to length 1
    clip: float  #: greatest length of a row's gradient
    length: float  #: greatest length of a row
    penalty: float = 0.0  #: weight of |w|^2 / 2 beside the mean loss; the last row of weights (intercept) is free
    momentum: float = 0.9
    tail: float = 0.7  #: average the weights after this part of the steps


def descend(
    rows: Any, targets: Any, residual: Residual, outputs: int, *, plan: Descent, count: float, budget: FitBudget,
    share: Fraction, seen: Callable[[Any], Floats] | None = None, start: Floats | None = None,
) -> Floats:  # fmt: skip
    """Weights (columns of `rows` x `outputs`) after `plan.steps` releases, each with an equal part of `share`.

    `seen` makes floats of some rows where these are kept smaller, row by row; `start` is where to begin and
    what the penalty pulls toward, else 0.

    Proof: a row's gradient is the outer product of residual and row, scaled down to length `clip` (L2), so a step is
    a Gaussian release with reach (clip, 2 clip); each step's loss is fixed in advance, and adaptive Gaussian releases
    compose as in `FitBudget`. `count` is the public or released number of rows.
    """
    width = rows.shape[1] if start is None else len(start)
    weights, velocity, tail = (np.zeros((width, outputs)) for _ in range(3))
    weights += 0.0 if start is None else start
    middle = weights
    penalty = np.full((width, 1), plan.penalty)
    penalty[-1] = 0
    first = min(int(plan.tail * plan.steps), plan.steps - 1)
    for step in range(plan.steps):

        def gradients(kept: Any, target: Any, at: Floats = weights) -> Floats:
            part: Floats = kept if seen is None else seen(kept)
            pull = residual(scores(part, at), target)
            pull = pull * np.minimum(1.0, plan.clip / np.maximum(lengths(pull) * lengths(part), 1e-300))
            return (pull[:, None, :] * part[:, :, None]).reshape(len(part), -1)

        released = budget.gaussian(
            blocks(gradients, rows, targets),
            width=width * outputs,
            reach=Reach(plan.clip, 2 * plan.clip),
            share=share / plan.steps,
        )
        slope = released.value.reshape(width, outputs) / count + penalty * (weights - middle)
        velocity = plan.momentum * velocity + slope
        weights = weights - plan.rate / plan.length**2 * velocity
        if step >= first:
            tail += weights
    return tail / (plan.steps - first)
