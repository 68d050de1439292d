"""The aggregator of a bounded task: checks reports against their mechanisms and hands them on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import FAILURES
from thebes.privacy.certificate import Certificate
from thebes.privacy.gain_quality import SQUARED
from thebes.privacy.mechanisms.local.categories import CategoryMechanism
from thebes.privacy.promise import Adjacency
from thebes.tasks.aggregation.checking import Checking
from thebes.tasks.aggregation.people import Gathering
from thebes.tasks.aggregation.snapshots import Arrays
from thebes.tasks.bounded import checked_model
from thebes.tasks.bounded.encoder import plan
from thebes.tasks.bounded.kind import PRESENT, BoundedDocument
from thebes.tasks.bounded.release import RowsRelease
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.document import FAILURE, bounds_as_json
from thebes.tasks.missing_values import WORKED
from thebes.tasks.mixed_reports import Supports
from thebes.tasks.protocols import Setting
from thebes.tasks.release import Release


class BoundedLearner(Gathering[BoundedDocument]):
    def __init__(self, document: BoundedDocument, setting: Setting) -> None:
        super().__init__(document, setting)
        self._plan = plan(document)
        self._heard: list[Mapping[str, NDArray[np.generic]]] = []

    def layout(self, part: str, partition: int = 0) -> Layout:
        return self._plan.slots()

    @property
    def supports(self) -> Supports | None:
        (only, *more) = self._plan.parts.values()
        if more or not isinstance(only, CategoryMechanism):
            return None
        return only.loss().epsilon, only.hold, only.stray

    def examine(self, contributions: Contributions) -> Contributions:
        examined = super().examine(contributions)
        for name, mechanism in self._plan.parts.items():
            if examined.count:
                mechanism.check(examined.fields[name])
        return examined

    def hear(self, contributions: Contributions) -> None:
        self._heard.append(contributions.fields)

    def conclude(self) -> Release | None:
        reports = self._together()
        extra: dict[str, Any] = {"document": self.document.as_json(), "reports": reports}
        failures = self._plan.parts.get(FAILURE)
        if isinstance(failures, CategoryMechanism):
            told = failures.estimate(reports.pop(FAILURE))
            counts = np.asarray(told.value) * told.contributors
            extra["diagnostics"] = dict(zip((WORKED, *FAILURES), counts.tolist(), strict=True))
        return RowsRelease(None, self._certificate(), {}, extra)

    def memory(self) -> tuple[dict[str, Any], Arrays]:
        return {}, self._together() if self._heard else {}

    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self._heard = [dict(arrays)] if arrays else []

    def _together(self) -> Arrays:
        return {name: np.concatenate([np.asarray(batch[name]) for batch in self._heard]) for name in self._plan.parts}

    def _certificate(self) -> Certificate:
        document = self.document
        defaults = {c: b.default for c, b in document.bounds.items() if b.default is not None}
        notes = []
        if defaults:
            notes.append(f"A missing value was replaced by the declared default ({', '.join(defaults)}).")
        if any(name.endswith(PRESENT) for name in self._plan.parts):
            notes.append("Whether a range without a default had a value is itself reported at random.")
        if self._plan.shortens:
            notes.append("Long rows were shortened: means and shares of columns are biased, and have no error bars.")
        parameters = {
            "mechanism": self._plan.mechanism,
            "choice": self._plan.choice.as_json(),
            "parts": {
                name: {"mechanism": m.name, "epsilon": float(m.epsilon), "delta": float(m.delta), **m.parameters()}
                for name, m in self._plan.parts.items()
            },
        }
        names = sorted({m.name for m in self._plan.parts.values()})
        delta = float(self._plan.delta())
        return Certificate(
            unit=self.setting.unit,
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=document.epsilon,
            delta=delta,
            guarantee="approximate" if delta else "pure",
            mechanism=f"local {self._plan.mechanism} ({', '.join(names)})",
            parameters=parameters,
            bounds=bounds_as_json(document.bounds),
            contributors=self.accepted,
            trust="none",
            simulated=self.setting.simulated,
            notes=(*self.notes, *notes),
        )


class BoundedAggregator(Checking[BoundedDocument], BoundedLearner):
    def shown(self, release: Release) -> dict[str, Any]:
        self._heard = []  # the release holds all of it
        return checked_model.shown(release)

    @property
    def metric(self) -> str:
        return "gain" if checked_model.kind_of(self.document) == "logistic" else SQUARED


AGGREGATOR = BoundedAggregator
