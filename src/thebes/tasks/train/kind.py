"""The document of a train task, its price, and what a steward is told about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from thebes.data.schema import Schema
from thebes.privacy.events import Event
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.tasks.document import MOST_TIMES, InvalidDocument, read_as, rule
from thebes.tasks.protocols import Words
from thebes.tasks.rows_document import of_features
from thebes.tasks.site_document import explained
from thebes.tasks.split_noise_document import LEAST_SITES, SplitNoiseDocument
from thebes.tasks.train.descent import FAMILIES, LEAST_CLIP, CommonDescent, StepRule

MOST_ROUNDS = 10_000
_NUMBERS = (
    "clip", "learning_rate", "ridge", "momentum", "batch", "tolerance", "size_share", "loss_share", "loss_bound"
)  # fmt: skip


class TrainDocument(SplitNoiseDocument):
    """Train `model` over the rows of all sites together. `epsilon` and `delta` cover every step of every round."""

    type: Literal["train"] = "train"
    model: str  #: "LogisticRegression", "LinearRegression", or a network from thebes.torch.encode
    loss: str | None = None  #: of a network
    inputs: tuple[str, ...] = Field(min_length=1, max_length=4096)
    output: str
    rounds: int = Field(default=20, ge=1, le=MOST_ROUNDS)
    #: each site goes so many steps by itself before the models are averaged
    local_steps: int = Field(default=1, ge=1, le=1000)
    learning_rate: float = Field(default=1.0, gt=0, le=1e6)
    update: Literal["adam", "newton"] | None = None  #: how a mean gradient moves the model; without it straight on
    ridge: float | None = Field(default=None, gt=0, le=1e6)  #: with newton only: nothing counts as less steep
    momentum: float = Field(default=0.0, ge=0, lt=1)
    clip: float = Field(default=1.0, ge=LEAST_CLIP, le=1e9)  #: L2 length to which one person's gradient is shortened
    reduce: Literal["mean", "sum"] = "mean"  #: of the gradients of one person's rows, before that
    #: the chance with which each person takes part in a step, by a coin of its own; without it everybody does
    batch: float | None = Field(default=None, gt=0, le=1)
    #: which weights are released: those after the last round, or the mean over the second half of the rounds
    average: Literal["last", "tail"] = "tail"
    tolerance: float | None = Field(default=None, gt=0)  #: a round that moves the weights no further is the last one
    #: of the budget, for how many people a site has; never more than half of the round in which that is bought
    size_share: float = Field(default=0.02, gt=0, le=0.5)
    loss_share: float | None = Field(default=None, gt=0, le=0.4)  #: of the budget, for the mean loss of every round
    loss_bound: float = Field(default=4.0, gt=0, le=1e6)  #: one person's loss counts as no more than this
    #: whether a tenth of the people at each site are kept out of the model and tell what it is worth, in a phase more
    quality: bool | None = None

    @field_validator("inputs", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @field_validator(*_NUMBERS, mode="before")
    @classmethod
    def _number(cls, value: object) -> object:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        if self.delta == 0:
            raise rule("delta", "must be given: training adds Gaussian noise, which has no pure guarantee")
        if len({*self.inputs, self.output}) != len(self.inputs) + 1:
            raise rule("output", "must differ from the inputs, and they from each other")
        if self.family is None and self.loss is None:
            raise rule("loss", f"is needed for a network; or give as model {' or '.join(FAMILIES)}")
        if self.family is not None and self.loss is not None:
            raise rule("loss", f"goes with a network; {self.family} has its own")
        if self.noise != "site" and self.local_steps != 1:
            told = f'must be 1 with "noise": "{self.noise}": a site\'s own steps would go by exact totals'
            raise rule("local_steps", told)
        if self.update is not None and self.local_steps != 1:
            raise rule("local_steps", f"must be 1 with {self.update}: it makes one step of everybody's mean gradient")
        if self.update is not None and self.momentum:
            raise rule("momentum", f"cannot be used with {self.update}; leave it out")
        if self.ridge is not None and self.update != "newton":
            raise rule("ridge", "goes with newton only")
        if self.rounds * self.local_steps > MOST_TIMES:
            raise rule("local_steps", f"times rounds must not exceed {MOST_TIMES}")
        return self

    @property
    def family(self) -> str | None:
        """The name of the model where it is no network."""
        return self.model if self.model in FAMILIES else None

    @property
    def phases(self) -> int:
        return self.rounds + (1 if self.quality else 0)

    @property
    def used(self) -> tuple[str, ...]:
        return (*self.inputs, self.output)

    @cached_property
    def descent(self) -> CommonDescent:
        """The descent that sites and coordinator do, whichever kind asks for it."""
        same = {field.name: getattr(self, field.name) for field in fields(CommonDescent) if field.name != "rule"}
        ridge = {} if self.ridge is None else {"ridge": self.ridge}
        return CommonDescent(**same, rule=StepRule(self.update or "sgd", self.learning_rate, self.momentum, **ridge))

    def needed(self, asked: int) -> int:
        """Without `min_sites` every site that is asked must answer every round."""
        wanted = asked if self.min_sites is None else self.min_sites
        return max(LEAST_SITES, wanted) if self.noise == "split" else wanted


class TrainKind:
    type = "train"
    document = TrainDocument
    words = Words(
        "A model over sites",
        "a regression, trained over the rows of several institutions together",
    )

    def subject(self, document: Mapping[str, Any]) -> str:
        model = str(document["model"])
        return f"{model if len(model) < 40 else 'A network'} for {document['output']}"

    def check(self, document: Mapping[str, Any]) -> TrainDocument:
        from thebes.tasks.train.plan import check

        checked = read_as(TrainDocument, document)
        try:
            check(checked.descent)
        except Mistake as refused:
            if isinstance(refused, InvalidDocument):
                raise
            raise InvalidDocument([(refused.argument, refused.message)]) from None
        return checked

    def price(self, document: TrainDocument, *, unit: Unit = Unit.DEVICE) -> Price:
        return Price(document.epsilon, document.delta, unit)

    def explain(self, document: TrainDocument) -> str:
        steps = (
            "goes one step"
            if document.local_steps == 1
            else f"goes {document.local_steps} steps, each with noise of its own, before the sites' models are averaged"
        )
        told = "how many people there are" + ("" if document.loss_share is None else ", and how well the model fits")
        sentences = [
            f"It trains {'a small network' if document.family is None else f'a {document.family} model'} to predict "
            f"{document.output}. In each of up to {document.rounds} rounds a site {steps}.",
            "A step computes from each person's rows in which direction the model would have to change, shortens that "
            "direction, and adds up everybody's.",
            ""
            if document.batch is None
            else f"Each person takes part in a step with chance {figure(document.batch)}, "
            "by a coin that nobody is told of.",
            f"Within the same price is told, changed at random: {told}.",
            "Of these the number of people is changed at the site and leaves it as one number, not in shares."
            if document.noise == "split"
            else "",
            "The network is data: no program of the requestor runs at a site." if document.family is None else "",
            ""
            if document.update is None
            else f"The mean of these directions makes the next model by {document.update}.",
            "Beside it is told how steep that is, changed at random too." if document.update == "newton" else "",
            "A tenth of the people, by a coin, is kept out of the model; in one phase more it is told, changed at "
            "random, of how many of them it is right, or how far off."
            if document.quality
            else "",
            "" if document.tolerance is None else "It ends early once a round hardly changes the model.",
            "" if document.where is None else f"Only these rows count: {document.where}",
        ]
        said = [sentence for sentence in (of_features(document), *sentences) if sentence]
        return explained(document, does=" ".join(said))

    def fits(self, document: TrainDocument, schema: Schema) -> None:
        from thebes.tasks.train.plan import TrainingPlan

        document.makes(schema)
        TrainingPlan(document.descent, schema)

    def event(self, document: TrainDocument, schema: Schema) -> Event:
        from thebes.tasks.train.plan import budget

        return budget(document.descent).event


KIND = TrainKind()
