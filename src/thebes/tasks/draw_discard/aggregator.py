"""The aggregator of a draw-discard task: k instances for each learning rate, drawn for an ask, replaced by an answer.

It never ends by itself, keeps no contribution, and can answer at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake
from thebes.tasks.aggregation.open_ended import OpenEnded
from thebes.tasks.aggregation.snapshots import Arrays
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.document import FAILURE
from thebes.tasks.draw_discard.instances import Floats, Instances
from thebes.tasks.draw_discard.kind import DrawDiscardDocument
from thebes.tasks.draw_discard.outliers import Outliers
from thebes.tasks.draw_discard.plan import LANE, VERSION, WEIGHTS, plan
from thebes.tasks.draw_discard.release import LaneStanding, released
from thebes.tasks.protocols import (
    Ask,
    Closed,
    OutlyingContribution,
    Setting,
    StaleContribution,
    State,
    Wait,
)
from thebes.tasks.release import Release

MOST_SHOWN = 2000  #: weights of one lane's instances together that a live view has one by one
_TOLD = ("updates", "refused", "quarantined", "stale", "history")


class DrawDiscardAggregator(OpenEnded[DrawDiscardDocument]):
    def __init__(self, document: DrawDiscardDocument, setting: Setting) -> None:
        super().__init__(document, setting)
        self._plan = plan(document)
        self.outliers = Outliers(document.instances, self._plan.weights, document.false_positives)
        self._failures = np.zeros(0 if self._plan.failures is None else self._plan.failures.size, dtype=np.int64)
        self._checked: list[tuple[int, Floats]] = []  # by lane: (updates, average) when the target was last looked at
        self._settled = False

    @cached_property
    def lanes(self) -> tuple[Instances, ...]:
        """The instances of each learning rate; drawn when first needed, so that a restored aggregator draws none."""
        made, count = self._plan, self.document.instances
        randomness = self.setting.randomness
        return tuple(
            Instances.around(made.start, count, made.first_deviation * rate, randomness) for rate in self.document.rates
        )

    # --- the shape --------------------------------------------------------------------------------------

    @property
    def updates(self) -> int:
        """The number of contributions that were mixed in."""
        return sum(lane.updates for lane in self.lanes)

    def layout(self, part: str, partition: int = 0) -> Layout:
        return self._plan.layout()

    def ask(self, slot: str, packet: int = 0) -> Ask | Wait | Closed:
        """Draw an instance of any lane. `weights` is an array; how it travels is the wire's business."""
        if self.state is not State.OPEN:
            return Closed()
        if packet >= len(self.counts) or self.accepted >= self.wanted:
            return Wait(1.0)
        several, randomness = len(self.lanes), self.setting.randomness
        lane = 0 if several == 1 else int(randomness.below(several, 1)[0])
        drawn = self.lanes[lane].draw(randomness)
        payload = {"weights": drawn.weights, "version": drawn.version, "lane": lane}
        ask_id = f"{self._digest[:16]}.{lane}.{drawn.version}"
        return Ask(ask_id, self.parts[packet], self.phase, payload, self.document.deadline)

    def asked(self, ask_id: str, slot: str, packet: int = 0) -> bool:
        """Return whether a model of such a lane and version was ever there to be drawn."""
        digest, _, rest = ask_id.partition(".")
        lane, _, version = rest.partition(".")
        if self.state is not State.OPEN or digest != self._digest[:16] or packet >= len(self.counts):
            return False
        if not all(text.isascii() and text.isdigit() and len(text) <= 16 for text in (lane, version)):
            return False
        if int(lane) >= len(self.lanes) or int(version) > self.lanes[int(lane)].updates:
            return False
        self._fresh(int(lane), int(version))
        return True

    def examine(self, contributions: Contributions) -> Contributions:
        """Refuse what no honest owner could have sent now; whether it is an outlier is judged when it is heard."""
        examined = super().examine(contributions)
        for lane, version in zip(examined.fields[LANE], examined.fields[VERSION], strict=True):
            if int(version) > self.lanes[int(lane)].updates:
                raise Mistake(f"payload.{VERSION}", "is of a model that does not exist yet")
            self._fresh(int(lane), int(version))
        return examined

    def hear(self, contributions: Contributions) -> None:
        """Discard an instance for the one that came, unless that is an outlier."""
        for row in range(contributions.count):
            lane, version = (int(contributions.fields[name][row]) for name in (LANE, VERSION))
            weights = np.asarray(contributions.fields[WEIGHTS][row], dtype=np.float64)
            if self._outlying(lane, version, weights):
                self.set_aside(lane)
            else:
                instances = self.lanes[lane]
                instances.age = self.outliers.aged(instances.age, instances.updates - version)
                instances.discard(weights, self.setting.randomness)
                self.look_at_target(lane)
            if self._plan.failures is not None:
                self._failures += np.bincount([int(contributions.fields[FAILURE][row])], minlength=len(self._failures))

    @property
    def settled(self) -> bool:
        """Return whether the document's target was met: `advance` then ends it."""
        return self._settled and self.enough

    @property
    def stage(self) -> tuple[int, ...]:
        return (*(lane.updates for lane in self.lanes), self.accepted)

    def conclude(self) -> Release:
        """Average the instances as they stand."""
        return released(self.document, self.setting, self._stand(), self.notes)

    def copied(self) -> DrawDiscardAggregator:
        """The same as it stands now, for who computes while it goes on."""
        made = copy(self)
        made.__dict__["lanes"] = tuple(lane.copied() for lane in self.lanes)
        made.counts, made._failures, made._checked = list(self.counts), self._failures.copy(), list(self._checked)
        return made

    @property
    def enough(self) -> bool:
        """Return whether enough was mixed in for a release."""
        return self.updates >= (1 if self.setting.simulated else self.document.min_count)

    # --- who is heard -----------------------------------------------------------------------------------

    def _fresh(self, lane: int, version: int) -> None:
        if self.lanes[lane].updates - version > self.document.stalest:
            self.lanes[lane].stale += 1
            raise StaleContribution(
                f"the model this was made from is more than {self.document.stalest} updates old; it was not taken"
            )

    def allowed(self, lane: int, version: int) -> Floats:
        """Return how far from a lane's average the weights of an update of that version may lie."""
        return self.limits(lane, self.lanes[lane].variance(), version, self.lanes[lane].age)

    def limits(self, lane: int, variance: Floats, version: Any, age: Any) -> Floats:
        """The same at any variance between the instances and any usual age; of columns of versions and ages, a line for
        each."""
        rate = self.document.rate(lane, version)
        slowing = self.document.rate(lane, np.maximum(0, version - self.outliers.memory)) / rate
        deviation, reach = rate * self._plan.first_deviation, rate * self.document.clip
        return self.outliers.allowed(variance, deviation, reach, age=age, slowing=slowing)

    def _outlying(self, lane: int, version: int, weights: Floats) -> bool:
        if not self.outliers.active:
            return False
        return bool((np.abs(weights - self.lanes[lane].mean()) > self.allowed(lane, version)).any())

    def set_aside(self, lane: int) -> None:
        """Refuse an outlier, or take it and mix it in nowhere, as the document says. It is counted and not kept."""
        if self.document.outliers == "refuse":
            self.lanes[lane].refused += 1
            raise OutlyingContribution("this model lies too far from the others to be mixed in; it was not taken")
        self.lanes[lane].quarantined += 1

    def look_at_target(self, lane: int) -> None:
        """After an update: whether the average has come to rest."""
        target, instances = self.document.target, self.lanes[lane]
        looked = self._checked[0][0] if self._checked else 0
        if target is None or lane != self.document.kept or instances.updates - looked < target.over:
            return
        average = instances.mean()
        if self._checked:
            self._settled = bool(np.abs(average - self._checked[0][1]).max() < target.moved)
        self._checked = [(instances.updates, average)]

    # --- keeping ----------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Everything beside the instances, as JSON: small, so that it can be written with every batch."""
        return {
            "lanes": [lane.facts() for lane in self.lanes],
            "failures": self._failures.tolist(),
            "settled": self._settled,
            "checked": [(updates, average.tolist()) for updates, average in self._checked],
        }

    def recall(self, facts: Mapping[str, Any]) -> None:
        """The inverse of `facts`."""
        for lane, told in zip(self.lanes, facts["lanes"], strict=True):
            lane.recall(told)
        self._failures = np.asarray(facts["failures"], dtype=np.int64)
        self._settled = bool(facts["settled"])
        self._checked = [(int(updates), np.asarray(average)) for updates, average in facts["checked"]]
        self._shown = None

    @property
    def pieces(self) -> int:
        """The number of instances, over all lanes."""
        return len(self.document.rates) * self.document.instances

    def saved(self, place: int) -> bytes:
        lane, at = self._at(place)
        return lane.saved(at)

    def load(self, place: int, saved: bytes) -> None:
        lane, at = self._at(place)
        lane.load(at, saved)

    def replaced(self) -> list[int]:
        """Return the places of instances that were discarded since this was last asked."""
        found = []
        for number, lane in enumerate(self.lanes):
            found += [number * self.document.instances + at for at in lane.changed]
            lane.changed.clear()
        return found

    def take_over(self, facts: Mapping[str, Any], pieces: Sequence[bytes], times: Sequence[int]) -> None:
        self.recall(facts)
        for place, piece in enumerate(pieces):
            self.load(place, piece)
        self.stands(times)
        for lane in self.lanes:
            lane.settle()

    def stands(self, times: Sequence[int]) -> None:
        """Count as many updates of each lane as its instances were discarded, and as many contributions in all."""
        count = self.document.instances
        for number, lane in enumerate(self.lanes):
            lane.updates = sum(times[number * count : (number + 1) * count])
        taken = sum(lane.updates + lane.quarantined for lane in self.lanes)
        self.counts[:] = [taken, *[0] * (len(self.counts) - 1)]

    def taken(self, facts: Mapping[str, Any]) -> int:
        return sum(int(lane["quarantined"]) for lane in facts["lanes"])

    def progress(self, facts: Mapping[str, Any], pictured: Any = None) -> dict[str, Any]:
        """Tell how each lane went and, where they were pictured, how its instances are."""
        drawn = pictured or [{}] * len(facts["lanes"])
        lanes = [
            {**{name: lane[name] for name in _TOLD}, **each} for lane, each in zip(facts["lanes"], drawn, strict=True)
        ]
        return {"contributions": sum(lane["updates"] + lane["quarantined"] for lane in lanes), "lanes": lanes}

    def pictured(self) -> list[dict[str, Any]]:
        """Describe each instance of every lane: its length, how far it is from their average and, of small ones, its
        weights."""
        return [_described(lane.models) for lane in self.lanes]

    def _at(self, place: int) -> tuple[Instances, int]:
        lane, at = divmod(place, self.document.instances)
        return self.lanes[lane], at

    def joined(self, theirs: Mapping[str, Any], before: Mapping[str, Any], mine: Mapping[str, Any]) -> dict[str, Any]:
        """`theirs` and what came to `mine` since it was `before`: what several processes know together."""
        lanes = zip(theirs["lanes"], before["lanes"], mine["lanes"], strict=True)
        failures = zip(theirs["failures"], before["failures"], mine["failures"], strict=True)
        return {
            "lanes": [Instances.joined(*lane) for lane in lanes],
            "failures": [their + own - known for their, known, own in failures],
            "settled": bool(theirs["settled"] or mine["settled"]),
            "checked": max(theirs["checked"], mine["checked"], key=lambda points: [point[0] for point in points]),
        }

    def memory(self) -> tuple[dict[str, Any], Arrays]:
        arrays: dict[str, NDArray[np.generic]] = {}
        for i, lane in enumerate(self.lanes):
            arrays[f"lane-{i}"], arrays[f"sums-{i}"] = lane.models, lane.sums()
        return self.facts(), arrays

    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        rates = range(len(self.document.rates))
        self.__dict__["lanes"] = tuple(Instances(np.asarray(arrays[f"lane-{i}"])) for i in rates)
        self.recall(facts)
        for i, lane in enumerate(self.lanes):
            lane.go_on_from(np.asarray(arrays[f"sums-{i}"]))

    def _stand(self) -> LaneStanding:
        failures = None
        if self._plan.failures is not None:
            counted = np.repeat(np.arange(len(self._failures)), self._failures)
            failures = self._plan.failures.estimate(counted) if len(counted) else None
        return LaneStanding(self.lanes, self.accepted, failures, self.outliers, self.allowed)


def _described(models: Floats) -> dict[str, Any]:
    return {
        "norms": np.linalg.norm(models, axis=1).tolist(),
        "distances": np.linalg.norm(models - models.mean(axis=0), axis=1).tolist(),
        "models": models.tolist() if models.size <= MOST_SHOWN else [],
    }


AGGREGATOR = DrawDiscardAggregator
