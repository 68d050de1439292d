"""The aggregator of a train task: in each round every site starts from the same weights, and what they send is averaged
by how many people the sites have, as far as that was told.

Everything is noised before it is used: at the sites, or, where their exact totals come here, once and before anything
else is done with them. What was exact is forgotten with the end of its round. Where totals come in two shares, this
server opens their sum of a round with both servers' noise, and never one site's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.schema import Schema
from thebes.learning.slopes import squared
from thebes.learning.stops import Stop
from thebes.privacy.faults import Mistake
from thebes.privacy.model_quality import Quality
from thebes.privacy.stability import LARGEST_TOTAL
from thebes.tasks.aggregation.site_shares import LeaderShares, SealedShare
from thebes.tasks.aggregation.snapshots import Arrays
from thebes.tasks.aggregation.split_servers import CoordinateNoise
from thebes.tasks.aggregation.split_sites import SplitSites
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.protocols import Setting
from thebes.tasks.train import trial
from thebes.tasks.train.certificate import TrainingCourse, certificate
from thebes.tasks.train.descent import CommonDescent
from thebes.tasks.train.kind import TrainDocument
from thebes.tasks.train.noises import noises, sort_of
from thebes.tasks.train.plan import CURVATURE, FARTHEST, LOSS, SIZE, SUM, UPDATE, WEIGHTS, Floats, TrainingPlan
from thebes.tasks.train.release import TrainedRelease, columns_of, value_of


@dataclass(frozen=True, slots=True)
class _Means:
    """Of one round, over everybody: where uphill is, the loss and the curvature where they are told, and how large the
    noise on that is."""

    direction: Floats
    loss: float | None
    curvature: Floats | None = None
    doubt: float = 0.0


class TrainAggregator(SplitSites[TrainDocument]):
    """For every kind whose document says its `descent`."""

    def __init__(self, document: TrainDocument, setting: Setting) -> None:
        self.descent: CommonDescent = document.descent
        super().__init__(document, setting)
        shared = next((site for site in self.sites if site not in self.missing), None)
        self._plan = None if shared is None else TrainingPlan(self.descent, setting.sites[shared])
        self._weights = np.zeros(0) if self._plan is None else self._plan.start
        self._tail = np.zeros_like(self._weights)
        self._averaged = 0  #: so many rounds' weights are in it
        self._rule = self.descent.rule.begun()
        self._stop = Stop(self.descent.rounds, self.descent.tolerance)
        self._trying = False  #: whether the phase is the one in which the model is tested
        self._quality: Quality | None = None
        self._sizes: dict[str, float] = {}  #: each site's people as they were told in earlier rounds, noise included
        self._course = TrainingCourse()
        self._begin()

    def _begin(self) -> None:
        """Nothing was heard of this round yet."""
        exact = self.descent.noise == "coordinator"
        self._sum: NDArray[Any] = np.zeros(len(self._weights), dtype=np.int64 if exact else np.float64)
        bends = self._plan.curvature.coordinates if self._plan is not None and self.descent.curved else 0
        self._curvature: NDArray[Any] = np.zeros(bends, dtype=self._sum.dtype)
        self._loss: int | float = 0
        cells = 0 if self._plan is None or not self.descent.quality else trial.cells(self._plan)
        self._table: NDArray[Any] = np.zeros(cells, dtype=self._sum.dtype)  #: of a test, noised at the sites or not yet
        self._told: dict[str, int | float] = {}  #: and in this one; exact where the noise is still to come

    @property
    def plan(self) -> TrainingPlan:
        if self._plan is None:
            raise Mistake("sites", "cannot answer this")
        return self._plan

    # --- asking and hearing -----------------------------------------------------------------------------

    def unfit(self, schema: Schema) -> str | None:
        try:
            TrainingPlan(self.descent, schema)
        except Mistake as refused:
            return f"its data set does not fit the task: {refused.argument} {refused.message}"
        return None

    def payload(self, site: str) -> dict[str, Any]:
        shown = self.shown_key() if self.descent.noise == "split" else {}
        if self._trying:
            return {WEIGHTS: self._final, trial.TRIAL: True, **shown}
        told = self._sizes.get(site)
        return {WEIGHTS: self._weights, SIZE: None if told is None else self.plan.believed(told), **shown}

    def layout(self, part: str, partition: int = 0) -> Layout:
        if self._trying:
            return trial.layout(self.plan)
        return self.plan.layout(buying=self.sites[partition] not in self._sizes)

    def examine(self, contributions: Contributions) -> Contributions:
        examined = super().examine(contributions)
        if self.descent.noise == "split":
            LeaderShares(self._shared).read(examined.fields)
            return examined
        if SUM in examined.fields and SIZE in examined.fields:
            people = int(examined.fields[SIZE][0])
            length = float(np.linalg.norm(np.asarray(examined.fields[SUM], dtype=np.float64)))
            if length > people * 2.0**self.plan.sums.bits * (1 + 1e-9):
                raise Mistake(f"payload.{SUM}", "is longer than so many clipped gradients can be together")
        return examined

    def hear(self, site: str, contributions: Contributions) -> None:
        fields = contributions.fields
        if self.descent.noise == "split":
            if SIZE in fields:
                self._told[site] = float(fields[SIZE][0])
            sort = sort_of(trying=self._trying, buying=SIZE in fields)
            self.hear_share(site, self._shared, fields, sort)
            return
        if self._trying:
            heard = np.asarray(fields[trial.TABLE][0], dtype=self._table.dtype)
            self._table = np.clip(self._table + heard, -LARGEST_TOTAL, LARGEST_TOTAL)
            return
        if self.descent.noise == "coordinator":
            heard = np.asarray(fields[SUM][0], dtype=np.int64)
            self._sum = np.clip(self._sum + heard, -LARGEST_TOTAL, LARGEST_TOTAL)
            if CURVATURE in fields:
                bends = self._curvature + np.asarray(fields[CURVATURE][0], dtype=np.int64)
                self._curvature = np.clip(bends, -LARGEST_TOTAL, LARGEST_TOTAL)
            self._loss += int(fields[LOSS][0]) if LOSS in fields else 0
            if SIZE in fields:
                self._told[site] = int(fields[SIZE][0])
            return
        if SIZE in fields:
            self._told[site] = float(fields[SIZE][0])
        people = self.plan.believed(self._told[site] if site in self._told else self._sizes[site])
        self._sum += people * np.asarray(fields[UPDATE][0], dtype=np.float64)
        self._loss += people * float(fields[LOSS][0]) if LOSS in fields else 0.0
        if CURVATURE in fields:
            self._curvature += people * np.asarray(fields[CURVATURE][0], dtype=np.float64)

    @property
    def _shared(self) -> int:
        """The numbers that a site shares in this phase."""
        return trial.cells(self.plan) if self._trying else self.plan.numbers

    def noises(self, shares: Sequence[SealedShare]) -> tuple[CoordinateNoise, ...]:
        return noises(self.document, shares)

    # --- the end of a round -----------------------------------------------------------------------------

    def conclude(self) -> TrainedRelease | None:
        """One step of the common model; the release after the last one, and after its test where there is one."""
        self.play_helper()
        if self._trying:
            source = self.setting.randomness if self.descent.noise == "coordinator" else None
            split = self.descent.noise == "split"
            table, noises = (self.opened(), 2) if split else (self._table, len(self.answered))
            self._quality = trial.judged(self.plan, table, noises, source)
            self._begin()  # what was exact is forgotten
            return self._released(lost=1)
        means = {"coordinator": self._noised, "split": self._opened}
        found = means.get(self.descent.noise, self._averages)()
        before, loss = self._weights, found.loss
        bends = None if found.curvature is None else squared(found.curvature)
        moved = np.clip(self._rule.step(before, found.direction, bends, found.doubt), -FARTHEST, FARTHEST)
        self._weights = np.nan_to_num(moved, nan=0.0)
        if self.phase >= self.descent.rounds // 2:
            self._tail += self._weights
            self._averaged += 1
        told: dict[str, Any] = {"update": float(np.linalg.norm(self._weights - before))}
        if loss is not None:
            told["loss"] = loss
        self._course.note(told, self.answered, self.missing)
        self._begin()
        if not self._trained():
            return None
        self._trying = bool(self.descent.quality)
        return None if self._trying else self._released()

    def _averages(self) -> _Means:
        """Average the sites' own steps: noised there."""
        plan = self.plan
        self._sizes.update(self._told)
        sizes = [plan.believed(self._sizes[site]) for site in self.answered]
        people = sum(sizes)
        loss = None if self.descent.loss_share is None else self._loss / people
        direction = -self._sum / people / self.descent.rule.learning_rate
        if not self.descent.curved:
            return _Means(direction, loss)
        # Each site's noise is on its sum, so it adds up over sites as if it were drawn once for each.
        return _Means(direction, loss, self._curvature / people, self._doubt(len(sizes), people))

    def _noised(self) -> _Means:
        """The same from exact totals, with noise on each. The number of people of each site gets noise of its own,
        once."""
        plan, source = self.plan, self.setting.randomness
        noises = plan.noises(buying=bool(self._told))
        for site, count in sorted(self._told.items()):
            assert noises.size is not None  # noqa: S101
            told = noises.size.add(np.array([count], dtype=np.int64), source)
            self._sizes[site] = float(told[0]) / plan.budget.rate
        people = plan.budget.rate * sum(plan.believed(self._sizes[site]) for site in self.answered)
        direction = noises.sums.add(self._sum, source) * (plan.sums.step / people)
        loss, curvature = None, None
        if noises.curvature is not None:
            curvature = noises.curvature.add(self._curvature, source) * (plan.curvature.step / people)
        if noises.loss is not None:
            lost = noises.loss.add(np.array([int(self._loss)], dtype=np.int64), source)
            loss = float(lost[0]) * plan.losses.step / people
        return _Means(direction, loss, curvature, self._doubt(1, people) if self.descent.curved else 0.0)

    def _opened(self) -> _Means:
        """The same from sums that both servers noised. Each site told its number of people with noise of its own."""
        plan, found = self.plan, self.opened()
        self._sizes.update(self._told)
        people = plan.budget.rate * sum(plan.believed(self._sizes[site]) for site in self.answered)
        bends = plan.curvature.coordinates if self.descent.curved else 0
        sums, bent, lost = np.split(found, [plan.weights, plan.weights + bends])
        loss = float(lost[0]) * plan.losses.step / people if len(lost) else None
        direction = sums * (plan.sums.step / people)
        if not self.descent.curved:
            return _Means(direction, loss)
        return _Means(direction, loss, bent * (plan.curvature.step / people), self._doubt(2, people))

    def _doubt(self, noises: int, people: float) -> float:
        """The spectral norm to expect of the noise on the mean curvature: 2 sd sqrt(width) of a symmetric matrix whose
        entries off the diagonal have 1 / sqrt 2 of a line's noise."""
        noise = self.plan.noises(buying=bool(self._told)).curvature
        assert noise is not None  # noqa: S101
        deviation = noise.deviation * self.plan.curvature.step * math.sqrt(noises) / people
        return float(2 * deviation / math.sqrt(2) * math.sqrt(self.plan.encoding.width + 1))

    def finished(self) -> bool:
        return self._quality is not None if self.descent.quality else self._trained()

    def _trained(self) -> bool:
        rounds = self._course.rounds
        moved = rounds[-1]["update"] if rounds else math.inf
        return self._stop.over(len(rounds), moved)

    def lapsed(self) -> TrainedRelease | None:
        """The model as the last whole round left it: it is private and paid for. The round that has just ended is paid
        for too, by those who answered it."""
        return self._released(lost=1) if self._course.rounds else None

    def _released(self, lost: int = 0) -> TrainedRelease:
        plan = self.plan
        told = certificate(
            plan,
            self._course,
            begun=len(self._course.rounds) + lost,
            unit=self.unit,
            trust=self.trust,
            simulated=self.setting.simulated,
            notes=self.notes,
            drawn_by=self.setting.randomness.drawn_by if self.document.one_noise else None,
            servers=self.of_servers,
        )
        extra = {**columns_of(plan), "rounds": self._course.rounds, "coverage": self._course.coverage}
        extra["quality"] = None if self._quality is None else self._quality.as_json()
        return TrainedRelease(value_of(plan, self._final), told, {}, extra)

    @property
    def _final(self) -> Floats:
        """The weights that are released."""
        tail = self.descent.average == "tail" and self._averaged > 0
        return self._tail / self._averaged if tail else self._weights

    @property
    def coverage(self) -> dict[str, Any]:
        return self._course.coverage

    def progress(self) -> dict[str, Any]:
        """Tell how far it is: the last round in figures, and all of them for a curve."""
        rounds = self._course.rounds
        return {**super().progress(), "last": rounds[-1] if rounds else None, "rounds": rounds}

    # --- while nobody runs it ---------------------------------------------------------------------------

    def memory(self) -> tuple[dict[str, Any], Arrays]:
        facts = {
            "sizes": self._sizes,
            "told": self._told,
            "loss": self._loss,
            "averaged": self._averaged,
            "course": self._course.as_json(),
            "trying": self._trying,
            **self.shares_kept(),
        }
        arrays: Arrays = {
            "weights": self._weights, "tail": self._tail, "sum": self._sum, "curvature": self._curvature,
            "table": self._table,
        }  # fmt: skip
        return facts, {**arrays, **{f"rule.{name}": array for name, array in self._rule.memory().items()}}

    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self._weights = np.asarray(arrays["weights"], dtype=np.float64)
        self._tail = np.asarray(arrays["tail"], dtype=np.float64)
        self._rule.remember({name[5:]: array for name, array in arrays.items() if name.startswith("rule.")})
        self._sizes, self._told = dict(facts["sizes"]), dict(facts["told"])
        self._averaged, self._course = int(facts["averaged"]), TrainingCourse.from_json(facts["course"])
        self._sum, self._curvature = np.array(arrays["sum"]), np.array(arrays["curvature"])
        self._loss = facts["loss"]
        self._trying = bool(facts.get("trying", False))
        self._table = np.array(arrays.get("table", self._table))
        if self.descent.noise == "split" and self._plan is not None:
            self.remember_shares(facts, self._shared)


AGGREGATOR = TrainAggregator
