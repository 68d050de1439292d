"""The model and loss of a gradient document, read and checked; and which mechanism hides one owner's gradient.

Owner and aggregator build the same from the document alone.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import FAILURES, Rows
from thebes.learning.graph import GraphLoss, Model, read_loss, read_model
from thebes.learning.graph.backbones import Catalogue
from thebes.learning.graph.document import BACKBONE
from thebes.privacy import exact
from thebes.privacy.faults import Fault, Mistake, Refusal
from thebes.privacy.mechanisms.local.privunit import MOST_DIMENSIONS, STEPS, PrivUnit
from thebes.privacy.mechanisms.local.response import RandomizedResponse
from thebes.privacy.mechanisms.local.vectors import LocalGaussianVector
from thebes.tasks.choice import DocumentChoice
from thebes.tasks.contributions import Slot
from thebes.tasks.document import FAILURE, Bounds, Range, Values
from thebes.tasks.gradient.kind import GradientDocument
from thebes.tasks.helped_document import MOST_SPLIT_NUMBERS

REPORT = "report"
_LARGEST = float(2**30)  #: no report of a coordinate, in multiples of clip, may be larger

Floats = NDArray[np.float64]


Mechanism = LocalGaussianVector | PrivUnit


@dataclass(frozen=True)
class GradientNetwork:
    """`epsilon` and `delta` are one round's share; `failures`, where asked for, hides a featurizer's failure class."""

    model: Model
    loss: GraphLoss
    choice: DocumentChoice[Mechanism] | None  #: None where noise is added by two servers, and not at home
    failures: RandomizedResponse | None
    epsilon: Decimal
    delta: Decimal

    @property
    def mechanism(self) -> Mechanism:
        """The noise that is added at home."""
        if self.choice is None:
            raise Fault("a gradient in shares is noised by two servers, and not at home")
        return self.choice.value

    @property
    def parameters(self) -> int:
        return self.model.graph.parameter_count

    def layout(self) -> dict[str, Slot]:
        if isinstance(self.mechanism, PrivUnit):
            dimensions = self.mechanism.dimensions
            slots = {REPORT: Slot("integer", -STEPS, STEPS, length=dimensions, packed=True)}
        else:
            slots = {REPORT: Slot("number", -_LARGEST, _LARGEST, length=self.parameters, packed=True)}
        if self.failures is not None:
            slots[FAILURE] = Slot("integer", 0, len(FAILURES))
        return slots


_networks: dict[str, GradientNetwork] = {}  # by digest: reading a graph and finding a cap take a while


def network(document: GradientDocument) -> GradientNetwork:
    """Read model and loss, and choose the mechanism; a `Mistake` names what cannot work."""
    digest = document.digest
    if digest not in _networks:
        if len(_networks) >= 16:
            _networks.clear()
        _networks[digest] = _made(document)
    return _networks[digest]


def _made(document: GradientDocument) -> GradientNetwork:
    model = read_model(document.model)
    loss = read_loss(document.loss, model)
    takes = model.input.columns if document.backbone is None else _backbone(document, model)
    if takes != document.input_width:
        raise Mistake("inputs", f"give {document.input_width} numbers where {takes} are taken")
    if loss.targets.columns != len(document.outputs):
        raise Mistake("outputs", f"must be {loss.targets.columns}, as the loss takes")
    if model.graph.parameter_count < 1:
        raise Mistake("model", "has no weights to train")
    epsilon = _share(exact.epsilon(document.epsilon), document.rounds_per_owner, exact.EPSILON_STEP)
    delta = _share(exact.delta(document.delta), document.rounds_per_owner, exact.DELTA_STEP)
    failures = None
    left = epsilon
    if document.diagnostics is not None:
        told = (epsilon * Decimal(str(document.diagnostics))).quantize(exact.EPSILON_STEP, ROUND_FLOOR)
        failures, left = RandomizedResponse(1 + len(FAILURES), told), epsilon - told
    if document.server == "split":
        if model.graph.parameter_count > MOST_SPLIT_NUMBERS:
            raise Mistake("model", f'may have at most {MOST_SPLIT_NUMBERS} weights to train with "server": "split"')
        return GradientNetwork(model, loss, None, None, epsilon, delta)
    choice = _choice(document, model.graph.parameter_count, left, delta)
    return GradientNetwork(model, loss, choice, failures, epsilon, delta)


def backbone_text(document: GradientDocument) -> str | None:
    """The backbone's bytes from this machine's own catalogue, compared with the document's digest."""
    return None if document.backbone is None else Catalogue(catalogue_folder()).text(document.backbone)


def catalogue_folder() -> Path:
    """Find the folder in which this machine's owner installs backbones; those that come with Thebes need no folder."""
    named, own = os.environ.get("THEBES_BACKBONES"), os.path.expanduser("~")
    if named is None and not os.path.isabs(own):
        named = os.devnull  # in which nothing lies: a user that is only a number has no folder of its own
    return Path(own, ".thebes", "backbones") if named is None else Path(named)


def _backbone(document: GradientDocument, model: Model) -> int:
    try:
        text = backbone_text(document)
    except Refusal:
        raise Mistake("backbone", "is not installed here; install it, or name one that comes with Thebes") from None
    below = read_model(str(text), argument="backbone", limits=BACKBONE)
    if math.prod(below.output_shape) != model.input.columns:
        raise Mistake("backbone", f"gives other features than the {model.input.columns} the model takes")
    return below.input.columns


def _share(whole: Decimal, rounds: int, step: Decimal) -> Decimal:
    return (whole / rounds).quantize(step, ROUND_FLOOR)


def _choice(document: GradientDocument, dimension: int, epsilon: Decimal, delta: Decimal) -> DocumentChoice[Mechanism]:
    def direction() -> Mechanism:
        if dimension >= MOST_DIMENSIONS:
            raise Mistake("mechanism", f"cannot be privunit here, which takes fewer than {MOST_DIMENSIONS} weights")
        return PrivUnit(dimension, epsilon, radius=document.clip)

    def noise() -> Mechanism:
        if not delta:
            raise Mistake("delta", "must be given for Gaussian noise, which has no pure guarantee")
        return LocalGaussianVector.calibrated(dimension, epsilon, delta, document.clip)

    def error(made: Mechanism) -> float:
        squared = made.expected_error(1) if isinstance(made, PrivUnit) else made.expected_error()
        return math.sqrt(squared) / document.clip

    return DocumentChoice(
        "mechanism",
        document.mechanism,
        {"privunit": direction, "gaussian": noise},
        error,
        of="how far one report is expected to lie from the gradient it hides, in clips",
    )


# --- rows as the numbers the network takes ----------------------------------------------------------------


class Tabular(Protocol):
    """A document that says which columns are inputs and outputs of a network."""

    @property
    def inputs(self) -> tuple[str, ...]: ...

    @property
    def outputs(self) -> tuple[str, ...]: ...

    @property
    def bounds(self) -> Bounds | None: ...


def tables(document: Tabular, rows: Rows) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """(inputs, targets, usable): one line for each row; a row without a target is not usable."""
    usable = np.ones(len(rows.person), dtype=np.bool_)
    targets = []
    for column in document.outputs:
        bound = (document.bounds or {}).get(column)
        if isinstance(bound, Values):
            index, missing = rows.categories(column, bound.values)
            if bound.default is not None:
                index, missing = np.where(missing, bound.values.index(bound.default), index), np.zeros_like(missing)
            targets.append(index.astype(np.float64)[:, None])
            usable &= ~missing
        else:
            numbers, missing = _encoded(document.bounds, rows, column)
            targets.append(numbers)
            usable &= ~missing
    return taken(document.inputs, document.bounds, rows), np.concatenate(targets, axis=1), usable


def taken(inputs: Sequence[str], bounds: Bounds | None, rows: Rows) -> Floats:
    """Return what a network is fed of each row: when it is trained, and when it predicts from a table."""
    return np.concatenate([_encoded(bounds, rows, column)[0] for column in inputs], axis=1)


def _encoded(bounds: Bounds | None, rows: Rows, column: str) -> tuple[Floats, NDArray[np.bool_]]:
    bound = (bounds or {}).get(column)
    if isinstance(bound, Values):
        index, missing = rows.categories(column, bound.values)
        stand_in = bound.values.index(bound.default) if bound.default is not None else len(bound.values) - 1
        return np.eye(len(bound.values))[np.where(missing, stand_in, index)][:, :-1], missing
    numbers, missing = rows.numbers(column)
    if isinstance(bound, Range):
        stand_in_number = bound.middle if bound.default is None else bound.default
        numbers = np.clip(np.where(missing, stand_in_number, numbers), bound.low, bound.high)
        missing = missing if bound.default is None else np.zeros_like(missing)
    return np.nan_to_num(numbers, nan=0.0, posinf=3e38, neginf=-3e38)[:, None], missing


def facts(document: GradientDocument) -> Mapping[str, Any]:
    """State what the certificate says about the training, and of the mechanism at home, where there is one."""
    made = network(document)
    return {
        "rounds": document.rounds,
        "rounds_per_owner": document.rounds_per_owner,
        "epsilon_per_round": float(made.epsilon),
        "delta_per_round": float(made.delta),
        "weights": made.parameters,
        "graph": made.model.graph.digest,
        **({} if made.choice is None else {"choice": made.choice.as_json(), **made.mechanism.parameters()}),
    }
