"""The document of an algorithm that is composed of blocks: what each site maps its rows to, how that is reduced to one
answer, how the answer updates a model, and when to stop.

The blocks are those of the other kinds: a map of a gradient is a step of `train`, a map of a statistic is a `query`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from thebes.data.derived_columns import derived_schema
from thebes.data.expressions import check_expression, columns_in
from thebes.data.filter import LONGEST, named_columns
from thebes.data.schema import COLUMN_NAME, Schema
from thebes.privacy.events import Event
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.tasks.document import InvalidDocument, read_as, rule
from thebes.tasks.protocols import Words
from thebes.tasks.query.kind import KIND as QUERY
from thebes.tasks.query.kind import QueryDocument
from thebes.tasks.site_document import SiteDocument, explained
from thebes.tasks.train.descent import FAMILIES, LEAST_CLIP, Descent, Rule
from thebes.tasks.train.kind import KIND as TRAIN
from thebes.tasks.train.kind import MOST_ROUNDS

MOST_FEATURES = 200


class _Block(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _from_json(cls, value: object) -> object:
        if isinstance(value, list):
            return tuple(value)
        return value


class Gradient(_Block):
    """Each person's gradient of a model's loss, shortened to `clip`. See the fields of `train`."""

    model: str
    loss: str | None = None
    inputs: tuple[str, ...] = Field(min_length=1, max_length=4096)
    output: str
    clip: float = Field(default=1.0, ge=LEAST_CLIP, le=1e9)
    rows: Literal["mean", "sum"] = "mean"  #: what becomes of the gradients of one person's rows
    batch: float | None = Field(default=None, gt=0, le=1)


class Statistic(_Block):
    """The statistic of a map: what is counted or added up of each row. See the fields of `query`."""

    column: str = Field(pattern=COLUMN_NAME)
    by: tuple[str, ...] | None = None
    bins: int | tuple[float, ...] | None = None


class Map(_Block):
    """One of the two."""

    gradient: Gradient | None = None
    statistic: Statistic | None = None


class UpdateRule(_Block):
    rule: Literal["sgd", "momentum", "adam", "newton"] = "sgd"
    learning_rate: float = Field(default=1.0, gt=0, le=1e6)
    momentum: float = Field(default=0.9, ge=0, lt=1)  #: with momentum only
    ridge: float = Field(default=1e-3, gt=0, le=1e6)  #: with newton only: nothing counts as less steep


class StopRule(_Block):
    rounds: int = Field(default=20, ge=1, le=MOST_ROUNDS)
    tolerance: float | None = Field(default=None, gt=0)


class AlgorithmDocument(SiteDocument):
    """An algorithm: `features` makes columns of columns; map, reduce, update and stop say what is done with them."""

    type: Literal["algorithm"] = "algorithm"
    features: dict[str, Any] = Field(default_factory=dict, max_length=MOST_FEATURES)
    where: str | None = Field(default=None, max_length=LONGEST)
    map: Map
    reduce: Literal["sum", "mean", "histogram"]
    update: UpdateRule | None = None
    stop: StopRule | None = None
    average: Literal["last", "tail"] = "tail"
    size_share: float = Field(default=0.02, gt=0, le=0.5)
    loss_share: float | None = Field(default=None, gt=0, le=0.4)
    loss_bound: float = Field(default=4.0, gt=0, le=1e6)

    @model_validator(mode="after")
    def _composed(self) -> Self:
        import re

        gradient, statistic = self.map.gradient, self.map.statistic
        if (gradient is None) == (statistic is None):
            raise rule("map", "must hold either a gradient or a statistic")
        for name in self.features:
            if re.fullmatch(COLUMN_NAME, name) is None:
                raise rule("features", "must have names of a letter, then up to 62 letters, digits or underscores")
            try:
                check_expression(self.features[name], f"features.{name}")
            except Mistake as refused:
                raise rule("features", f"makes {name!r}, which {refused.message}") from None
        for name in self._asked:
            if name in self.features:
                raise rule("where", "is over the data set's own columns, not over features")
        if gradient is not None:
            self._iterates(gradient)
        else:
            for field in ("update", "stop", "loss_share"):
                if getattr(self, field) is not None:
                    raise rule(field, "goes with a gradient; a statistic is asked once")
        return self

    def _iterates(self, gradient: Gradient) -> None:
        if self.reduce != "mean":
            raise rule("reduce", "of gradients is mean: everybody counts the same, whichever site they are at")
        if self.update is None:
            raise rule("update", "is missing: it says what a mean gradient does to the model")
        if self.stop is None:
            raise rule("stop", "is missing: it says how many rounds there are at most")
        if self.delta == 0:
            raise rule("delta", "must be given: gradients get Gaussian noise, which has no pure guarantee")
        if len({*gradient.inputs, gradient.output}) != len(gradient.inputs) + 1:
            raise rule("map", "has an output that is an input too, or an input twice")
        if (gradient.model in FAMILIES) is (gradient.loss is not None):
            raise rule("map", f"needs a loss for a network and none for {' or '.join(FAMILIES)}")

    @property
    def _asked(self) -> tuple[str, ...]:
        try:
            return named_columns(self.where) if self.where is not None else ()
        except Mistake as refused:
            raise rule("where", refused.message) from None

    @property
    def phases(self) -> int:
        return 1 if self.stop is None else self.stop.rounds

    @property
    def used(self) -> tuple[str, ...]:
        """The columns and features that the map works on."""
        gradient, statistic = self.map.gradient, self.map.statistic
        if gradient is not None:
            return (*gradient.inputs, gradient.output)
        assert statistic is not None  # noqa: S101
        return (statistic.column, *(statistic.by or ()))

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.counted, *self._asked)))

    @property
    def counted(self) -> tuple[str, ...]:
        named = [
            c for name in self.used for c in (columns_in(self.features[name]) if name in self.features else (name,))
        ]
        return tuple(dict.fromkeys(named))

    def needed(self, asked: int) -> int:
        """Of what goes on for rounds every site must answer each, as in `train`; of a statistic one is enough."""
        return asked if self.min_sites is None and self.map.gradient is not None else super().needed(asked)

    @cached_property
    def descent(self) -> Descent:
        """A gradient's document as `train` runs it."""
        gradient, update, stop = self.map.gradient, self.update, self.stop
        assert gradient is not None  # noqa: S101
        assert update is not None  # noqa: S101
        assert stop is not None  # noqa: S101
        moving = "sgd" if update.rule == "momentum" else update.rule
        return Descent(
            digest=self.digest,
            epsilon=self.epsilon,
            delta=self.delta,
            noise=self.noise,
            model=gradient.model,
            loss=gradient.loss,
            inputs=gradient.inputs,
            output=gradient.output,
            where=self.where,
            rounds=stop.rounds,
            local_steps=1,
            clip=gradient.clip,
            reduce=gradient.rows,
            batch=gradient.batch,
            average=self.average,
            tolerance=stop.tolerance,
            size_share=self.size_share,
            loss_share=self.loss_share,
            loss_bound=self.loss_bound,
            rule=Rule(
                moving, update.learning_rate, update.momentum if update.rule == "momentum" else 0.0, update.ridge
            ),
        )

    @cached_property
    def question(self) -> QueryDocument:
        """A statistic's document as `query` asks it."""
        statistic = self.map.statistic
        assert statistic is not None  # noqa: S101
        same = (
            "version",
            "sites",
            "dataset",
            "noise",
            "min_sites",
            "patience",
            "epsilon",
            "delta",
            "expires_at",
            "where",
        )
        body = {name: getattr(self, name) for name in same}
        body |= {"type": "query", "statistic": self.reduce, "column": statistic.column}
        body |= {"by": statistic.by, "bins": statistic.bins, "name": self.digest}
        asked: QueryDocument = QUERY.check({name: _plain(value) for name, value in body.items() if value is not None})
        return asked


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


class AlgorithmKind:
    type = "algorithm"
    document = AlgorithmDocument
    words = Words(
        "Blocks over sites",
        "what each institution computes from its rows, also from new columns, what becomes of it, how a model moves",
    )

    def subject(self, document: Mapping[str, Any]) -> str:
        if document["map"].get("gradient"):
            return TRAIN.subject(document["map"]["gradient"])
        return QUERY.subject({**document, **document["map"]["statistic"], "statistic": document["reduce"]})

    def check(self, document: Mapping[str, Any]) -> AlgorithmDocument:
        from thebes.tasks.train.plan import check

        checked: AlgorithmDocument = read_as(AlgorithmDocument, document)
        try:
            if checked.map.gradient is not None:
                check(checked.descent)
            else:
                assert checked.question  # noqa: S101
        except InvalidDocument as refused:
            places = [(_PLACES.get(field, field), message) for field, message in refused.problems]
            raise InvalidDocument(places) from None
        except Mistake as refused:
            raise InvalidDocument([(_PLACES.get(refused.argument, refused.argument), refused.message)]) from None
        return checked

    def price(self, document: AlgorithmDocument, *, unit: Unit = Unit.DEVICE) -> Price:
        return Price(document.epsilon, document.delta, unit)

    def explain(self, document: AlgorithmDocument) -> str:
        made = f"It computes {', '.join(document.features)} from the columns of each row." if document.features else ""
        what = _trains(document) if document.map.gradient is not None else _asks(document)
        which = "" if document.where is None else f"Only these rows count: {document.where}"
        return explained(document, does=" ".join(part for part in (made, what, which) if part))

    def fits(self, document: AlgorithmDocument, schema: Schema) -> None:
        from thebes.tasks.train.plan import Plan

        own = derived_schema(document.features, schema)
        try:
            if document.map.gradient is not None:
                Plan(document.descent, own)
            else:
                QUERY.fits(document.question, own)
        except Mistake as refused:
            raise Mistake(_PLACES.get(refused.argument, refused.argument), refused.message) from None

    def event(self, document: AlgorithmDocument, schema: Schema) -> Event:
        from thebes.tasks.train.plan import budget

        if document.map.gradient is not None:
            return budget(document.descent).event
        return QUERY.event(document.question, derived_schema(document.features, schema))


def _trains(document: AlgorithmDocument) -> str:
    gradient, update, stop = document.map.gradient, document.update, document.stop
    assert gradient is not None  # noqa: S101
    assert update is not None  # noqa: S101
    assert stop is not None  # noqa: S101
    model = "a small network" if gradient.model not in FAMILIES else f"a {gradient.model} model"
    sentences = [
        f"In each of up to {stop.rounds} rounds it computes from each person's rows in which direction {model} would "
        f"have to change to predict {gradient.output} better, shortens that direction and adds up everybody's.",
        f"The mean is told, changed at random, and {update.rule} makes the next model of it.",
        "Beside it is told how steep that is." if update.rule == "newton" else "",
        f"Each person takes part in a round with chance {figure(gradient.batch)}."
        if gradient.batch is not None
        else "",
        "Within the same price is told, changed at random, how many people there are"
        + ("." if document.loss_share is None else ", and how well the model fits."),
        "The network is data: no program of the requestor runs at a site." if gradient.model not in FAMILIES else "",
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _asks(document: AlgorithmDocument) -> str:
    statistic = document.map.statistic
    assert statistic is not None  # noqa: S101
    by = f" for each {' and '.join(statistic.by)}" if statistic.by else ""
    return f"It asks the {document.reduce} of {statistic.column}{by}: a number for each answer, never a row."


#: where the fields of the kinds that do the work stand in this document
_PLACES = {
    **{field: f"map.gradient.{field}" for field in ("model", "loss", "inputs", "output", "clip", "batch")},
    **{field: f"map.statistic.{field}" for field in ("column", "by", "bins")},
    "statistic": "reduce",
}

KIND = AlgorithmKind()
