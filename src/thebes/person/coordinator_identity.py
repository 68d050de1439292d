"""The coordinator of a home: by which key its list is known here, and who runs it, in its own words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from thebes.person.tasks.task_feed import pinned_in
from thebes.privacy.plain_text import plain_text
from thebes.wire.client import CoordinatorClient
from thebes.wire.list_pin import is_fingerprint
from thebes.wire.problems import printable
from thebes.wire.refusals import NotFound
from thebes.wire.task_log import fingerprint


def key_of(home: Path, url: str | None, earlier: Iterable[tuple[str, float]]) -> dict[str, Any]:
    """Return the fingerprint that a home pins (None before first contact), and those of `earlier` keys, which gave way
    to it, each with the moment at which that was noticed."""
    key = pinned_in(home)
    told = [
        {"fingerprint": fingerprint(each), "until": datetime.fromtimestamp(moment, UTC).isoformat()}
        for each, moment in earlier
    ]
    known = key if key is None or is_fingerprint(key) else fingerprint(key)
    return {"url": url, "fingerprint": known, "earlier": told}


def about(client: CoordinatorClient) -> dict[str, str | None]:
    """Ask who runs the coordinator and how to reach them; None where it does not say."""
    try:
        told = client.about()
    except NotFound:  # an earlier version, which tells nothing
        told = {}
    said = {name: told.get(name) for name in ("operator", "contact")}
    return {n: plain_text(printable(v, 200)) if isinstance(v, str) else None for n, v in said.items()}
