"""A person's half of a gradient task: the mean gradient over the person's rows, shortened, then changed at random; or,
for two servers, split into shares.

The network runs in a confined child; whatever happens there, the rest runs here: NaN to zero, clip, noise.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import Rows
from thebes.learning.graph import GradientWorker, clip_rows, finite
from thebes.learning.graph.weights import unpack_flat
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.local.privunit import PrivUnit
from thebes.privacy.randomness import Randomness
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.document import FAILURE
from thebes.tasks.fit import outcomes
from thebes.tasks.gradient.kind import MOST_ROWS, GradientDocument
from thebes.tasks.gradient.network import REPORT, Floats, GradientNetwork, backbone_text, network, tables
from thebes.tasks.gradient.split import SplitGradient, layout_of, statistic
from thebes.tasks.protocols import Ask, Claim
from thebes.tasks.split_reports import reports_of

#: for all that data can slow down, after which what is missing counts as zero; an answer never leaves earlier
GRADIENT_SECONDS = 20.0
SHARING_SECONDS = 10.0  #: for a report in shares of the most weights, several times as long as it takes
_AT_ONCE = 2**22  #: numbers of gradients held at a time


class GradientOwner:
    """`trusted` computes in this process, and seals to the helper that it plays: for simulations of one's own models
    only."""

    def __init__(self, *, trusted: bool = False) -> None:
        self._trusted = trusted

    def able(self, document: GradientDocument, rows: Rows) -> NDArray[np.bool_]:
        """Everybody: who has no row sends the noise around nothing."""
        return np.ones(rows.people, dtype=np.bool_)

    def contribute(
        self, document: GradientDocument, ask: Ask, rows: Rows, claim: Claim, *, randomness: Randomness
    ) -> Contributions:
        """One perturbed gradient for this round, at the weights in the ask, which must fit the consented graph."""
        made = network(document)
        weights = _weights(document, ask)
        claim.consume(epsilon=made.epsilon, delta=made.delta)
        kept = rows.at_most(MOST_ROWS)
        inputs, targets, usable = tables(document, kept)
        split = statistic(document, randomness) if document.server == "split" else None
        leaves = _Leaving.of(made, split)
        reports = np.empty((rows.people, leaves.length), dtype=leaves.kind)
        size = max(1, _AT_ONCE // made.parameters)
        starts = np.searchsorted(kept.person, np.arange(rows.people + 1))
        backbone = backbone_text(document)
        with GradientWorker(document.model, document.loss, backbone=backbone, trusted=self._trusted) as worker:
            if not self._trusted:  # from here on the rows decide how long it takes
                worker.finish_by(time.monotonic() + GRADIENT_SECONDS)
                _hold(claim, time.monotonic() + GRADIENT_SECONDS + leaves.seconds)
            for first in range(0, rows.people, size):
                last = min(first + size, rows.people)
                span = slice(starts[first], starts[last])
                mine = usable[span]
                person = kept.person[span][mine] - first
                mean = np.zeros((last - first, made.parameters))
                if mine.any():
                    each = _by_rows(worker, weights, inputs[span][mine], targets[span][mine], size)
                    np.add.at(mean, person, each)
                    mean /= np.maximum(np.bincount(person, minlength=last - first), 1)[:, None]
                reports[first:last] = leaves.encode(clip_rows(mean, document.clip), randomness)
        if split is not None:
            return reports_of(document, split, reports, ask, simulated=self._trusted, randomness=randomness)
        fields: dict[str, NDArray[np.generic]] = {REPORT: reports}
        if made.failures is not None:
            fields[FAILURE] = made.failures.perturb(outcomes(document, rows), randomness)
        return Contributions(ask.part, rows.people, fields)

    def layout(self, document: GradientDocument, ask: Ask) -> Layout:
        return layout_of(document, ask.part)


@dataclass(frozen=True, slots=True)
class _Leaving:
    """The numbers that leave of a gradient. `seconds`: for making a report of them, however fast the rows were."""

    length: int
    kind: type[np.generic]
    encode: Callable[[Floats, Randomness], NDArray[Any]]
    seconds: float = 0.0

    @classmethod
    def of(cls, made: GradientNetwork, split: SplitGradient | None) -> _Leaving:
        if split is not None:
            return cls(made.parameters, np.int64, lambda gradients, _: split.encode(gradients), SHARING_SECONDS)
        mechanism = made.mechanism
        if isinstance(mechanism, PrivUnit):
            return cls(mechanism.dimensions, np.int16, mechanism.perturb)
        return cls(made.parameters, np.float32, mechanism.perturb)


def _hold(claim: Claim, moment: float) -> None:
    """An owner whose answer travels keeps it until `moment`; a simulation's claim has nobody to hide it from."""
    hold = getattr(claim, "hold", None)
    if hold is not None:
        hold(moment)


def _by_rows(worker: GradientWorker, weights: Any, inputs: Floats, targets: Floats, size: int) -> Floats:
    pieces = [
        finite(worker.gradients(weights, inputs[start : start + size], targets[start : start + size]))
        for start in range(0, len(inputs), size)
    ]
    return np.concatenate(pieces)


def _weights(document: GradientDocument, ask: Ask) -> NDArray[np.float32]:
    try:
        raw = base64.b64decode(str(ask.payload.get("weights")), validate=True)
    except (binascii.Error, ValueError):
        raise Mistake("weights", "of this round are not base64; the server did not keep to the task") from None
    return unpack_flat(network(document).model.graph, raw)


OWNER = GradientOwner()
SIMULATED = GradientOwner(trusted=True)
