"""The public half: each phase costs an equal share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from thebes.data.schema import Schema
from thebes.privacy.events import ApproximateEvent, Event, GaussianEvent, PureEvent
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.tasks.document import read_as
from thebes.tasks.site_document import SiteDocument, explained


class RelayDocument(SiteDocument):
    type: Literal["relay"] = "relay"
    rounds: int = 1
    column: str = "age"
    trouble: Literal["before", "after", "unpaid"] | None = None
    long: int = 0  #: so many numbers more are sent

    @property
    def phases(self) -> int:
        return self.rounds

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.column,)


class RelayKind:
    type = "relay"

    def check(self, document: Mapping[str, Any]) -> RelayDocument:
        return read_as(RelayDocument, document)

    def price(self, document: RelayDocument, *, unit: Unit = Unit.EVENT) -> Price:
        return Price(document.epsilon, document.delta, unit)

    def explain(self, document: RelayDocument) -> str:
        return explained(document, does="It counts.")

    def fits(self, document: RelayDocument, schema: Schema) -> None:
        schema.column(document.column)

    def event(self, document: RelayDocument, schema: Schema) -> Event:
        if document.name == "gaussian":
            return GaussianEvent(10.0)
        if document.name == "approximate":
            return ApproximateEvent(document.epsilon, document.delta)
        return PureEvent(document.epsilon / document.rounds)


KIND = RelayKind()
