"""The document of a gradient task, its price, and what a person is told about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from thebes.privacy.faults import Mistake
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.tasks import explanation
from thebes.tasks.choice import DocumentChoice, settled
from thebes.tasks.document import InvalidDocument, Values, named, read_as, rule
from thebes.tasks.helped_document import HelpedDocument
from thebes.tasks.mixed_document import MixedDocument
from thebes.tasks.protocols import Words

MOST_ROUNDS = 10_000
MOST_ROWS = 1000  #: of one owner


class GradientDocument(HelpedDocument, MixedDocument):
    """Train `model` to make `loss` small. `epsilon` covers every round that one owner serves."""

    type: Literal["gradient"] = "gradient"
    server: Literal["untrusted", "split"] = "untrusted"
    inputs: tuple[str, ...] = Field(min_length=1, max_length=10_000)
    outputs: tuple[str, ...] = Field(min_length=1, max_length=1000)
    model: str
    loss: str
    #: digest of an installed network whose features the model works on; its own weights are not trained
    backbone: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    clip: float = Field(default=1.0, gt=0, le=1e9)  #: L2 length to which one owner's gradient is shortened
    rounds: int = Field(default=1, ge=1, le=MOST_ROUNDS)
    rounds_per_owner: int = Field(default=1, ge=1, le=MOST_ROUNDS)
    learning_rate: float = Field(default=1.0, gt=0, le=1e6)
    momentum: float = Field(default=0.0, ge=0, lt=1)
    #: which weights are released: those after the last round, or the mean over the second half of the rounds
    average: Literal["last", "tail"] = "tail"
    #: "auto", which a document that says nothing is settled for when it is first read: the least expected error
    mechanism: Literal["auto", "gaussian", "privunit"] = "auto"

    @field_validator("inputs", "outputs", mode="before")
    @classmethod
    def _from_list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _columns_fit(self) -> Self:
        given = self.gives
        for field, names in (("inputs", self.inputs), ("outputs", self.outputs)):
            for column in names:
                if column not in given:
                    raise rule(field, f"names {named(column)}, which the featurizer does not give")
        if set(self.inputs) & set(self.outputs) or len({*self.inputs, *self.outputs}) != len(
            (*self.inputs, *self.outputs)
        ):
            raise rule("outputs", "must differ from the inputs and from each other")
        if self.rounds_per_owner > self.rounds:
            raise rule("rounds_per_owner", "must not be more than rounds")
        if self.server == "split":
            self._splits()
        if self.mechanism == "gaussian" and self.delta == 0:
            raise rule("delta", "must be given for Gaussian noise, which has no pure guarantee")
        return self

    def _splits(self) -> None:
        """Refuse what two servers cannot make of shares."""
        if self.rounds > 1:
            told = 'must be 1 with "server": "split": a helper adds up once; ask the next round as a task of its own'
            raise rule("rounds", told)
        if self.mechanism != "auto":
            raise rule("mechanism", 'is of noise at home: leave it out with "server": "split"')
        if self.mixed is not None:
            raise rule("mixed", 'is of noise at home: leave it out with "server": "split"')

    @property
    def phases(self) -> int:
        return self.rounds

    @property
    def participations(self) -> int:
        return self.rounds_per_owner

    @property
    def most_rows(self) -> int:
        return MOST_ROWS

    @property
    def input_width(self) -> int:
        """The width of the model's input, in numbers. A set of m values is m - 1 of them; the last is the reference."""
        return sum(self._width(column) for column in self.inputs)

    def _width(self, column: str) -> int:
        bound = (self.bounds or {}).get(column)
        return len(bound.values) - 1 if isinstance(bound, Values) else 1


class GradientKind:
    type = "gradient"
    document = GradientDocument
    words = Words(
        "A network",
        "trained step by step from perturbed directions; needs a model from thebes.torch",
        "a network trained on many machines",
        report=(
            "What would leave says in which direction a small network would have to change to fit you better, "
            "shortened and then changed at random."
        ),
    )

    def subject(self, document: Mapping[str, Any]) -> str:
        return f"A network for {explanation.few(document['outputs'])}"

    def check(self, document: Mapping[str, Any]) -> GradientDocument:
        from thebes.tasks.gradient.network import network

        checked = read_as(GradientDocument, document)
        try:
            choice = network(checked).choice
            return checked if choice is None else settled(checked, document, choice)
        except Mistake as refused:
            if isinstance(refused, InvalidDocument):
                raise
            raise InvalidDocument([(refused.argument, refused.message)]) from None

    def choice(self, document: GradientDocument) -> DocumentChoice[Any] | None:
        from thebes.tasks.gradient.network import network

        return network(document).choice

    def price(self, document: GradientDocument, *, unit: Unit = Unit.DEVICE) -> Price:
        return Price(document.epsilon, document.delta, unit)

    def explain(self, document: GradientDocument) -> str:
        columns = ", ".join((*document.inputs, *document.outputs))
        if document.server == "split":
            return explanation.together(document, leaves=_in_shares(document, columns))
        rounds = (
            "one round" if document.rounds_per_owner == 1 else f"up to {document.rounds_per_owner} rounds, not more,"
        )
        return explanation.together(
            document,
            leaves=explanation.changed_here(
                does=f"computes from your {columns} in which direction a small network would have to change to fit you "
                "better, shortens that direction, and ",
                changes="it",
                then=f"You take part in {rounds} of {document.rounds}. The network is data: no program of the "
                "requestor runs on your machine.",
            ),
            choice=self.choice(document),
        )


def _in_shares(document: GradientDocument, columns: str) -> str:
    """Say what leaves where two servers hear shares of it."""
    from thebes.tasks.gradient.split import bytes_of

    leaves = explanation.sent_in_shares(
        document,
        what=f"the direction, shortened, in which a small network would have to change to fit your {columns} better,",
        made="the mean direction",
        proved="each of its numbers lies within bounds, though not that it is short as a whole or sent once",
        size=bytes_of(document),
    )
    return f"{leaves} The network is data: no program of the requestor runs on your machine."


KIND = GradientKind()
