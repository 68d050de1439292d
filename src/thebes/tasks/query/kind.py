"""The document of a query, its price, and what is said about it to the stewards who decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from thebes.curator.noise import noise_for
from thebes.curator.plans import Plan
from thebes.curator.questions import Question
from thebes.data.filter import LONGEST, named_columns
from thebes.data.schema import COLUMN_NAME, Schema
from thebes.privacy.events import ApproximateEvent, Event
from thebes.privacy.faults import Mistake
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.tasks.document import LEAST_EPSILON, read_as, rule
from thebes.tasks.sites import SiteDocument, explained

_MOST_KEYS = 4


class QueryDocument(SiteDocument):
    """Ask one statistic of a data set, over one, some or all of the sites that have it. With `"privacy": "none"` there
    is no noise and no price: only data sets that every site's steward marked public answer that."""

    type: Literal["query"] = "query"
    epsilon: float = Field(default=0.0, ge=0, le=1e6)
    privacy: Literal["none"] | None = None
    statistic: Literal["count", "sum", "mean", "variance", "histogram", "quantile", "correlation"]
    column: str | None = Field(default=None, pattern=COLUMN_NAME)
    columns: tuple[str, str] | None = None  #: of a correlation
    where: str | None = Field(default=None, max_length=LONGEST)  #: a condition in SQL that says which rows count
    by: tuple[str, ...] | None = Field(default=None, min_length=1, max_length=_MOST_KEYS)
    bins: int | tuple[float, ...] | None = None  #: how many, or the places to cut at
    quantile: float | None = Field(default=None, gt=0, lt=1)

    @field_validator("by", mode="before")
    @classmethod
    def _keys(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value

    @field_validator("columns", "bins", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        if not isinstance(value, list):
            return value
        return tuple(float(v) if isinstance(v, int) and not isinstance(v, bool) else v for v in value)

    @field_validator("where")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        try:
            named_columns(value) if value is not None else ()
        except Mistake as refused:
            raise ValueError(refused.message) from None
        return value

    @model_validator(mode="after")
    def _answerable(self) -> Self:
        if self.privacy == "none":
            if self.epsilon or self.delta:
                raise rule("epsilon", 'buys nothing with "privacy": "none"; leave it (and delta) out')
            if self.noise != "site":
                raise rule("noise", 'means nothing with "privacy": "none"; leave it out')
        elif self.epsilon < LEAST_EPSILON:
            raise rule("epsilon", f"is missing: it must be at least {LEAST_EPSILON:g}")
        wrong = self.question.problem() or self._misplaced()
        if wrong is not None:
            raise rule(*wrong)
        return self

    def _misplaced(self) -> tuple[str, str] | None:
        if self.statistic == "correlation":
            return ("column", "is for one column; a correlation has columns") if self.column is not None else None
        return ("columns", "goes with a correlation only") if self.columns is not None else None

    @property
    def question(self) -> Question:
        """What is asked of a table."""
        named = (self.columns or ()) if self.statistic == "correlation" else (self.column,)
        return Question(
            statistic=self.statistic,
            columns=tuple(name for name in named if name is not None),
            where=self.where,
            by=self.by or (),
            bins=self.bins,
            quantile=self.quantile,
        )

    @property
    def exact(self) -> bool:
        """Whether a site's totals leave it without noise."""
        return self.noise == "coordinator" or self.privacy == "none"

    @property
    def reads(self) -> tuple[str, ...]:
        asked = named_columns(self.where) if self.where is not None else ()
        return tuple(dict.fromkeys((*self.question.columns, *self.question.by, *asked)))

    def plan(self, schema: Schema) -> Plan:
        """How a data set of this schema answers."""
        return self.question.plan(schema, epsilon=self.epsilon, delta=self.delta)


class _Query:
    type = "query"

    def check(self, document: Mapping[str, Any]) -> QueryDocument:
        checked: QueryDocument = read_as(QueryDocument, document)
        return checked

    def price(self, document: QueryDocument, *, unit: Unit = Unit.EVENT) -> Price:
        return Price(document.epsilon, document.delta, unit)

    def fits(self, document: QueryDocument, schema: Schema) -> None:
        plan = document.plan(schema)
        if document.privacy != "none":
            noise_for(plan, schema, epsilon=document.epsilon, delta=document.delta)
        elif not schema.public:
            raise Mistake("privacy", "may be none only where the steward of every site marked the data set public")

    def event(self, document: QueryDocument, schema: Schema) -> Event:
        if document.privacy == "none":
            return ApproximateEvent(0, 0)
        noise = noise_for(document.plan(schema), schema, epsilon=document.epsilon, delta=document.delta)
        return noise.event

    def explain(self, document: QueryDocument) -> str:
        told = explained(document, does=_does(document))
        if document.privacy != "none":
            return told
        lines = told.splitlines()
        kept = [line for line in lines if not line.startswith(("Noise is added", "Price at"))]
        return "\n".join([*kept, "Nothing is hidden: it asks only where the steward marked the data set public."])


def _does(document: QueryDocument) -> str:
    """What is computed, in one sentence."""
    what = {
        "count": "how many rows there are",
        "sum": f"the sum of {document.column}",
        "mean": f"the mean of {document.column}",
        "variance": f"the variance of {document.column}",
        "histogram": f"how many rows have which {document.column}",
        "quantile": f"the value of {document.column} below which a share of {document.quantile:g} of the rows lies"
        if document.quantile is not None
        else "",
        "correlation": f"the correlation of {' and '.join(document.columns or ())}",
    }[document.statistic]
    by = f", for each {' and '.join(document.by)}" if document.by else ""
    which = f", of the rows where {document.where.strip()}" if document.where else ""
    return f"It asks {what}{by}{which}: a number for each answer, never a row."


KIND = _Query()
