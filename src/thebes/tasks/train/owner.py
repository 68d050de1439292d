"""A site's half of a train task: some steps from the model in the ask, each with noise of its own; or one step's exact
sum, where the coordinator adds the noise, or in two shares, where two servers do.

Must stay true: the round is paid for before any noise is drawn, and between two steps a site goes by noised sums only.
A network runs in a confined child that is kept for the next round; clipping and noise are this process's. Whether it
can be computed at all is found out on a made-up row, so that it never says whether there are rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from thebes.data.schema import Schema
from thebes.data.table import Table
from thebes.learning.graph.document import SITE
from thebes.learning.graph.sandbox import GradientWorker
from thebes.learning.slopes import LinearSlopes, LogisticSlopes, Slopes, linear_outputs
from thebes.learning.updates import Sgd
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.randomness import Randomness
from thebes.tasks.aggregation import site_shares
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.protocols import Ask, Claim
from thebes.tasks.train import trial
from thebes.tasks.train.descent import CommonDescent, Descending
from thebes.tasks.train.kind import TrainDocument
from thebes.tasks.train.local import RowCache, SiteRows, Totals, read, totals
from thebes.tasks.train.noises import FIRST, LATER, TEST
from thebes.tasks.train.plan import CURVATURE, FARTHEST, LOSS, SIZE, SUM, UPDATE, WEIGHTS, Floats, TrainingPlan, plan_of

#: for the gradients of a site's rows in one request to the child. Which rows there are hardly changes how long they
#: take; a child that needs longer than this is broken
GRADIENT_SECONDS = 1800.0
WARM_SECONDS = 120.0  #: for which a child waits for its document's next round

Share = Callable[[NDArray[np.generic], str], dict[str, NDArray[np.generic]]]


class TrainOwner:
    """`trusted` computes networks in this process: for simulations of one's own models only. A child of a document
    waits `warm_seconds` for its next round."""

    def __init__(self, *, trusted: bool = False, warm_seconds: float = WARM_SECONDS) -> None:
        self._trusted = trusted
        self._children = Nursery(trusted=trusted, warm_seconds=warm_seconds)
        self._shelf = RowCache()

    def contribute(
        self, document: Descending, ask: Ask, table: Table, claim: Claim, *, randomness: Randomness
    ) -> Contributions:
        """This round's part of the site in the common model."""
        plan = plan_of(document.descent, table.schema)
        weights, size = _asked(plan, ask)
        share = self._sharing(document, ask, table.schema, randomness) if plan.descent.noise == "split" else None
        if trial.is_asked(plan, ask):
            with self._children.outputs(plan) as said:
                claim.consume(epsilon=plan.budget.epsilon, delta=plan.budget.delta)
                aside = read(plan, table, aside=True)
                fields = trial.contributed(plan, aside, lambda inputs: said(weights, inputs), randomness)
            if share is not None:
                fields = share(fields[trial.TABLE][0], TEST)
            return Contributions(ask.part, 1, fields, ask.partition)
        with self._children.slopes(plan) as slopes:
            claim.consume(epsilon=plan.budget.epsilon, delta=plan.budget.delta)
            rows = self._shelf.rows(plan, table)
            if plan.descent.exact:
                found = totals(plan, rows, slopes, weights, plan.budget.coin, randomness)
                fields = _exactly(plan, found, buying=size is None)
                fields = fields if share is None else _shared(plan, fields, share, randomness)
            else:
                fields = _walked(plan, rows, slopes, weights, size, randomness)
        if ask.phase + 1 >= plan.descent.rounds:
            self._shelf.forget(plan, table)
        return Contributions(ask.part, 1, fields, ask.partition)

    def _sharing(self, document: Descending, ask: Ask, schema: Schema, randomness: Randomness) -> Share:
        """Return what splits sums of this ask, once the helper's key is looked at, before anything is paid: it is the
        one that the helper which the document names signed for this task; in a simulation the one that the ask names.
        """
        assert isinstance(document, TrainDocument)  # noqa: S101  # no other kind goes in shares
        key = bytes.fromhex(ask.payload["helper_key"]) if self._trusted else site_shares.helper_key(document, ask)
        context = site_shares.context_at(document, ask.part, ask.task)

        def share(exact: NDArray[np.generic], sort: str) -> dict[str, NDArray[np.generic]]:
            whole = np.asarray(exact, dtype=np.int64)
            return site_shares.shared_totals(document, context, schema, whole, key, randomness, sort=sort)

        return share

    def close(self) -> None:
        """End the children that wait."""
        self._children.close()

    def layout(self, document: Descending, ask: Ask, schema: Schema) -> Layout:
        plan = plan_of(document.descent, schema)
        if trial.is_asked(plan, ask):
            return trial.layout(plan)
        return plan.layout(buying=_asked(plan, ask)[1] is None)


def _walked(
    plan: TrainingPlan, rows: SiteRows, slopes: Slopes, start: Floats, size: float | None, randomness: Randomness
) -> dict[str, NDArray[np.generic]]:
    """The site's own steps from `start`, each down a noised mean."""
    descent, rate = plan.descent, plan.budget.rate
    buying = size is None
    noises = plan.noises(buying=buying)
    rule, weights = Sgd(descent.rule.learning_rate), start
    counted: list[float] = []
    losses: list[float] = []
    bent = np.zeros(0)
    for _ in range(descent.local_steps):
        found = totals(plan, rows, slopes, weights, plan.budget.coin, randomness)
        noised = noises.sums.add(found.sums, randomness) * plan.sums.step
        if noises.size is not None:
            counted.append(float(noises.size.add(np.array([found.people]), randomness)[0]) / rate)
            size = float(np.mean(counted))
        people = rate * _so_far(plan, float(size or 0.0), len(counted))
        if noises.loss is not None:
            losses.append(float(noises.loss.add(np.array([found.loss]), randomness)[0]) * plan.losses.step / people)
        if noises.curvature is not None:
            bent = noises.curvature.add(found.curvature, randomness) * (plan.curvature.step / people)
        weights = rule.step(weights, noised / people)
    fields: dict[str, NDArray[np.generic]] = {
        UPDATE: np.clip(weights - start, -plan.farthest, plan.farthest)[None, :],
    }
    if descent.curved:
        fields[CURVATURE] = bent[None, :]
    if losses:
        fields[LOSS] = np.array([np.mean(losses)])
    if buying:
        fields[SIZE] = np.array([size], dtype=np.float64)
    return fields


def _so_far(plan: TrainingPlan, size: float, counted: int) -> float:
    """The number of people to divide by when it was counted that often in this round."""
    if not counted:
        return plan.believed(size)
    return max(plan.believed(size), plan.doubt * float(np.sqrt(plan.descent.local_steps / counted)))


def _exactly(plan: TrainingPlan, found: Totals, *, buying: bool) -> dict[str, NDArray[np.generic]]:
    """One step's totals as they are: the coordinator adds the noise."""
    fields: dict[str, NDArray[np.generic]] = {SUM: found.sums[None, :]}
    if plan.descent.curved:
        fields[CURVATURE] = found.curvature[None, :]
    if plan.descent.loss_share is not None:
        fields[LOSS] = np.array([found.loss], dtype=np.int64)
    if buying:
        fields[SIZE] = np.array([found.people], dtype=np.int64)
    return fields


def _shared(
    plan: TrainingPlan, exact: dict[str, NDArray[np.generic]], share: Share, randomness: Randomness
) -> dict[str, NDArray[np.generic]]:
    """The same in two shares: the servers add the noise, but for that on how many people there are."""
    size = exact.pop(SIZE, None)
    fields = share(np.concatenate([each.reshape(-1) for each in exact.values()]), LATER if size is None else FIRST)
    if size is not None:
        noise = plan.noises(buying=True).size
        assert noise is not None  # noqa: S101
        fields[SIZE] = noise.add(size.astype(np.int64), randomness) / plan.budget.rate
    return fields


def _asked(plan: TrainingPlan, ask: Ask) -> tuple[Floats, float | None]:
    """The model to start from, and how many people this site once told it has; None where it is to tell now."""
    try:
        weights = np.array(ask.payload.get(WEIGHTS), dtype=np.float64)
    except (TypeError, ValueError):
        weights = np.empty(0)
    if weights.shape != (plan.weights,) or not (np.abs(weights) <= FARTHEST).all():
        raise Mistake(WEIGHTS, "of the model that was sent are not this task's; the coordinator did not keep to it")
    size = ask.payload.get(SIZE)
    if size is not None and (isinstance(size, bool) or not isinstance(size, (int, float)) or not 1 <= size < 2**53):
        raise Mistake(SIZE, "that was sent back is none that a site tells; the coordinator did not keep to the task")
    return weights, None if size is None else float(size)


# --- gradients ------------------------------------------------------------------------------------------------


class ConfinedSlopes:
    """A network's gradients from its confined child."""

    def __init__(self, worker: GradientWorker) -> None:
        self._worker = worker

    @property
    def count(self) -> int:
        return self._worker.parameter_count

    def of(self, weights: Floats, inputs: Floats, targets: Floats) -> tuple[Floats, Floats]:
        if not len(inputs):
            return np.zeros((0, self.count)), np.zeros(0)
        found = _computed(self._worker.apart(np.clip(weights, -FARTHEST, FARTHEST), inputs, targets[:, None]))
        return found[:, :-1], found[:, -1]

    def outputs(self, weights: Floats, inputs: Floats) -> Floats:
        """Return what the network says of each row, in one line."""
        return _computed(self._worker.outputs(np.clip(weights, -FARTHEST, FARTHEST), inputs))


def _computed(found: NDArray[np.float32] | None) -> Floats:
    if found is None:
        raise Fault("the network could not be computed at this site; nothing was sent")
    return found.astype(np.float64)


class Nursery:
    """Children by document, warm for a while until they are needed again."""

    def __init__(self, *, trusted: bool, warm_seconds: float) -> None:
        self._trusted, self._warm_seconds = trusted, warm_seconds
        self._idle: dict[str, tuple[GradientWorker, threading.Timer | None]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def slopes(self, plan: TrainingPlan) -> Iterator[Slopes]:
        """Whatever computes this document's gradients, for one round."""
        encoding = plan.encoding
        if plan.descent.family == "LinearRegression":
            yield LinearSlopes(encoding.width)
        elif plan.descent.family == "LogisticRegression":
            yield LogisticSlopes(encoding.width, len(encoding.classes or ()))
        else:
            with self._confined(plan) as slopes:
                yield slopes

    @contextmanager
    def outputs(self, plan: TrainingPlan) -> Iterator[Callable[[Floats, Floats], Floats]]:
        """Give a function that tells, from weights and rows, what this document's model says of each."""
        if plan.descent.family is not None:
            yield linear_outputs
            return
        with self._confined(plan) as slopes:
            slopes.outputs(plan.start, np.zeros((1, plan.encoding.width)))  # before anybody pays
            yield slopes.outputs

    @contextmanager
    def _confined(self, plan: TrainingPlan) -> Iterator[ConfinedSlopes]:
        """This document's child, kept for the next round if all went well."""
        descent = plan.descent
        worker, proven = self._taken(descent.digest), True
        if worker is None:
            worker, proven = self._started(descent), False
        try:
            slopes = ConfinedSlopes(worker)
            if not proven:
                slopes.of(plan.start, np.zeros((1, plan.encoding.width)), np.zeros(1))
            yield slopes
        except BaseException:
            worker.__exit__(None, None, None)
            raise
        self._kept(descent.digest, worker)

    def _started(self, descent: CommonDescent) -> GradientWorker:
        return GradientWorker(
            descent.model, str(descent.loss), limits=SITE, wall_seconds=GRADIENT_SECONDS, trusted=self._trusted
        ).__enter__()

    def _taken(self, digest: str) -> GradientWorker | None:
        with self._lock:
            worker, timer = self._idle.pop(digest, (None, None))
        if timer is not None:
            timer.cancel()
        return worker

    def _kept(self, digest: str, worker: GradientWorker) -> None:
        self.end(digest)  # another one, which served the same document beside this one
        timer = None if self._trusted else threading.Timer(self._warm_seconds, self.end, (digest,))
        with self._lock:
            self._idle[digest] = worker, timer
        if timer is not None:
            timer.daemon = True
            timer.start()

    def end(self, digest: str) -> None:
        """Nobody waits for this document's child."""
        worker = self._taken(digest)
        if worker is not None:
            worker.__exit__(None, None, None)

    def close(self) -> None:
        """End every child that waits."""
        for digest in list(self._idle):
            self.end(digest)


OWNER = TrainOwner()
SIMULATED = TrainOwner(trusted=True)
