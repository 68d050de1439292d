"""Accepted: every participation, where it stands, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Request
from fastapi.responses import Response

from thebes.person.home import Person
from thebes.person.participation.participation import ParticipationState
from thebes.web.person import words
from thebes.web.person.answer import shown
from thebes.web.person.layout import Indoors
from thebes.web.person.tasks import TaskId
from thebes.wire.refusals import NotFound

Number = Annotated[int, Path(ge=0, le=1_000_000)]


def routes(indoors: Indoors) -> APIRouter:
    made, person = indoors.routes(), indoors.person

    @made.get("/accepted")
    def accepted(request: Request) -> Response:
        mine = _mine(person)
        return indoors.page(
            request,
            "accepted.html",
            title="Accepted",
            mine=[p for p in mine if p["state"] not in ("seen", "declined")],
            declined=[p for p in mine if p["state"] == "declined"],
        )

    @made.get("/accepted/{task_id}/{number}")
    def one(request: Request, task_id: TaskId, number: Number) -> Response:
        """One participation as it stands now; a page asks for it again and again while something may change, so
        nothing is read for it but what it shows."""
        p = person.participation(task_id, number)
        again = p["times"] > 1 and _open_again(p, person.participations())
        return indoors.part("participation.html", p=_ready(person, p, again=again), told=None)

    @made.post("/accepted/{task_id}/{number}/withdraw")
    def withdraw(
        request: Request, task_id: TaskId, number: Number, body: Annotated[dict[str, Any], Body()]
    ) -> Response:
        latest = max((p["number"] for p in person.participations() if p["task_id"] == task_id), default=None)
        if number != latest:
            raise NotFound("you took part in this task again since; only the latest contribution can be taken back")
        note = person.withdraw(task_id)["note"]
        told = words.sentence(note or "you took it back")
        return indoors.part("participation.html", p=_ready(person, person.participation(task_id, number)), told=told)

    return made


def _mine(person: Person) -> list[dict[str, Any]]:
    """Newest first, each with what it cost and its answer made ready to be drawn."""
    ledger = person.ledger()
    sent = {(h["task_id"], h["number"]): h["at"] for h in ledger["history"]}
    spent = {(e["task_id"], e["number"]): e["spent"] for e in ledger["entries"]}
    mine = person.participations()
    return [
        _ready(
            person,
            {**p, "sent": sent.get((p["task_id"], p["number"])), "spent": spent.get((p["task_id"], p["number"]))},
            again=_open_again(p, mine),
        )
        for p in reversed(mine)
    ]


def _open_again(p: Mapping[str, Any], mine: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether this is the latest time, it arrived, and there is another one."""
    same = [other for other in mine if other["task_id"] == p["task_id"]]
    latest = p["number"] == max(other["number"] for other in same)
    arrived = sum(bool(other["receipts"]) for other in same)
    return bool(latest and p["state"] == ParticipationState.SENT and arrived < p["times"])


def _ready(person: Person, p: Mapping[str, Any], *, again: bool = False) -> dict[str, Any]:
    standing = words.standing(p)
    forgotten = standing is words.FORGOTTEN
    return {
        **p,
        "again": again and not forgotten,
        "standing": standing,
        "answered": p["result"] is not None,
        "answer": None if p["result"] is None else shown(p["result"], person.document(p["task_id"])),
        "back": not forgotten
        and p["state"] in words.BACK
        and (p["returnable"] or p["state"] != ParticipationState.SENT),
    }
