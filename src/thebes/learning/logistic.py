"""Logistic regression, binary and multinomial, by noisy full-batch gradient descent on standardised rows."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.learning.arguments import positive, whole
from thebes.learning.budget import FitBudget, Floats
from thebes.learning.descent import Descent, DescentPace, descend, loudness
from thebes.learning.estimator import PrivateClassifier
from thebes.learning.rows import scores
from thebes.learning.scaler import FARTHEST, Scaling, learned_scaling

_COUNT_SHARE = Fraction(1, 50)
_SCALING_SHARE = Fraction(1, 4)


#: Measured on tables of all sizes: many rows bear longer ways, and farther values. What gradients are cut to follows
#: from `clip` instead.
_PACES = (
    DescentPace(0, 40, 1),
    DescentPace(50, 40, 4),
    DescentPace(200, 100, 2),
    DescentPace(1000, 80, 6, room=2.5),
)


class LogisticRegression(PrivateClassifier):
    """Logistic regression under (epsilon, delta), delta > 0: noisy gradient descent has no pure form.

    `steps` noisy steps of rate `learning_rate`: None = by a public rule, from how many rows there are for how much
    noise, which decides as well how far a value may lie from the middle. `clip`: greatest length of one row's gradient,
    relative to the row's (as clipping bounds what one outlier does, the limit for large epsilon is a robust variant of
    scikit-learn's).
    `l2`: weight of |w|^2 / 2 beside the mean loss, in standardised columns. Rows are clipped the same way when
    predicting. Objective perturbation is not offered: its proof needs a continuous density at an exact minimum, and
    noise here is drawn on integers.
    """

    _numbers = ("centre_", "spread_", "weights_", "length_")

    def __init__(
        self,
        *,
        epsilon: Any,
        adjacency: Any,
        delta: Any = 0.0,
        bounds: Any = None,
        classes: Any = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        clip: float = 0.5,
        l2: float = 1e-3,
        quality: bool | str = False,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.adjacency = adjacency
        self.delta = delta
        self.bounds = bounds
        self.classes = classes
        self.steps = steps
        self.learning_rate = learning_rate
        self.clip = clip
        self.l2 = l2
        self.quality = quality
        self.random_state = random_state

    def _check_arguments(self, budget: FitBudget) -> None:
        if budget.pure:
            budget.refuse_pure("noisy gradient descent")
        if self.steps is not None:
            whole("steps", self.steps)
        if self.learning_rate is not None:
            positive("learning_rate", self.learning_rate)
        positive("clip", self.clip)
        positive("l2", self.l2, zero=True)

    def _learn(
        self, units: Floats, labels: NDArray[np.int64], budget: FitBudget
    ) -> tuple[str, tuple[str, ...], dict[str, Any]]:
        rest = Fraction(1)
        count = budget.row_count(len(units), _COUNT_SHARE)
        if not budget.counts_are_public:
            rest -= _COUNT_SHARE
        scaling = learned_scaling(units, count, budget, rest * _SCALING_SHARE)
        self.centre_, self.spread_ = scaling.centre, scaling.spread
        binary = len(self.classes_) == 2
        weights = (units.shape[1] + 1) * (1 if binary else len(self.classes_))
        pace = DescentPace.of(_PACES, loudness(count, weights, budget))
        self.length_ = length = pace.room * math.sqrt(units.shape[1])
        steps, rate = self.steps or pace.steps, self.learning_rate or pace.rate
        plan = Descent(
            steps=steps,
            # One logit moves as two opposite scores do: twice the rate, 1 / sqrt 2 of the length.
            rate=rate * (2 if binary else 1),
            # No gradient is longer than residual (at most 1, or sqrt 2) times row, so no more is ever paid for.
            clip=min(self.clip * length, math.sqrt(2) * math.hypot(length, 1)) / (math.sqrt(2) if binary else 1),
            length=length,
            penalty=self.l2 / (2 if binary else 1),
        )
        own = labels[:, None]
        self.weights_ = descend(
            self._model_rows(units),
            (own if binary else own == np.arange(len(self.classes_))).astype(np.float64),
            _binary_residual if binary else _softmax_residual,
            1 if binary else len(self.classes_),
            plan=plan,
            count=count,
            budget=budget,
            share=rest * (1 - _SCALING_SHARE),
        )
        told = {"steps": steps, "learning_rate": rate, "clip": plan.clip}
        return "noisy gradient descent, gaussian", (), told

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        width, classes = self.n_features_in_, len(self.classes_)
        weights = (width + 1, 1 if classes == 2 else classes)
        own = {"centre_": (width,), "spread_": (width,), "weights_": weights, "length_": ()}
        return {**super()._shapes(), **own}

    def _of_earlier(self) -> dict[str, Any]:
        return {"length_": math.sqrt(self.n_features_in_)}

    def _model_rows(self, units: Floats) -> Floats:
        farthest = FARTHEST * self.length_ / math.sqrt(units.shape[1])
        rows = Scaling(self.centre_, self.spread_).standardised(units, self.length_, farthest)
        return np.hstack([rows, np.ones((len(rows), 1))])

    def _log_odds(self, units: Floats) -> Floats:
        odds = scores(self._model_rows(units), self.weights_)
        return np.hstack([np.zeros_like(odds), odds]) if odds.shape[1] == 1 else odds

    def decision_function(self, X: Any) -> Floats:
        """One score per row (two classes: positive means the second), or one per class."""
        odds = self._log_odds(self._units(X))
        return odds[:, 1] if odds.shape[1] == 2 else odds

    @property
    def coef_(self) -> Floats:
        """Weights in the columns' own units, for rows that are not clipped."""
        return np.asarray((self.weights_[:-1].T / self.spread_) * 2 / (self.high_ - self.low_))

    @property
    def intercept_(self) -> Floats:
        """The score of a row of zeros, in the columns' own units."""
        zero = -(self.high_ + self.low_) / (self.high_ - self.low_)
        return np.asarray(self.weights_[-1] + ((zero - self.centre_) / self.spread_) @ self.weights_[:-1])


def _binary_residual(logits: Floats, own: Floats) -> Floats:
    """The second class's probability, less its indicator."""
    return np.asarray(1 / (1 + np.exp(np.minimum(-logits, 700))) - own)


def _softmax_residual(logits: Floats, own: Floats) -> Floats:
    """Each class's probability, less its indicator."""
    # Column by column, so that each row's sum has one fixed order.
    top, total = logits[:, :1], np.zeros((len(logits), 1))
    for j in range(1, logits.shape[1]):
        top = np.maximum(top, logits[:, j : j + 1])
    odds = np.exp(np.maximum(logits - top, -700))
    for j in range(logits.shape[1]):
        total += odds[:, j : j + 1]
    return np.asarray(odds / total - own)
