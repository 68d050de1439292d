"""The document of an integrated task, its price, and what a person is told about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.tasks import explanation
from thebes.tasks.document import Range, Values, named, read_as, rule
from thebes.tasks.protocols import Words
from thebes.tasks.trusted_columns import TrustedDocument

MODELS = (
    "GaussianNB",
    "LinearRegression",
    "LogisticRegression",
    "RandomForestClassifier",
    "RandomForestRegressor",
)
NEEDS_DELTA = {"LinearRegression": "AdaSSP", "LogisticRegression": "noisy gradient descent"}
REGRESSIONS = ("LinearRegression", "RandomForestRegressor")


class IntegratedDocument(TrustedDocument):
    """One model that predicts `output` from `inputs`."""

    type: Literal["integrated"] = "integrated"
    model: Literal[
        "GaussianNB", "LinearRegression", "LogisticRegression", "RandomForestClassifier", "RandomForestRegressor"
    ]
    inputs: tuple[str, ...] = Field(min_length=1, max_length=1000)
    output: str
    #: whether some people are set aside to test the model on, and by which other figure than what is usual; without it
    #: they are not, as before there was the field
    quality: bool | Literal["auc", "r2"] | None = None

    WRITTEN_NOW: ClassVar[Mapping[str, Any]] = {"quality": True}

    @field_validator("inputs", mode="before")
    @classmethod
    def _from_list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _fits(self) -> Self:
        given = self.gives
        for column in self.inputs:
            if column not in given:
                raise rule("inputs", f"names {named(column)}, which the featurizer does not give")
            if isinstance((self.bounds or {}).get(column), Values):
                raise rule(f"bounds.{column}", "must be a range: an input is a number (let the featurizer encode it)")
        if len(set(self.inputs)) != len(self.inputs):
            raise rule("inputs", "must differ from each other")
        if self.output not in given:
            raise rule("output", f"is {named(self.output)}, which the featurizer does not give")
        if self.output in self.inputs:
            raise rule("output", "must not be one of the inputs")
        if self.delta == 0 and self.model in NEEDS_DELTA:
            raise rule("delta", f"must be given for {self.model}: {NEEDS_DELTA[self.model]} has no pure guarantee")
        bound = (self.bounds or {}).get(self.output)
        if bound is not None and isinstance(bound, Values) == (self.model in REGRESSIONS):
            wanted = "a range" if self.model in REGRESSIONS else "the set of labels"
            raise rule(f"bounds.{self.output}", f"must be {wanted} for {self.model}")
        if self.quality == "r2" and self.model not in REGRESSIONS:
            raise rule("quality", f"must not be r2 for {self.model}, which predicts no numbers")
        if self.quality == "auc" and (self.model in REGRESSIONS or len(self.labels or ()) != 2):
            raise rule("quality", f"must not be auc unless bounds declare two values of {named(self.output)}")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.inputs, self.output)

    @property
    def labels(self) -> tuple[Any, ...] | None:
        """The declared labels, or None where they are not declared."""
        bound = (self.bounds or {}).get(self.output)
        return bound.values if isinstance(bound, Values) else None

    def ranges(self) -> dict[str, tuple[float, float]]:
        """The declared ranges, by column."""
        return {name: (b.low, b.high) for name, b in (self.bounds or {}).items() if isinstance(b, Range)}


class IntegratedKind:
    type = "integrated"
    document = IntegratedDocument
    words = Words(
        "A model",
        "a regression or classifier, trained by this server on values it then destroys",
        "a model trained by the server",
    )

    def subject(self, document: Mapping[str, Any]) -> str:
        return f"{document['model']} for {document['output']}"

    def check(self, document: Mapping[str, Any]) -> IntegratedDocument:
        return read_as(IntegratedDocument, document)

    def price(self, document: IntegratedDocument, *, unit: Unit = Unit.DEVICE) -> Price:
        return Price(document.epsilon, document.delta, unit)

    def explain(self, document: IntegratedDocument) -> str:
        tested = ", and what it is worth on some of you, whom a coin keeps out of it," if document.quality else ""
        return explanation.together(
            document,
            leaves=explanation.sent_as_is(
                document,
                what=f"your {', '.join(document.columns)}",
                made=f"one model ({document.model}, predicting {document.output}){tested}",
            ),
        )


KIND = IntegratedKind()
