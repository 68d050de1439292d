"""The document of a pipeline, its price, and what is said about it to the steward whose stream it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from thebes.curator.pipelines import ready
from thebes.curator.pipelines.ready.statistics import ERROR
from thebes.curator.pipelines.validators import METRICS
from thebes.data.schema import COLUMN_NAME, Schema
from thebes.privacy.events import ApproximateEvent, Event
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.tasks import explanation
from thebes.tasks.document import Document, InvalidDocument, read_as, rule
from thebes.tasks.protocols import Words
from thebes.tasks.site_document import LOCAL, SiteDocument, explained

PATIENCE_SECONDS = 3600.0
_SPAN = r"^[1-9][0-9]{0,5}[smhdw]$"
#: fields that a ready pipeline takes by their own names, where they are said
_PASSED = (
    "delta", "output", "confidence", "strategy", "start_epsilon", "least_blocks", "window", "timeout", "bins",
    "largest", "layers", "steps", "rate", "clip", "learning_rate",
)  # fmt: skip


class PipelineDocument(SiteDocument):
    """Train one of the ready pipelines on a stream (`dataset`, also written `stream`) until its targets are met.
    `epsilon` and `delta` are the most that any block pays, over all attempts."""

    ALIASES: ClassVar[Mapping[str, str]] = {**Document.ALIASES, "stream": "dataset"}

    type: Literal["pipeline"] = "pipeline"
    sites: tuple[str, ...] = (LOCAL,)
    patience: float = Field(default=PATIENCE_SECONDS, ge=0.1, le=86_400)
    model: str
    inputs: tuple[str, ...] = Field(min_length=1, max_length=4096)
    output: str | None = Field(default=None, pattern=COLUMN_NAME)
    #: by metric: the value that the released model is promised to reach
    target: dict[str, float] = Field(min_length=1, max_length=8)
    confidence: float = Field(default=0.95, gt=0.5, lt=1)  #: with which that promise holds
    strategy: Literal["conserve", "double", "aggressive"] = "conserve"
    start_epsilon: float | None = Field(default=None, gt=0)  #: of the first attempt; an eighth of epsilon without it
    least_blocks: int | None = Field(default=None, ge=1, le=1_000_000)  #: of the first attempt; 1 without it
    window: str | None = Field(default=None, pattern=_SPAN)  #: only blocks of this time: 30d
    timeout: str | None = Field(default=None, pattern=_SPAN)  #: after its start no further attempt is made
    bins: dict[str, int | tuple[float, ...]] | None = None  #: by input: into how many bins, or where to cut
    largest: dict[str, float] | None = None  #: by metric: the largest loss that one row counts for
    layers: tuple[int, ...] | None = Field(
        default=None, min_length=1, max_length=8
    )  #: of a NeuralNetwork, as all below
    steps: int | None = Field(default=None, ge=1, le=100_000)
    rate: float | None = Field(default=None, gt=0, le=1)
    clip: float | None = Field(default=None, gt=0, le=1e9)
    learning_rate: float | None = Field(default=None, gt=0, le=1e6)

    @field_validator("inputs", "sites", "layers", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("target", "largest", mode="before")
    @classmethod
    def _numbers(cls, value: object) -> object:
        return {k: _float(v) for k, v in value.items()} if isinstance(value, Mapping) else value

    @field_validator("bins", mode="before")
    @classmethod
    def _cuts(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        return {k: tuple(_float(cut) for cut in v) if isinstance(v, list) else v for k, v in value.items()}

    @field_validator("confidence", "start_epsilon", "rate", "clip", "learning_rate", mode="before")
    @classmethod
    def _number(cls, value: object) -> object:
        return _float(value)

    @model_validator(mode="after")
    def _one_stream(self) -> Self:
        if len(self.sites) != 1:
            raise rule("sites", "must name the one site that keeps the stream")
        if self.noise != "site":
            raise rule("noise", "is always the site's own here; leave it out")
        unknown = [name for name in self.target if name not in {*METRICS, ERROR}]
        if unknown:
            raise rule("target", f"must be of {', '.join(METRICS)}, or of a statistic {ERROR}")
        if set(self.bins or ()) - set(self.inputs):
            raise rule("bins", "must be of inputs")
        if self.start_epsilon is not None and self.start_epsilon > self.epsilon:
            raise rule("start_epsilon", "must not be more than epsilon")
        return self

    @property
    def in_attempts(self) -> bool:
        return True

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.inputs, *([self.output] if self.output else [])]))

    def pipeline(self, name: str | None = None) -> ready.Ready:
        """The pipeline it describes; `name` is under which its attempts and its model are kept."""
        said = {field: getattr(self, field) for field in _PASSED if getattr(self, field) not in (None, 0.0)}
        fixed = {"model": self.model, "stream": self.dataset, "inputs": self.inputs, "epsilon": self.epsilon}
        return ready.of({**fixed, "target": self.target, **said, **({} if name is None else {"name": name})})


def _float(value: object) -> object:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


class PipelineKind:
    type = "pipeline"
    document = PipelineDocument
    words = Words(
        "A model of a stream",
        "trained at one site on rows that keep coming in, with more data or budget each time, until it is good enough",
    )

    def subject(self, document: Mapping[str, Any]) -> str:
        return f"{document['model']} for {document.get('output') or explanation.few(document['inputs'])}"

    def check(self, document: Mapping[str, Any]) -> PipelineDocument:
        checked = read_as(PipelineDocument, document)
        try:
            checked.pipeline()
        except Mistake as refused:
            raise InvalidDocument([(refused.argument, refused.message)]) from None
        return checked

    def price(self, document: PipelineDocument, *, unit: Unit = Unit.EVENT) -> Price:
        return Price(document.epsilon, document.delta, unit)

    def fits(self, document: PipelineDocument, schema: Schema) -> None:
        document.pipeline().fits(schema)

    def event(self, document: PipelineDocument, schema: Schema) -> Event:
        return ApproximateEvent(document.epsilon, document.delta)

    def explain(self, document: PipelineDocument) -> str:
        wanted = " and ".join(f"{name} {figure(target)}" for name, target in document.target.items())
        what = f"a {document.model} of {document.output}" if document.output else f"a {document.model}"
        back = "" if document.window is None else f" of the last {document.window}"
        return explained(
            document,
            does=f"It trains {what} on blocks{back} of rows that keep coming in, and tests it on rows that it was not "
            f"trained on, with more data or more budget each time, until {wanted} is shown with confidence "
            f"{figure(document.confidence)} or no block can pay for more. Only a model that is shown to be good enough "
            "leaves; of every attempt leave its verdict and the noisy figures it was judged by.",
        )


KIND = PipelineKind()
