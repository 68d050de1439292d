"""The rehearsal of a pipeline: how right the model is that it arrives at, which stands beside it, or how far off each
number of a statistic is. A rehearsal in which it does not arrive has no answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from thebes.tasks.pipeline.kind import PipelineDocument
from thebes.tasks.rehearsal import HARMLESS, Quantities, Rehearsal, RehearsalRun


class PipelineRehearsal(Rehearsal[PipelineDocument]):
    repeats = 20

    def truth(
        self, document: PipelineDocument, rows: Mapping[str, NDArray[Any]], run: RehearsalRun
    ) -> Quantities | None:
        return run(epsilon=HARMLESS, start_epsilon=None)

    def unanswered(self, document: PipelineDocument) -> str:
        return (
            "say that there are more rows, or ask for less: its target is beyond made-up rows, whose columns go with "
            "what is learned for half of them only. With rows of your own, rehearse it by thebes.simulate"
        )

    def quantities(self, release: Any) -> Quantities | None:
        if release.value is None:
            return None
        if release.value["kind"] != "StatisticsModel":
            return {}
        return {"each number": [float(number) for number in release.value["numbers"].values()]}


REHEARSAL = PipelineRehearsal()
