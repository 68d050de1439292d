"""Gaussian naive Bayes from noisy class counts, sums and sums of squares, steadied by what the noise explains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.learning.arguments import one_of
from thebes.learning.budget import FitBudget, Floats, Reach
from thebes.learning.estimator import PrivateClassifier
from thebes.learning.rows import blocks, slices
from thebes.learning.scaler import (
    FARTHEST,
    SQUARE_WEIGHT_L1,
    Scaling,
    doubt_of_scaling,
    learned_scaling,
    steadied,
)

_COUNT_SHARE = Fraction(1, 50)
_SCALING_SHARE = Fraction(1, 4)
#: Centres that noise would leave known to no better than this (bounds lying at -1 and 1) are not bought, and `_SPREAD`
#: stands in for spreads; beyond `_LOST` noise over all columns tells less than the Laplace form over a few.
_BLURRED, _LOST, _SPREAD = 0.35, 0.5, 0.35
#: The Laplace form asks for so many columns for each row of a class and each unit of epsilon, and for one at least.
_COLUMNS = 0.05
#: Spread of the columns in [-1, 1] that `auto` reckons with when it compares the two mechanisms.
_TYPICAL_SPREAD = 0.3
#: How far, relatively and squared, a class's own variance is expected to lie from the common one.
_OWN_VARIANCE = 0.1


@dataclass(frozen=True, slots=True)
class ClassSums:
    """Released per class: counts, sums and (unless pooled) sums of squares, with the deviation of their noise."""

    counts: Floats
    sums: Floats
    squares: Floats  #: one row per class, or a single pooled row
    count_noise: float
    sum_noise: float
    square_noise: float


class GaussianNB(PrivateClassifier):
    """Gaussian naive Bayes. With delta: Gaussian noise, one variance per class and column. Without: Laplace noise,
    one variance per column shared by the classes, and where rows are few only of some columns, drawn blindly
    (`asked_`): Laplace noise on a column grows with how many are asked for, so a few of them tell more than all.

    `mechanism`: "auto" (least expected noise within epsilon and delta), "laplace" or "gaussian".
    Proof: each release is a sum of rows of bounded reach (`_gaussian_sums`, `_laplace_sums`); the rest is
    post-processing.
    """

    _numbers = ("class_prior_", "centre_", "spread_", "means_", "variances_")

    def __init__(
        self,
        *,
        epsilon: Any,
        adjacency: Any,
        delta: Any = 0.0,
        bounds: Any = None,
        classes: Any = None,
        mechanism: str = "auto",
        quality: bool | str = False,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.adjacency = adjacency
        self.delta = delta
        self.bounds = bounds
        self.classes = classes
        self.mechanism = mechanism
        self.quality = quality
        self.random_state = random_state

    def _check_arguments(self, budget: FitBudget) -> None:
        one_of("mechanism", self.mechanism, ("auto", "laplace", "gaussian"))
        if self.mechanism == "gaussian" and budget.pure:
            budget.refuse_pure("Gaussian noise")

    def _learn(
        self, units: Floats, labels: NDArray[np.int64], budget: FitBudget
    ) -> tuple[str, tuple[str, ...], dict[str, Any]]:
        rest = Fraction(1)
        classes, width = len(self.classes_), units.shape[1]
        laplace = self._prefers_laplace(width, budget)
        if laplace:
            budget.use_pure()
        asked = np.arange(width)
        rows = budget.row_count(len(units), _COUNT_SHARE)
        if not budget.counts_are_public:
            rest -= _COUNT_SHARE
        if laplace:
            scaling = Scaling(np.zeros(width), np.ones(width))
            asked = _drawn(width, rows / classes, budget)
            sums = _laplace_sums(units[:, asked], labels, classes, budget, rest)
        elif doubt_of_scaling(width, budget, rest * _SCALING_SHARE) <= _BLURRED * rows:
            scaling = learned_scaling(units, rows, budget, rest * _SCALING_SHARE)
            sums = _gaussian_sums(units, labels, classes, scaling, budget, rest * (1 - _SCALING_SHARE))
        else:
            scaling = Scaling(np.zeros(width), np.full(width, _SPREAD))
            sums = _gaussian_sums(units, labels, classes, scaling, budget, rest)
        self.centre_, self.spread_ = scaling.centre, scaling.spread
        self.class_prior_, means, variances = _moments(sums, rows)
        self.means_, self.variances_ = np.zeros((classes, width)), np.ones((classes, width))
        self.means_[:, asked], self.variances_[:, asked] = means, variances
        told = {"released": "class counts, sums and sums of squares", "columns": len(asked)}
        drawn = f"Of {width} columns {len(asked)} were asked for, drawn blindly: all of them would drown in noise."
        return ("laplace" if laplace else "gaussian"), () if len(asked) == width else (drawn,), told

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        table, row = (len(self.classes_), self.n_features_in_), (self.n_features_in_,)
        own = {"class_prior_": table[:1], "means_": table, "variances_": table, "centre_": row, "spread_": row}
        return {**super()._shapes(), **own}

    def _prefers_laplace(self, width: int, budget: FitBudget) -> bool:
        if budget.pure or self.mechanism != "auto":
            return budget.pure or self.mechanism == "laplace"
        if budget.size is not None and doubt_of_scaling(width, budget, _SCALING_SHARE) > _LOST * budget.size:
            return True
        laplace = math.sqrt(2) * budget.laplace_scale(_laplace_reach(width), Fraction(1))
        gaussian = budget.gaussian_scale(_gaussian_reach(width), 1 - _SCALING_SHARE) * _TYPICAL_SPREAD
        return laplace < gaussian

    @property
    def asked_(self) -> NDArray[np.bool_]:
        """Return which columns were asked for. Of the others nothing is known, and they count for nothing."""
        return np.asarray(((self.means_ != 0) | (self.variances_ != 1)).any(axis=0))

    @property
    def theta_(self) -> Floats:
        """Mean of each column (in its own unit) per class, as scikit-learn names it."""
        return self.low_ + (self.centre_ + self.means_ * self.spread_ + 1) / 2 * (self.high_ - self.low_)

    @property
    def var_(self) -> Floats:
        """Variance of each column per class, as scikit-learn names it."""
        return np.asarray(self.variances_ * (self.spread_ * (self.high_ - self.low_) / 2) ** 2)

    def _log_odds(self, units: Floats) -> Floats:
        rows = np.clip((units - self.centre_) / self.spread_, -FARTHEST, FARTHEST)
        odds = np.tile(np.log(self.class_prior_), (len(rows), 1))
        for j, (mean, variance) in enumerate(zip(self.means_, self.variances_, strict=True)):
            odds[:, j] -= 0.5 * (np.log(variance) + (rows - mean) ** 2 / variance).sum(axis=1)
        return odds


# --- releases ------------------------------------------------------------------------------------------


def _gaussian_reach(width: int) -> Reach:
    """(a, z, K z^2) in the row's own class, |z_j| <= 3, |z| <= C = sqrt(width), K = 1/6, a^2 = 3/4 C^2: reach 2 C.

    Same class: for |z_j| = p_j, |w_j| = q_j the squared distance is at most the sum of (p + q)^2 + K^2 (p^2 - q^2)^2
    = 2 p^2 + 2 q^2 + (p - q)^2 (K^2 (p + q)^2 - 1) <= 2 p^2 + 2 q^2, as p + q <= 6 = 1 / K; in all at most 4 C^2.
    Other class: twice a^2 + |z|^2 + K^2 |z^2|^2 <= 3/4 C^2 + C^2 + K^2 9 C^2 = 2 C^2; again 4 C^2. So the counts and
    the squares cost nothing beside the sums.
    """
    length = math.sqrt(width)
    return Reach(math.sqrt(2) * length, 2 * length)


def _gaussian_sums(
    units: Floats, labels: NDArray[np.int64], classes: int, scaling: Scaling, budget: FitBudget, share: Fraction
) -> ClassSums:
    width = units.shape[1]
    length = math.sqrt(width)
    count_weight, square_weight = math.sqrt(0.75) * length, 1 / (2 * FARTHEST)

    def build(part: Floats) -> Floats:
        rows = scaling.standardised(part, length)
        return np.hstack([np.full((len(rows), 1), count_weight), rows, square_weight * rows * rows])

    released = budget.gaussian_of_classes(
        zip(blocks(build, units), slices(labels), strict=True),
        classes=classes,
        width=1 + 2 * width,
        reach=_gaussian_reach(width),
        share=share,
    )
    table, noise = released.value.reshape(classes, 1 + 2 * width), released.scale
    return ClassSums(
        counts=table[:, 0] / count_weight,
        sums=table[:, 1 : 1 + width],
        squares=table[:, 1 + width :] / square_weight,
        count_noise=noise / count_weight,
        sum_noise=noise,
        square_noise=noise / square_weight,
    )


def _drawn(width: int, rows: float, budget: FitBudget) -> NDArray[np.int64]:
    """Columns to ask for, drawn without looking at a row: as many as a class of so many rows bears.

    With m columns the noise on a class's mean of one is m times that of a single one, and what they tell apart grows
    with m; so the best m is where noise is about half of a spread, which grows with epsilon and rows.
    """
    many = int(min(width, max(1.0, _COLUMNS * float(budget.epsilon) * rows)))
    if many == width:
        return np.arange(width)
    return np.sort(np.argsort(budget.randomness.below(2**40, width), kind="stable")[:many])


def _count_weight(width: int) -> float:
    """The weight of a row's count beside its columns in the Laplace form."""
    return max(width / 10, 0.3)


def _laplace_reach(width: int) -> Reach:
    """(a, u) in the row's own class and u^2 / 2 for all classes, |u_j| <= 1, a = `_count_weight`; L1.

    Same class: |x - y| + |x^2 - y^2| / 2 <= 2 per column. Other class: |x| + |y| + |x^2 - y^2| / 2 <= 2 per column
    (for p >= q, (p + q)(1 + (p - q) / 2) grows in both), and 2 a for the counts.
    """
    weight = _count_weight(width)
    return Reach(width * 1.5 + weight, width * 2 + 2 * weight)


def _laplace_sums(
    units: Floats, labels: NDArray[np.int64], classes: int, budget: FitBudget, share: Fraction
) -> ClassSums:
    width = units.shape[1]
    count_weight = _count_weight(width)

    def build(part: Floats, own: NDArray[np.int64]) -> Floats:
        one = np.hstack([np.full((len(part), 1), count_weight), part])
        return np.hstack([*(one * (own == c)[:, None] for c in range(classes)), SQUARE_WEIGHT_L1 * part * part])

    size = classes * (1 + width)
    released = budget.laplace(
        blocks(build, units, labels), width=size + width, reach=_laplace_reach(width), share=share
    )
    table, noise = released.value[:size].reshape(classes, 1 + width), math.sqrt(2) * released.scale
    return ClassSums(
        counts=table[:, 0] / count_weight,
        sums=table[:, 1:],
        squares=released.value[size:][None, :] / SQUARE_WEIGHT_L1,
        count_noise=noise / count_weight,
        sum_noise=noise,
        square_noise=noise / SQUARE_WEIGHT_L1,
    )


# --- post-processing -----------------------------------------------------------------------------------


def _moments(released: ClassSums, rows: float) -> tuple[Floats, Floats, Floats]:
    """Priors, means and variances per class: plain moments, each pulled toward the classes' common value by as much
    as noise of the known deviation explains; without noise they are the plain moments."""
    counts = np.maximum(released.counts, 1.0)
    counts *= rows / counts.sum()
    even = rows / len(counts)  # what noise may explain of how far classes are apart in number is taken for noise
    apart = max(float(((counts - even) ** 2).mean()) - released.count_noise**2, 0.0)
    counts = np.maximum(even + apart / (apart + released.count_noise**2) * (counts - even), 1.0)
    prior, divisor = counts / rows, np.maximum(counts, 0.02 * rows)
    centre = np.clip(released.sums.sum(axis=0) / rows, -FARTHEST, FARTHEST)
    means = np.clip(released.sums / divisor[:, None], -FARTHEST, FARTHEST)
    own = len(released.squares) > 1
    square_noise = released.square_noise * (math.sqrt(len(counts)) if own else 1.0) / rows
    total = steadied(released.squares.sum(axis=0) / rows - centre**2, square_noise)

    mean_noise = (released.sum_noise / divisor)[:, None] ** 2 / total
    apart = max(float(prior @ (((means - centre) ** 2 / total - mean_noise).mean(axis=1))), 1e-3)
    means = centre + apart / (apart + mean_noise) * (means - centre)

    between = (prior[:, None] * (means - centre) ** 2).sum(axis=0)
    common = np.maximum(total - between, 0.15 * total)
    variances = np.tile(common, (len(counts), 1))
    if own:
        noise = (released.square_noise / divisor)[:, None] / common
        trust = _OWN_VARIANCE / (_OWN_VARIANCE + noise**2)
        plain = released.squares / divisor[:, None] - means**2
        variances = np.clip(common + trust * (plain - common), 0.1 * common, 10 * common)
    return np.maximum(counts, 0.5) / np.maximum(counts, 0.5).sum(), means, np.maximum(variances, 1e-9)
