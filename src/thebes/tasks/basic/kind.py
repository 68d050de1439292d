"""The document of a basic task, its price, and what a person is told about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from thebes.privacy.figures import figure
from thebes.privacy.guarantees import Price
from thebes.privacy.mechanisms.sample_aggregate import SAFE_FUNCTIONS
from thebes.privacy.promise import Unit
from thebes.tasks import explanation
from thebes.tasks.basic import range_choice
from thebes.tasks.choice import DocumentChoice, RuledChoice
from thebes.tasks.document import Range, Values, is_new, read_as, rule
from thebes.tasks.helped_document import MOST_SPLIT_NUMBERS, HelpedDocument
from thebes.tasks.protocols import Words
from thebes.tasks.trusted_columns import TrustedDocument

#: computed of everybody at once, so that two servers can make them of shares, too
STATISTICS = ("count", "sum", "mean", "median", "variance", "quantile", "histogram")
MOST_BINS = 1000
#: Their answer adds people up, so that it can be how many take part, whatever the SQL looks like
ADDED_UP = ("count", "sum", "histogram")


class BasicDocument(HelpedDocument, TrustedDocument):
    """One statistic of one value from each person."""

    type: Literal["basic"] = "basic"
    server: Literal["trusted", "split"] = "trusted"  # type: ignore[assignment]
    aggregator: str = Field(json_schema_extra={"enum": [*STATISTICS, *sorted({*SAFE_FUNCTIONS} - {*STATISTICS})]})
    quantile: float | None = Field(default=None, gt=0, lt=1)
    #: of a histogram over a range; with two servers of a quantile too
    bins: int | None = Field(default=None, ge=2, le=MOST_BINS)
    subsets: int | None = Field(default=None, ge=3, le=100_000)  #: of sample-and-aggregate

    @model_validator(mode="before")
    @classmethod
    def _counts_missing_unless_told(cls, given: Any) -> Any:
        """A sum or histogram that does not say what becomes of missing values counts them, unless a default leaves
        none."""
        if not isinstance(given, Mapping) or given.get("aggregator") not in ("sum", "histogram") or "missing" in given:
            return given
        bounds = given.get("bounds")
        declared = bounds.values() if isinstance(bounds, Mapping) else ()
        if any(isinstance(bound, Mapping) and bound.get("default") is not None for bound in declared):
            return given
        return {**given, "missing": "count"}

    @field_validator("aggregator")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in STATISTICS and value not in SAFE_FUNCTIONS:
            known = (*STATISTICS, *sorted({*SAFE_FUNCTIONS} - {*STATISTICS}))
            raise ValueError(f"must be one of {', '.join(known)}")
        return value

    @model_validator(mode="after")
    def _fits(self) -> Self:
        wanted = SAFE_FUNCTIONS[self.aggregator].columns if self.aggregator in SAFE_FUNCTIONS else 1
        if len(self.gives) != wanted:
            raise rule("featurizer", f"must give exactly {'one column' if wanted == 1 else 'two columns'} here")
        if (self.aggregator == "quantile") != (self.quantile is not None):
            raise rule("quantile", "goes with the aggregator 'quantile', and only with it")
        if self.subsets is not None and self.aggregator in STATISTICS:
            raise rule("subsets", f"does not apply to {self.aggregator}")
        bound = (self.bounds or {}).get(self.column)
        # A sum is rounded to 2^-20 of its larger end.
        if self.aggregator == "sum" and isinstance(bound, Range) and bound.high - bound.low < bound.farthest * 2.0**-16:
            raise rule(
                f"bounds.{self.column}", "is too narrow for a sum of such large numbers: let the SQL subtract low"
            )
        if self.aggregator == "count" and bound is not None and bound.default is not None:
            raise rule(
                f"bounds.{self.column}.default",
                "gives everybody a value, so that everybody would be counted; leave it out",
            )
        if is_new() and self.missing != "count":
            self._asks_no_exact_number()
        if self.server == "split":
            self._splits(bound)
        if self.aggregator == "histogram":
            self._histogram(bound)
        elif self.bins is not None and not (self.server == "split" and self.aggregator in ("median", "quantile")):
            raise rule("bins", "goes with the aggregator 'histogram', and only with it")
        elif self.aggregator != "count" and any(isinstance(b, Values) for b in (self.bounds or {}).values()):
            raise rule("bounds", f"must be a range of numbers for {self.aggregator}")
        return self

    def _asks_no_exact_number(self) -> None:
        """Refuse an answer that is how many have a value, where only who has one takes part.

        Their number is published exactly. Whether SQL gives everybody the same cannot be told from looking at it. But
        an answer that adds no people up (a mean, a quantile, a spread) is the same however many there are, so this
        refuses all that do.
        """
        if self.aggregator == "count" or (self.aggregator in ADDED_UP and self.taking_part_tells):
            advice = "" if self.aggregator == "count" else "; or declare a default for those who have none"
            raise rule(
                "missing",
                f'must be "count" for a {self.aggregator}: otherwise only who has a value takes part, and their '
                f"number, which can be the answer, is published exactly{advice}",
            )

    @property
    def buys_missing(self) -> bool:
        """Return whether the number of missing values is bought with a share of epsilon of its own: a count tells it,
        and a histogram has a cell for it unless its keys are unknown."""
        tells = self.aggregator == "count" or (self.aggregator == "histogram" and self.bounds)
        return self.missing == "count" and not tells

    def _splits(self, bound: Range | Values | None) -> None:
        """Refuse what two servers cannot make of shares."""
        name = self.aggregator
        if name not in STATISTICS:
            raise rule("server", f'may be "split" for {", ".join(STATISTICS)}, and not for {name}; ask with "trusted"')
        if name != "count" and bound is None:
            raise rule("bounds", f'must declare {self.column!r} with "server": "split": nobody can look for a range')
        if name not in ("count", "sum", "histogram") and self.missing == "count":
            raise rule("missing", f'must be "refuse" for a {name} with "server": "split", or a default be declared')
        if name in ("median", "quantile") and self.bins is None:
            raise rule("bins", f'are needed for a {name} with "server": "split": into how many to cut the range')
        if name in ("histogram", "median", "quantile") and self.cells > MOST_SPLIT_NUMBERS:
            field = "bins" if isinstance(bound, Range) else f"bounds.{self.column}"
            raise rule(field, f'may be at most {MOST_SPLIT_NUMBERS} with "server": "split"')

    @property
    def cells(self) -> int:
        """The number of declared values, or of bins."""
        bound = (self.bounds or {}).get(self.column)
        return len(bound.values) if isinstance(bound, Values) else self.bins or 1

    def _histogram(self, bound: Range | Values | None) -> None:
        if bound is None and self.delta == 0:
            raise rule(
                "bounds",
                f"must declare the values of {self.column!r}; or give a delta, so that common values can be found",
            )
        if isinstance(bound, Range) and self.bins is None:
            raise rule("bins", "is missing: into how many bins to cut the range")
        if self.bins is not None and not isinstance(bound, Range):
            raise rule("bins", "needs a range in bounds")

    def possible(self, contributors: int | None) -> tuple[float, float] | None:
        counted = (0.0, float(contributors)) if contributors is not None else None
        if self.aggregator in ("count", "histogram"):
            return counted
        bound = (self.bounds or {}).get(self.column)
        if not isinstance(bound, Range):
            return None
        if self.aggregator == "sum":
            ends = min(bound.low, 0), max(bound.high, 0)  # who has no value adds nothing
            return None if contributors is None else (contributors * ends[0], contributors * ends[1])
        if self.aggregator == "variance":
            return 0.0, ((bound.high - bound.low) / 2) ** 2
        return (bound.low, bound.high) if self.aggregator in ("mean", "median", "quantile", "trimmed_mean") else None

    @property
    def column(self) -> str:
        """The first column the featurizer gives; for most statistics the only one."""
        return self.gives[0]

    def texts(self) -> tuple[str, ...]:
        return self.gives if self.aggregator in ("histogram", "count") and not self.bounds else ()


class BasicKind:
    type = "basic"
    document = BasicDocument
    words = Words(
        "One statistic",
        "a count, mean, median, histogram … of one value from each person",
        "one number from everybody",
    )

    def subject(self, document: Mapping[str, Any]) -> str:
        return str(document["aggregator"]).replace("_", " ").capitalize()

    def check(self, document: Mapping[str, Any]) -> BasicDocument:
        return read_as(BasicDocument, document)

    def price(self, document: BasicDocument, *, unit: Unit = Unit.DEVICE) -> Price:
        return Price(document.epsilon, document.delta, unit)

    def choice(self, document: BasicDocument) -> DocumentChoice[float] | RuledChoice | None:
        """Return what an estimated range costs beside a declared one; None where nothing is estimated."""
        if document.aggregator in ("count", "histogram") or set(document.gives) <= set(document.bounds or {}):
            return None
        return range_choice.estimated(document, counted=document.aggregator in ("mean", "sum"))

    def explain(self, document: BasicDocument) -> str:
        what = {
            "quantile": f"the {figure(document.quantile)} quantile" if document.quantile else "a quantile",
            "histogram": "how many people have which value",
            "count": "how many of those who take part have a value",
        }.get(document.aggregator, f"the {document.aggregator}")
        value, made = "that one value", f"one result ({what})"
        if document.server == "split":
            proved, size = _proved(document), _bytes_of(document)
            leaves = explanation.sent_in_shares(document, what=value, made=made, proved=proved, size=size)
        else:
            leaves = explanation.sent_as_is(document, what=value, made=made)
        return explanation.together(document, leaves=leaves)


def _bytes_of(document: BasicDocument) -> int:
    """Return how long a report is as it travels."""
    from thebes.tasks.basic.split import layout_of
    from thebes.tasks.split_reports import REPORT

    return layout_of(document, "")[REPORT].length


def _proved(document: BasicDocument) -> str:
    """Say what a report in shares proves of itself; that nobody answers twice is never shown by it."""
    if document.aggregator == "variance":
        return "each of its two numbers lies within bounds, though not that they belong together or are sent once"
    if document.aggregator == "sum" and document.missing == "count":
        return "it and the mark that it is missing lie within bounds, though not that only one counts or is sent once"
    return "it lies within bounds, though not that it is sent once"


KIND = BasicKind()
