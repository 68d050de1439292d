"""The parts that all private estimators share: reading arguments and rows, spending, the certificate, prediction's
front door.

Must stay true: arguments are judged before the data; nothing is taken from the data silently; no row is refused for a
value, as that would tell of it: a missing number is the middle of its bounds, a row without a target counts for
nothing. Refused is only what somebody who knows no row knows: arguments, the shape of a table, its columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.utils.validation import check_is_fitted, validate_data

from thebes.learning.arguments import one_of, positive, randomness_of
from thebes.learning.budget import FitBudget, Floats
from thebes.learning.cells import column_of, numbers_of
from thebes.learning.inputs import framed, without_cells
from thebes.learning.labels import bought_classes, declared_classes, places_of
from thebes.learning.ranges import TARGET, estimated_box, given_box
from thebes.learning.rows import Box
from thebes.learning.tested import ROWS, TrialTerms, metric_of, note, of_labels, of_numbers, of_ranks, set_aside
from thebes.privacy import exact
from thebes.privacy.certificate import Certificate
from thebes.privacy.events import ApproximateEvent, Event, PureEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.held_out import PRIVATE_SHARE, share_of
from thebes.privacy.model_quality import Quality
from thebes.privacy.promise import Unit, adjacency_of
from thebes.privacy.randomness import Randomness, system

#: What `bounds="estimate"` costs: this part of epsilon, pure; and `classes="estimate"`: of epsilon and delta.
ESTIMATE_SHARE = Fraction(1, 10)
MISSING = "A number that is missing counts as the middle of its bounds"


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of all estimators: `fit` spends at most (epsilon, delta) for one row, under `adjacency`.

    Not claimed: anything about a second fit on the same rows (that is a second price), nor about hyperparameters
    or classes that somebody chose by looking at the rows.
    """

    #: the fitted attributes that prediction needs, arrays or numbers, all of them released; `to_json` writes these
    _numbers: ClassVar[tuple[str, ...]] = ()

    epsilon: Any
    delta: Any
    adjacency: Any
    bounds: Any
    random_state: Any
    n_features_in_: int
    certificate_: Certificate
    events_: tuple[Event, ...]
    #: what the model was shown to be worth on rows set aside for that; None where none were
    quality_: Quality | None
    quality: bool | str
    low_: Floats
    high_: Floats
    spread_: Floats  #: of columns, where it was bought

    def _budget(self) -> FitBudget:
        """Judge every argument that can be judged without data, and open the budget."""
        if self.bounds is None:
            raise Mistake("bounds", 'are missing: add bounds={column: (low, high), ...} or bounds="estimate"')
        metric_of(getattr(self, "quality", False), 0 if is_regressor(self) else None)
        budget = FitBudget(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            randomness=randomness_of(self.random_state),
        )
        self._check_arguments(budget)
        return budget

    def _check_arguments(self, budget: FitBudget) -> None:
        """Refuse bad hyperparameters; overridden where there are any."""

    def _rows(self, X: Any, *, reset: bool, budget: FitBudget | None = None, none: bool = False) -> Floats:
        """Rows as numbers, NaN for whatever is none: of a table the columns by name, in the order of the fit, of an
        array by position. Only what the table as a whole is like is refused; that there is no row where `none`."""
        # Where rows come and go, refusing to learn from none would say for certain that there was none.
        least = 0 if none or (budget is not None and not budget.counts_are_public) else 1
        names = None if reset else getattr(self, "feature_names_in_", None)
        table = numbers_of(framed(X, names, fitted=not reset))
        if names is not None and isinstance(table, np.ndarray) and table.shape[1:] == (len(names),):
            table = pd.DataFrame(table, columns=names)  # an array goes by position, and needs no warning
        try:
            rows = validate_data(
                self,
                table,
                reset=reset,
                dtype=np.float64,
                order="C",
                ensure_all_finite=False,
                ensure_min_samples=least,
            )
        except ValueError as problem:
            message = str(problem)
            if "0 sample(s)" in message:
                raise Mistake("X", "has no rows; there is nothing to work on") from None
            raise Mistake("X", without_cells(message)) from None
        if budget is not None and budget.counts_are_public:
            budget.size = len(rows)
        return np.ascontiguousarray(rows)

    def _told(self, budget: FitBudget, count: float | None, kept: float) -> None:
        """Take a released number of the rows that count instead of the public one of all; the share that was `kept` of
        these counts, where others were set aside."""
        if count is None:
            return
        if not budget.counts_are_public:
            raise Mistake("count", "is for replace-one; under add-remove-one the fit buys the number of rows itself")
        budget.size = float(positive("count", count)) * kept

    def _boxes(self, rows: Floats, target: Floats | None, budget: FitBudget) -> tuple[Box, Box | None]:
        names = getattr(self, "feature_names_in_", None)
        if isinstance(self.bounds, str):
            one_of("bounds", self.bounds, ("estimate",))
            columns = rows if target is None else np.column_stack([rows, target])
            labels = [*(range(rows.shape[1]) if names is None else names), *([TARGET] if target is not None else [])]
            box = estimated_box(columns, budget, budget.pay(ESTIMATE_SHARE), names=labels)
        else:
            box = given_box(self.bounds, rows.shape[1], names, with_target=target is not None)
        width = rows.shape[1]
        features = Box(box.low[:width], box.high[:width])
        self.low_, self.high_ = features.low, features.high
        return features, (None if target is None else Box(box.low[width:], box.high[width:]))

    def _share_aside(self, rows: int, budget: FitBudget) -> float:
        """Return the share of the rows that a test takes."""
        return share_of(rows, numbers=is_regressor(self)) if budget.counts_are_public else PRIVATE_SHARE

    def _set_aside(self, rows: int, budget: FitBudget) -> NDArray[np.bool_]:
        """Choose the rows that the model is not made from; none where it is not to be tested. From here on the budget
        knows how many are left, where that is public."""
        self.quality_ = None
        if not getattr(self, "quality", False):
            return np.zeros(rows, dtype=np.bool_)
        aside = set_aside(rows, self._share_aside(rows, budget), budget.adjacency, budget.randomness)
        if budget.counts_are_public:
            budget.size = rows - int(aside.sum())
        return aside

    def tested(
        self,
        X: Any,
        y: Any,
        *,
        epsilon: Any,
        adjacency: Any,
        share: float | None = None,
        randomness: Randomness | None = None,
        of: str = ROWS,
        metric: str | None = None,
    ) -> Quality:
        """Tell what the fitted model is worth on rows that it was not made from, spending `epsilon` of each of these.
        `share` is their part of all, and `of` says who they are, where that is known. `metric` is "auc" for a
        classifier of two classes that is to be judged by the order of its scores, "r2" for a regression of which the
        part of the variance is asked that it explains."""
        check_is_fitted(self)
        named = metric_of(metric or True, 0 if is_regressor(self) else len(self.classes_))
        terms = TrialTerms(exact.epsilon(epsilon), adjacency_of(adjacency), share, randomness or system(), of)
        rows = self._rows(X, reset=False, none=True)
        return self._tested(Box(self.low_, self.high_).unit(rows), column_of(y, len(rows)), terms, named)

    def _tested(self, units: Floats, told: NDArray[Any], terms: TrialTerms, metric: str) -> Quality:
        """Test on rows in [-1, 1] and their labels or targets as they are, by the named `metric` if any."""
        raise NotImplementedError

    def _checked(self, units: Floats, told: NDArray[Any], budget: FitBudget, share: float) -> None:
        """Test on rows that were set aside, keep what was found, and warn where the model is not shown to be better
        than guessing. Nobody is in both parts, so the test has the whole epsilon again."""
        terms = TrialTerms(exact.epsilon(self.epsilon), budget.adjacency, share, budget.randomness)
        found = self._tested(units, told, terms, self.quality if isinstance(self.quality, str) else "")
        self.quality_ = found
        # A row pays the events of the training or the epsilon of the test: one event that covers both.
        made, delta = self.certificate_, self.certificate_.delta
        event: Event = ApproximateEvent(self.epsilon, delta) if delta else PureEvent(self.epsilon)
        self.events_ = (event,)
        self.certificate_ = replace(made, notes=(*made.notes, note(share, "rows")))
        if found.warns:
            warnings.warn(found.sentence, UserWarning, stacklevel=3)

    def _certify(
        self, budget: FitBudget, rows: int, mechanism: str, notes: tuple[str, ...], parameters: Mapping[str, Any]
    ) -> None:
        estimated: tuple[str, ...] = ("bounds",) if isinstance(self.bounds, str) else ()
        if isinstance(getattr(self, "classes", None), str):
            estimated += ("classes",)
        if budget.bought_count:
            estimated += ("number of rows",)
        self.events_ = tuple(budget.events)
        gaussian = mechanism.endswith("gaussian")
        delta = float(budget.delta + budget.paid_delta if gaussian else budget.paid_delta)
        self.certificate_ = Certificate(
            unit=Unit.EVENT,  # one row; only an admission elsewhere can vouch that a row is a whole person
            adjacency=budget.adjacency,
            epsilon=float(self.epsilon),
            delta=delta,
            guarantee="approximate" if delta else "pure",
            mechanism=mechanism,
            parameters={"noise_drawn_by": budget.randomness.drawn_by, **parameters},
            bounds=self._bounds_in_words(),
            contributors=rows if budget.counts_are_public else None,
            trust="site",
            estimated=estimated,
            simulated=budget.randomness.simulated,
            notes=("The unit is one row; somebody with several rows is protected less.", *notes),
        )

    def _bounds_in_words(self) -> Mapping[str, Any]:
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        pairs = zip(self.low_.tolist(), self.high_.tolist(), strict=True)
        return {str(name): list(pair) for name, pair in zip(names, pairs, strict=True)}

    def _units(self, X: Any) -> Floats:
        """Rows to predict for, in [-1, 1]."""
        check_is_fitted(self)
        return Box(self.low_, self.high_).unit(self._rows(X, reset=False))

    def to_json(self) -> dict[str, Any]:
        """The fitted model as plain data (no pickle): load it with `thebes.learning.from_json`."""
        from thebes.learning.document import document_of

        check_is_fitted(self)
        return document_of(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """A fitted model from `to_json`'s data; anything malformed is refused."""
        from thebes.learning.document import read

        return read(document, cls)

    def _check_numbers(self) -> None:
        """Refuse numbers of a document whose shapes do not fit each other."""
        shapes = self._shapes()
        for name in ("low_", "high_", *self._numbers):
            if np.shape(getattr(self, name)) != shapes[name]:
                raise Mistake("model", f"{name} has the wrong shape")
        if not (self.low_ < self.high_).all():
            raise Mistake("model", "low_ must be below high_")
        if "spread_" in self._numbers and not (self.spread_ > 0).all():
            raise Mistake("model", "spread_ must be above 0")

    def _of_earlier(self) -> dict[str, Any]:
        """Return numbers that documents written by earlier versions lack, and what they were."""
        return {}

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape that each of `_numbers` must have, given the others."""
        return {"low_": (self.n_features_in_,), "high_": (self.n_features_in_,)}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        tags.input_tags.allow_nan = True
        return tags


class PrivateClassifier(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """A classifier of public labels: `classes` lists them, or is "estimate", which buys those that enough rows have."""

    classes: Any
    classes_: NDArray[Any]

    def _budget(self) -> FitBudget:
        budget = super()._budget()
        if self.classes is None:
            raise Mistake(
                "classes",
                "are missing: what labels there are would tell of whoever has a rare one. Add classes=[label, ...], or "
                'classes="estimate", which spends a tenth of epsilon and delta to find those that enough rows have',
            )
        if not isinstance(self.classes, str):
            self.classes_ = declared_classes(self.classes)
            metric_of(self.quality, len(self.classes_))
        elif one_of("classes", self.classes, ("estimate",)) and budget.pure:
            raise Mistake(
                "classes",
                "cannot be found without a delta: nothing pure finds labels that nobody listed. Add classes=[label, "
                "...], or a delta greater than 0, for example 1e-6",
            )
        return budget

    def fit(self, X: Any, y: Any, *, count: float | None = None) -> Self:
        """Learn from rows X and labels y, spending `epsilon` and `delta` once. A row whose label is none of the classes
        counts for nothing; `count` says how many do count, where that was released (None: about all)."""
        budget = self._budget()
        rows = self._rows(X, reset=True, budget=budget)
        labels = column_of(y, len(rows))
        aside = self._set_aside(len(rows), budget)
        self._told(budget, count, 1 - float(aside.mean()) if len(aside) else 1.0)
        box, _ = self._boxes(rows[~aside], None, budget)
        if isinstance(self.classes, str):
            epsilon, delta = budget.pay_with_delta(ESTIMATE_SHARE)
            self.classes_ = bought_classes(
                labels[~aside].tolist(),
                epsilon=epsilon,
                delta=delta,
                adjacency=budget.adjacency,
                randomness=budget.randomness,
            )
        places = places_of(self.classes_, labels)
        there = ~np.isnan(places) & ~aside
        mechanism, notes, parameters = self._learn(box.unit(rows[there]), places[there].astype(np.int64), budget)
        notes = (*notes, f"{MISSING}; a row whose label is none of the classes counts for nothing.")
        self._certify(budget, len(rows), mechanism, notes, parameters)
        if self.quality:
            self._checked(box.unit(rows[aside]), labels[aside], budget, self._share_aside(len(rows), budget))
        return self

    def _tested(self, units: Floats, told: NDArray[Any], terms: TrialTerms, metric: str) -> Quality:
        places = places_of(self.classes_, told)
        if metric == "auc":
            return of_ranks(self._log_odds, units, places, terms)
        return of_labels(self._log_odds, units, places, len(self.classes_), terms)

    def _learn(
        self, units: Floats, labels: NDArray[np.int64], budget: FitBudget
    ) -> tuple[str, tuple[str, ...], dict[str, Any]]:
        """Fit on rows in [-1, 1] and label numbers; the mechanism's name, notes and parameters for the certificate."""
        raise NotImplementedError

    def _log_odds(self, units: Floats) -> Floats:
        """For each row in [-1, 1], a score per class; e^score is proportional to the class's probability."""
        raise NotImplementedError

    def predict_proba(self, X: Any) -> Floats:
        """The model's probability for each class, in the order of `classes_`."""
        odds = self._log_odds(self._units(X))
        odds = np.exp(odds - odds.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def predict_log_proba(self, X: Any) -> Floats:
        """The natural logarithm of `predict_proba`, finite also where a probability is too small for a number."""
        odds = self._log_odds(self._units(X))
        odds = odds - odds.max(axis=1, keepdims=True)
        return np.asarray(odds - np.log(np.exp(odds).sum(axis=1, keepdims=True)))

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of each row."""
        chosen = self._log_odds(self._units(X)).argmax(axis=1)
        return np.asarray(self.classes_[chosen])


class PrivateRegressor(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """A regressor. The target's bounds stand under "y"."""

    def fit(self, X: Any, y: Any, *, count: float | None = None) -> Self:
        """Learn from rows X and numbers y, spending `epsilon` and `delta` once. A row without a target counts for
        nothing; `count` says how many do count, where that was released (None: about all)."""
        budget = self._budget()
        rows = self._rows(X, reset=True, budget=budget)
        target = numbers_of(column_of(y, len(rows))).astype(np.float64)
        aside = self._set_aside(len(rows), budget)
        self._told(budget, count, 1 - float(aside.mean()) if len(aside) else 1.0)
        box, target_box = self._boxes(rows[~aside], target[~aside], budget)
        assert target_box is not None  # noqa: S101  # always there when a target is given
        self.target_range_ = np.array([target_box.low[0], target_box.high[0]])
        there = ~np.isnan(target) & ~aside
        units = target_box.unit(target[there][:, None])
        mechanism, notes, parameters = self._learn(box.unit(rows[there]), units, budget)
        notes = (*notes, f"{MISSING}; a row without a target counts for nothing.")
        self._certify(budget, len(rows), mechanism, notes, parameters)
        if self.quality:
            self._checked(box.unit(rows[aside]), target[aside], budget, self._share_aside(len(rows), budget))
        return self

    def _tested(self, units: Floats, told: NDArray[Any], terms: TrialTerms, metric: str) -> Quality:
        low, high = self.target_range_
        targets = (numbers_of(told).astype(np.float64) - low) / (high - low) * 2 - 1
        return of_numbers(self._said, units, targets, float(high - low), terms, explained=metric == "r2")

    def _learn(self, units: Floats, target: Floats, budget: FitBudget) -> tuple[str, tuple[str, ...], dict[str, Any]]:
        """Fit on rows and targets in [-1, 1]; the mechanism's name, notes and parameters for the certificate."""
        raise NotImplementedError

    def _said(self, units: Floats) -> Floats:
        """For each row in [-1, 1], the expected target there."""
        raise NotImplementedError

    def predict(self, X: Any) -> Floats:
        """The expected target of each row, within the target's bounds."""
        units = self._said(self._units(X))
        low, high = self.target_range_
        return np.asarray(low + (np.clip(units, -1, 1) + 1) / 2 * (high - low))

    def _bounds_in_words(self) -> Mapping[str, Any]:
        return {**super()._bounds_in_words(), "y": self.target_range_.tolist()}
