"""The half that counts: reports of today and of the day before, which may still be on their way.

What must stay true: of one person each day has one report. A person's reports are numbered, and the n-th is asked for
on days whose number leaves n when divided by `days`: so no two of them are of one day.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daily.days import called, day_of, layout_of
from daily.kind import DailyDocument, mechanism_of
from thebes.privacy.certificate import Certificate
from thebes.privacy.faults import Mistake
from thebes.privacy.measurement import Interval
from thebes.privacy.promise import Adjacency
from thebes.tasks.aggregation.open_ended import OpenEnded
from thebes.tasks.aggregation.snapshots import Arrays
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.protocols import Ask, Closed, Setting, StaleContribution, State, Wait
from thebes.tasks.release import LEVELS, Release

_WAIT_SECONDS = 60.0


class DailyAggregator(OpenEnded[DailyDocument]):
    def __init__(self, document: DailyDocument, setting: Setting) -> None:
        super().__init__(document, setting)
        self.reports: dict[int, list[int]] = {}  #: by day: how many reports of each value
        self._today = 0

    def layout(self, part: str, partition: int = 0) -> Layout:
        return layout_of(self.document)

    def advance(self, now: datetime, absent: int = 0) -> None:
        self._today = max(self._today, day_of(now))
        super().advance(now, absent)

    def ask(self, slot: str, packet: int = 0) -> Ask | Wait | Closed:
        if self.state is not State.OPEN:
            return Closed()
        if packet != self._today % self.document.days or self.accepted >= self.wanted:
            return Wait(_WAIT_SECONDS)
        ask_id, told = f"{self._digest[:16]}.{self._today}", {"day": self._today}
        return Ask(ask_id, self.parts[packet], self.phase, told, self.document.deadline)

    def asked(self, ask_id: str, slot: str, packet: int = 0) -> bool:
        digest, _, day = ask_id.partition(".")
        if digest != self._digest[:16] or not (day.isascii() and day.isdigit() and len(day) <= 7):
            return False
        return self._heard_now(int(day)) and int(day) % self.document.days == packet

    def examine(self, contributions: Contributions) -> Contributions:
        examined = super().examine(contributions)
        packet = self.parts.index(contributions.part)
        for day in examined.fields["day"].tolist():
            if not self._heard_now(day) or day % self.document.days != packet:
                raise Mistake("payload.day", "is not the day that this part is asked for")
        return examined

    def _heard_now(self, day: int) -> bool:
        if day < self._today - 1:
            raise StaleContribution("its day has been over for a day; it was not taken")
        return day <= self._today

    def hear(self, contributions: Contributions) -> None:
        fields = contributions.fields
        for day, value in zip(fields["day"].tolist(), fields["value"].tolist(), strict=True):
            self.reports.setdefault(day, [0] * len(self.document.values))[value] += 1

    @property
    def shown(self) -> dict[int, list[int]]:
        """The days that enough people answered, oldest first."""
        least = 1 if self.setting.simulated else self.document.min_count
        return {day: counts for day, counts in sorted(self.reports.items()) if sum(counts) >= least}

    @property
    def enough(self) -> bool:
        return bool(self.shown)

    def conclude(self) -> Release:
        report, document = mechanism_of(self.document), self.document
        value: dict[str, float] = {}
        ends: dict[float, list[tuple[NDArray[Any], NDArray[Any]]]] = {level: [] for level in LEVELS}
        for day, counts in self.shown.items():
            people = sum(counts)
            found = report.estimate(np.repeat(np.arange(len(counts)), counts))
            for each, share in zip(document.values, found.value.tolist(), strict=True):
                value[f"{called(day)} {each}"] = share * people
            for level in LEVELS:
                bar = found.interval(level)
                ends[level].append((np.asarray(bar.low) * people, np.asarray(bar.high) * people))
        bars = {
            level: Interval(level, *(np.concatenate(end) for end in zip(*each, strict=True)))
            for level, each in ends.items()
        }
        days = {called(day): sum(counts) for day, counts in self.shown.items()}
        return Release(value, self._certificate(), bars, {"reports_of_day": days})

    def _certificate(self) -> Certificate:
        report, days = mechanism_of(self.document), self.document.days
        several = "Who answered on several days counts once for each." if days > 1 else ""
        return Certificate(
            unit=self.setting.unit,
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=self.document.epsilon,
            delta=0.0,
            guarantee="pure",
            mechanism=f"{report.name}, once a day",
            parameters={"days": days, "epsilon_of_each_day": float(report.epsilon), **report.parameters()},
            contributors=self.accepted,
            simulated=self.setting.simulated,
            notes=tuple(filter(None, (several, *self.notes))),
        )

    def progress(self, facts: Mapping[str, Any], pictured: Any = None) -> dict[str, Any]:
        days = {called(int(day)): sum(counts) for day, counts in sorted(facts["heard"]["reports"].items())}
        return {**super().progress(facts, pictured), "days": days}

    def memory(self) -> tuple[dict[str, Any], Arrays]:
        return {"reports": {str(day): list(counts) for day, counts in self.reports.items()}}, {}

    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self.reports = {int(day): [int(count) for count in counts] for day, counts in facts["reports"].items()}


AGGREGATOR = DailyAggregator
