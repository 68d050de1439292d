"""A document about the rows of data sets: which of them count, and columns that are made of the declared ones."""

from __future__ import annotations

import re
from copy import deepcopy
from functools import cached_property
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from thebes.data.derived_columns import DerivedColumns
from thebes.data.expressions import check_expression
from thebes.data.filter import LONGEST, named_columns
from thebes.data.schema import COLUMN_NAME, Schema
from thebes.privacy.faults import Mistake
from thebes.tasks.document import rule
from thebes.tasks.site_document import SiteDocument

MOST_FEATURES = 200


class RowsDocument(SiteDocument):
    """The fields that say of which rows and columns an answer is made."""

    where: str | None = Field(default=None, max_length=LONGEST)  #: a condition in SQL that says which rows count
    #: new columns by name, each an expression of declared ones by operations that are data
    features: dict[str, Any] | None = Field(default=None, max_length=MOST_FEATURES)

    @field_validator("features", mode="before")
    @classmethod
    def _own(cls, value: object) -> object:
        """Copy the expressions: a checked document is shared, and its writer may change what it was read from."""
        try:
            return deepcopy(value) or None
        except RecursionError:
            raise rule("features", "are nested too deeply") from None

    @field_validator("where")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        try:
            named_columns(value) if value is not None else ()
        except Mistake as refused:
            raise ValueError(refused.message) from None
        return value

    @model_validator(mode="after")
    def _made_of_columns(self) -> Self:
        for name, body in (self.features or {}).items():
            if re.fullmatch(COLUMN_NAME, name) is None:
                raise rule("features", "must have names of a letter, then up to 62 letters, digits or underscores")
            try:
                check_expression(body, f"features.{name}")
            except Mistake as refused:
                raise rule("features", f"makes {name!r}, which {refused.message}") from None
        if set(self._chosen_by) & set(self.features or {}):
            raise rule("where", "is over the data set's own columns, not over features")
        return self

    @cached_property
    def made(self) -> DerivedColumns:
        """The features that are used."""
        return DerivedColumns.of(self.features).among(self.used)

    def makes(self, schema: Schema) -> None:
        """Refuse a schema of which some feature cannot be made, used or not, naming it."""
        DerivedColumns.of(self.features).schema(schema)

    @property
    def used(self) -> tuple[str, ...]:
        """The columns and features that the answer is computed from."""
        raise NotImplementedError

    @property
    def counted(self) -> tuple[str, ...]:
        return self.made.needs(self.used)

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.counted, *self._chosen_by)))

    @property
    def _chosen_by(self) -> tuple[str, ...]:
        return named_columns(self.where) if self.where is not None else ()


def of_features(document: RowsDocument) -> str:
    """Say which columns are made of others, in one sentence; nothing where none are."""
    names = ", ".join(name for name, _ in document.made.made)
    return f"It computes {names} from the columns of each row." if names else ""
