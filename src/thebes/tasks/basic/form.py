"""The form of a basic task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from thebes.tasks.basic.kind import ADDED_UP, BasicDocument
from thebes.tasks.form import Form, FormState, Hint
from thebes.tasks.trusted_columns import undeclared

_NO_NUMBERS = {"string": "words", "timestamp": "moments"}


def _missing(composed: FormState) -> tuple[str, ...]:
    """Return what may become of people without a value: a statistic that adds people up can only count them."""
    asked = composed.get("aggregator")
    counted = asked == "count" or (asked in ADDED_UP and not composed.filled)
    return ("count",) if counted else ("refuse", "count")


def _binned(composed: FormState) -> bool:
    """Return whether values are counted by bins: two servers have no other way to a quantile."""
    counted = ("median", "quantile") if composed.get("trust") == "split" else ()
    return composed.get("aggregator") in ("histogram", *counted)


def _cautions(document: BasicDocument, types: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if document.aggregator not in ("count", "histogram"):
        for column, type_ in types.items():
            if type_ in _NO_NUMBERS:
                told = f"{column} is published as {_NO_NUMBERS[type_]}, and a {document.aggregator} takes numbers"
                yield "featurizer", told
    if document.aggregator == "histogram":
        shown = "no values are given, so only those that many people share will show; give them if you know them"
        yield from undeclared(document, shown)
    elif document.aggregator != "count":
        yield from undeclared(document)


_MEANINGS: Mapping[str, str] = {
    "server": "trusted, or split between two servers: count, sum, mean, variance, histogram, and median and quantile "
    "over declared bins, 512 cells at most",
    "aggregator": "count, sum, mean, median, variance, std (its root), quantile, iqr (the quantile 0.75 less 0.25), "
    "histogram; or one that is computed by groups of people (sample and aggregate), such as correlation",
    "quantile": "with quantile only: which one",
    "bins": "of a histogram over a range: how many; with two servers of median and quantile too",
    "subsets": "with sample and aggregate: into how many disjoint groups of people to cut. With std or iqr: compute "
    "them so, which errs more",
    "missing": "refuse: a person without the value sends nothing. count: null is sent and counted privately; count, "
    "sum and histogram need that",
}

FORM = Form(
    rank=1,
    fields={
        "aggregator": Hint(
            label="Statistic",
            first="median",
            help="std: the standard deviation; iqr: the width of the middle half",
        ),
        "quantile": Hint(
            label="Which quantile", help="between 0 and 1", when=lambda form: form.get("aggregator") == "quantile"
        ),
        "bins": Hint(help="where the column has a range", when=_binned),
        "missing": Hint(
            label="People without a value",
            help="refuse: they send nothing; count: they say so",
            choices=_missing,
        ),
        "subsets": Hint(help="into which the people are split, where a statistic is computed in parts", expert=True),
    },
    cautions=_cautions,
    meanings=_MEANINGS,
)
