"""An example kind: how many people say yes, by randomised response. The whole of what a new kind needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import model_validator

from thebes.privacy.guarantees import Price
from thebes.privacy.mechanisms.local.response import RandomizedResponse
from thebes.privacy.promise import Unit
from thebes.tasks import explanation
from thebes.tasks.document import PeopleDocument, read_as, rule
from thebes.tasks.protocols import Kind, Words


class TallyDocument(PeopleDocument):
    type: Literal["tally"] = "tally"
    server: Literal["untrusted"] = "untrusted"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Refuse what every document may say and this kind does not do."""
        if len(self.gives) != 1:
            raise rule("featurizer", "must give exactly one column")
        if self.delta:
            raise rule("delta", "must be left out: a randomised response needs none")
        if self.diagnostics is not None:
            raise rule("diagnostics", "must be left out: only yes or no is asked")
        return self

    @property
    def mechanism(self) -> RandomizedResponse:
        return RandomizedResponse(2, self.epsilon)


class TallyKind:
    type = "tally"
    document = TallyDocument
    words = Words("How many say yes", "yes or no from each person, often a lie", "yes or no, often a lie")

    def subject(self, document: Mapping[str, Any]) -> str:
        return "How many say yes"

    def check(self, document: Mapping[str, Any]) -> TallyDocument:
        return read_as(TallyDocument, document)

    def price(self, document: TallyDocument, *, unit: Unit = Unit.DEVICE) -> Price:
        return Price(document.epsilon, document.delta, unit)

    def explain(self, document: TallyDocument) -> str:
        changed = explanation.changed_here(does="", changes="your yes or no", then="It is often a lie.")
        return explanation.together(document, leaves=changed)


KIND: Kind[TallyDocument] = TallyKind()
