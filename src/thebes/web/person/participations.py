"""Accepted: every participation, where it stands, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Request
from fastapi.responses import Response

from thebes.person.home import Person
from thebes.person.participation.participation import ParticipationState
from thebes.web.person import states, words
from thebes.web.person.answer import shown
from thebes.web.person.layout import PersonLayout, text
from thebes.web.person.tasks import TaskId
from thebes.wire.refusals import NotFound

Number = Annotated[int, Path(ge=0, le=1_000_000)]


def routes(layout: PersonLayout) -> APIRouter:
    made, person = layout.routes(), layout.person

    @made.get("/accepted")
    def accepted(request: Request) -> Response:
        return layout.page(request, "accepted.html", title="Accepted", **_mine(person))

    @made.get("/accepted/now")
    def now(request: Request) -> Response:
        """All of them as they stand now, for a page that is looked at for long."""
        return layout.part("mine.html", **_mine(person))

    @made.get("/accepted/{task_id}/{number}")
    def one(request: Request, task_id: TaskId, number: Number) -> Response:
        """One participation as it stands now."""
        p = person.participation(task_id, number)
        again = p["times"] > 1 and _open_again(p, person.participations())
        return layout.part("participation.html", p=_ready(person, p, again=again), told=None)

    @made.post("/accepted/{task_id}/{number}/withdraw")
    def withdraw(
        request: Request, task_id: TaskId, number: Number, body: Annotated[dict[str, Any], Body()]
    ) -> Response:
        latest = max((p["number"] for p in person.participations() if p["task_id"] == task_id), default=None)
        if number != latest:
            raise NotFound("you took part in this task again since; only the latest contribution can be taken back")
        note = person.withdraw(task_id, seen=text(body, "seen"), packets_sent=body.get("packets_sent"))["note"]
        told = words.sentence(note or "you took it back")
        return layout.part("participation.html", p=_ready(person, person.participation(task_id, number)), told=told)

    return made


def _mine(person: Person) -> dict[str, Any]:
    """List what was agreed to, its answers made ready to be drawn, and what was declined; newest first."""
    mine = person.participations()
    agreed = [p for p in reversed(mine) if p["state"] not in ("seen", "declined")]
    return {
        "mine": [_ready(person, p, again=_open_again(p, mine)) for p in agreed],
        "declined": [p for p in reversed(mine) if p["state"] == "declined"],
    }


def _open_again(p: Mapping[str, Any], mine: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether this is the latest time, it arrived, and there is another one."""
    same = [other for other in mine if other["task_id"] == p["task_id"]]
    latest = p["number"] == max(other["number"] for other in same)
    arrived = sum(bool(other["receipts"]) for other in same)
    return bool(latest and p["state"] == ParticipationState.SENT and arrived < p["times"])


def _ready(person: Person, p: Mapping[str, Any], *, again: bool = False) -> dict[str, Any]:
    forgotten = states.standing(p) is states.FORGOTTEN
    return {
        **p,
        "again": again and not forgotten,
        "answered": p["result"] is not None,
        "answer": None if p["result"] is None else shown(p["result"], person.document(p["task_id"])),
        "back": states.takes_back(p),
    }
