"""The last phase of a task whose model people check: each says once whether it gains on a guess for everybody.

What must stay true: the model is released before anybody is asked to check it, so that it never waits for them; slots
that are kept for the check are asked nothing before. Without tokens each slot has one part to play; tokens show another
name in each phase, so whoever has taken no part may check there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.certificate import Certificate
from thebes.privacy.gain_quality import ANSWERS, GainResponse
from thebes.tasks.aggregation.packets import drawn
from thebes.tasks.aggregation.people import Gathering
from thebes.tasks.aggregation.snapshots import Arrays
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.model_check import ANSWER, LAYOUT, CheckableDocument
from thebes.tasks.protocols import Ask, Closed, Setting, Wait
from thebes.tasks.release import Release

CheckableDocumentType = TypeVar("CheckableDocumentType", bound=CheckableDocument)
COLLUDING = (0.01, 0.05, 0.1)
OF = "people that it was not made from, who answered"
SOON = "people are being asked whether it does better than one guess for everybody"
NOBODY = "nobody whom it was not made from answered in time"


class Checking(Gathering[CheckableDocumentType]):
    """The addition of a check to an aggregator that makes a model: `class A(Checking[D], Learner)`, where the learner
    is a `Gathering[D]` that knows nothing of it."""

    def __init__(self, document: CheckableDocumentType, setting: Setting) -> None:
        super().__init__(document, setting)
        self._told = [0] * ANSWERS  #: how many people said each answer
        self._shown: dict[str, Any] = {}  #: the model, as whoever checks it is shown it

    @abstractmethod
    def shown(self, release: Release) -> dict[str, Any]:
        """Return the released model, and what the guess follows from, as the ask to check holds them."""

    @property
    def metric(self) -> str:
        """The name of what is gained."""
        return "gain"

    @property
    def _checking(self) -> bool:
        return self.document.checks_in(self.phase)

    @property
    def partitions(self) -> int:
        return 1 if self._checking else super().partitions

    @property
    def least(self) -> int:
        """The number of contributions that are enough at the deadline; for the check, whoever was there."""
        return 0 if self._checking and self._expected is None else super().least

    def ask(self, slot: str, packet: int = 0) -> Ask | Wait | Closed:
        asked = super().ask(slot, packet)
        if not isinstance(asked, Ask) or not self.document.checking or packet or self.setting.simulated:
            return asked
        apart = drawn(slot, self.document.phases_to_learn, self.document.kept_apart)
        called = apart or self.document.anonymity == "token" if self._checking else not apart
        return asked if called else Wait(1.0)

    def payload(self, packet: int = 0, partition: int = 0) -> dict[str, Any]:
        return dict(self._shown) if self._checking else super().payload(packet, partition)

    def layout(self, part: str, partition: int = 0) -> Layout:
        if self.document.checking and part == f"phase-{self.document.phases_to_learn}":
            return LAYOUT
        return super().layout(part, partition)  # type: ignore[safe-super]

    def examine(self, contributions: Contributions) -> Contributions:
        if self._checking:
            return Gathering.examine(self, contributions)
        return super().examine(contributions)

    def hear(self, contributions: Contributions) -> None:
        if not self._checking:
            return super().hear(contributions)  # type: ignore[safe-super]
        answers = np.asarray(contributions.fields[ANSWER]).astype(np.int64)
        self._told = (np.bincount(answers, minlength=ANSWERS) + self._told).tolist()
        return None

    def conclude(self) -> Release | None:
        if self._checking:
            return self._judged()
        made = super().conclude()  # type: ignore[safe-super]
        if made is None or not self.document.checking:
            return made if made is None or self.document.quality is None else made.beside(quality=None)
        self._shown = self.shown(made)
        return made.beside(quality=None, quality_note=SOON)

    def _judged(self) -> Release:
        """Add what the model was found to be worth to its release."""
        made, people = self._release, sum(self._told)
        assert made is not None  # noqa: S101
        if not people:
            return made.beside(quality_note=NOBODY)
        response = GainResponse(self.document.epsilon)
        before = made.certificate.contributors or 0
        found = response.figure(self._told, share=people / (people + before), of=OF, metric=self.metric)
        extra = {name: value for name, value in made.extra.items() if name != "quality_note"}
        certificate = self._with_check(made.certificate, response, people)
        return replace(made, certificate=certificate, extra={**extra, "quality": found.as_json()})

    def _with_check(self, certificate: Certificate, response: GainResponse, people: int) -> Certificate:
        told = {
            "people": people,
            "epsilon": float(response.response.epsilon),
            "mechanism": response.name,
            **response.response.parameters(),
            "the_gain_moves_by_at_most": {f"{s:.0%}": min(2.0, 2 * s / response.kept) for s in COLLUDING},
        }
        note = (
            f"What the model is worth was said by {people} people who are asked for nothing else, each whether it did "
            "better on their own row than one guess for everybody, changed at random; that they sent nothing it was "
            "made from holds for people who keep to the task."
        )
        return replace(
            certificate,
            parameters={**certificate.parameters, "checked_by": told},
            contributors=(certificate.contributors or 0) + people,
            notes=(*certificate.notes, note),
        )

    def memory(self) -> tuple[dict[str, Any], Arrays]:
        facts, arrays = super().memory()  # type: ignore[safe-super]
        return {**facts, "check": {"told": self._told, "shown": self._shown}}, arrays

    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        super().remember(facts, arrays)  # type: ignore[safe-super]
        check = facts.get("check", {})  # as it was before people checked
        self._told = list(check.get("told", self._told))
        self._shown = dict(check.get("shown", {}))
