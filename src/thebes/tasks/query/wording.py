"""The words for a question: what it asks and costs, as stewards and requestors are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thebes.privacy.figures import figure

if TYPE_CHECKING:
    from thebes.tasks.query.kind import QueryDocument


def datasets(document: Mapping[str, Any]) -> str:
    return f"{document['dataset']} joined with {document['join']}" if document.get("join") else str(document["dataset"])


def does(document: QueryDocument) -> str:
    """Say what is computed, in one sentence."""
    by = f", for each {' and '.join(document.by)}" if document.by else ""
    if document.max_groups_per_person is not None:
        by += (
            ", where values of a key that nobody declared are first found: those that enough people have by a noisy "
            f"number, each counting with at most {document.max_groups_per_person}, for half of the price"
        )
    which = f", of the rows where {document.where.strip()}" if document.where else ""
    if document.statistics is None:
        what = _what(document.statistic, document.columns or (document.column,), document.quantile)
    else:
        each = [_what(one.statistic, (one.column,), one.quantile) for one in document.statistics.values()]
        what = f"{'; '.join(each)}{' (all at once, under one noise)' if len(each) > 1 else ''}"
    joined = ""
    if document.join is not None:
        joined = (
            f" The rows are those of {document.dataset} joined with those of {document.join} of the same person, of "
            "each as many as its schema lets count"
            f"{'' if document.privacy == 'none' else '; both data sets pay the whole price'}."
        )
    return f"It asks {what}{by}{which}: a number for each answer, never a row.{joined}"


def _what(statistic: str | None, columns: Sequence[str | None], quantile: float | None) -> str:
    """Say what one statistic is."""
    named = " and ".join(filter(None, columns))
    share = "" if quantile is None else f" below which a share of {figure(quantile)} of the rows lies"
    return {
        "count": f"how many rows have a value in {named}" if named else "how many rows there are",
        "people": "how many people there are",
        "sum": f"the sum of {named}",
        "mean": f"the mean of {named}",
        "variance": f"the variance of {named}",
        "histogram": f"how many rows have which {named}",
        "quantile": f"the value of {named}{share}",
        "correlation": f"the correlation of {named}",
    }[statistic or "count"]


def price(document: QueryDocument) -> str | None:
    """Say what an accuracy costs, as far as that is known; None: what every document says."""
    if document.accuracy is None:
        return None
    share = 100 * (1 - document.accuracy.beta)
    within = figure(document.accuracy.alpha)
    asked = f"It asks for an answer that lies within {within} of the exact one {figure(share)} % of the time"
    delta = f" and delta {figure(document.delta)}" if document.delta else ""
    if document.priced:
        return (
            f"{asked}. Price at each site that answers: at most epsilon {figure(document.epsilon)}{delta}; less, or "
            "nothing, where the same was answered before. Somebody whose rows lie at several sites pays at each of "
            "them."
        )
    most = "" if document.max_epsilon is None else f", and at most epsilon {figure(document.max_epsilon)}{delta}"
    return f"{asked}. What that costs the sites say before anything is computed{most}."
