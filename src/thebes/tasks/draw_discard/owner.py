"""A person's half of a draw-discard task: the drawn model, one noisy step further.

Algorithm 1: B' = B - rate * M(G), G the mean or sum of the gradients over the person's rows at the drawn model B. M(G)
is drawn on a public grid; what follows is a function of it and of what the server knows, so floats leak nothing more.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import Rows
from thebes.learning.graph import GradientWorker, finite
from thebes.learning.graph.weights import pack_flat, unpack_flat
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.randomness import Randomness
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.document import FAILURE
from thebes.tasks.draw_discard import example, families
from thebes.tasks.draw_discard.features import Encoded, Integers, PeopleBatch
from thebes.tasks.draw_discard.kind import MOST_ROWS, DrawDiscardDocument
from thebes.tasks.draw_discard.mechanisms import Drawn
from thebes.tasks.draw_discard.plan import FARTHEST, LANE, VERSION, WEIGHTS, Floats, plan
from thebes.tasks.fit import outcomes
from thebes.tasks.gradient.network import tables
from thebes.tasks.protocols import Ask, Claim

#: for all that data can slow down in a network or in a family of many weights, after which what is missing counts as
#: zero; no answer leaves earlier
GRADIENT_SECONDS = 20.0
_QUICK = 2000  #: weights of a family with which even the most rows take no time worth hiding
_AT_ONCE = 2**22  #: numbers of designs or gradients held at a time


class DrawDiscardOwner:
    """`trusted` computes networks in this process and answers documents without noise too: for simulations of one's own
    models on data of one's own."""

    def __init__(self, *, trusted: bool = False) -> None:
        self._trusted = trusted

    def able(self, document: DrawDiscardDocument, rows: Rows) -> NDArray[np.bool_]:
        """Everybody: who has no row sends the noise around nothing."""
        return np.ones(rows.people, dtype=np.bool_)

    def contribute(
        self, document: DrawDiscardDocument, ask: Ask, rows: Rows, claim: Claim, *, randomness: Randomness
    ) -> Contributions:
        """The drawn model changed by each of these people; one participation's share of epsilon is spent before."""
        if document.only_simulated is not None and not self._trusted:
            raise Refusal("this task adds no noise, so no price covers it; it is for simulations only")
        made = plan(document)
        drawn, version, lane = _drawn(document, ask)
        claim.consume(epsilon=made.epsilon, delta=made.delta)
        if made.network is not None:
            gradients = self._of_network(document, drawn, rows, claim)
        else:
            gradients = self._of_family(document, drawn, rows, claim)
        rate = document.rate(lane, version)
        fields: dict[str, NDArray[np.generic]] = {
            WEIGHTS: stepped(drawn, rate, made.hiding.hide(gradients, randomness)),
            VERSION: np.full(rows.people, version, dtype=np.int64),
            LANE: np.full(rows.people, lane, dtype=np.int64),
        }
        if made.failures is not None:
            fields[FAILURE] = made.failures.perturb(outcomes(document, rows), randomness)
        return Contributions(ask.part, rows.people, fields)

    def layout(self, document: DrawDiscardDocument, ask: Ask) -> Layout:
        return plan(document).layout()

    def foreseen(self, document: DrawDiscardDocument, randomness: Randomness) -> list[Ask]:
        return example.possible(document)

    def legible(self, document: DrawDiscardDocument, contributions: Contributions) -> dict[str, list[Any]]:
        return example.in_words(document, contributions)

    def prepared(self, document: DrawDiscardDocument, rows: Rows) -> Prepared | None:
        """The same for a simulated crowd that answers one after another: rows read once, noise drawn ahead. None where
        a network computes the gradients."""
        return None if plan(document).network is not None else Prepared(document, rows)

    def _of_network(self, document: DrawDiscardDocument, drawn: Floats, rows: Rows, claim: Claim) -> Floats:
        made = plan(document)
        assert made.network is not None  # noqa: S101
        kept = rows.at_most(MOST_ROWS)
        inputs, targets, usable = tables(document, kept)
        person, graph = kept.person[usable], made.network.model.graph
        weights = unpack_flat(graph, pack_flat(graph, np.clip(drawn, -3e38, 3e38)))
        gradients = np.zeros((rows.people, made.weights))
        size = max(1, _AT_ONCE // made.weights)
        with GradientWorker(str(document.model), str(document.loss), trusted=self._trusted) as worker:
            if not self._trusted:  # from here on the rows decide how long it takes
                worker.finish_by(_held(claim))
            for start in range(0, len(person), size):
                span = slice(start, start + size)
                each = finite(worker.gradients(weights, inputs[usable][span], targets[usable][span]))
                np.add.at(gradients, person[span], each)
        if document.reduce == "mean":
            gradients /= np.maximum(np.bincount(person, minlength=rows.people), 1)[:, None]
        return gradients

    def _of_family(self, document: DrawDiscardDocument, drawn: Floats, rows: Rows, claim: Claim) -> Floats:
        made, people = plan(document), np.arange(rows.people)
        until = math.inf if self._trusted or made.weights <= _QUICK else _held(claim)
        read = Encoded(made.features, rows)
        gradients = np.zeros((rows.people, made.weights))
        deepest = read.rows_of(people)
        step = max(1, _AT_ONCE // (made.weights * max(1, rows.people)))
        for start in range(0, deepest, step):
            if time.monotonic() >= until:
                return np.zeros_like(gradients)
            batch = read.batch(people, start, min(start + step, deepest))
            gradients += families.gradients(str(document.family), drawn[None, :], batch)
        return finite(gradients)


class Prepared:
    """The owner's half over a whole population. What it computes is what `contribute` computes; charging is the
    caller's, before noise is drawn."""

    def __init__(self, document: DrawDiscardDocument, rows: Rows) -> None:
        self._plan = plan(document)
        self._family = str(document.family)
        self._read = Encoded(self._plan.features, rows)

    def numbers(self, people: Integers) -> int:
        """Count the numbers that a person's rows and model take, at most."""
        return self._plan.weights + self._read.rows_of(people) * self._plan.features.count

    def batch(self, people: Integers) -> PeopleBatch:
        """All rows of these people."""
        return self._read.batch(people)

    def ahead(self, count: int, randomness: Randomness) -> Drawn:
        """Draw ahead what hides so many contributions, as far as it does not depend on what they are."""
        return self._plan.hiding.ahead(count, randomness)

    def changed(self, drawn: Floats, rates: Floats, batch: PeopleBatch, ahead: Drawn) -> Floats:
        """Each drawn model (a line) one noisy step further, by the person in the same line of the batch."""
        # Finite without looking: models are bounded, features lie in [0, 1], and no link of a family overflows there.
        gradients = families.gradients(self._family, drawn, batch)
        return stepped(drawn, rates[:, None], self._plan.hiding.joined(gradients, ahead))


def _held(claim: Claim) -> float:
    """The moment by which gradients must be there. An owner whose answer travels keeps it until then; a simulation's
    claim has nobody to hide it from."""
    until, hold = time.monotonic() + GRADIENT_SECONDS, getattr(claim, "hold", None)
    if hold is not None:
        hold(until)
    return until


def stepped(drawn: Floats, rate: float | Floats, perturbed: Floats) -> Floats:
    """One step down the perturbed gradient, within what a contribution may hold."""
    return np.asarray(np.clip(drawn - rate * perturbed, -FARTHEST, FARTHEST))


def _drawn(document: DrawDiscardDocument, ask: Ask) -> tuple[Floats, int, int]:
    """Read strictly what the ask drew: a model of the consented size, its version, its lane."""
    version, lane = ask.payload.get("version"), ask.payload.get("lane")
    for field, value, below in (("version", version, 2**53), ("lane", lane, len(document.rates))):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < below:
            raise Mistake(field, "of the model that was sent is none of this task's; the server did not keep to it")
    try:
        weights = np.asarray(ask.payload.get("weights"), dtype=np.float64)
    except (TypeError, ValueError):
        weights = np.empty(0)
    if weights.shape != (plan(document).weights,) or not (np.abs(weights) <= FARTHEST).all():
        raise Mistake("weights", "of the model that was sent are not this task's; the server did not keep to it")
    return weights, int(version or 0), int(lane or 0)


OWNER = DrawDiscardOwner()
SIMULATED = DrawDiscardOwner(trusted=True)
