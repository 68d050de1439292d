"""The part of a document that names the helper: the second of two servers, of which one must keep its word."""

from __future__ import annotations

from typing import Self, TypeVar

from pydantic import Field, model_validator

from thebes.tasks.document import PeopleDocument, rule
from thebes.tasks.site_document import SITE_NAME

MOST_SPLIT_NUMBERS = 512  #: of one report: cells, or weights


class HelpedDocument(PeopleDocument):
    """A document whose contributions may go in shares to two servers."""

    helper: str | None = Field(default=None, pattern=SITE_NAME)  #: the site that is the second of two servers
    #: the fingerprint of that helper, which a coordinator fills in
    helper_key: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")

    @model_validator(mode="after")
    def _helped(self) -> Self:
        if self.server != "split" and self.helper is not None:
            raise rule("helper", 'goes with "server": "split", and only with it')
        if self.helper_key is not None and self.helper is None:
            raise rule("helper_key", "is the fingerprint of a helper: name the helper too")
        if self.server == "split" and self.diagnostics is not None:
            raise rule("diagnostics", 'are not counted with "server": "split"; leave them out')
        return self

    @property
    def only_simulated(self) -> str | None:
        return "helper" if self.server == "split" and self.helper is None else None

    @property
    def only_simulated_because(self) -> str:
        return (
            'is missing: with "server": "split" name the site of a second institution, which hears one share of every '
            "answer; without one this can only be simulated, or asked without two servers"
        )


HelpedDocumentType = TypeVar("HelpedDocumentType", bound=HelpedDocument)
