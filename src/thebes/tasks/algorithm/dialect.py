"""Another way to write documents, composed of blocks: what each site maps its rows to, how that is reduced to one
answer, how the answer updates a model, and when to stop.

What must stay true: there is nothing that only such a document asks. A map of a statistic is the `query` that asks it,
a map of a gradient the `train` task that follows it: one digest, one price, and one answer that is given again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

from thebes.tasks.document import Document, InvalidDocument, read_as, rule
from thebes.tasks.query.kind import KIND as QUERY
from thebes.tasks.query.kind import QueryDocument
from thebes.tasks.split_noise_document import SplitNoiseDocument
from thebes.tasks.train.kind import KIND as TRAIN

_MOMENTUM = 0.9  #: unless an update by momentum says another


class _Block(BaseModel):
    """A block, of which the kind that does the work judges the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Gradient(_Block):
    """Each person's gradient of a model's loss, shortened to `clip`. See the fields of `train`."""

    model: Any
    loss: Any = None
    inputs: Any
    output: Any
    clip: Any = None
    rows: Any = None  #: what becomes of the gradients of one person's rows: `reduce` there
    batch: Any = None


class Statistic(_Block):
    """The statistic of a map: what is counted or added up of each row. See the fields of `query`."""

    column: Any
    by: Any = None
    bins: Any = None


class Map(_Block):
    """A map: one of the two."""

    gradient: Gradient | None = None
    statistic: Statistic | None = None


class UpdateRule(_Block):
    """The way a mean gradient moves the model. See the fields of `train`."""

    rule: Literal["sgd", "momentum", "adam", "newton"] = "sgd"
    learning_rate: Any = None
    momentum: Any = None  #: with momentum only
    ridge: Any = None  #: with newton only


class StopRule(_Block):
    """The end: after so many rounds, or the first that hardly moves the model. See the fields of `train`."""

    rounds: Any = None
    tolerance: Any = None


class AlgorithmDocument(SplitNoiseDocument):
    """An algorithm: `features` makes columns of columns; map, reduce, update and stop say what is done with them."""

    type: Literal["algorithm"] = "algorithm"
    map: Map
    reduce: Literal["sum", "mean", "histogram"]
    update: UpdateRule | None = None
    stop: StopRule | None = None
    average: Literal["last", "tail"] | None = None
    size_share: Any = None
    loss_share: Any = None
    loss_bound: Any = None

    @model_validator(mode="after")
    def _composed(self) -> Self:
        if (self.map.gradient is None) == (self.map.statistic is None):
            raise rule("map", "must hold either a gradient or a statistic")
        if self.map.gradient is None:
            for field in ("update", "stop", "average", "size_share", "loss_share", "loss_bound"):
                if getattr(self, field) is not None:
                    raise rule(field, "goes with a gradient; a statistic is asked once")
        elif self.reduce != "mean":
            raise rule("reduce", "of gradients is mean: everybody counts the same, whichever site they are at")
        elif self.update is None:
            raise rule("update", "is missing: it says what a mean gradient does to the model")
        elif self.stop is None:
            raise rule("stop", "is missing: it says how many rounds there are at most")
        elif self.update.momentum is not None and self.update.rule != "momentum":
            raise rule("update.momentum", 'goes with "rule": "momentum"')
        elif self.update.ridge is not None and self.update.rule != "newton":
            raise rule("update.ridge", 'goes with "rule": "newton"')
        return self

    @property
    def used(self) -> tuple[str, ...]:
        """Nothing is read by such a document itself."""
        return ()

    @property
    def steps(self) -> dict[str, Any]:
        """The document of the kind that does the work."""
        given = self.model_dump(exclude_unset=True)
        blocks = {name: given.pop(name, None) or {} for name in ("map", "update", "stop")}
        if self.map.gradient is None:
            body = {**given, **blocks["map"]["statistic"], "type": "query", "statistic": given["reduce"]}
            return {name: value for name, value in body.items() if name in QueryDocument.model_fields}
        gradient, update = blocks["map"]["gradient"], blocks["update"]
        name, momentum = update.pop("rule", "sgd"), update.pop("momentum", _MOMENTUM)
        ridge = {"ridge": update.pop("ridge")} if "ridge" in update else {}
        own = {"momentum": {"momentum": momentum}, "adam": {"update": name}, "newton": {"update": name, **ridge}}
        rows = {"reduce": gradient.pop("rows")} if "rows" in gradient else {}
        given.pop("reduce")
        return {**given, **gradient, **rows, **update, **own.get(name, {}), **blocks["stop"], "type": "train"}


#: where the fields of the kinds that do the work stand in such a document
_PLACES = {
    QUERY.type: {**{field: f"map.statistic.{field}" for field in ("column", "by", "bins")}, "statistic": "reduce"},
    TRAIN.type: {
        **{field: f"map.gradient.{field}" for field in ("model", "loss", "inputs", "output", "clip", "batch")},
        **{field: f"update.{field}" for field in ("learning_rate", "momentum", "ridge")},
        **{field: f"stop.{field}" for field in ("rounds", "tolerance")},
        "reduce": "map.gradient.rows",
    },
}


class AlgorithmDialect:
    """The dialect, as the registry of kinds knows it."""

    type = "algorithm"
    document = AlgorithmDocument

    def check(self, document: Mapping[str, Any]) -> Document:
        """Return the checked document of the kind that does the work, or refuse this one naming its own field."""
        written: AlgorithmDocument = read_as(AlgorithmDocument, document)
        steps = written.steps
        try:
            return QUERY.check(steps) if steps["type"] == QUERY.type else TRAIN.check(steps)
        except InvalidDocument as refused:
            places = _PLACES[steps["type"]]
            told = [(places.get(field, field), message) for field, message in refused.problems]
            raise InvalidDocument(told) from None


DIALECT = AlgorithmDialect()
