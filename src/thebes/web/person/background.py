"""Background of a person's machine: whether it starts by itself, whether it says that something is new, and which walls
stand around what strangers send.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from fastapi.responses import Response

from thebes.data.sandbox.standing import walls
from thebes.person import notices
from thebes.person.autostart import UNHEARD, autostart, startable
from thebes.person.home import Person
from thebes.privacy.faults import Mistake
from thebes.web.person import words
from thebes.web.person.layout import PersonLayout, attempt, text


def routes(layout: PersonLayout) -> APIRouter:
    made, person = layout.routes(), layout.person

    @made.get("/privacy/background")
    def background(request: Request) -> Response:
        return layout.part("background.html", told=None, **_context(person))

    @made.get("/privacy/walls")
    def standing(request: Request) -> Response:
        """Show which walls stand; by itself, because each is tried."""
        return layout.part("walls.html", walls=[wall for wall in walls() if wall.name != "files"])  # that is a site's

    @made.post("/privacy/notices")
    def noticed(request: Request, body: Annotated[dict[str, Any], Body()]) -> Response:
        on = _on(body)
        person.set_settings({"notices": on})
        told = "Once a day you are told how many new questions there are." if on else "Nothing is said any more."
        return layout.part("background.html", told=told, **_context(person))

    @made.post("/privacy/autostart")
    def started(request: Request, body: Annotated[dict[str, Any], Body()]) -> Response:
        there = autostart(person.home)
        if _on(body):
            startable(person.home)
            there.turn_on()
            heard = there.heard()
            told = "From your next session on this machine starts by itself."
            told = told if heard else words.sentence(f"It is written down, but {UNHEARD}")
        else:
            there.turn_off()
            there.heard()
            told = "It starts only by hand. What runs now goes on."
        return layout.part("background.html", told=told, **_context(person))

    return made


def _on(body: dict[str, Any]) -> bool:
    word = text(body, "turn")
    if word not in ("on", "off"):
        raise Mistake("turn", "must be on or off")
    return word == "on"


def _context(person: Person) -> dict[str, Any]:
    starting, refused = attempt(lambda: autostart(person.home))
    return {
        "starting": starting,
        "unheard": UNHEARD if starting is not None and starting.on and not starting.answered() else None,
        "refused": refused,
        "notices": person.settings().notices,
        "desktop": notices.desktop() is not None,
        "home": str(person.home),
    }
