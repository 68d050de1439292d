"""Words that say what a task is, as few as a list has room for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thebes.privacy.accounting.odds import large_delta, meaning
from thebes.tasks import registry
from thebes.tasks.mixed_reports import mixed_words
from thebes.tasks.site_document import in_all_words

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
LOOKS = {"open": "", "running": "warn", "done": "good", "failed": "bad", "cancelled": "bad", "expired": "bad"}


of, endless, subject = registry.words, registry.endless, registry.subject


def title(task: Mapping[str, Any]) -> str:
    """Its name, or what it is."""
    document = task["document"]
    return str(document.get("name") or f"{subject(document)} ({task['task_id'][:8]})")


def of_sites(document: Mapping[str, Any]) -> bool:
    """Return whether institutions answer a task, and not people."""
    return "dataset" in document


def trusting(document: Mapping[str, Any]) -> bool:
    """Return whether this server is shown what it could misuse, alone or together with a helper."""
    return document.get("server") in ("trusted", "split") or (
        of_sites(document) and document.get("noise") in ("coordinator", "split")
    )


def kind(document: Mapping[str, Any]) -> str:
    """Its kind and what comes out of it, nothing twice."""
    name, told = of(document["type"]).title, subject(document)
    return told if told.startswith(name) else f"{name}: {told}"


def beside_title(document: Mapping[str, Any]) -> str:
    """Its kind, and of what comes out of it only what its title does not say already; may be nothing."""
    if document.get("name"):
        return kind(document)
    name = of(document["type"]).title
    return "" if subject(document).startswith(name) else name


def trust(document: Mapping[str, Any]) -> str:
    """Say whom a task's contributors must trust."""
    if "split" in (document.get("server"), document.get("noise")):
        return "this server or its helper is trusted"
    if trusting(document):
        return "this server is trusted"
    return "each site is trusted with its own rows" if of_sites(document) else "nobody is trusted"


def standing(task: Mapping[str, Any]) -> str:
    """Its state in a sentence."""
    if endless(task["document"]["type"]) and task["status"] == "open":
        if task["contributions"] < task["min_count"]:
            return "It learns from every contribution. An answer is given out once there are enough."
        return "It learns from every contribution; its answer is below, as it stands now."
    if of_sites(task["document"]):
        return _OF_SITES.get(task["status"], STATES[task["status"]])
    return STATES[task["status"]]


def ending(task: Mapping[str, Any]) -> str:
    """Say in a word or two where it stands. Of a question to sites time has seldom run out: mostly they refused it."""
    return "no answer" if of_sites(task["document"]) and task["status"] == "expired" else str(task["status"])


def guess(price: Mapping[str, Any]) -> str:
    """Say how often a fifty-fifty guess between two answers would be right."""
    return meaning(price["epsilon"], price["delta"]).how_often


def large(price: Mapping[str, Any]) -> str:
    """Say what a large delta allows; nothing of a small one."""
    return large_delta(price["delta"])


def in_all(price: Mapping[str, Any]) -> str:
    """Say what somebody pays whose rows lie at all of several sites; nothing of one site, or of people."""
    told = price.get("in_all")
    return "" if told is None else in_all_words(told, "are asked")


def mixed(document: Mapping[str, Any]) -> str:
    """Say what holds against whoever sees the answers and cannot tell whose is whose, and on what it rests."""
    told = getattr(registry.accepted_earlier(document), "promised", None)
    if told is None:
        return ""
    return f"{mixed_words(told).capitalize()}. People pay the price above: whose limits are lower stay away."
