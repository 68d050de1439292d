"""A question to institutions that is asked by how exact its answer is to be: the form's fields, and the document's.

What must stay true: what the price of such a question is, the coordinator says; a form that is filled in like an
earlier task asks for it anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thebes.tasks.query.kind import BY_ACCURACY

BY_PRICE, BY_EXACTNESS = "epsilon", "accuracy"
WAYS = {
    BY_PRICE: "by its price: the error bar says how exact the answer is",
    BY_EXACTNESS: "by how exact it is: the sites say what that costs",
}
FIELDS = ("asked_by", "alpha", "beta", "max_epsilon")
BETA = "0.05"


def possible(statistic: str) -> bool:
    """Return whether it is known beforehand how far noise moves this statistic."""
    return statistic in BY_ACCURACY


def idle(name: str, statistic: str, way: str) -> bool:
    """Return whether a field means nothing for what is asked in this way."""
    exact = way == BY_EXACTNESS and possible(statistic)
    return exact if name == "epsilon" else not exact if name in FIELDS else False


def nested(made: Mapping[str, Any]) -> dict[str, Any]:
    """A document, from the form's fields."""
    told = {name: value for name, value in made.items() if name not in ("asked_by", "alpha", "beta")}
    if "asked_by" not in made:
        return told
    return {**told, "accuracy": {name: made[name] for name in ("alpha", "beta") if name in made}}


def flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse; a price that was filled in is left out."""
    accuracy = document.get("accuracy")
    if not isinstance(accuracy, Mapping):
        return dict(document)
    told = {name: value for name, value in document.items() if name not in ("accuracy", "epsilon")}
    return {**told, "asked_by": BY_EXACTNESS, **accuracy}
