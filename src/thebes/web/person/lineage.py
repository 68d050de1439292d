"""The page of where it went: of everything that left the tables, its task, the release, and models begun from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.person.home import Person
from thebes.person.participation.lineage import Place
from thebes.privacy.figures import plural
from thebes.web.person.layout import PersonLayout, attempt
from thebes.web.person.tasks import TaskId

#: what was found, as a word and a colour; and what it means
FOUND = {
    Place.WAITING: ("no answer yet", "", "Your machine looks for your receipt once there is an answer."),
    Place.INCLUDED: ("in the answer", "good", "Your receipt is among those that this answer commits to."),
    Place.REMOVED: (
        "missing",
        "bad",
        "Your contribution arrived, and its receipt is not among those that this answer commits to: it was removed. "
        "Ask the operator of the coordinator why; your receipt, under Accepted, shows that it was there.",
    ),
    Place.LEFT_OUT: ("not in the answer", "good", "You took it back, and its receipt is not in this answer."),
    Place.KEPT: (
        "kept all the same",
        "bad",
        "You took it back, and its receipt is in this answer all the same. Ask the operator of the coordinator why.",
    ),
    Place.FORGED: ("not what others see", "bad", "The coordinator's records of this answer contradict each other:"),
    Place.UNTOLD: ("not told", "", "Whether your receipt is in it cannot be told:"),
    Place.NONE: ("no answer", "over", "The task ended without an answer, so nothing of yours is in one."),
    Place.UNLOOKED: ("not looked", "warn", "Your machine has not looked yet."),
}


def routes(layout: PersonLayout) -> APIRouter:
    made, person = layout.routes(), layout.person

    @made.get("/lineage")
    def page(request: Request) -> Response:
        return layout.page(request, "lineage.html", title="Where it went", **_context(person))

    @made.get("/lineage/now")
    def now(request: Request) -> Response:
        return layout.part("went.html", **_context(person))

    @made.post("/lineage/{task_id}/look")
    def look(request: Request, task_id: TaskId) -> Response:
        person.look_for_receipts(task_id)
        return layout.part("went.html", **_context(person, told="Your machine has looked again."))

    return made


def _context(person: Person, *, told: str | None = None) -> dict[str, Any]:
    went, trouble = attempt(person.lineage)
    names = {each["task_id"]: each["name"] for each in went or ()}
    return {"went": went or [], "trouble": trouble, "names": names, "found": found, "told": told}


def found(receipts: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what was found of receipts: a word, its colour, and a sentence."""
    word, colour, sentence = FOUND[Place(receipts["place"])]
    why = f" {receipts['why']}." if receipts["why"] and sentence.endswith((":", "yet.")) else ""
    if receipts["place"] == Place.REMOVED and receipts["why"]:
        why = f" Missing: {receipts['why']}."
    count = receipts["count"]
    beside = f" It is made from {plural(count, 'contribution')}." if count is not None else ""
    return word, colour, f"{sentence}{why}{beside}"
