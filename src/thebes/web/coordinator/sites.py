"""Institutions: which there are and what they have; and how a task goes that they answer.

What must stay true: nothing here is a count of anybody's rows; who is missing is named with the reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup

from thebes.coordinator.auth.accounts import Somebody
from thebes.data.schema import size_of
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.figures import plural, spaced
from thebes.tasks import drawings
from thebes.tasks.answer_view import Cells
from thebes.web.coordinator.layout import CoordinatorLayout, Visitor, sentence, text
from thebes.wire.link import Code
from thebes.wire.refused_sites import why

#: of a site: how its state looks, and what it means
STATES = {
    "connected": ("good", "linked just now"),
    "away": ("warn", "not linked just now: it is asked when it comes back in time, and named in the answer if not"),
    "revoked": ("bad", "may no longer take part: its certificate was revoked"),
    "never": ("", "has a certificate, and was never linked"),
}
#: of a join code: how its state looks, and what it means
CODE_STATES = {
    "open": ("warn", "not used yet"),
    "used": ("good", "the site has joined"),
    "expired": ("", "nobody used it in time"),
    "replaced": ("", "another code was made"),
    "withdrawn": ("", "it was taken back"),
    "wrong": ("bad", "somebody tried it with wrong proofs; make another, and ask who could have seen it"),
}
Work = Callable[[dict[str, Any], Somebody], Awaitable[tuple[str, str]]]  #: a sentence, and the code that is shown once
PARTS = {"compute": "at the slowest site", "transfer": "on the way", "aggregation": "here"}
_MOST_BARS = 60  #: rounds that are drawn one by one, the last ones
_COLUMNS = ("phase", *PARTS)


def routes(layout: CoordinatorLayout) -> APIRouter:
    made = layout.routes()

    @made.get("/sites")
    async def sites(request: Request) -> Response:
        """Every institution that may take part or ever did."""
        found, visitor = await layout.service.sites(), await layout.visitor(request)
        told = {"sites": found, "states": STATES, "bounds": bounds, **await listed(visitor)}
        return await layout.page(request, "sites.html", title="Sites", visitor=visitor, **told)

    async def listed(visitor: Visitor, words: str = "", good: bool = False, code: str = "") -> dict[str, Any]:
        """Tell what became of join codes, for operators."""
        codes: list[dict[str, Any]] = []
        if visitor.operates and visitor.somebody is not None:
            codes = await layout.service.joining.codes(visitor.somebody)
        return {"codes": codes, "code_states": CODE_STATES, "words": words, "good": good, "code": code}

    async def done(request: Request, work: Work) -> Response:
        """Change something, then show the codes again, with what happened above them."""
        body, asking = await layout.written(request), await layout.somebody(request)
        code = ""
        try:
            (told, code), good = await work(body, asking), True
        except Mistake as mistake:
            told, good = f"{mistake.argument}: {mistake.message}", False
        except Refusal as refusal:
            told, good = sentence(str(refusal)), False
        return layout.part("join_codes.html", **await listed(await layout.visitor(request), told, good, code))

    @made.post("/sites/code")
    async def invite(request: Request) -> Response:
        """A join code for a site, shown once."""

        async def work(body: dict[str, Any], asking: Somebody) -> tuple[str, str]:
            site = text(body, "site")
            code, until = await layout.service.joining.invite(site, asking)
            return f"Hand this code to the steward of {site} only, until {until:%Y-%m-%d %H:%M} UTC.", str(code)

        return await done(request, work)

    @made.post("/sites/code/withdraw")
    async def withdraw(request: Request) -> Response:
        """End an open code."""

        async def work(body: dict[str, Any], asking: Somebody) -> tuple[str, str]:
            await layout.service.joining.withdraw(text(body, "site"), asking)
            return f"The join code of {text(body, 'site')} is no longer valid.", ""

        return await done(request, work)

    return made


def bounds(column: Mapping[str, Any]) -> str:
    """Say what a column may hold, as it is declared."""
    if column.get("values"):
        some = [str(value) for value in column["values"][:8]]
        return ", ".join(some) + (f" and {len(column['values']) - 8} more" if len(column["values"]) > 8 else "")
    if size := size_of(column):
        return f"{size}; for networks only"
    if column.get("low") is not None:
        return f"{spaced(column['low'])} to {spaced(column['high'])}"
    return "anything; only in conditions"


@dataclass(frozen=True, slots=True)
class Seat:
    """One site that is asked, or is not. `look` is the class of its tag."""

    site: str
    word: str
    look: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class SiteTaskCourse:
    """The course of a task that sites answer. The drawings are there once a phase is over."""

    seats: tuple[Seat, ...]
    needed: int
    phase: int  #: phases that are over
    phases: int
    curve: Markup | None = None
    measure: str = ""
    latest: str = ""
    time: Markup | None = None
    seconds: str = ""


def course(progress: Mapping[str, Any], *, over: bool) -> SiteTaskCourse:
    """Draw what the coordinator tells of a task that sites answer."""
    told = progress["sites"]
    timed = told.get("seconds", {}).get("phases", [])
    rounds, phases = told.get("rounds") or [], int(told.get("phases", 1))
    curve, measure = _curve(rounds, phases)
    return SiteTaskCourse(
        seats=tuple(_seats(told, over=over)),
        needed=int(told.get("needed", 1)),
        phase=len(timed) if phases == 1 or not rounds else len(rounds),
        phases=phases,
        curve=curve,
        measure=measure,
        latest=_latest(rounds),
        time=_time(timed),
        seconds=_seconds(told.get("seconds", {}).get("total", {})),
    )


def history(progress: Mapping[str, Any]) -> Cells:
    """Every round as a table."""
    told = progress["sites"]
    rounds = {int(each["round"]): each for each in told.get("rounds") or []}
    timed = {int(each["phase"]): each for each in told.get("seconds", {}).get("phases", [])}
    head = ("round", "sites", "loss", "update", *(f"seconds {name}" for name in PARTS))
    rows = []
    for number in sorted({*rounds, *timed}):
        one, spent = rounds.get(number, {}), timed.get(number, {})
        told_ = (one.get("sites", ""), one.get("loss", ""), one.get("update", ""))
        rows.append((number + 1, *told_, *(spent.get(part, "") for part in PARTS)))
    return head, rows


def _seats(told: Mapping[str, Any], *, over: bool) -> Iterable[Seat]:
    answered, missing, reasons = set(told["answered"]), told["missing"], told.get("reasons", {})
    for site in told["asked"]:
        if site in missing:
            yield Seat(site, "missing", "bad", why(reasons.get(site), missing[site]))
        elif site in answered:
            yield Seat(site, "answered", "good")
        else:
            yield Seat(site, "did not answer" if over else "is asked", "bad" if over else "warn")
    for site, because in told["left_out"].items():
        yield Seat(site, "not asked", "", why(Code.SCHEMA, because))


def _curve(rounds: list[Mapping[str, Any]], phases: int) -> tuple[Markup | None, str]:
    """The loss, where it was bought; else how far each round moved the weights."""
    field, measure = (
        ("loss", "Mean loss") if any("loss" in each for each in rounds) else ("update", "Size of the update")
    )
    points = [(float(each["round"] + 1), float(each[field])) for each in rounds if field in each]
    if not points:
        return None, measure
    until = (float(phases), "", plural(phases, "round"))
    return drawings.line(points, title=f"{measure} by round", until=until), measure


def _latest(rounds: list[Mapping[str, Any]]) -> str:
    if not rounds:
        return ""
    last = rounds[-1]
    told = [f"loss {spaced(last['loss'])}"] if "loss" in last else []
    told += [f"update {spaced(last['update'])}"] if "update" in last else []
    return f"Round {spaced(last['round'] + 1)}: {', '.join(told)}; {plural(last['sites'], 'site')} answered."


def _time(timed: list[Mapping[str, Any]]) -> Markup | None:
    if len(timed) < 2:
        return None
    shown = timed[-_MOST_BARS:]
    first, last = int(shown[0]["phase"]) + 1, int(shown[-1]["phase"]) + 1
    ends = (f"round {first}", f"round {last}") if last > first else ("", "")
    columns = [[1000 * float(each[part]) for part in PARTS] for each in shown]
    title = f"Milliseconds of {plural(len(shown), 'round')}: {', '.join(PARTS.values())}"
    return drawings.stacked(columns, names=tuple(PARTS.values()), title=title, unit="ms", ends=ends)


def _seconds(total: Mapping[str, float]) -> str:
    told = [f"{spaced(total[part], 3)} s {name}" for part, name in PARTS.items() if part in total]
    return ", ".join(told)
