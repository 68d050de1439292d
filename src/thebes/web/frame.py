"""The frame around every page: templates, words for numbers, and the files a page loads.

What must stay true: everything is escaped, nothing is loaded from elsewhere, no page needs more than the strict
policy of `thebes.wire.headers` allows.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import partial as partial_of
from pathlib import Path
from types import CodeType
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, Response
from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup, escape
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from thebes import __version__
from thebes.privacy.figures import percent, plural, spaced
from thebes.privacy.plain_text import plain_text
from thebes.tasks import drawings
from thebes.wire.guard import is_for_eyes
from thebes.wire.refusals import NotFound

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class NavigationEntry:
    """An entry of the navigation."""

    address: str
    name: str


class CompiledTemplates(BytecodeCache):
    """The code of every template that this process has compiled: frames differ in what they say, not in that."""

    def __init__(self) -> None:
        self._code: dict[tuple[str, str], CodeType | None] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._code.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._code[bucket.key, bucket.checksum] = bucket.code


_COMPILED = CompiledTemplates()


class PageFrame:
    """Renders the pages of one server. `places` are its navigation, `about` says whose server it is, `clock` in which
    zone it tells moments; None: in this machine's."""

    def __init__(self, about: str, places: Sequence[NavigationEntry], *, clock: tzinfo | None = UTC) -> None:
        self._templates = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            bytecode_cache=_COMPILED,
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_shown,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(
            figure=spaced,
            percent=percent,
            when=partial_of(when, clock=clock),
            day=day,
            pretty=pretty,
            epsilon=spaced,
            plural=plural,
            apart=apart,
        )
        self._templates.globals.update(about=about, places=places, version=__version__, draw=drawings)

    def page(self, request: Request, template: str, *, status: int = 200, title: str, **context: Any) -> HTMLResponse:
        """A whole page, or what changes of it when a part of a page asked (htmx swaps fragments)."""
        body = self._templates.get_template(template).render(
            title=title, here=request.url.path, whole=not partial(request), **context
        )
        return HTMLResponse(body, status)

    def part(self, template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
        """A piece of a page."""
        return HTMLResponse(self._templates.get_template(template).render(**context), status)


def serve_files(api: FastAPI) -> None:
    """The stylesheet and the scripts, from this package, and the icon where browsers look that were told of none."""
    api.add_api_route("/favicon.ico", _icon, methods=["GET", "HEAD"], include_in_schema=False)
    api.mount("/static", StaticFiles(directory=_HERE / "static"), name="static")


def _icon() -> Response:
    return FileResponse(_HERE / "static" / "thebes.svg", media_type="image/svg+xml")


def serve_no_page(api: FastAPI, tell: Callable[[Request, NotFound], Awaitable[Response]]) -> None:
    """Show a browser a page that says so where there is no page; programs are answered as before."""
    as_before: Any = api.exception_handlers[HTTPException]

    async def told(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101
        if error.status_code in (404, 405) and is_for_eyes(request.scope):
            return await tell(request, NotFound("there is no page at this address"))
        answer = as_before(request, error)
        answered: Response = await answer if inspect.isawaitable(answer) else answer
        return answered

    api.add_exception_handler(HTTPException, told)


def _shown(value: Any) -> Any:
    """Strangers' words as they may be shown; markup was made here."""
    return plain_text(value) if type(value) is str else value


def partial(request: Request) -> bool:
    """Return whether a part of a page asked, and wants no frame."""
    return request.headers.get("hx-request-type") == "partial"


# --- words for numbers --------------------------------------------------------------------------------------


def apart(digest: str) -> str:
    """A digest in groups of four, as it is compared by eye or read out over a telephone."""
    return " ".join(digest[place : place + 4] for place in range(0, len(digest), 4))


def when(moment: float | str | None, clock: tzinfo | None = UTC) -> Markup:
    """A moment for people and machines; given in seconds since 1970 or as ISO 8601, shown in the zone of a clock."""
    if moment is None:
        return Markup("–")
    at = datetime.fromtimestamp(moment, UTC) if isinstance(moment, (int, float)) else datetime.fromisoformat(moment)
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(
        at.isoformat(timespec="seconds"), f"{at.astimezone(clock):%Y-%m-%d %H:%M %Z}"
    )


def day(date: str) -> Markup:
    """A date as it stands, never broken over two lines."""
    return Markup('<time datetime="{}">{}</time>').format(date, date)


def pretty(document: Mapping[str, Any]) -> Markup:
    """JSON with its parts marked, so that keys, words and numbers differ to the eye."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    visible = "".join(c if c == "\n" or plain_text(c) else f"\\u{ord(c):04x}" for c in text)
    return Markup("").join(_marked(visible))


def _marked(text: str) -> list[Markup]:
    """Tokens of indented JSON, each in a span of its kind."""
    pieces: list[Markup] = []
    place = 0
    while place < len(text):
        if text[place] == '"':
            end = _end_of_string(text, place)
            kind = "key" if text[end : end + 1] == ":" else "word"
        elif text[place] in "-0123456789":
            end, kind = place + 1, "number"
            while text[end : end + 1] in set("0123456789+-.eE"):
                end += 1
        elif text[place].isalpha():
            end, kind = place + 1, "number"
            while text[end : end + 1].isalpha():
                end += 1
        else:
            pieces.append(escape(text[place]))
            place += 1
            continue
        pieces.append(Markup('<span class="{}">{}</span>').format(kind, text[place:end]))
        place = end
    return pieces


def _end_of_string(text: str, start: int) -> int:
    place = start + 1
    while text[place] != '"':
        place += 2 if text[place] == "\\" else 1
    return place + 1
