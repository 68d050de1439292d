"""A target for what a site answers over its link: a letter that chooses what it was asked, and the answer as JSON or as
a frame, in which `$task`, `$ask` and `$part` stand for what was asked.

What must stay true: whatever a site says, the task ends with it or without it; a word of one site never brings the
work for the others to an end that nobody meant.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from evidence.fuzz.kept import OPEN, folder
from tests.support.federation import PATIENTS, Gathering
from thebes.coordinator.sites.session import Conversation
from thebes.privacy.faults import Mistake
from thebes.wire.frames import Block
from thebes.wire.link import Oversized, Word, read_envelope, write_envelope

_COMMON = {"dataset": "patients", "patience": 60.0}
_EXACT = {"epsilon": 0.5, "statistic": "histogram", "noise": "coordinator"}
ASKED: dict[bytes, dict[str, Any]] = {
    b"c": {"type": "query", **_COMMON, "epsilon": 0.5, "statistic": "count"},
    b"m": {"type": "query", **_COMMON, "epsilon": 0.5, "statistic": "mean", "column": "age"},
    b"h": {"type": "query", **_COMMON, **_EXACT, "column": "sex"},
    b"t": {
        "type": "train", **_COMMON, "model": "LogisticRegression", "inputs": ["age"], "output": "sex",
        "rounds": 1, "epsilon": 1.0, "delta": 1e-6, "clip": 1.0,
    },
}  # fmt: skip
DESCRIBED = {"kind": "described", "datasets": {"patients": {"schema": PATIENTS, "public": False}}, "version": "1"}


class _Lamenting(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "cannot go on" in record.getMessage():  # that a store is busy for a moment is nobody's word
            self.heard.append(record.getMessage())


class _World:
    """A coordinator with one site, whose answers are the input."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._answer, self._asked = b"", set[str]()
        self._lamenting = _Lamenting()
        log = logging.getLogger("thebes.coordinator")
        log.addHandler(self._lamenting)
        OPEN.callback(log.removeHandler, self._lamenting)
        self._loop.run_until_complete(self._begin())
        OPEN.callback(self._close)

    def answered(self, document: dict[str, Any], answer: bytes) -> bool:
        """Return whether a task is done once its only site has said this, again and again."""
        self._answer, self._asked = answer, set()
        self._lamenting.heard.clear()
        told = self._loop.run_until_complete(self._over(document))
        assert not self._lamenting.heard, self._lamenting.heard
        return bool(told["status"] == "done")

    async def _over(self, document: dict[str, Any]) -> dict[str, Any]:
        return await self._gathering.over(await self._gathering.post(document), seconds=120)

    async def _begin(self) -> None:
        self._gathering = Gathering(folder())
        await self._gathering.open()
        self._site = Conversation("site", self._hear)
        self._gathering.links.put(self._site)
        await self._gathering.known("site")

    def _close(self) -> None:
        with suppress(RuntimeError):  # at the end of a process there are no threads any more
            self._loop.run_until_complete(self._gathering.close())
        self._loop.close()

    async def _hear(self, name: str, blocks: Sequence[Block]) -> None:
        said = self._said(read_envelope(b"".join(blocks)))
        allowed = self._site.allowed(name)
        if len(said) > allowed:
            self._loop.call_soon(self._site.refused, name, Oversized(name, allowed))
        else:
            self._loop.call_soon(self._site.heard, name, said)

    def _said(self, message: dict[str, Any]) -> bytes:
        if message["kind"] == Word.DESCRIBE:
            return write_envelope({**DESCRIBED, "id": "d"})
        if message["kind"] != Word.ASK:
            return write_envelope({"kind": "noted", "id": "n"})
        ask, task = message["ask"], message["task"]
        if ask["ask_id"] in self._asked:  # asked again, because it said that it was busy: not for a minute
            told = {"kind": "refusal", "id": "r", "task": task, "part": ask["part"], "code": "policy", "reason": "no"}
            return write_envelope(told)
        self._asked.add(ask["ask_id"])
        said = self._answer
        for place, value in ((b"$task", task), (b"$ask", ask["ask_id"]), (b"$part", ask["part"])):
            said = said.replace(place, value.encode())
        return said


@cache
def _world() -> _World:
    return _World()


def one(data: bytes) -> None:
    document = ASKED.get(data[:1])
    if document is None:
        raise Mistake("data", "begins with no letter that is known here")
    if not _world().answered(document, data[1:]):
        raise Mistake("answer", "was not taken")
