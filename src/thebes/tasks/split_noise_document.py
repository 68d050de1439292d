"""The part of a site document that puts the noise at two servers, of which one must keep its word."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from thebes.tasks.document import rule
from thebes.tasks.rows_document import RowsDocument
from thebes.tasks.site_document import SITE_NAME

LEAST_SITES = 3  #: of fewer, each would know the other's total but for the noise


class SplitNoiseDocument(RowsDocument):
    """A document about rows whose sites may split their totals between the coordinator and a helper."""

    SPLITS = True

    noise: Literal["site", "coordinator", "split"] = "site"
    helper: str | None = Field(default=None, pattern=SITE_NAME)  #: the site that is the second server
    #: the fingerprint of that helper, which a coordinator fills in
    helper_key: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")

    @model_validator(mode="after")
    def _helped(self) -> Self:
        if self.noise != "split":
            if self.helper is not None:
                raise rule("helper", 'goes with "noise": "split", and only with it')
        elif self.min_sites is not None and self.min_sites < LEAST_SITES:
            raise rule("min_sites", f'must be at least {LEAST_SITES} with "noise": "split", or left out')
        if self.helper_key is not None and self.helper is None:
            raise rule("helper_key", "is the fingerprint of a helper: name the helper too")
        if self.sites != "all":
            if self.helper in self.sites:
                raise rule("helper", "must not be one of the sites whose rows are asked")
            if self.noise == "split" and len(self.sites) < LEAST_SITES:
                raise rule("sites", f'must be at least {LEAST_SITES} with "noise": "split"')
        return self

    @property
    def only_simulated(self) -> str | None:
        return "helper" if self.noise == "split" and self.helper is None else None

    @property
    def only_simulated_because(self) -> str:
        return (
            'is missing: with "noise": "split" name the site of a second institution, which hears one share of every '
            "site's totals; without one this can only be simulated, or asked with noise elsewhere"
        )

    def needed(self, asked: int) -> int:
        return max(LEAST_SITES, self.min_sites or 0) if self.noise == "split" else super().needed(asked)
