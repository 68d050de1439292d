"""The plan that owner and aggregator build alike from the document alone: the weights, what hides a gradient, what that
costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import FAILURES
from thebes.learning.graph import GraphLoss, Model, read_loss, read_model
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.local.response import RandomizedResponse
from thebes.tasks.contributions import Slot
from thebes.tasks.document import FAILURE, Values
from thebes.tasks.draw_discard import mechanisms
from thebes.tasks.draw_discard.features import DesignColumns
from thebes.tasks.draw_discard.kind import MOST_NUMBERS, MOST_RELEASED, MOST_WEIGHTS, DrawDiscardDocument

Floats = NDArray[np.float64]

WEIGHTS, VERSION, LANE = "weights", "version", "lane"
FARTHEST = 1e12  #: no weight of a contribution lies farther from 0
_MOST_VERSION = 2**53 - 1


@dataclass(frozen=True)
class SmallNetwork:
    """A small network and its loss, as in a gradient task."""

    model: Model
    loss: GraphLoss


@dataclass(frozen=True)
class ParticipationPlan:
    """`epsilon` and `delta` are what one participation may spend in all; `each` is the epsilon of one weight seen
    alone, where weights are noised one by one."""

    document: DrawDiscardDocument
    weights: int
    hiding: mechanisms.GradientNoise
    failures: RandomizedResponse | None
    epsilon: Decimal
    delta: Decimal
    each: Decimal | None
    network: SmallNetwork | None

    @cached_property
    def features(self) -> DesignColumns:
        """The columns of a generalised linear model."""
        return DesignColumns(self.document)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each weight; of several predictors with the output's value in front."""
        if self.network is not None:
            return tuple(f"{w.name}[{i}]" for w in self.network.model.graph.trained for i in range(w.size))
        return tuple(f"{value}{name}" for value in predictors(self.document) for name in self.features.names)

    @cached_property
    def start(self) -> Floats:
        """Around what the first instances lie."""
        if self.network is not None:
            values = self.network.model.values
            trained = [np.asarray(values[w.name]).ravel() for w in self.network.model.graph.trained]
            return np.concatenate(trained).astype(np.float64)
        return np.asarray(self.document.start or [0.0] * self.weights, dtype=np.float64)

    @property
    def first_deviation(self) -> float:
        """By how much the noise of one update is taken to move a weight of the first instances, at a rate of 1."""
        return mechanisms.first_deviation(self.document, self.hiding)

    def layout(self) -> dict[str, Slot]:
        """Return the layout of a contribution. It is asked for with each of them, so it is always the same object."""
        return self._slots

    @cached_property
    def _slots(self) -> dict[str, Slot]:
        slots = {
            WEIGHTS: Slot("number", -FARTHEST, FARTHEST, length=self.weights),
            VERSION: Slot("integer", 0, _MOST_VERSION),
            LANE: Slot("integer", 0, len(self.document.rates) - 1),
        }
        if self.failures is not None:
            slots[FAILURE] = Slot("integer", 0, len(FAILURES))
        return slots


_plans: dict[str, ParticipationPlan] = {}  # by digest: finding a cap, or reading a graph, takes a while


def plan(document: DrawDiscardDocument) -> ParticipationPlan:
    """The plan of a document; a `Mistake` names what cannot work."""
    digest = document.digest
    known = _plans.get(digest)
    if known is None:
        known = _made(document)
        if len(_plans) >= 16:  # by whichever thread; who has a plan keeps it
            _plans.clear()
        _plans[digest] = known
    return known


def weights_of(document: DrawDiscardDocument) -> int:
    """Count the weights of the model."""
    if document.model is not None:
        return _network(document).model.graph.parameter_count
    weights = len(predictors(document)) * DesignColumns(document).count
    if weights > MOST_WEIGHTS:
        raise Mistake("inputs" if document.crosses is None else "crosses", f"give more than {MOST_WEIGHTS} weights")
    return weights


def predictors(document: DrawDiscardDocument) -> tuple[str, ...]:
    """Return what stands before the names of each linear predictor's weights; a multinomial has one for each class."""
    bound = document.bounds[document.output]
    if document.family == "multinomial" and isinstance(bound, Values):
        return tuple(f"{document.output}={value}: " for value in bound.values)
    return ("",)


def _made(document: DrawDiscardDocument) -> ParticipationPlan:
    weights = weights_of(document)
    numbers = weights * document.instances * len(document.rates)
    if numbers > MOST_NUMBERS:
        raise Mistake("instances", f"of so many weights hold more than {MOST_NUMBERS} numbers")
    if document.average == "predictions" and numbers > MOST_RELEASED:
        raise Mistake("average", f"must be 'weights' where the instances hold more than {MOST_RELEASED} numbers")
    if document.start is not None and len(document.start) != weights:
        raise Mistake("start", f"must hold {weights} numbers, one for each weight")
    epsilon = _share(exact.epsilon(document.epsilon), document.max_participations, exact.EPSILON_STEP)
    delta = _share(exact.delta(document.delta), document.max_participations, exact.DELTA_STEP)
    failures, left = None, epsilon
    if document.diagnostics is not None:
        told = _share(epsilon * Decimal(str(document.diagnostics)), 1, exact.EPSILON_STEP)
        failures, left = RandomizedResponse(1 + len(FAILURES), told), epsilon - told
    each = None
    if document.mechanism == "laplace":
        # One-hot rows move fewer weights than there are; the whole product is charged all the same.
        each = left = _share(left, weights, exact.EPSILON_STEP)
    if left <= 0:
        raise Mistake("epsilon", "is too small to be shared so often")
    network = None if document.model is None else _network(document)
    hiding = mechanisms.made(document, weights, left, delta)
    found = ParticipationPlan(document, weights, hiding, failures, epsilon, delta, each, network)
    if network is None and len(set(found.names)) < weights:
        raise Mistake("inputs", "have names and values that give two weights the same name; rename a column")
    return found


def _share(whole: Decimal, parts: int, step: Decimal) -> Decimal:
    return (whole / parts).quantize(step, ROUND_FLOOR)


def _network(document: DrawDiscardDocument) -> SmallNetwork:
    model = read_model(str(document.model))
    loss = read_loss(str(document.loss), model)
    widths = (document.bounds[column] for column in document.inputs)
    wide = sum(len(bound.values) - 1 if isinstance(bound, Values) else 1 for bound in widths)
    if model.input.columns != wide:
        raise Mistake("inputs", f"give {wide} numbers where {model.input.columns} are taken")
    if loss.targets.columns != 1:
        raise Mistake("output", "is one column, and the loss takes more")
    if not 1 <= model.graph.parameter_count <= MOST_WEIGHTS:
        raise Mistake("model", f"must have weights to train, and at most {MOST_WEIGHTS}")
    return SmallNetwork(model, loss)


def facts(document: DrawDiscardDocument) -> Mapping[str, Any]:
    """State what the certificate says about one participation."""
    made = plan(document)
    said: dict[str, Any] = {
        "weights": made.weights,
        "instances": document.instances,
        "learning_rates": list(document.rates),
        "max_participations": document.max_participations,
        "epsilon_of_a_participation": float(made.epsilon),
        "reduce": document.reduce,
        "mechanism": made.hiding.parameters(),
    }
    if document.epsilon_per_weight is not None:
        said["per_weight"] = {"unit": "weight", "epsilon": document.epsilon_per_weight}
    if made.network is not None:
        said["graph"] = made.network.model.graph.digest
    return said
