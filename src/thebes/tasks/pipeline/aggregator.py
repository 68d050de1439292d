"""The coordinator's half of a pipeline: one site answers, and what it answers is passed on as it is, once it is
readable. Whether a model meets its targets the site has tested; nobody else has rows to do so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake
from thebes.tasks.aggregation.sites import Convening
from thebes.tasks.aggregation.snapshots import Arrays
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.pipeline.answer import LAYOUT, PipelineAnswer, read
from thebes.tasks.pipeline.kind import PipelineDocument
from thebes.tasks.pipeline.release import PipelineRelease, quality_of
from thebes.tasks.release_reader import certificate_of


class PipelineAggregator(Convening[PipelineDocument]):
    _answer: PipelineAnswer | None = None

    def layout(self, part: str, partition: int = 0) -> Layout:
        return LAYOUT

    def unfit(self, schema: Schema) -> str | None:
        try:
            self.document.pipeline().fits(schema)
        except Mistake as mistake:
            return f"its data set does not fit the task: {mistake.argument} {mistake.message}"
        return None

    def examine(self, contributions: Contributions) -> Contributions:
        examined = super().examine(contributions)
        self._read(examined)
        return examined

    def hear(self, site: str, contributions: Contributions) -> None:
        self._answer = self._read(contributions)

    def conclude(self) -> PipelineRelease:
        assert self._answer is not None  # noqa: S101
        answer = self._answer
        extra: dict[str, Any] = {
            "verdict": answer.verdict,
            "attempts": answer.attempts,
            "reason": answer.reason,
            "coverage": self.coverage,
            "cost": {"epsilon": answer.certificate["epsilon"], "delta": answer.certificate["delta"]},
            "source": "pipeline",
            **(answer.bundle or {}),
        }
        model = extra.pop("model", None)
        if model is not None:
            extra["quality"] = quality_of(extra)
        return PipelineRelease(model, certificate_of(answer.certificate), extra=extra)

    def memory(self) -> tuple[dict[str, Any], Arrays]:
        return {"answer": None if self._answer is None else self._answer.as_json()}, {}

    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self._answer = None if facts["answer"] is None else PipelineAnswer(**facts["answer"])

    def _read(self, contributions: Contributions) -> PipelineAnswer:
        try:
            answer = read(str(contributions.fields["answer"][0]))
            _ = answer.bundle and quality_of(answer.bundle)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            raise Mistake("payload.answer", "is not what a site says of a pipeline") from None
        price = self.document.epsilon, self.document.delta
        paid = answer.certificate["epsilon"], answer.certificate["delta"]
        if any(one > most * (1 + 1e-9) for one, most in zip(paid, price, strict=True)):
            raise Mistake("payload.answer", "says that more was paid than the document allows")
        return answer


AGGREGATOR = PipelineAggregator
