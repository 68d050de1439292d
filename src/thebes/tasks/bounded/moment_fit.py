"""Models from moments: what a requestor learns from perturbed rows, corrected for the noise.

Linear models are solved from the moments; for the others, rows are drawn from the Gaussian mixture that has these
moments and an ordinary estimator is trained on them. Post-processing throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import Rows
from thebes.learning.inputs import NamedInputs, columns_of
from thebes.learning.one_thread import one_thread
from thebes.privacy.faults import Mistake
from thebes.tasks.bounded.encoder import categories, simplex, vector
from thebes.tasks.bounded.kind import MISSING, BoundedDocument
from thebes.tasks.bounded.moments import NoisyMoments
from thebes.tasks.document import Range, Values

Model = Literal["logistic", "linear", "svm", "forest"]
MODELS: tuple[Model, ...] = ("logistic", "linear", "svm", "forest")
SYNTHETIC = 4000  #: rows drawn for models that need rows

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FittedRows(NamedInputs):
    """A fitted model over the task's own columns: takes a DataFrame, a dict, or an array with `inputs` in order."""

    model: Any
    document: BoundedDocument
    inputs: tuple[str, ...]
    output: str

    def predict(self, rows: Any) -> NDArray[Any]:
        """The predicted output, in its own values or units."""
        guess = self.model.predict(self._vectors(rows))
        bound = self.document.bounds[self.output]
        if isinstance(bound, Values):
            return np.array([bound.values[i] for i in np.asarray(guess, dtype=int)])
        half = (bound.high - bound.low) / 2
        return np.asarray(bound.middle + half * np.asarray(guess, dtype=np.float64))

    def predict_proba(self, rows: Any) -> Floats:
        """Probabilities of `classes_`."""
        if not hasattr(self.model, "predict_proba"):
            raise Mistake("model", "gives no probabilities; fit 'logistic' or 'forest'")
        return np.asarray(self.model.predict_proba(self._vectors(rows)))

    @property
    def classes_(self) -> NDArray[Any]:
        bound = self.document.bounds[self.output]
        if not isinstance(bound, Values):
            raise Mistake("output", "has no classes: it is a range")
        return np.array([bound.values[i] for i in self.model.classes_])

    def _vectors(self, rows: Any) -> Floats:
        table = Rows.one_each(columns_of(rows, self.inputs))
        read: dict[str, NDArray[Any]] = {}
        for column in self.inputs:
            bound = self.document.bounds[column]
            if isinstance(bound, Values):
                index, missing = table.categories(column, bound.values)
                other = len(categories(bound)) - 1 if bound.default is None else bound.values.index(bound.default)
                read[column] = np.where(missing, other, index)
            else:
                numbers, missing = table.numbers(column)
                stand_in = bound.middle if bound.default is None else bound.default
                read[column] = np.where(missing, stand_in, numbers)
        return vector(self.document, read, self.inputs)


def fit(moments: NoisyMoments, document: BoundedDocument, model: str, output: str) -> FittedRows:
    """Fit `model` to predict `output` from all other columns."""
    if model not in MODELS:
        raise Mistake("model", f"must be one of {', '.join(repr(m) for m in MODELS)}")
    if output not in document.gives:
        raise Mistake("output", f"must be one of {', '.join(document.gives)}")
    inputs = tuple(column for column in document.gives if column != output)
    if not inputs:
        raise Mistake("output", "is the only column: there is nothing to predict it from")
    bound = document.bounds[output]
    if isinstance(bound, Values):
        if model == "linear":
            raise Mistake("model", "'linear' predicts a range; for a set fit 'logistic', 'svm' or 'forest'")
        return FittedRows(_classifier(moments, bound, model, output), document, inputs, output)
    if model == "logistic":
        raise Mistake("model", "'logistic' predicts a set; for a range fit 'linear', 'svm' or 'forest'")
    return FittedRows(_regressor(moments, bound, model, output), document, inputs, output)


def _inputs(moments: NoisyMoments, output: str) -> list[int]:
    return [i for i, axis in enumerate(moments.axes) if axis.column != output]


def _positive(matrix: Floats, floor: float) -> Floats:
    """The nearest matrix whose eigenvalues are at least `floor`: noise makes second moments indefinite."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray(vectors @ np.diag(np.maximum(values, floor)) @ vectors.T)


def _noise_norm(moments: NoisyMoments, size: int) -> float:
    """The usual spectral norm of a symmetric noise matrix of that size: 2 sd sqrt(size) (Wigner)."""
    return 2 * moments.error * float(np.sqrt(size))


def _classifier(moments: NoisyMoments, bound: Values, model: str, output: str) -> Any:
    where, own = _inputs(moments, output), moments.block(output)
    size = len(categories(bound))
    points = simplex(size)
    # 1{class = c} = 1/size + (size-1)/size <point_c, z>: class frequencies and class sums are linear in the moments.
    weight = (size - 1) / size
    frequency = 1 / size + weight * points @ moments.mean[own]
    sums = moments.mean[where][None, :] / size + weight * points @ moments.second[np.ix_(own, where)]
    classes = [c for c in range(size) if not (c == len(bound.values) and categories(bound)[c] == MISSING)]
    share = np.clip(frequency[classes], 0.02, None)
    share /= share.sum()
    centre = np.clip(sums[classes] / share[:, None], -1, 1)
    within = moments.second[np.ix_(where, where)] - (centre * share[:, None]).T @ centre
    ridge = _noise_norm(moments, len(where))
    # Means that noise pulled apart are drawn together: keep the part of their spread that noise cannot explain.
    middle = share @ centre
    apart = float(np.sum(share[:, None] * (centre - middle) ** 2))
    noise = len(where) * moments.error**2 * float(np.sum(1 / share)) * weight
    centre = middle + (centre - middle) * max(0.2, 1 - noise / max(apart, 1e-12))
    spread = _positive(within, 0.003) + ridge * np.eye(len(where)) * 0.25
    inputs, labels = _mixture(centre, spread, share, np.array(classes))
    return _trained(model, inputs, labels, classify=True)


def _regressor(moments: NoisyMoments, bound: Range, model: str, output: str) -> Any:
    where, own = _inputs(moments, output), moments.block(output)
    mean, target = moments.mean[where], float(moments.mean[own[0]])
    second = moments.second[np.ix_(where, where)] - np.outer(mean, mean)
    cross = moments.second[np.ix_(where, own)][:, 0] - mean * target
    ridge = _noise_norm(moments, len(where))
    if model == "linear":
        from sklearn.linear_model import LinearRegression

        safe = _positive(second, 0.0) + max(ridge * 0.7, 1e-4) * np.eye(len(where))
        fitted = LinearRegression()
        fitted.coef_ = np.linalg.solve(safe, cross)
        fitted.intercept_ = target - float(fitted.coef_ @ mean)
        fitted.n_features_in_ = len(where)
        return fitted
    everything = [*where, *own]
    whole = moments.second[np.ix_(everything, everything)] - np.outer(
        moments.mean[everything], moments.mean[everything]
    )
    joint = _positive(whole, 0.003) + ridge * 0.25 * np.eye(len(everything))
    joint[-1, -1] -= ridge * 0.25
    rows, _ = _mixture(moments.mean[everything][None, :], joint, np.ones(1), np.zeros(1, dtype=int))
    return _trained(model, rows[:, :-1], np.clip(rows[:, -1], -1, 1), classify=False)


def _mixture(centre: Floats, spread: Floats, share: Floats, labels: NDArray[Any]) -> tuple[Floats, NDArray[Any]]:
    # Drawn after the noise, from released numbers only: an ordinary repeatable generator is right here.
    draw = np.random.Generator(np.random.PCG64(0))
    root = np.linalg.cholesky(spread + 1e-9 * np.eye(len(spread)))
    which = draw.choice(len(share), SYNTHETIC, p=share / share.sum())
    inputs = centre[which] + draw.normal(size=(SYNTHETIC, len(spread))) @ root.T
    return inputs, labels[which]


def _trained(model: str, inputs: Floats, target: NDArray[Any], *, classify: bool) -> Any:
    with one_thread():  # thirty times as fast where others compute beside it
        return _estimator(model, classify=classify).fit(inputs, target)


def _estimator(model: str, *, classify: bool) -> Any:
    if model == "logistic":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=500)
    if model == "svm":
        from sklearn.svm import SVC, SVR

        return SVC() if classify else SVR()
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    forest = RandomForestClassifier if classify else RandomForestRegressor
    return forest(n_estimators=60, min_samples_leaf=5, random_state=0)
