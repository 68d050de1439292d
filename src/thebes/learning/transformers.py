"""Transformers that are fitted privately: columns brought to one scale, and directions in which rows differ most."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from thebes.learning.arguments import whole
from thebes.learning.budget import FitBudget, Floats
from thebes.learning.estimator import MISSING, PrivateEstimator
from thebes.learning.products import noisy_products
from thebes.learning.rows import Box, shortened
from thebes.learning.scaler import learned_scaling
from thebes.privacy.faults import Mistake

_COUNT_SHARE = Fraction(1, 50)
#: What the centre of the rows costs before their directions are asked for.
_CENTRE_SHARE = Fraction(1, 4)
#: The greatest length of a centred row, over that of a row as far off as columns usually are.
_LENGTH = 1.5


class _Transformer(TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """A transformer: `centre_` is in columns from -1 to 1, as the bounds have them."""

    centre_: Floats

    def _opened(self, X: Any) -> tuple[Floats, FitBudget, float, Fraction, int]:
        """Rows in [-1, 1], the budget, the number of rows, which share of the budget is left, how many rows came."""
        budget = self._budget()
        rows = self._rows(X, reset=True, budget=budget)
        box, _ = self._boxes(rows, None, budget)
        units = box.unit(rows)
        count = budget.row_count(len(units), _COUNT_SHARE)
        left = Fraction(1) if budget.counts_are_public else 1 - _COUNT_SHARE
        return units, budget, count, left, len(rows)

    @property
    def mean_(self) -> Floats:
        """The released centre in the columns' own units."""
        check_is_fitted(self)
        return Box(self.low_, self.high_).back(self.centre_)


class StandardScaler(_Transformer):
    """Columns with centre 0 and spread 1 by a private mean and standard deviation: pure (Laplace) with delta 0,
    Gaussian otherwise. The sums of values and of their squares are one release; the proof stands in `scaler`."""

    _numbers = ("centre_", "spread_")

    def __init__(
        self, *, epsilon: Any, adjacency: Any, delta: Any = 0.0, bounds: Any = None, random_state: Any = None
    ) -> None:
        self.epsilon = epsilon
        self.adjacency = adjacency
        self.delta = delta
        self.bounds = bounds
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find each column's mean and spread, spending `epsilon` and `delta` once."""
        units, budget, count, left, rows = self._opened(X)
        scaling = learned_scaling(units, count, budget, left)
        self.centre_, self.spread_ = scaling.centre, scaling.spread
        mechanism = "noisy sums and squares, " + ("laplace" if budget.pure else "gaussian")
        self._certify(budget, rows, mechanism, (MISSING + ".",), {})
        return self

    @property
    def scale_(self) -> Floats:
        """The released spread in the columns' own units."""
        check_is_fitted(self)
        return np.asarray(self.spread_ * (self.high_ - self.low_) / 2)

    @property
    def var_(self) -> Floats:
        return self.scale_**2

    def transform(self, X: Any) -> Floats:
        """Each column less its mean, over its spread; what lies outside of the bounds counts as the bound."""
        return np.asarray((self._units(X) - self.centre_) / self.spread_)

    def inverse_transform(self, X: Any) -> Floats:
        """The columns' own units again."""
        check_is_fitted(self)
        return np.asarray(np.asarray(X, dtype=np.float64) * self.scale_ + self.mean_)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        width = (self.n_features_in_,)
        return {**super()._shapes(), "centre_": width, "spread_": width}


class PCA(_Transformer):
    """Principal components of columns from -1 to 1, as the bounds have them, under (epsilon, delta), delta > 0.

    A quarter of the budget finds the centre and spread of every column (`scaler.learned_scaling`), the rest one noisy
    sum of v v', v being the centred row, shortened to a length that follows from the released spreads (Dwork, Talwar,
    Thakurta & Zhang 2014, *Analyze Gauss*). Proof of its reach: v v' has Frobenius norm |v|^2, at most the square of
    that length, and two of them are at most sqrt 2 times that apart, as |v v' - w w'|^2 = |v|^4 + |w|^4 - 2 (v.w)^2;
    see `products`. The rest is post-processing.
    """

    _numbers = ("centre_", "components_", "explained_variance_", "total_")

    def __init__(
        self,
        *,
        epsilon: Any,
        adjacency: Any,
        delta: Any = 0.0,
        bounds: Any = None,
        n_components: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.adjacency = adjacency
        self.delta = delta
        self.bounds = bounds
        self.n_components = n_components
        self.random_state = random_state

    def _check_arguments(self, budget: FitBudget) -> None:
        if budget.pure:
            budget.refuse_pure("a private matrix of products")
        if self.n_components is not None:
            whole("n_components", self.n_components)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the directions in which rows differ most, spending `epsilon` and `delta` once."""
        units, budget, count, left, rows = self._opened(X)
        width = units.shape[1]
        if self.n_components is not None and self.n_components > width:
            raise Mistake("n_components", f"must be at most the number of columns, {width}")
        scaling = learned_scaling(units, count, budget, left * _CENTRE_SHARE)
        self.centre_ = scaling.centre
        length = _LENGTH * float(np.sqrt((scaling.spread**2).sum()))

        def centred(part: Floats) -> Floats:
            return shortened(part - scaling.centre, length)

        products = noisy_products(centred, units, width, length, budget, left * (1 - _CENTRE_SHARE))
        found, directions = np.linalg.eigh(products / count)
        order = np.argsort(found)[::-1][: self.n_components or width]
        turned = directions.T[order]
        signs = np.sign(turned[np.arange(len(order)), np.abs(turned).argmax(axis=1)])
        self.components_ = turned * np.where(signs == 0, 1, signs)[:, None]
        self.explained_variance_ = np.maximum(found[order], 0.0)
        self.total_ = float(np.maximum(found, 0.0).sum())
        parameters = {"components": len(order)}
        self._certify(budget, rows, "noisy second moments, gaussian", (MISSING + ".",), parameters)
        return self

    @property
    def explained_variance_ratio_(self) -> Floats:
        """The part of the released variance that each component explains."""
        check_is_fitted(self)
        return np.asarray(self.explained_variance_ / max(self.total_, 1e-300))

    def transform(self, X: Any) -> Floats:
        """Each row in the components' directions, in columns from -1 to 1 less their centre."""
        return np.asarray((self._units(X) - self.centre_) @ self.components_.T)

    def inverse_transform(self, X: Any) -> Floats:
        """The columns' own units again, as far as the components tell."""
        check_is_fitted(self)
        units = np.asarray(X, dtype=np.float64) @ self.components_ + self.centre_
        return Box(self.low_, self.high_).back(units)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        if np.ndim(self.components_) != 2 or not 1 <= len(self.components_) <= self.n_features_in_:
            raise Mistake("model", "components_ must hold at least one direction, and no more than there are columns")
        self.n_components = len(self.components_)
        own = {
            "centre_": (self.n_features_in_,),
            "components_": (self.n_components, self.n_features_in_),
            "explained_variance_": (self.n_components,),
            "total_": (),
        }
        return {**super()._shapes(), **own}
