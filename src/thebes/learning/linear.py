"""Linear and ridge regression from noisy second moments, or by noisy gradient descent where noise would drown them.

The ridge is tied to the spectral norm of the noise (AdaSSP, Wang 2018), so a small budget gives a weak model, never
a wild one.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from thebes.learning.arguments import one_of, positive, whole
from thebes.learning.budget import FitBudget, Floats
from thebes.learning.descent import Descent, DescentPace, descend, loudness
from thebes.learning.estimator import PrivateRegressor
from thebes.learning.products import noisy_products, product_reach
from thebes.learning.rows import scores, shortened
from thebes.learning.scaler import FARTHEST, Scaling, learned_scaling

_COUNT_SHARE = Fraction(1, 50)
_SCALING_SHARE = Fraction(1, 4)
#: `auto` releases moments only if their noise's spectral norm, per row, stays below this (columns have spread 1).
_DROWNED = 0.15
#: Measured on tables of 10 to 300 columns, independent and correlated ones.
_PACES = (
    DescentPace(0, 60, 0.5, clip=0.2),
    DescentPace(50, 100, 1, clip=0.2),
    DescentPace(100, 100, 2, clip=0.35),
    DescentPace(250, 100, 3, clip=0.5),
    DescentPace(700, 100, 3, clip=1.0),
)
#: Greatest length of a standardised row, over sqrt(columns): for moments, and for descent.
_MOMENT_LENGTH, _DESCENT_LENGTH = 1.3, 1.0
#: Greatest length of (row, 1, target), over that of (row, 1).
_JOINT = 0.9
#: The ridge over the noise's spectral norm, at least; more where the noise made an eigenvalue small or negative.
_RIDGE = 0.25
#: The ridge of a descent, which `auto` takes only where noise is large: columns have spread 1, so this is mild.
_DESCENT_RIDGE = 0.05


class LinearRegression(PrivateRegressor):
    """Least squares under (epsilon, delta), delta > 0, on standardised columns and target.

    `method`: "moments" (AdaSSP: noisy second moments, ridge from the noise), "descent" (noisy gradient descent), or
    "auto": moments, unless their noise would be loud beside a column. It grows with the columns to the power of 1.5,
    that of a gradient with their root, so of many columns a descent tells more. `steps` of a descent: None = by a
    public rule, from how many rows there are for how much noise, which decides as well how long they are and where
    gradients are cut. Rows are clipped the same way when predicting.
    """

    _numbers = ("target_range_", "centre_", "spread_", "weights_", "length_")

    def __init__(
        self,
        *,
        epsilon: Any,
        adjacency: Any,
        delta: Any = 0.0,
        bounds: Any = None,
        method: str = "auto",
        steps: int | None = None,
        quality: bool | str = False,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.adjacency = adjacency
        self.delta = delta
        self.bounds = bounds
        self.method = method
        self.steps = steps
        self.quality = quality
        self.random_state = random_state

    def _check_arguments(self, budget: FitBudget) -> None:
        if budget.pure:
            budget.refuse_pure("linear regression (AdaSSP, noisy gradient descent)")
        one_of("method", self.method, ("auto", "moments", "descent"))
        if self.steps is not None:
            whole("steps", self.steps)
        self._ridge()

    def _ridge(self) -> float:
        return 0.0

    def _learn(self, units: Floats, target: Floats, budget: FitBudget) -> tuple[str, tuple[str, ...], dict[str, Any]]:
        rest = Fraction(1)
        count = budget.row_count(len(units), _COUNT_SHARE)
        if not budget.counts_are_public:
            rest -= _COUNT_SHARE
        columns = np.hstack([units, target])
        scaling = learned_scaling(columns, count, budget, rest * _SCALING_SHARE)
        self.centre_, self.spread_ = scaling.centre, scaling.spread
        share = rest * (1 - _SCALING_SHARE)
        noise = _spectral_noise(units.shape[1], budget, share) / count
        if self.method == "moments" or (self.method == "auto" and noise <= _DROWNED):
            self.length_ = _MOMENT_LENGTH * math.sqrt(units.shape[1])
            self._by_moments(columns, count, noise, budget, share)
            return "noisy second moments, gaussian", (), {"ridge": "from the noise"}
        self.length_ = _DESCENT_LENGTH * math.sqrt(units.shape[1])
        pace = DescentPace.of(_PACES, loudness(count, units.shape[1] + 1, budget))
        steps = self.steps or pace.steps
        self._by_descent(columns, steps, pace, count, budget, share)
        return "noisy gradient descent, gaussian", (), {"steps": steps, "learning_rate": pace.rate, "clip": pace.clip}

    def _by_moments(self, columns: Floats, count: float, noise: float, budget: FitBudget, share: Fraction) -> None:
        """Release sum v v' for v = (row, 1, g target) of length at most C (`products.noisy_products`); solve with a
        ridge of the noise's size."""
        width = columns.shape[1] - 1
        weight, longest = self.length_ / FARTHEST, _joint_length(width)

        def joint(part: Floats) -> Floats:
            rows, target = self._standardised(part)
            return shortened(np.hstack([rows, np.ones((len(rows), 1)), weight * target]), longest)

        moments = noisy_products(joint, columns, width + 2, longest, budget, share) / count
        square, cross = moments[:-1, :-1], moments[:-1, -1:] / weight
        square[-1, -1] = 1  # the mean of 1 needs no noisy copy
        least = float(np.linalg.eigvalsh(square)[0])
        ridge = np.full(width + 1, max(_RIDGE * noise, noise - least) + self._ridge() / count)
        ridge[-1] = 0
        self.weights_ = np.linalg.solve(square + np.diag(ridge), cross)[:, 0]

    def _by_descent(
        self, columns: Floats, steps: int, pace: DescentPace, count: float, budget: FitBudget, share: Fraction
    ) -> None:
        rows, target = self._standardised(columns)
        plan = Descent(
            steps=steps,
            rate=pace.rate,
            clip=pace.clip * self.length_,
            length=self.length_,
            penalty=_DESCENT_RIDGE + self._ridge() / count,
            tail=0.5,
        )
        rows = np.hstack([rows, np.ones((len(rows), 1))])
        weights = descend(
            rows, target, lambda guess, truth: guess - truth, 1, plan=plan, count=count, budget=budget, share=share
        )
        self.weights_ = weights[:, 0]

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        longer = (self.n_features_in_ + 1,)
        own = {"target_range_": (2,), "centre_": longer, "spread_": longer, "weights_": longer, "length_": ()}
        return {**super()._shapes(), **own}

    def _standardised(self, columns: Floats) -> tuple[Floats, Floats]:
        rows = Scaling(self.centre_[:-1], self.spread_[:-1]).standardised(columns[:, :-1], self.length_)
        target = Scaling(self.centre_[-1:], self.spread_[-1:]).standardised(columns[:, -1:], FARTHEST)
        return rows, target

    def _said(self, units: Floats) -> Floats:
        rows = Scaling(self.centre_[:-1], self.spread_[:-1]).standardised(units, self.length_)
        score = scores(rows, self.weights_[:-1, None])[:, 0] + self.weights_[-1]
        return np.asarray(self.centre_[-1] + self.spread_[-1] * score)

    @property
    def coef_(self) -> Floats:
        """Weights in the columns' own units, for rows that are not clipped."""
        low, high = self.target_range_
        slope = self.spread_[-1] * self.weights_[:-1] / self.spread_[:-1]
        return np.asarray(slope * (high - low) / (self.high_ - self.low_))

    @property
    def intercept_(self) -> float:
        """The prediction for a row of zeros, in the target's own unit."""
        low, high = self.target_range_
        zero = -(self.high_ + self.low_) / (self.high_ - self.low_)
        score = float(((zero - self.centre_[:-1]) / self.spread_[:-1]) @ self.weights_[:-1] + self.weights_[-1])
        return float(low + (self.centre_[-1] + self.spread_[-1] * score + 1) / 2 * (high - low))


class Ridge(LinearRegression):
    """LinearRegression with a ridge of `alpha` on standardised columns, beside the one that the noise demands."""

    def __init__(
        self,
        *,
        epsilon: Any,
        adjacency: Any,
        delta: Any = 0.0,
        bounds: Any = None,
        alpha: float = 1.0,
        method: str = "auto",
        steps: int | None = None,
        quality: bool | str = False,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            adjacency=adjacency,
            delta=delta,
            bounds=bounds,
            method=method,
            steps=steps,
            quality=quality,
            random_state=random_state,
        )
        self.alpha = alpha

    def _ridge(self) -> float:
        return positive("alpha", self.alpha, zero=True)


def _joint_length(width: int) -> float:
    return _JOINT * math.sqrt(_MOMENT_LENGTH**2 * width + 1)


def _spectral_noise(width: int, budget: FitBudget, share: Fraction) -> float:
    """The spectral norm to expect of the noise on sum row row': 2 sd sqrt(width), symmetric Gaussian."""
    return math.sqrt(2 * width) * budget.gaussian_scale(product_reach(_joint_length(width)), share)
