"""The form of a question to sites: by its price, or by how exact its answer is to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from thebes.curator.questions.question import GROUPED
from thebes.tasks import formulas
from thebes.tasks.form import HELPED, WHERE, Form, FormState, Hint, PartChoice
from thebes.tasks.query.kind import BY_ACCURACY


def _asks(*statistics: str) -> Callable[[FormState], bool]:
    return lambda composed: composed.get("statistic") in statistics


def _columns(composed: FormState) -> tuple[str, ...]:
    """The columns that the chosen statistic can be of."""
    keys = composed.keys if composed.get("statistic") == "histogram" else ()
    return (*composed.numbers, *keys)


_MEANINGS: Mapping[str, str] = {
    "join": "another data set of the same people, whose rows are joined person by person; both pay",
    "statistic": "what is asked",
    "statistics": "instead of statistic: up to 20 by name, under one noise",
    "statistics.*.statistic": "people counts each person once, however many rows they have",
    "statistics.*.quantile": "which one",
    "statistics.*.bins": "of a quantile: how many (a power of two; 1,024)",
    "statistics.*.column": "a count may be of a column, and means are of the rows that have a value in it",
    "statistics.*.weight": "gives it so many times the usual share of the price, and the others more noise",
    "column": "of every statistic but count and correlation",
    "columns": "the two of a correlation",
    "by": "columns whose values are declared: one number for each group, of count, sum, mean, variance, quantile",
    "max_groups_per_person": "of a key in by whose values nobody declared: they are found, one person counting with "
    "at most so many",
    "bins": "of a histogram over a range: how many, or the places to cut at. Of a quantile: how many (a power of two; "
    "1,024)",
    "quantile": "which one",
    "accuracy": "instead of epsilon: how exact the answer is to be",
    "accuracy.alpha": "all of the answer lies within so much of the exact one, in its own units",
    "accuracy.beta": "except with this probability",
    "max_epsilon": "the most that accuracy may cost; without it, whatever the sites are asked for",
    "privacy": "none, without epsilon: exact, and only where the steward of every site marked the data set public",
}

FORM = Form(
    rank=11,
    makes=lambda composed: formulas.names(composed.get("features")),
    fields={
        "asked_for": PartChoice(
            label="Asked for",
            parts={"one": "statistic", "several": "statistics"},
            told={"one": "one statistic", "several": "several statistics, each by its name, under one noise"},
        ),
        "statistic": Hint(first="count", when=lambda form: form.get("asked_for") != "several"),
        "statistics": Hint(
            help='such as {"n": {"statistic": "count"}, "age": {"statistic": "mean", "column": "age"}}',
            lines=4,
            wide=True,
            when=lambda form: form.get("asked_for") == "several",
        ),
        "column": Hint(
            columns=_columns,
            empty="choose one",
            when=_asks("sum", "mean", "variance", "histogram", "quantile"),
        ),
        "columns": Hint(label="Two columns", columns=lambda form: form.numbers, when=_asks("correlation")),
        "quantile": Hint(label="Which quantile", help="between 0 and 1; 0.5 is the median", when=_asks("quantile")),
        "bins": Hint(
            help="so many over the declared range, equally wide; or the places to cut at, with commas",
            wide=True,
            when=lambda form: (
                form.get("statistic") in ("histogram", "quantile") and form.get("column") not in form.keys
            ),
        ),
        "asked_by": PartChoice(
            label="Asked",
            parts={"epsilon": "epsilon", "accuracy": "accuracy"},
            told={
                "epsilon": "by its price: the error bar says how exact the answer is",
                "accuracy": "by how exact it is: the sites say what that costs",
            },
            when=_asks(*BY_ACCURACY),
        ),
        "accuracy.alpha": Hint(label="Within", help="so much of the exact answer, in its own units"),
        "accuracy.beta": Hint(label="Odds of missing that", help="0.05: once in twenty", first="0.05"),
        "max_epsilon": Hint(
            label="Epsilon at most",
            help="at each site; whatever it costs, if empty",
            when=lambda form: form.get("asked_by") == "accuracy",
        ),
        "epsilon": Hint(place="answer", help="what one person pays at each site that answers", derived=True),
        **HELPED,
        "features": formulas.FEATURES,
        "by": Hint(
            label="By group",
            help="one answer for each of the declared values",
            place="data",
            columns=lambda form: form.keys,
            when=lambda form: form.get("asked_for") == "several" or form.get("statistic") in GROUPED,
        ),
        "where": WHERE,
        "privacy": Hint(
            help="none: exact answers, of data sets that are public everywhere; then epsilon stays empty", expert=True
        ),
    },
    meanings=_MEANINGS,
)
