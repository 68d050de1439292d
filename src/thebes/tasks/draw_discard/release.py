"""The release of a draw-discard task: the average of the instances as a model that predicts, and what its lanes did."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import FAILURES, Rows
from thebes.learning.graph.weights import pack_flat
from thebes.learning.inputs import NamedInputs, columns_of
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.tasks.document import Values
from thebes.tasks.draw_discard.certificate import ESTIMATE, certificate
from thebes.tasks.draw_discard.families import predicted
from thebes.tasks.draw_discard.features import DesignColumns, encoded, output_of
from thebes.tasks.draw_discard.instances import Floats, Instances
from thebes.tasks.draw_discard.kind import KIND, DrawDiscardDocument
from thebes.tasks.draw_discard.outliers import Outliers
from thebes.tasks.draw_discard.plan import plan
from thebes.tasks.missing_values import WORKED
from thebes.tasks.protocols import Setting
from thebes.tasks.release import OF_MODEL, Release

MOST_NAMED = 1000  #: weights that are written one by one
_AT_ONCE = 2**22
_UNCHECKED = "it is never done learning, so nobody is asked to check it: an answer would be about another moment"


@dataclass(frozen=True, slots=True)
class LaneStanding:
    """The standing of a task at an aggregator. `allowed(lane, version)` is the outliers' limit there now."""

    lanes: Sequence[Instances]
    contributions: int
    failures: Any
    outliers: Outliers
    allowed: Callable[[int, int], Floats]


def released(
    document: DrawDiscardDocument, setting: Setting, standing: LaneStanding, notes: Sequence[str]
) -> DrawDiscardRelease | NetworkLaneRelease:
    """The release of an aggregator as it stands."""
    lanes = [_lane(document, rate, lane) for rate, lane in zip(document.rates, standing.lanes, strict=True)]
    kept = standing.lanes[document.kept]
    extra: dict[str, Any] = {
        "document": document.as_json(),
        "kept": document.rates[document.kept],
        "updates": sum(lane.updates for lane in standing.lanes),
        "refused": sum(lane.refused for lane in standing.lanes),
        "quarantined": sum(lane.quarantined for lane in standing.lanes),
        "stale": sum(lane.stale for lane in standing.lanes),
        "spread": _rms(kept.models),
        "lanes": lanes,
        "quality": None,
        "quality_note": _UNCHECKED,
    }
    if standing.failures is not None:
        counts = np.asarray(standing.failures.value) * standing.failures.contributors
        extra["diagnostics"] = dict(zip((WORKED, *FAILURES), counts.tolist(), strict=True))
    told = certificate(document, setting, standing.contributions, _filtering(document, standing), notes)
    value = _value(document, kept.models.mean(axis=0))
    made = DrawDiscardRelease if document.model is None else NetworkLaneRelease
    return made(value, told, {}, extra)


def _lane(document: DrawDiscardDocument, rate: float, lane: Instances) -> dict[str, Any]:
    """Tell what is public of one learning rate's instances."""
    told = {"learning_rate": rate, **lane.facts(), "spread": _rms(lane.models)}
    told = {name: value for name, value in told.items() if name not in ("stride", "settled", "age")}
    told["weights"] = packed(lane.models.mean(axis=0))
    if lane.models.shape[1] <= MOST_NAMED:
        told["spreads"] = packed(lane.models.std(axis=0, ddof=min(1, len(lane.models) - 1)))
    if document.average == "predictions":
        told["instances"] = packed(lane.models)
    return told


def _filtering(document: DrawDiscardDocument, standing: LaneStanding) -> dict[str, Any]:
    """Tell what is done about outliers, and how far one contribution that is no outlier can move the average."""
    outliers, kept = standing.outliers, document.kept
    said: dict[str, Any] = {
        "active": outliers.active,
        "false_positives": document.false_positives,
        "action": document.outliers,
        "refused": sum(lane.refused for lane in standing.lanes),
        "quarantined": sum(lane.quarantined for lane in standing.lanes),
    }
    if outliers.active:
        oldest = max(0, standing.lanes[kept].updates - document.stalest)  # whoever wants the widest limits names this
        moved = standing.allowed(kept, oldest) / document.instances
        said["multiple"] = outliers.multiple
        said["influence"] = {
            "says": ESTIMATE,
            "one_contribution_moves_a_weight_of_the_average_by_at_most_about": float(moved.max()),
        }
    return said


def _rms(models: Floats) -> float:
    """The standard deviation between instances, as one number over all weights."""
    return math.sqrt(float(np.mean(models.var(axis=0, ddof=1)))) if len(models) > 1 else 0.0


def packed(numbers: Floats) -> str:
    """Little-endian 64-bit floats as base64."""
    return base64.b64encode(np.ascontiguousarray(numbers, dtype="<f8").tobytes()).decode("ascii")


def unpacked(text: str) -> Floats:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f8").astype(np.float64)


def _value(document: DrawDiscardDocument, weights: Floats) -> dict[str, Any]:
    made = plan(document)
    if made.network is not None:
        bounded = np.clip(weights, -3e38, 3e38)
        text = base64.b64encode(pack_flat(made.network.model.graph, bounded)).decode("ascii")
        return {"weights": text, "model": document.model, "loss": document.loss}
    if made.weights > MOST_NAMED:
        return {"family": document.family, "weights": packed(weights)}
    return {"family": document.family, "weights": dict(zip(made.names, weights.tolist(), strict=True))}


class _OfLanes(Release):
    """A release of lanes, in what both forms share: one lane is shown, the others can be."""

    form = "lanes"
    no_interval = OF_MODEL

    @cached_property
    def document(self) -> DrawDiscardDocument:
        """The document this answers."""
        return KIND.check(self.extra["document"])

    @property
    def updates(self) -> int:
        """The number of contributions that were mixed in."""
        return int(self.extra["updates"])

    @property
    def spread(self) -> float:
        """The spread of the instances, as one standard deviation over all weights; no error bar."""
        return float(self.extra["spread"])

    @property
    def spreads(self) -> dict[str, float]:
        """The same for each weight by name; empty where there are more than 1,000."""
        told = self._told(self.extra["kept"])
        return dict(zip(plan(self.document).names, unpacked(told.get("spreads", "")).tolist(), strict=False))

    def lane(self, learning_rate: float) -> _OfLanes:
        """The same release showing the average of another learning rate's instances."""
        told = self._told(learning_rate)
        extra = {**self.extra, "kept": learning_rate, "spread": told["spread"]}
        return type(self)(_value(self.document, unpacked(told["weights"])), self.certificate, {}, extra)

    def _told(self, learning_rate: float) -> Mapping[str, Any]:
        """Return what is public of one lane."""
        for told in self.extra["lanes"]:
            if told["learning_rate"] == learning_rate:
                return dict(told)
        raise Mistake("learning_rate", "must be one of the task's")

    def _lines(self) -> list[str]:
        counts = f"{self.updates} updates mixed in, {self.extra['refused']} refused"
        return [
            f"{counts}; learning rate {figure(self.extra['kept'])}, spread between instances {figure(self.spread, 4)}"
        ]


class NetworkLaneRelease(_OfLanes):
    """`value` is {"weights": base64 safetensors, ...}; `model` predicts."""

    form = "draw-discard-network"

    @cached_property
    def model(self) -> Any:
        """The trained network, with `predict` and, for classes, `predict_proba`."""
        from thebes.tasks.gradient.release import TrainedNetwork

        return TrainedNetwork(self.value, self.document.inputs, self.document.bounds)


class DrawDiscardRelease(_OfLanes):
    """`value` is {"family", "weights": {name: number}}, or packed where there are many; `model` predicts."""

    form = "draw-discard"

    @cached_property
    def model(self) -> GeneralisedModel:
        """The model: `weights` by name, `predict` and, for classes, `predict_proba` from the document's raw columns."""
        given = self.value["weights"]
        one = unpacked(given) if isinstance(given, str) else np.asarray(list(given.values()), dtype=np.float64)
        models = one[None, :]
        if self.document.average == "predictions":
            models = unpacked(self._told(self.extra["kept"])["instances"]).reshape(self.document.instances, -1)
        return GeneralisedModel(self.document, models)

    def best(self, rows: Any) -> DrawDiscardRelease:
        """The same release showing the learning rate whose model fits `rows` best (least mean negative log-likelihood).
        The rows are the caller's own: nothing of an owner is used for choosing, so nothing is spent."""
        lanes = [self.lane(told["learning_rate"]) for told in self.extra["lanes"]]
        found = min(
            lanes, key=lambda release: release.model.loss(rows) if isinstance(release, DrawDiscardRelease) else 0.0
        )
        assert isinstance(found, DrawDiscardRelease)  # noqa: S101
        return found

    def _lines(self) -> list[str]:
        lines = super()._lines()
        if isinstance(self.value["weights"], Mapping):
            return [*lines, *(f"{name}: {figure(weight, 4)}" for name, weight in self.value["weights"].items())]
        return [*lines, f"a {self.value['family']} model of {len(self.model.coefficients)} weights"]


class GeneralisedModel(NamedInputs):
    """Predicts from a table with the document's inputs as columns. Of several models (the instances) the predictions
    are averaged."""

    def __init__(self, document: DrawDiscardDocument, models: Floats) -> None:
        self._document, self._models, self.inputs = document, models, document.inputs
        self._features = DesignColumns(document)

    @property
    def coefficients(self) -> Floats:
        """All weights in order."""
        return np.asarray(self._models.mean(axis=0))

    @property
    def weights(self) -> dict[str, float]:
        """All weights by name."""
        return dict(zip(plan(self._document).names, self.coefficients.tolist(), strict=True))

    def expected(self, rows: Any) -> Floats:
        """Predict each row as the family counts it: one column, or one for each class of a multinomial."""
        family, table = str(self._document.family), Rows.one_each(columns_of(rows, self.inputs))
        columns = [encoded(self._document, table, column) for column in self._document.inputs]
        step = max(1, _AT_ONCE // self._features.count)
        pieces = []
        for start in range(0, table.people, step):
            design = self._features.design([column[start : start + step] for column in columns])
            models = self._models.reshape(len(self._models), -1, self._features.count)
            each = [predicted(family, design @ model.T) for model in models]
            pieces.append(np.mean(each, axis=0))
        return np.concatenate(pieces) if pieces else np.empty((0, 1))

    def predict(self, rows: Any) -> NDArray[Any]:
        """The likeliest value of a set, or the expected number in the output's own units."""
        expected, bound = self.expected(rows), self._document.bounds[self._document.output]
        if isinstance(bound, Values):
            place = expected.argmax(axis=1) if expected.shape[1] > 1 else (expected[:, 0] >= 0.5).astype(int)
            return np.asarray(np.array(bound.values)[place])
        if self._document.family == "poisson":
            return np.asarray(expected[:, 0] * bound.high)
        return np.asarray(bound.low + expected[:, 0] * (bound.high - bound.low))

    def predict_proba(self, rows: Any) -> Floats:
        """One column for each value of the output, in their declared order."""
        if not isinstance(self._document.bounds[self._document.output], Values):
            raise Mistake("family", "has no classes: the output is a number")
        expected = self.expected(rows)
        return np.hstack([1 - expected, expected]) if expected.shape[1] == 1 else expected

    def loss(self, rows: Any) -> float:
        """The mean negative log-likelihood of rows that have the output too (up to what no weight changes)."""
        output = self._document.output
        seen, usable = output_of(self._document, Rows.one_each(columns_of(rows, (output,))))
        expected, seen = self.expected(rows)[usable], seen[usable]
        if not len(seen):
            raise Mistake("rows", "have no row with an output")
        if self._document.family == "linear":
            return float(np.mean((expected[:, 0] - seen) ** 2) / 2)
        if self._document.family == "poisson":
            return float(np.mean(expected[:, 0] - seen * np.log(np.maximum(expected[:, 0], 1e-300))))
        likely = self.predict_proba(rows)[usable]
        return float(-np.mean(np.log(np.maximum(likely[np.arange(len(seen)), seen.astype(int)], 1e-300))))
