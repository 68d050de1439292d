"""The document: `size` numbers of each site in each of `rounds` phases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from thebes.data.schema import Schema
from thebes.privacy.events import Event, PureEvent
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.tasks.document import read_as
from thebes.tasks.site_document import SiteDocument, explained


class CensusDocument(SiteDocument):
    type: Literal["census"] = "census"
    size: int = Field(default=3, ge=1, le=2**24)
    rounds: int = Field(default=1, ge=1, le=1000)
    column: str = "age"
    packed: bool = False
    most: int = Field(default=1000, ge=1)  #: no honest number is larger

    @property
    def phases(self) -> int:
        return self.rounds

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.column,)


class CensusKind:
    type = "census"

    def check(self, document: Mapping[str, Any]) -> CensusDocument:
        return read_as(CensusDocument, document)

    def price(self, document: CensusDocument, *, unit: Unit = Unit.DEVICE) -> Price:
        return Price(document.epsilon, document.delta, unit)

    def explain(self, document: CensusDocument) -> str:
        return explained(document, does="It adds numbers up.")

    def fits(self, document: CensusDocument, schema: Schema) -> None:
        schema.column(document.column)

    def event(self, document: CensusDocument, schema: Schema) -> Event:
        return PureEvent(document.epsilon / document.rounds)


KIND = CensusKind()
