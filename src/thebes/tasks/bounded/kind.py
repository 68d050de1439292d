"""The document of a bounded task, its price, and what a person is told about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import model_validator

from thebes.privacy.faults import Mistake
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.tasks import explanation
from thebes.tasks.choice import DocumentChoice, settled
from thebes.tasks.document import Bounds, InvalidDocument, Range, Values, named, read_as, rule
from thebes.tasks.model_check import CheckableDocument, asked_instead
from thebes.tasks.protocols import Words

SHORT = "privunit-short"
MISSING = "missing"  #: the category of a set without a default
PRESENT = ".present"  #: suffix of the column that says whether a range without a default had a value


class BoundedDocument(CheckableDocument):
    """One perturbed row from each person. `epsilon` covers the whole row, however many columns it has."""

    type: Literal["bounded"] = "bounded"
    server: Literal["untrusted"] = "untrusted"
    bounds: Bounds
    #: "split": each column by itself; "privunit": the whole row as one report; "privunit-short": that with long rows
    #: shortened, for fits only; "auto", which a document that says nothing is settled for when it is first read: the
    #: least expected error of a fit, of the first two
    mechanism: Literal["auto", "split", "privunit", "privunit-short"] = "auto"
    predicted: str | None = None  #: the column whose linear model, fitted from the rows, people check

    @model_validator(mode="after")
    def _every_column_is_bounded(self) -> Self:
        for column in self.gives:
            if column not in self.bounds:
                raise rule(f"bounds.{column}", "is missing: every column needs a range or a set of values")
            if column.endswith(PRESENT):
                raise rule("featurizer", f"may not give a column whose name ends in {PRESENT}")
            bound = self.bounds[column]
            if isinstance(bound, Values) and bound.default is None and MISSING in bound.values:
                raise rule(f"bounds.{column}", f"needs a default: {MISSING!r} stands for a value that is not there")
        return self

    @model_validator(mode="after")
    def _checks_a_model(self) -> Self:
        if self.quality and self.predicted is None:
            raise rule("predicted", "is needed with quality: name the column whose model is to be checked")
        if self.predicted is not None and self.predicted not in self.gives:
            raise rule("predicted", f"names {named(self.predicted)}, which the featurizer does not give")
        if self.quality and len(self.gives) < 2:
            raise rule("predicted", "is the only column: there is nothing to predict it from")
        return self


class BoundedKind:
    type = "bounded"
    document = BoundedDocument
    words = Words(
        "Perturbed rows",
        "one row from each person, changed at random before it leaves them",
        "rows changed at random",
    )

    def subject(self, document: Mapping[str, Any]) -> str:
        return f"Perturbed rows of {explanation.few(list(document['bounds']))}"

    def check(self, document: Mapping[str, Any]) -> BoundedDocument:
        from thebes.tasks.bounded.encoder import plan

        checked = read_as(BoundedDocument, document)
        try:
            return settled(checked, document, plan(checked).choice)
        except Mistake as refused:
            if isinstance(refused, InvalidDocument):
                raise
            raise InvalidDocument([(refused.argument, refused.message)]) from None

    def choice(self, document: BoundedDocument) -> DocumentChoice[Any]:
        from thebes.tasks.bounded.encoder import plan

        return plan(document).choice

    def price(self, document: BoundedDocument, *, unit: Unit = Unit.DEVICE) -> Price:
        return Price(document.epsilon, document.delta, unit)

    def explain(self, document: BoundedDocument) -> str:
        choice = self.choice(document)
        seen = "The requestor sees each changed value"
        if choice.taken != "split":
            seen = "The requestor sees one row of numbers, all changed together"
        given = [document.bounds[column] for column in document.gives]
        unsaid = any(isinstance(bound, Range) and bound.default is None for bound in given)
        there = " Whether you have a value at all is told as well, changed like the rest." if unsaid else ""
        return explanation.together(
            document,
            leaves=explanation.changed_here(
                does="",
                changes=f"your {', '.join(document.gives)}",
                then=f"{seen}, and can trust no single one of them. A value you do not have is answered at random as "
                f"well.{there}" + asked_instead(document, "row"),
            ),
            choice=choice,
        )


KIND = BoundedKind()
