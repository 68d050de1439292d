"""A site's half of a pipeline: it is handed the right to make attempts, and tells what came of them."""

from __future__ import annotations

import numpy as np

from thebes.data.schema import Schema
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.pipeline.answer import LAYOUT, PipelineAnswer, of_bundle, read
from thebes.tasks.pipeline.kind import PipelineDocument
from thebes.tasks.protocols import Ask
from thebes.tasks.site_protocols import Attempting


class PipelineOwner:
    def attempt(self, document: PipelineDocument, ask: Ask, attempting: Attempting) -> Contributions:
        """Attempts until there is a verdict, or until none can be paid. Each is charged before its rows are read."""
        found = attempting.run(document.pipeline(attempting.name))
        answer = PipelineAnswer(
            verdict=found.verdict,
            reason=found.reason[:500],
            attempts=[one.as_json() for one in found.attempts],
            certificate=found.certificate.as_json(),
            bundle=None if found.bundle is None else of_bundle(found.bundle),
        )
        return Contributions(ask.part, 1, {"answer": np.array([answer.as_text()])}, ask.partition)

    def paid(self, contributions: Contributions) -> Price:
        told = read(str(contributions.fields["answer"][0])).certificate
        return Price(told["epsilon"], told["delta"], Unit(told["unit"]))

    def layout(self, document: PipelineDocument, ask: Ask, schema: Schema) -> Layout:
        return LAYOUT


OWNER = PipelineOwner()
