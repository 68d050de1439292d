"""k-means: starts from a tree of noisy counts, then noisy Lloyd steps, each a noisy count and sum per cluster."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin

from thebes.learning.arguments import whole
from thebes.learning.budget import FitBudget, Floats, Reach
from thebes.learning.density import centres_of, draws_for, learned_density
from thebes.learning.estimator import MISSING, PrivateEstimator
from thebes.learning.rows import blocks
from thebes.privacy.faults import Mistake

_COUNT_SHARE = Fraction(1, 50)
#: What starts cost; the steps have the rest.
_START_SHARE = Fraction(1, 2)
#: The way of a centre from its start that is usual, bounds lying at -1 and 1: noise as wide is trusted by half.
_MOVED = 0.4
#: Noise on a coordinate of a centre beyond which centres may be no better than a single one: columns spread as widely.
_LOST = 0.3
#: Noise on a coordinate of a centre beyond which one middle for the whole budget does better; measured.
_HOPELESS = 1.0
#: The way from that middle to each centre, in units of how far columns usually spread.
_STREWN = 0.35


class KMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, PrivateEstimator):  # type: ignore[misc]
    """k-means in public bounds: pure (Laplace) with delta 0, Gaussian otherwise.

    Half of the budget counts rows in ever smaller boxes; weighted k-means on what stands out gives the starts. The
    other half pays for `steps` noisy Lloyd steps, each as much, which move all centres by the middle of all rows before
    each by its own. A single cluster needs no start: its steps have all. Where noise on a centre would be half as
    wide as the bounds, one middle has all in one step, and centres are strewn around it by chance.
    Proof: of the counts see `learned_density`. In a step a row (a, u) enters the sums of one cluster, `_reach`; its
    cluster depends on the row and released centres only. What is split is fixed in advance, see `FitBudget`; which of
    two ways it is split follows from the number of rows, public or released, and each of them costs what is left.
    There is no `inertia_` and no `labels_`: both are of the training rows, and neither was bought.
    """

    _numbers = ("centres_",)

    def __init__(
        self,
        *,
        epsilon: Any,
        adjacency: Any,
        delta: Any = 0.0,
        bounds: Any = None,
        n_clusters: int = 8,
        steps: int = 1,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.adjacency = adjacency
        self.delta = delta
        self.bounds = bounds
        self.n_clusters = n_clusters
        self.steps = steps
        self.random_state = random_state

    def _check_arguments(self, budget: FitBudget) -> None:
        whole("n_clusters", self.n_clusters)
        whole("steps", self.steps)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find centres, spending `epsilon` and `delta` once."""
        budget = self._budget()
        rows = self._rows(X, reset=True, budget=budget)
        box, _ = self._boxes(rows, None, budget)
        units = box.unit(rows)
        share, count = _bought_count(len(units), self.n_clusters, budget)
        noise = 0.0
        if self.n_clusters > 1:
            each = share * (1 - _START_SHARE) / self.steps
            noise = _noise(units.shape[1], budget, each) * self.n_clusters / count
        ways, steps = "noisy counts of boxes and Lloyd steps", self.steps
        if noise > _HOPELESS:
            ways, steps = "a noisy middle of all rows", 1
            self.centres_ = _strewn(units, self.n_clusters, count, budget, share)
        else:
            starts, share = _bought_starts(units, self.n_clusters, count, budget, share)
            self.centres_ = _lloyd(units, starts, self.steps, count, budget, share)
        mechanism = f"{ways}, {'laplace' if budget.pure else 'gaussian'}"
        notes: tuple[str, ...] = (MISSING + ".",)
        if noise > _LOST:
            notes = (*notes, f"{_TOO_FEW[0].upper()}{_TOO_FEW[1:]}.")
            warnings.warn(_TOO_FEW, UserWarning, stacklevel=2)
        self._certify(budget, len(rows), mechanism, notes, {"clusters": self.n_clusters, "steps": steps})
        return self

    @property
    def cluster_centers_(self) -> Floats:
        """The released centres in the columns' own units."""
        return np.asarray(self.low_ + (self.centres_ + 1) / 2 * (self.high_ - self.low_))

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The number of the nearest centre, distances measured in units of the bounds."""
        return _nearest(self._units(X), self.centres_)

    def transform(self, X: Any) -> Floats:
        """The distance of each row to each centre, in units in which every column's bounds lie 2 apart."""
        units = self._units(X)
        return np.sqrt(np.column_stack([_squared(units, centre) for centre in self.centres_]))

    @property
    def _n_features_out(self) -> int:
        return len(self.centres_)

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> NDArray[np.int64]:
        """Centres from X, then each row's cluster. The clusters of X are for the owner of X: they are no release."""
        return self.fit(X).predict(X)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        if np.ndim(self.centres_) != 2 or len(self.centres_) < 1:
            raise Mistake("model", "centres_ must hold at least one centre")
        self.n_clusters = len(self.centres_)
        return {**super()._shapes(), "centres_": (self.n_clusters, self.n_features_in_)}


_TOO_FEW = (
    "the clusters may be no better than a single one: noise is as wide as columns usually spread. More rows, a larger "
    "epsilon, or fewer clusters or columns would help"
)


def _bought_count(rows: int, clusters: int, budget: FitBudget) -> tuple[Fraction, float]:
    """The share that is left, and the number of rows. A single cluster does without the number."""
    if clusters == 1:
        return Fraction(1), 0.0
    count = budget.row_count(rows, _COUNT_SHARE)
    return (Fraction(1) if budget.counts_are_public else 1 - _COUNT_SHARE), count


def _bought_starts(
    units: Floats, clusters: int, count: float, budget: FitBudget, share: Fraction
) -> tuple[Floats, Fraction]:
    """The centres to start from, and the share that is left; where no rows stand out, centres are drawn blindly."""
    if clusters == 1:
        return np.zeros((1, units.shape[1])), share
    density = learned_density(units, count, budget, share * _START_SHARE)
    found = centres_of(density, clusters, draws_for(clusters, budget))
    starts = _blind_starts(clusters, units.shape[1], budget) if found is None else found
    return starts, share * (1 - _START_SHARE)


def _strewn(units: Floats, clusters: int, count: float, budget: FitBudget, share: Fraction) -> Floats:
    """Centres around the middle of all rows, each off by chance in every column, and by more where they are many: the
    best of k directions is right by about sqrt(2 log k) spreads of the rows along it."""
    width = units.shape[1]
    (middle,) = _lloyd(units, np.zeros((1, width)), 1, count, budget, share)
    middle = _shrunk(middle, _noise(width, budget, share) / count)
    signs = 2 * budget.randomness.below(2, clusters * width).reshape(clusters, width) - 1
    return np.clip(middle + _STREWN * math.sqrt(2 * math.log(clusters) / width) * signs, -1, 1)


def _noise(width: int, budget: FitBudget, share: Fraction) -> float:
    """The deviation of the noise on each number of a step."""
    reach = _reach(width, _weight(width, budget), pure=budget.pure)
    return math.sqrt(2) * budget.laplace_scale(reach, share) if budget.pure else budget.gaussian_scale(reach, share)


def _weight(width: int, budget: FitBudget) -> float:
    """The weight of a row's count beside its columns: as much as a typical column's sum; see `_reach`."""
    return 1.0 if budget.pure else math.sqrt(width) / 2


def _lloyd(units: Floats, starts: Floats, steps: int, count: float, budget: FitBudget, share: Fraction) -> Floats:
    centres, (clusters, width) = starts, starts.shape
    weight, noise = _weight(width, budget), _noise(width, budget, share / steps)

    def build(part: Floats) -> Floats:
        own = _nearest(part, centres)
        one = np.hstack([np.full((len(part), 1), weight), part])
        return np.hstack([one * (own == c)[:, None] for c in range(clusters)])

    release = budget.laplace if budget.pure else budget.gaussian
    for _ in range(steps):
        sums = release(
            blocks(build, units),
            width=clusters * (1 + width),
            reach=_reach(width, weight, pure=budget.pure),
            share=share / steps,
        )
        table = sums.value.reshape(clusters, 1 + width)
        counts = table[:, :1] / weight
        rows = np.maximum(counts, noise / weight)
        if clusters == 1:  # a single centre starts nowhere
            centres = np.clip(table[:, 1:] / rows, -1, 1)
            continue
        middle = (rows * centres).sum(axis=0) / rows.sum()
        moved = centres + _shrunk(table[:, 1:].sum(axis=0) / count - middle, math.sqrt(clusters) * noise / count)
        off = noise / rows / _MOVED
        trusted = np.where(counts > 0, 1 / (1 + off**2), 0.0)  # a cluster lost in noise moves only as all do
        centres = np.clip(moved + trusted * (table[:, 1:] / rows - moved), -1, 1)
    return centres


def _shrunk(way: Floats, deviation: float) -> Floats:
    """A way in noise of this deviation, as much shorter as noise explains (James & Stein 1961, the positive part)."""
    return np.asarray(way * max(0.0, 1 - len(way) * deviation**2 / max(float(way @ way), 1e-12)))


def _reach(width: int, weight: float, *, pure: bool) -> Reach:
    """(a, u) in one of the clusters, |u_j| <= 1. L1: a + width, and two rows in two clusters lie twice that apart.

    L2: length sqrt(a^2 + width); in the same cluster at most 2 sqrt(width) apart, in two sqrt(2) times the length.
    """
    if pure:
        return Reach(weight + width, 2 * (weight + width))
    length = math.sqrt(weight * weight + width)
    return Reach(length, max(2 * math.sqrt(width), math.sqrt(2) * length))


def _nearest(units: Floats, centres: Floats) -> NDArray[np.int64]:
    best, chosen = np.full(len(units), np.inf), np.zeros(len(units), dtype=np.int64)
    for c, centre in enumerate(centres):
        away = _squared(units, centre)
        chosen = np.where(away < best, c, chosen)
        best = np.minimum(away, best)
    return chosen


def _squared(units: Floats, centre: Floats) -> Floats:
    away = np.zeros(len(units))
    for j, place in enumerate(centre):
        away += (units[:, j] - place) ** 2
    return away


def _blind_starts(clusters: int, width: int, budget: FitBudget) -> Floats:
    """The most spread out of a few lots of random points."""
    tries = 20
    words = budget.randomness.below(2**30, tries * clusters * width)
    points = (words.reshape(tries, clusters, width) / 2**30 - 0.5) * 1.2
    away = ((points[:, :, None, :] - points[:, None, :, :]) ** 2).sum(axis=3) + 1e9 * np.eye(clusters)
    return np.asarray(points[away.min(axis=(1, 2)).argmax()])
