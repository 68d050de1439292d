"""The rehearsal of a pipeline: there is none."""

from __future__ import annotations

from thebes.tasks.pipeline.kind import PipelineDocument
from thebes.tasks.rehearsal import Rehearsal


class PipelineRehearsal(Rehearsal[PipelineDocument]):
    def refused(self, document: PipelineDocument) -> str:
        return (
            "it tries again over the blocks of a growing data set until its test is passed, and how many that takes "
            "follows from the rows: rehearse it with thebes.simulate over rows of your own"
        )


REHEARSAL = PipelineRehearsal()
