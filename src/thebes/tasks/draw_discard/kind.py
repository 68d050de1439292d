"""The document of a draw-discard task, its price, and what a person is told about it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.tasks import explanation
from thebes.tasks.choice import RuledChoice
from thebes.tasks.document import (
    Bounds,
    InvalidDocument,
    PeopleDocument,
    Range,
    Strict,
    Values,
    named,
    raw,
    read_as,
    rule,
)
from thebes.tasks.protocols import Words

MOST_ROWS = 1000  #: of one owner
MOST_WEIGHTS = 100_000
MOST_NUMBERS = 2**22  #: in all instances of all lanes together: whoever asks has some of them computed with
MOST_RELEASED = 2**18  #: the same where every release holds them all
ENDLESS = 10**9  #: contributions that nobody waits for
_LISTS = ("inputs", "crosses", "learning_rate", "start")
_MOST_RATES = 16
_FARTHEST_START = 1e6

Family = Literal["linear", "logistic", "poisson", "multinomial"]


class Target(Strict):
    """Stop once no weight of the average moved by `moved` or more while `over` updates were mixed in."""

    moved: float = Field(gt=0, le=1e6)
    over: int = Field(ge=1, le=10**8)


class DrawDiscardDocument(PeopleDocument):
    """Train a model of `output` one owner at a time. `epsilon` is one owner's total over `max_participations`."""

    endless: ClassVar[bool] = True

    type: Literal["draw-discard"] = "draw-discard"
    server: Literal["untrusted"] = "untrusted"
    bounds: Bounds
    inputs: tuple[str, ...] = Field(min_length=1, max_length=10_000)
    output: str
    family: Family | None = None
    #: which products of two inputs are features too: of all of them, or of these
    crosses: Literal["pairwise"] | tuple[tuple[str, ...], ...] | None = None
    model: str | None = None  #: instead of a family: a network and its loss, as in a gradient task
    loss: str | None = None
    instances: int = Field(default=20, ge=1, le=1000)
    #: several rates are as many lanes of instances, trained at once; `keep` says which one the answer shows
    learning_rate: float | tuple[float, ...] = 0.001
    keep: float | None = None
    decay: float | None = Field(default=None, ge=1, le=1e12)  #: the rate after t updates is rate / (1 + t / decay)
    reduce: Literal["mean", "sum"] = "mean"  #: how the gradients of an owner's rows become one
    clip: float = Field(default=1.0, gt=0, le=1e6)
    mechanism: Literal["laplace", "laplace-l1", "gaussian", "privunit", "none"] = "privunit"
    epsilon_per_weight: float | None = Field(default=None, gt=0, le=1e6)
    max_participations: int = Field(default=1, ge=1, le=10_000)
    start: tuple[float, ...] | None = Field(default=None, max_length=MOST_WEIGHTS)
    outliers: Literal["refuse", "quarantine"] = "refuse"
    false_positives: float = Field(default=0.01, gt=0, le=0.5)  #: of honest contributions, over all weights
    stale_after: int | None = Field(default=None, ge=1, le=10**9)  #: updates; by default 100 for each instance
    average: Literal["weights", "predictions"] = "weights"
    target: Target | None = None

    @field_validator(*_LISTS, mode="before")
    @classmethod
    def _from_lists(cls, value: object) -> object:
        if isinstance(value, (list, tuple)):
            return tuple(tuple(item) if isinstance(item, list) else item for item in value)
        return value

    @field_validator("learning_rate")
    @classmethod
    def _some_rates(cls, value: object) -> object:
        rates = value if isinstance(value, tuple) else (value,)
        if not 1 <= len(rates) <= _MOST_RATES or len(set(rates)) != len(rates):
            raise ValueError(f"must be a number, or a list of at most {_MOST_RATES} different ones")
        if not all(0 < rate <= 1e6 for rate in rates):
            raise ValueError("must be greater than 0, and not above 1e6")
        return value

    @field_validator("start")
    @classmethod
    def _near(cls, value: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if value is not None and not all(abs(weight) <= _FARTHEST_START for weight in value):
            raise ValueError(f"must hold numbers within {figure(_FARTHEST_START)} of 0")
        return value

    @model_validator(mode="after")
    def _columns_fit(self) -> Self:
        if len({*self.inputs, self.output}) != len(self.inputs) + 1:
            raise rule("output", "must differ from the inputs, and they from each other")
        for field, columns in (("inputs", self.inputs), ("output", (self.output,))):
            for column in columns:
                if column not in self.gives:
                    raise rule(field, f"names {named(column)}, which the featurizer does not give")
                if column not in self.bounds:
                    raise rule("bounds", f"has nothing for {named(column)}: it needs a range or a set of values")
        if isinstance(self.crosses, tuple):
            known = set(self.inputs)
            for pair in self.crosses:
                if len(pair) != 2 or len(set(pair)) != 2 or not known.issuperset(pair):
                    raise rule("crosses", "must be 'pairwise' or a list of pairs of different inputs")
            if len({frozenset(pair) for pair in self.crosses}) != len(self.crosses):
                raise rule("crosses", "names a pair twice")
        return self

    @model_validator(mode="after")
    def _model_fits(self) -> Self:
        if (self.family is None) == (self.model is None) or (self.model is None) != (self.loss is None):
            raise rule("family", "or both model and loss are needed, not one beside the other")
        if self.model is not None:
            for field in ("crosses", "start"):
                if getattr(self, field) is not None:
                    raise rule(field, "goes with a family; a network says by itself what it is made of")
            if self.average == "predictions":
                raise rule("average", "must be 'weights' for a network")
            return self
        bound = self.bounds[self.output]
        if self.family in ("logistic", "multinomial"):
            if not isinstance(bound, Values) or (self.family == "logistic" and len(bound.values) != 2):
                raise rule("output", f"of a {self.family} model must be a set of {_OF[self.family]} in bounds")
        elif not isinstance(bound, Range) or (self.family == "poisson" and bound.low < 0):
            raise rule("output", f"of a {self.family} model must be a range{_OF[str(self.family)]} in bounds")
        return self

    @model_validator(mode="after")
    def _mechanism_fits(self) -> Self:
        if self.mechanism == "laplace" and self.epsilon_per_weight is None:
            raise rule("epsilon_per_weight", 'is needed with "mechanism": "laplace"; epsilon follows from it')
        if self.mechanism != "laplace" and self.epsilon_per_weight is not None:
            raise rule("epsilon_per_weight", 'goes with "mechanism": "laplace"; give epsilon here')
        if self.mechanism == "gaussian" and self.delta == 0:
            raise rule("delta", "must be given for Gaussian noise, which has no pure guarantee")
        if self.mechanism == "none" and self.diagnostics is not None:
            raise rule("diagnostics", "costs epsilon, and nothing is private here: leave it out")
        if self.keep is not None and self.keep not in self.rates:
            raise rule("keep", "must be one of the learning rates")
        return self

    # --- what is public about it ------------------------------------------------------------------------

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rate of each lane."""
        return self.learning_rate if isinstance(self.learning_rate, tuple) else (self.learning_rate,)

    @property
    def kept(self) -> int:
        """The lane whose average is the answer."""
        return 0 if self.keep is None else self.rates.index(self.keep)

    def rate(self, lane: int, version: Any) -> Any:
        """The learning rate of a lane after so many updates; of an array of them, one for each if it decays."""
        rate = self.rates[lane]
        return rate if self.decay is None else rate / (1 + version / self.decay)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The inputs whose products are features."""
        if isinstance(self.crosses, tuple):
            return tuple((pair[0], pair[1]) for pair in self.crosses)
        if self.crosses is None:
            return ()
        return tuple((a, b) for place, a in enumerate(self.inputs) for b in self.inputs[place + 1 :])

    @property
    def outputs(self) -> tuple[str, ...]:
        return (self.output,)

    @property
    def stalest(self) -> int:
        """A contribution drawn more updates ago is refused."""
        return 100 * self.instances if self.stale_after is None else self.stale_after

    @property
    def participations(self) -> int:
        return self.max_participations

    def turns(self, phase: int) -> int:
        return self.max_participations

    def wanted_in(self, phase: int) -> int:
        return self.max_count or ENDLESS

    @property
    def most_rows(self) -> int:
        return MOST_ROWS

    @property
    def only_simulated(self) -> str | None:
        return "mechanism" if self.mechanism == "none" else None


_OF = {"logistic": "2 values", "multinomial": "values", "linear": "", "poisson": " from 0 or above"}


class DrawDiscardKind:
    type = "draw-discard"
    document = DrawDiscardDocument
    words = Words(
        "A model that keeps learning",
        "trained by one person after another, on their own machines; its answer is there at any time, until you end it",
        "a model that never stops learning",
        report=(
            "What would leave is the model your machine was sent, moved in a direction computed from your rows, "
            "shortened and then changed at random."
        ),
        example=(
            "It says by how much each number of the model would be moved, here of the model the task begins with; "
            "which one your machine is sent is known only once the coordinator asks. Nearly all of it is noise: only "
            "what thousands of people send together points somewhere."
        ),
    )

    def subject(self, document: Mapping[str, Any]) -> str:
        return f"{str(document.get('family', 'network')).capitalize()} model of {document['output']}"

    def check(self, document: Mapping[str, Any]) -> DrawDiscardDocument:
        from thebes.tasks.draw_discard import rates
        from thebes.tasks.draw_discard.plan import plan, weights_of

        plain = raw(document)
        given = plain.get("epsilon")
        if given is None and plain.get("mechanism") in ("laplace", "none"):
            plain["epsilon"] = 1.0  # follows below; of no noise, it only spreads the first instances
        checked = read_as(DrawDiscardDocument, plain)
        try:
            if checked.epsilon_per_weight is not None:
                whole = _whole(checked.epsilon_per_weight, weights_of(checked))
                if given is not None and checked.epsilon != whole:
                    raise Mistake("epsilon", f"must be weights times epsilon_per_weight, {whole!r}, or be left out")
                checked = read_as(DrawDiscardDocument, {**plain, "epsilon": whole})
            # A rate is chosen once, by whoever reads the document first, and stands under its digest.
            if plain.get("learning_rate") is None:
                rate = rates.rate_for(checked, plan(checked))
                plain |= {"epsilon": checked.epsilon, "learning_rate": rate}
                checked = read_as(DrawDiscardDocument, {"decay": rates.DECAY, **plain})
            plan(checked)
        except Mistake as refused:
            if isinstance(refused, InvalidDocument):
                raise
            raise InvalidDocument([(refused.argument, refused.message)]) from None
        return checked

    def price(self, document: DrawDiscardDocument, *, unit: Unit = Unit.DEVICE) -> Price:
        return Price(document.epsilon, document.delta, unit)

    def choice(self, document: DrawDiscardDocument) -> RuledChoice:
        from thebes.tasks.draw_discard.rates import choice

        return choice(document)

    def explain(self, document: DrawDiscardDocument) -> str:
        columns = ", ".join((*document.inputs, document.output))
        times = document.max_participations
        turns = f" You may take part up to {times} times; each time costs an equal share of it." if times > 1 else ""
        return explanation.together(
            document,
            leaves=explanation.changed_here(
                does=f"fetches a small model as it stands, computes from your {columns} in which direction it would "
                "have to change to fit you better, shortens that direction, and ",
                changes="it",
                then="The model goes back so changed and is mixed into the others at once, so it cannot be taken back. "
                f"The task goes on until it is ended, and its answer changes all the time.{turns}",
            ),
            choice=self.choice(document),
        )


def _whole(each: float, weights: int) -> float:
    """So many times `each`, exactly or the least float above it."""
    import math

    product = exact.declared("epsilon_per_weight", each) * weights
    if product > Decimal(10**6):
        raise Mistake("epsilon_per_weight", "is too large for so many weights")
    whole = float(product)
    while Decimal(str(whole)) < product:
        whole = math.nextafter(whole, math.inf)
    return whole


KIND = DrawDiscardKind()
