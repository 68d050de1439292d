"""Videos watched, from the history that Google Takeout exports of YouTube."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from thebes.collectors.declaration import Collector, Option, table
from thebes.collectors.session import Session
from thebes.collectors.sources import SourceFile, broken, members, moment, words
from thebes.collectors.stream_parser import items

_NAMES = frozenset(
    {
        "watch history",  # English, French and more
        "wiedergabeverlauf",  # German
        "kijkgeschiedenis",  # Dutch
        "historial de reproducciones",  # Spanish
        "cronologia visualizzazioni",  # Italian
        "histórico de visualização",  # Portuguese
        "histórico de visualizações",
        "historia oglądania",  # Polish
        "visningshistorik",  # Swedish
        "观看记录",  # Chinese
    }
)
_SOUGHT = (
    "watch-history.json, Wiedergabeverlauf.json, kijkgeschiedenis.json and the like; where it is .html, ask Takeout "
    "again and choose JSON for the history"
)
_PRODUCTS = {"YouTube": "video", "YouTube Music": "music", "YouTube TV": "television", "YouTube Kids": "kids"}


class Youtube(Collector):
    """Times and kinds; titles are never read into a row, and searches never at all."""

    name = "youtube"
    version = 1
    description = "When you watch videos on YouTube."
    reads = (
        "The watch history of YouTube in the .zip of Google Takeout (chosen as JSON there), or that file itself. Of "
        "each video when you watched it and which kind it was; whose it was only with --channel. Never titles or "
        "addresses of videos, and never what you searched for."
    )
    tables = (
        table(
            "views",
            "Videos you watched",
            at=("timestamp", "in UTC"),
            kind=("string", "video, music, advertisement, post, removed (no longer there), television, kids or other"),
            channel=("string", "whose video it was; empty unless installed with --channel"),
        ),
    )
    options = (
        Option("file", "the .zip of Takeout, its folder, or watch-history.json", "path", required=True, several=True),
        Option("channel", "keep the names of channels", "flag"),
    )

    def collect(self, session: Session) -> None:
        for file in session.options["file"]:
            for member in members(file, _wanted, _SOUGHT):
                _read(session, member)


def _wanted(name: str) -> bool:
    """Return whether a member is a watch history, in any of its languages; some programs spell letters apart from
    their marks."""
    last, dot, end = unicodedata.normalize("NFC", name).rpartition("/")[2].lower().rpartition(".")
    return dot == "." and end == "json" and re.sub(r"[-_\s]", " ", last) in _NAMES


def _read(session: Session, member: SourceFile) -> None:
    for key, item, line in items(member.stream, member.name):
        if key or not isinstance(item, dict) or not isinstance(item.get("header"), str):
            raise broken(member.name, line, "is not a watch history of YouTube")
        at = moment(item.get("time"))
        if at is None:
            raise broken(member.name, line, "has no time that can be read")
        kind = _kind(item)
        if kind is None:
            session.leave_out("searches")
            continue
        channel = _channel(item) if session.options["channel"] else None
        session.insert("views", {"at": at, "kind": kind, "channel": channel}, key=[at, kind])


def _kind(item: Mapping[str, Any]) -> str | None:
    """Return the kind by what no language changes; None for a search, which has no place in a watch history."""
    address = item.get("titleUrl")
    address = address if isinstance(address, str) else ""
    if re.search(r"/results\?|[?&]search_query=", address):
        return None
    details = item.get("details")
    if any(isinstance(each, dict) and "Google Ads" in str(each.get("name")) for each in _list(details)):
        return "advertisement"
    if not address:
        return "removed"
    if "/post/" in address or "/community" in address:
        return "post"
    return _PRODUCTS.get(item["header"], "other")


def _channel(item: Mapping[str, Any]) -> str | None:
    for each in _list(item.get("subtitles")):
        if isinstance(each, dict) and isinstance(each.get("url"), str):
            return words(each.get("name"), 200)
    return None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
