"""An example kind without end: how many people have which of some declared values, counted anew each day.

Somebody is asked once a day, on `days` days at most: the document's epsilon is shared equally over these. What is sent
on a day is a new purchase with a fresh draw, also where the value is yesterday's: a report that was said again would
tell whoever reads both that nothing changed, and no price would cover that.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from thebes.privacy import exact
from thebes.privacy.figures import figure, plural
from thebes.privacy.guarantees import Price
from thebes.privacy.mechanisms.local.response import RandomizedResponse
from thebes.privacy.promise import Unit
from thebes.tasks import explanation
from thebes.tasks.document import LEAST_EPSILON, Bounds, PeopleDocument, Values, read_as, rule
from thebes.tasks.protocols import Kind, Words

MOST_DAYS = 366
NOBODY_WAITS_FOR = 10**9  #: contributions


class DailyDocument(PeopleDocument):
    """`min_count` people of one day are needed for that day's histogram; `max_count` is of all days together."""

    endless: ClassVar[bool] = True

    type: Literal["daily"] = "daily"
    server: Literal["untrusted"] = "untrusted"
    bounds: Bounds
    days: int = Field(default=7, ge=1, le=MOST_DAYS)  #: of one person

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.gives) != 1:
            raise rule("featurizer", "must give exactly one column")
        declared = self.bounds.get(self.gives[0])
        if not isinstance(declared, Values) or declared.default is None:
            raise rule("bounds", "must declare the column's values, and a default for whoever has none of them")
        if self.delta:
            raise rule("delta", "must be left out: a randomised response needs none")
        if self.diagnostics is not None:
            raise rule("diagnostics", "must be left out: only the value is asked")
        if self.epsilon < LEAST_EPSILON * self.days:
            raise rule("days", f"leave less than {figure(LEAST_EPSILON)} of epsilon for each")
        return self

    @property
    def values(self) -> tuple[Any, ...]:
        declared = self.bounds[self.gives[0]]
        return declared.values if isinstance(declared, Values) else ()

    @property
    def stand_in(self) -> int:
        """The place of the value that counts for whoever has none."""
        return self.values.index(self.bounds[self.gives[0]].default)

    @property
    def participations(self) -> int:
        return self.days

    def turns(self, phase: int) -> int:
        return self.days

    def wanted_in(self, phase: int) -> int:
        return self.max_count or NOBODY_WAITS_FOR


@lru_cache(maxsize=64)
def mechanism(values: int, epsilon: Decimal, days: int) -> RandomizedResponse:
    """Return how one day's value is changed: with an equal share of epsilon, rounded down."""
    return RandomizedResponse(values, (epsilon / days).quantize(exact.EPSILON_STEP, ROUND_FLOOR))


def mechanism_of(document: DailyDocument) -> RandomizedResponse:
    return mechanism(len(document.values), exact.epsilon(document.epsilon), document.days)


class DailyKind:
    type = "daily"
    document = DailyDocument
    words = Words("A histogram of each day", "how many have which value, day after day", "one value, asked every day")

    def subject(self, document: Mapping[str, Any]) -> str:
        return "How many have which value, day by day"

    def check(self, document: Mapping[str, Any]) -> DailyDocument:
        return read_as(DailyDocument, document)

    def price(self, document: DailyDocument, *, unit: Unit = Unit.DEVICE) -> Price:
        return Price(document.epsilon, document.delta, unit)

    def explain(self, document: DailyDocument) -> str:
        again = (
            f"You can be asked again on other days, {plural(document.days, 'day')} in all. Each time you decide anew, "
            f"the value is changed anew, and an equal share is paid: epsilon {figure(self.each(document))}."
        )
        leaves = explanation.changed_here(does="", changes="one value", then=again)
        return explanation.together(document, leaves=leaves)

    def each(self, document: DailyDocument) -> float:
        """Return the price of one day."""
        return float(mechanism_of(document).epsilon)


KIND: Kind[DailyDocument] = DailyKind()
