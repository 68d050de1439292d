"""Words that say what a task is, as few as a list has room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thebes.privacy.accounting.odds import meaning

KINDS = {
    "basic": "One statistic",
    "integrated": "A model",
    "bounded": "Perturbed rows",
    "gradient": "A network",
    "ensemble": "An ensemble",
    "draw-discard": "A model that keeps learning",
    "query": "A question to sites",
    "train": "A model over sites",
    "pipeline": "A model of a stream",
    "algorithm": "Blocks over sites",
}
#: kinds that are trained without end: an answer is there while contributions come in
ENDLESS = ("draw-discard",)
#: what the state means for who looks
STATES = {
    "open": "Contributions are coming in.",
    "running": "There are enough contributions; the answer is being computed.",
    "done": "The answer is there.",
    "failed": "The answer could not be computed. Nothing more will be released.",
    "cancelled": "Cancelled; nothing more will be released.",
    "expired": "Too few people took part in time. Nothing was released.",
}
#: the same of a task that institutions answer
_OF_SITES = {
    "open": "The sites are being asked.",
    "expired": "Too few sites answered. Nothing was released.",
}
_MOST_COLUMNS = 3  #: that a few words name
LOOKS = {"open": "", "running": "warn", "done": "good", "failed": "bad", "cancelled": "bad", "expired": "bad"}


def title(task: Mapping[str, Any]) -> str:
    """Its name, or what it is."""
    document = task["document"]
    return str(document.get("name") or f"{subject(document)} ({task['task_id'][:8]})")


def subject(document: Mapping[str, Any]) -> str:
    """Name what comes out of a task."""
    type_ = document["type"]
    if type_ == "basic":
        return str(document["aggregator"]).replace("_", " ").capitalize()
    if type_ == "integrated":
        return f"{document['model']} for {document['output']}"
    if type_ == "ensemble":
        return f"Classifier of {document['label']}"
    if type_ == "bounded":
        return f"Perturbed rows of {_listed(list(document['bounds']))}"
    if type_ == "gradient":
        return f"A network for {_listed(document['outputs'])}"
    if type_ == "draw-discard":
        return f"{str(document.get('family', 'network')).capitalize()} model of {document['output']}"
    if type_ == "query":
        return _queried(document)
    if type_ == "train":
        model = str(document["model"])
        return f"{model if len(model) < 40 else 'A network'} for {document['output']}"
    if type_ == "pipeline":
        return f"{document['model']} for {document.get('output') or _listed(document['inputs'])}"
    if type_ == "algorithm":
        return _composed(document)
    return KINDS.get(type_, str(type_))


def _composed(document: Mapping[str, Any]) -> str:
    """Name what the blocks of an algorithm make."""
    if document["map"].get("gradient"):
        return subject({**document["map"]["gradient"], "type": "train"})
    return _queried({**document["map"]["statistic"], "statistic": document["reduce"]})


def _queried(document: Mapping[str, Any]) -> str:
    """A statistic, of what, by what."""
    columns = document.get("columns") or ([document["column"]] if document.get("column") else [])
    of = f" of {' and '.join(columns)}" if columns else f" of rows in {document['dataset']}"
    by = f" by {' and '.join(document['by'])}" if document.get("by") else ""
    return f"{str(document['statistic']).capitalize()}{of}{by}"


def of_sites(document: Mapping[str, Any]) -> bool:
    """Return whether institutions answer a task, and not people."""
    return "dataset" in document


def trusting(document: Mapping[str, Any]) -> bool:
    """Return whether this server is shown what it could misuse."""
    return document.get("server") == "trusted" or (of_sites(document) and document.get("noise") == "coordinator")


def kind(document: Mapping[str, Any]) -> str:
    """Its kind and what comes out of it, nothing twice."""
    name, told = KINDS.get(document["type"], str(document["type"])), subject(document)
    return told if told.startswith(name) else f"{name}: {told}"


def beside_title(document: Mapping[str, Any]) -> str:
    """Its kind, and of what comes out of it only what its title does not say already; may be nothing."""
    if document.get("name"):
        return kind(document)
    name = KINDS.get(document["type"], str(document["type"]))
    return "" if subject(document).startswith(name) else name


def _listed(columns: Sequence[str]) -> str:
    more = len(columns) - _MOST_COLUMNS
    return ", ".join(map(str, columns[:_MOST_COLUMNS])) + (f" and {more} more" if more > 0 else "")


def trust(document: Mapping[str, Any]) -> str:
    """Say whom a task's contributors must trust."""
    if trusting(document):
        return "this server is trusted"
    return "each site is trusted with its own rows" if of_sites(document) else "nobody is trusted"


def standing(task: Mapping[str, Any]) -> str:
    """Its state in a sentence."""
    if task["document"]["type"] in ENDLESS and task["status"] == "open":
        if task["contributions"] < task["min_count"]:
            return "It learns from every contribution. An answer is given out once there are enough."
        return "It learns from every contribution; its answer is below, as it stands now."
    if of_sites(task["document"]):
        return _OF_SITES.get(task["status"], STATES[task["status"]])
    return STATES[task["status"]]


def guess(price: Mapping[str, Any]) -> str:
    """Say how often a fifty-fifty guess between two answers would be right."""
    return meaning(price["epsilon"], price["delta"]).how_often
