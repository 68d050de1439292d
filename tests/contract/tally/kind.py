"""An example kind: how many people say yes, by randomised response. The whole of what a new kind needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.tasks import explanation
from thebes.tasks.document import PeopleDocument, read_as
from thebes.tasks.protocols import Kind, Words


class TallyDocument(PeopleDocument):
    type: Literal["tally"] = "tally"
    server: Literal["untrusted"] = "untrusted"


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
