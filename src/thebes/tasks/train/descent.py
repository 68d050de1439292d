"""The descent that a document asks of sites which go downhill together, whichever kind it is of: a model, a budget, and
how it is spent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from thebes.data.derived_columns import DerivedColumns
from thebes.learning.updates import Adam, Newton, Sgd, Update

FAMILIES = ("LogisticRegression", "LinearRegression")
LEAST_CLIP = 1e-100  #: below, the steps in which gradients are counted are numbers that have lost their digits


@dataclass(frozen=True, slots=True)
class StepRule:
    """The rule by which the common weights move. `momentum` goes with sgd, `ridge` with newton."""

    name: Literal["sgd", "adam", "newton"] = "sgd"
    learning_rate: float = 1.0
    momentum: float = 0.0
    ridge: float = 1e-3

    def begun(self) -> Update:
        """A rule that remembers nothing yet."""
        if self.name == "adam":
            return Adam(self.learning_rate)
        if self.name == "newton":
            return Newton(self.learning_rate, self.ridge)
        return Sgd(self.learning_rate, self.momentum)


@dataclass(frozen=True, slots=True)
class CommonDescent:
    """See the fields of `TrainDocument`. `digest` is that of the document."""

    digest: str
    epsilon: float
    delta: float
    noise: Literal["site", "coordinator", "split"]
    model: str
    loss: str | None
    inputs: tuple[str, ...]
    output: str
    where: str | None
    made: DerivedColumns  #: the inputs and the output that are made of other columns
    rounds: int
    local_steps: int
    clip: float
    reduce: Literal["mean", "sum"]
    batch: float | None
    average: Literal["last", "tail"]
    tolerance: float | None
    size_share: float
    loss_share: float | None
    loss_bound: float
    quality: bool | None
    rule: StepRule

    @property
    def family(self) -> str | None:
        """The name of the model where it is no network."""
        return self.model if self.model in FAMILIES else None

    @property
    def exact(self) -> bool:
        """Return whether a site's sums leave it without noise of its own: as they are, or in two shares."""
        return self.noise != "site"

    @property
    def phases(self) -> int:
        """The number of times that a site is asked: in every round, and once more where the model is tested."""
        return self.rounds + (1 if self.quality else 0)

    @property
    def steps(self) -> int:
        """The number of times that noise is added at a site, over all phases: a test may spend what a round does."""
        return self.phases * self.local_steps

    @property
    def curved(self) -> bool:
        """Return whether the curvature is told beside the gradient."""
        return self.rule.name == "newton"


class Descending(Protocol):
    """A document of a kind that is trained so."""

    @property
    def descent(self) -> CommonDescent: ...
