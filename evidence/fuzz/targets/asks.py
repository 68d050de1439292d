"""A target for what a coordinator says to a site, once it is read: JSON of an envelope.

What must stay true: a site answers, in words of its own, and never with what nobody thought of; nothing is released
beyond what its ledger had.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from evidence.fuzz.kept import OPEN, folder
from tests.support.site_home import site_home
from thebes.privacy.faults import Mistake
from thebes.site.algorithm_process import Office
from thebes.wire.link import Code, Word, read_envelope, write_envelope

_WORDS = (Word.ASK, Word.QUOTE, Word.CLOSED, Word.DESCRIBE, Word.PING)


@cache
def _office() -> Office:
    office = Office(site_home(folder() / "site", epsilon=1e6), "site")
    for each in (office.ledger, office.outbox, office.audit):
        OPEN.callback(each.close)
    return office


def one(data: bytes) -> None:
    message = read_envelope(data)
    if message["kind"] not in _WORDS:
        raise Mistake("kind", "is none that a coordinator says")
    answer = _office().answer(message)
    written = write_envelope({**answer, "id": "a"})
    again: dict[str, Any] = read_envelope(written, arrays=False)
    json.dumps(again, allow_nan=False)
    if answer["kind"] == Word.REFUSAL:
        assert answer["code"] != Code.FAILED, "a site met what nobody thought of"
        raise Mistake("ask", answer["reason"])
