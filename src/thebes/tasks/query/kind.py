"""The document of a query, its price, and what is said about it to the stewards who decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from thebes.curator.cache.requirement import Wanted
from thebes.curator.questions.joint import MOST_STATISTICS, joint_plan
from thebes.curator.questions.noise import noise_for
from thebes.curator.questions.plans import Plan, QuestionPlan
from thebes.curator.questions.question import Question
from thebes.data.filter import RowFilter, read_filter
from thebes.data.join import join
from thebes.data.schema import COLUMN_NAME, Column, Schema
from thebes.privacy import exact
from thebes.privacy.events import ApproximateEvent, Event
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.tasks.document import LEAST_DELTA, LEAST_EPSILON, read_as, rule
from thebes.tasks.protocols import Words
from thebes.tasks.query.wording import datasets, does, price
from thebes.tasks.rows_document import of_features
from thebes.tasks.site_document import DATASET_NAME, explained
from thebes.tasks.split_noise_document import SplitNoiseDocument

_MOST_KEYS = 4
LEAST_ODDS = 1e-8  #: of one answer's missing its width: below, the width of noise is known too roughly
_UNPRICED = "has no price yet: the coordinator fills in epsilon when it puts the task up"
_ANY = ("",)  #: for keys that are not found yet: a plan is as good with one
BY_ACCURACY = ("count", "histogram", "sum")  #: of which it is known beforehand how far noise moves the answer


class Accuracy(BaseModel):
    """All answers together lie within `alpha` of the exact ones, in the answer's own measure, with probability at least
    1 - `beta`."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    alpha: float = Field(gt=0, le=1e15)
    beta: float = Field(ge=LEAST_ODDS, le=0.5)

    @field_validator("alpha", mode="before")
    @classmethod
    def _whole(cls, value: object) -> object:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


class AskedStatistic(BaseModel):
    """One of several statistics. A count may be of a column: of the rows that have a value in it. `people` counts each
    person once, however many rows they have."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    statistic: Literal["count", "sum", "mean", "variance", "quantile", "people"]
    column: str | None = Field(default=None, pattern=COLUMN_NAME)
    quantile: float | None = Field(default=None, gt=0, lt=1)
    bins: int | None = None
    weight: int | None = Field(default=None, ge=1, le=100)  #: how many times the usual share of the price it gets

    def question(self, **common: Any) -> Question:
        of = () if self.column is None else (self.column,)
        return Question(statistic=self.statistic, columns=of, quantile=self.quantile, bins=self.bins, **common)


class QueryDocument(SplitNoiseDocument):
    """Ask one statistic of a data set, or several, over one, some or all of the sites that have it.
    Several `statistics`, each by its name, are of the same rows and groups and under one noise.

    With `"privacy": "none"` there is no noise and no price: only data sets that every site's steward marked public
    answer that.

    With `accuracy` it is asked how exact the answer is to be, and `epsilon` is what that costs: it is filled in once
    the sites were asked for their prices, or left out where that was not done yet.
    """

    type: Literal["query"] = "query"
    #: another data set of the same people, whose rows each person's rows are joined with
    join: str | None = Field(default=None, pattern=DATASET_NAME)
    epsilon: float = Field(default=0.0, ge=0, le=1e6)
    accuracy: Accuracy | None = None
    max_epsilon: float | None = Field(default=None, ge=LEAST_EPSILON, le=1e6)  #: that an accuracy may cost
    privacy: Literal["none"] | None = None
    statistic: Literal["count", "sum", "mean", "variance", "histogram", "quantile", "correlation"] | None = None
    statistics: dict[Annotated[str, Field(pattern=COLUMN_NAME)], AskedStatistic] | None = Field(
        default=None, min_length=1, max_length=MOST_STATISTICS
    )
    column: str | None = Field(default=None, pattern=COLUMN_NAME)
    columns: tuple[str, str] | None = None  #: of a correlation
    by: tuple[str, ...] | None = Field(default=None, min_length=1, max_length=_MOST_KEYS)
    bins: int | tuple[float, ...] | None = None  #: how many, or the places to cut at
    quantile: float | None = Field(default=None, gt=0, lt=1)
    #: of a key in `by` whose values are not declared: with how many of its values one person counts when they are found
    max_groups_per_person: int | None = Field(default=None, ge=1, le=1000)

    @field_validator("statistics")
    @classmethod
    def _in_order(cls, value: dict[str, AskedStatistic] | None) -> dict[str, AskedStatistic] | None:
        """Order statistics by their names: documents of one digest measure alike."""
        return None if value is None else dict(sorted(value.items()))

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

    @field_validator("accuracy", mode="before")
    @classmethod
    def _in_short(cls, value: object) -> object:
        if not isinstance(value, (list, tuple)):
            return value
        if len(value) != 2:
            raise ValueError('must be {"alpha": within how much, "beta": how often not}, or [alpha, beta]')
        return dict(zip(("alpha", "beta"), value, strict=True))

    @model_validator(mode="after")
    def _answerable(self) -> Self:
        if self.privacy == "none":
            if self.epsilon or self.delta:
                raise rule("epsilon", 'must be left out, as must delta, where "privacy" is "none": no noise is added')
            if self.accuracy is not None:
                raise rule("accuracy", 'must be left out where "privacy" is "none": answers are exact')
            if self.noise != "site":
                raise rule("noise", 'must be left out where "privacy" is "none": no noise is added')
        elif self.accuracy is not None:
            self._affordable()
        elif self.epsilon < LEAST_EPSILON:
            told = "must be above 0" if "epsilon" in self.model_fields_set else "is missing"
            raise rule("epsilon", f"{told}: say at least {figure(LEAST_EPSILON)}, or the accuracy that you need")
        if self.max_epsilon is not None and self.accuracy is None:
            raise rule("max_epsilon", "is the most that an accuracy may cost; without one, say epsilon")
        if self.max_groups_per_person is not None:
            self._findable()
        if self.join == self.dataset:
            raise rule("join", "names the same data set; a data set is joined with another one")
        if (self.statistic is None) is (self.statistics is None):
            raise rule("statistic", "or statistics must say what is asked: give one of the two")
        wrong = self._one_wrong() if self.statistics is None else self._several_wrong(self.statistics)
        if wrong is not None:
            raise rule(*wrong)
        return self

    def _one_wrong(self) -> tuple[str, str] | None:
        return self.question.problem() or self._misplaced()

    def _several_wrong(self, asked: Mapping[str, AskedStatistic]) -> tuple[str, str] | None:
        for name in ("column", "columns", "bins", "quantile", "accuracy"):
            if getattr(self, name) is not None:
                return name, "goes with one statistic only; each of several has its own"
        for name, one in asked.items():
            question = one.question(by=self.by or ())
            whole = question if one.statistic != "count" else replace(question, columns=())
            if one.statistic == "people":
                if one.column is not None:
                    return "statistics", f"holds {name}, whose people have no column; where says which rows count"
                whole = replace(question, statistic="count")
            wrong = whole.problem()
            if wrong is not None:
                return "statistics", f"holds {name}, whose {wrong[0]} {wrong[1]}"
        return None

    def _findable(self) -> None:
        if self.by is None:
            raise rule("max_groups_per_person", "is for groups that are found; say by what in by")
        if self.privacy == "none" or self.noise != "site" or self.accuracy is not None:
            raise rule("max_groups_per_person", "is for groups that each site finds by its own noise, for an epsilon")
        if self.delta < 2 * LEAST_DELTA:
            raise rule("delta", "is missing: to find groups that nobody declared costs a delta, such as 1e-6")
        if self.epsilon < 2 * LEAST_EPSILON:
            raise rule("epsilon", f"must be at least {figure(2 * LEAST_EPSILON)}: half of it finds the groups")

    def _affordable(self) -> None:
        if self.noise == "split":
            raise rule("accuracy", 'cannot be asked for with "noise": "split"; ask by epsilon and read the error bar')
        if self.statistics is None and self.statistic not in BY_ACCURACY:
            raise rule(
                "accuracy",
                f"goes with {', '.join(BY_ACCURACY)}: how far noise moves a {self.statistic} depends on the rows, so "
                "ask by epsilon and read the error bar",
            )
        if 0 < self.epsilon < LEAST_EPSILON:
            raise rule("epsilon", f"must be at least {figure(LEAST_EPSILON)}")
        if self.max_epsilon is not None and self.epsilon > self.max_epsilon:
            raise rule("max_epsilon", "must not be less than epsilon")

    def _misplaced(self) -> tuple[str, str] | None:
        if self.statistic == "correlation":
            return ("column", "is for one column; a correlation has columns") if self.column is not None else None
        return ("columns", "goes with a correlation only") if self.columns is not None else None

    @property
    def question(self) -> Question:
        """The question that is asked of a table, where it is one statistic."""
        assert self.statistic is not None  # noqa: S101
        named = (self.columns or ()) if self.statistic == "correlation" else (self.column,)
        return Question(
            statistic=self.statistic,
            columns=tuple(name for name in named if name is not None),
            where=self.where,
            by=self.by or (),
            bins=self.bins,
            quantile=self.quantile,
            features=self.made,
        )

    @property
    def questions(self) -> dict[str, Question]:
        """The questions of several statistics, by their names."""
        common: dict[str, Any] = {"where": self.where, "by": self.by or (), "features": self.made}
        return {name: one.question(**common) for name, one in (self.statistics or {}).items()}

    @property
    def asks(self) -> str:
        """Return the statistic that is asked, in a word."""
        named = [one.statistic for one in (self.statistics or {}).values()]
        return self.statistic or (named[0] if len(named) == 1 else "several statistics")

    @property
    def datasets(self) -> tuple[str, ...]:
        return (self.dataset,) if self.join is None else (self.dataset, self.join)

    def schema_among(self, declared: Mapping[str, Schema]) -> Schema:
        if self.join is None:
            return declared[self.dataset]
        return join((self.dataset, declared[self.dataset]), (self.join, declared[self.join])).schema

    @property
    def by_accuracy(self) -> bool:
        return self.accuracy is not None

    @property
    def phases(self) -> int:
        return 1 if self.max_groups_per_person is None else 2

    @property
    def answering(self) -> tuple[exact.Number, exact.Number]:
        """Return the epsilon and delta of one phase: all, or half of it where groups are found first."""
        if self.phases == 1:
            return self.epsilon, self.delta
        return exact.half(exact.epsilon(self.epsilon)), exact.half(exact.delta(self.delta))

    def undeclared(self, schema: Schema) -> str:
        """Return the key whose values are to be found, or refuse a schema that has not exactly one such."""
        schema = self.made.schema(schema)
        names = [name for name in self.by or () if not _grouping(schema.column(name, "by"))]
        if len(names) != 1:
            found = "declares all of them" if not names else f"declares neither {' nor '.join(map(repr, names))}"
            raise Mistake("by", f"must name exactly one key whose values are to be found; the data set {found}")
        if schema.column(names[0], "by").type != "string" or schema.column(names[0], "by").key:
            raise Mistake("by", f"names {names[0]!r}, whose values are not texts: its groups would be people")
        return names[0]

    def declared(self, schema: Schema, keys: Sequence[str]) -> Schema:
        """Return the schema with the keys that were found as declared values."""
        return schema.declaring(self.undeclared(schema), keys)

    def condition(self, schema: Schema) -> RowFilter | None:
        """Read which rows count."""
        return None if self.where is None else read_filter(self.where, schema)

    @property
    def reusable(self) -> bool:
        """Return whether a data set's planner can answer it from what was released before."""
        if self.join is not None:  # what is released of one data set follows from that one alone
            return False
        return self.phases == 1 and not (self.statistic == "quantile" and self.by)

    @property
    def recallable(self) -> bool:
        return self.reusable and not self.exact

    @property
    def priced(self) -> bool:
        return self.accuracy is None or self.epsilon > 0

    @property
    def exact(self) -> bool:
        """Return whether a site's totals leave it without noise of its own."""
        return self.one_noise or self.privacy == "none"

    @property
    def used(self) -> tuple[str, ...]:
        several = (one.column for one in (self.statistics or {}).values())
        named = (self.columns or ()) if self.statistic == "correlation" else (self.column, *several)
        return tuple(dict.fromkeys(name for name in (*named, *(self.by or ())) if name is not None))

    def plan(self, schema: Schema) -> QuestionPlan:
        """Plan how a data set of this schema answers."""
        if self.statistics is None:
            return self.statistic_plan(schema)
        epsilon, delta = self.answering
        wished = {name: one.weight or 1 for name, one in self.statistics.items()}
        return joint_plan(self.questions, schema, epsilon=epsilon, delta=delta, wished=wished)

    def statistic_plan(self, schema: Schema) -> Plan:
        """Plan how it answers where one statistic is asked."""
        epsilon, delta = self.answering
        return self.question.plan(schema, epsilon=epsilon, delta=delta)

    def wanted(self, payload: Mapping[str, Any]) -> Wanted:
        """Read strictly what a site is to answer, as the ask says it: with the noise of this epsilon; or of less, where
        another site's answer leaves room for more noise; or with Gaussian noise; or within a width that is its own. Of
        a document without a price, all that it may cost is what it costs at most."""
        most = self.epsilon or self.max_epsilon
        if not most:
            raise Mistake("accuracy", _UNPRICED)
        told = {name: payload.get(name) for name in ("epsilon", "width", "beta")}
        for name, value in told.items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0):
                raise Mistake(f"payload.{name}", "must be a number greater than 0")
        epsilon, width, beta = told.values()
        return Wanted(min(most, epsilon or most), self.delta, width, beta, smooth=bool(payload.get("smooth")))


def _grouping(column: Column) -> bool:
    return column.values is not None or column.type == "boolean"


class _Query:
    type = "query"
    document = QueryDocument
    words = Words(
        "A question to sites",
        "a count, mean, histogram … over the rows of institutions, which stay with them",
    )

    def subject(self, document: Mapping[str, Any]) -> str:
        by = f" by {' and '.join(document['by'])}" if document.get("by") else ""
        if document.get("statistics"):
            return f"{', '.join(document['statistics'])} of {datasets(document)}{by}"
        columns = document.get("columns") or ([document["column"]] if document.get("column") else [])
        of = f" of {' and '.join(columns)}" if columns else f" of rows in {datasets(document)}"
        return f"{str(document['statistic']).capitalize()}{of}{by}"

    def check(self, document: Mapping[str, Any]) -> QueryDocument:
        return read_as(QueryDocument, document)

    def price(self, document: QueryDocument, *, unit: Unit = Unit.EVENT) -> Price:
        if not document.priced and document.max_epsilon is None:
            raise Mistake("accuracy", "cannot be priced in advance: request a quote from the sites, or set max_epsilon")
        return Price(document.epsilon if document.priced else document.max_epsilon or 0.0, document.delta, unit)

    def fits(self, document: QueryDocument, schema: Schema) -> None:
        document.makes(schema)
        if document.phases > 1:
            from thebes.tasks.query.found_keys import selection_of

            selection_of(document, schema)
            schema = document.declared(schema, _ANY)
        plan = document.plan(schema)
        if document.accuracy is not None and document.accuracy.beta < LEAST_ODDS * plan.size:
            raise Mistake(
                "accuracy", f"has too small a beta for {plan.size} answers: at least {figure(LEAST_ODDS)} for each"
            )
        if document.privacy != "none" and not document.priced:
            return
        if document.privacy != "none":
            epsilon, delta = document.answering
            noise_for(plan, schema, epsilon=epsilon, delta=delta)
        elif not schema.public:
            raise Mistake("privacy", "may be none only where the steward of every site marked the data set public")

    def event(self, document: QueryDocument, schema: Schema) -> Event:
        if document.privacy == "none":
            return ApproximateEvent(0, 0)
        if document.phases > 1:  # what is known of either phase
            return ApproximateEvent(*document.answering)
        noise = noise_for(document.plan(schema), schema, epsilon=self.paid(document), delta=document.delta)
        return noise.event

    def paid(self, document: QueryDocument) -> float:
        """The epsilon of a document that has a price."""
        if not document.priced:
            raise Mistake("accuracy", _UNPRICED)
        return document.epsilon

    def explain(self, document: QueryDocument) -> str:
        told = explained(
            document, does=" ".join(filter(None, (of_features(document), does(document)))), price=price(document)
        )
        if document.privacy != "none":
            return told
        lines = told.splitlines()
        kept = [line for line in lines if not line.startswith(("Noise is added", "Price at"))]
        return "\n".join([*kept, "Nothing is hidden: it asks only where the steward marked the data set public."])


KIND = _Query()
