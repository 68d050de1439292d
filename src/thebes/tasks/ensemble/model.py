"""The classifier an ensemble task releases: plain data, with scikit-learn's verbs.

Every member is a table over the cells of its features, so nothing has to be fitted, or executed, to load it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import Rows
from thebes.learning.inputs import NamedInputs, columns_of
from thebes.privacy.faults import Mistake
from thebes.tasks.ensemble.cells import FeatureCut, SubsetCells, cells_of
from thebes.tasks.ensemble.kind import EnsembleDocument, EnsembleKind
from thebes.tasks.model_check import unusable

Floats = NDArray[np.float64]
SHOWN = ("base", "members")  #: what whoever has the document needs to have the model


@dataclass(frozen=True)
class EnsembleMember:
    """One classifier. `table[cell, class]`: probabilities where members vote, log-odds where they add up."""

    cells: SubsetCells
    weight: float
    table: Floats

    def as_json(self) -> dict[str, Any]:
        return {
            "features": [cut.as_json() for cut in self.cells.cuts],
            "weight": self.weight,
            "table": [[round(number, 9) for number in row] for row in self.table.tolist()],
        }

    @classmethod
    def read(cls, document: EnsembleDocument, told: Mapping[str, Any]) -> EnsembleMember:
        """A member as it was released."""
        cells = cells_of(document, [FeatureCut.asked(document, each) for each in told["features"]])
        table = np.array(told["table"], dtype=np.float64)
        if table.shape != (cells.size // cells.label.size, cells.label.known) or not np.isfinite(table).all():
            raise Mistake("release", "has a member whose table does not fit its features")
        return cls(cells, float(told["weight"]), table)


class EnsembleModel(NamedInputs):
    """Predicts from a table (DataFrame or dict of columns) or an array with the features in order.

    With "odds", log-odds are added to the base rate's. With votes by probability, the members' probabilities are
    averaged; with hard votes each member votes for the label that it finds most raised above its base rate
    (equation 2 of AnonML, cut at the base rate), and `predict_proba` is the weighted share of the votes.
    """

    def __init__(self, value: Mapping[str, Any]) -> None:
        self._value = value
        document = EnsembleKind().check(value["document"])
        self._document = document
        self.classes_ = np.array(value["classes"])
        self.inputs = tuple(document.features)
        self.base_rate = np.array(value["base"], dtype=np.float64)
        self.members = tuple(EnsembleMember.read(document, told) for told in value["members"])

    def predict_proba(self, X: Any) -> Floats:
        """The members' common opinion, one column for each of `classes_`."""
        return self.of_rows(Rows.one_each(columns_of(X, self.inputs, "X")))

    def of_rows(self, rows: Rows) -> Floats:
        """The same of rows as their owners hold them."""
        said = np.zeros((rows.people, len(self.classes_)))
        for member in self.members:
            opinion = member.table[member.cells.places(rows)]
            if self._document.method == "vote" and self._document.votes == "hard":
                opinion = np.eye(len(self.classes_))[np.argmax(opinion / self.base_rate, axis=1)]
            said += member.weight * opinion
        if self._document.method == "odds":
            said += np.log(self.base_rate)
            said = np.exp(said - said.max(axis=1, keepdims=True))
        whole = said.sum(axis=1, keepdims=True)
        return np.where(whole > 0, said / np.where(whole > 0, whole, 1.0), self.base_rate)

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest label."""
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])

    def score(self, X: Any, y: Any) -> float:
        """Accuracy."""
        return float(np.mean(self.predict(X) == np.asarray(y)))


def shown(document: EnsembleDocument, told: Mapping[str, Any]) -> EnsembleModel:
    """A model as somebody is shown it who is asked to check it; Mistake where it is none of this task."""
    try:
        value = {name: told[name] for name in SHOWN}
        model = EnsembleModel({"document": document.as_json(), "classes": _labels(document), **value})
    except (LookupError, TypeError, ValueError, OverflowError, Mistake):
        raise unusable() from None
    usable = model.base_rate.shape == model.classes_.shape and np.isfinite(np.log(np.maximum(model.base_rate, 0))).all()
    if not usable or not all(0 <= member.weight <= 1e6 for member in model.members):
        raise unusable()
    return model


def _labels(document: EnsembleDocument) -> list[Any]:
    bound: Any = document.bounds[document.label]
    return list(bound.values)


def described(document: EnsembleDocument, base: Floats, members: Sequence[EnsembleMember]) -> dict[str, Any]:
    """A model as the JSON it is released as."""
    return {
        "format": "thebes-ensemble",
        "document": document.as_json(),
        "classes": _labels(document),
        "base": base.tolist(),
        "members": [member.as_json() for member in members],
    }
