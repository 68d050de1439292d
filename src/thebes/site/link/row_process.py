"""The other process as the one that talks sees it: somebody to whom messages are passed on, and who may be gone.

What must stay true: only what a coordinator may say is passed on; while nobody is there every question is answered,
with `down`, and everything else goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from thebes.privacy.faults import Mistake
from thebes.wire.link import Code, Pipe, Word, glance, read_envelope, write_envelope
from thebes.wire.refusals import Malformed, TooLarge, Unreachable

PASSED_ON = (Word.DESCRIBE, Word.QUOTE, Word.ASK, Word.HELP, Word.CLOSED)
_OWN = "own-"  #: how ids of the steward's own questions begin
_OWN_SECONDS = 30.0
_DOWN = "the site's algorithm process does not run just now; it is started again"

#: takes an answer's id and body
Answered = Callable[[str, bytes], Awaitable[None]]


class Algorithm:
    """The process behind the newest pipe. `answered` hears what is meant for the coordinator."""

    def __init__(self, answered: Answered) -> None:
        self._answered = answered
        self._pipe: Pipe | None = None
        self._reading: asyncio.Task[None] | None = None
        self._passed: dict[str, Mapping[str, Any]] = {}
        self._own: dict[str, asyncio.Future[Any]] = {}

    @property
    def up(self) -> bool:
        return self._pipe is not None

    async def meet(self, end: socket.socket) -> None:
        """A new process is behind this socket; the one before is gone."""
        await self._lose(self._pipe)
        self._pipe = await Pipe.over(end)
        self._reading = asyncio.create_task(self._read(self._pipe))

    async def pass_on(self, about: Mapping[str, Any], body: bytes) -> None:
        """Hand on what the coordinator said; where nobody is there, say so instead."""
        name = str(about["id"])
        if name.startswith(_OWN) or name in self._passed:
            raise Malformed("envelope", "has an id that is taken")
        pipe = self._pipe
        if pipe is None:
            await self._answered(name, _down(about))
            return
        self._passed[name] = {field: about.get(field) for field in ("id", "kind", "task", "ask")}
        with contextlib.suppress(ConnectionError):  # whoever reads the pipe notices, and answers
            await pipe.send_bytes(body)

    async def ask(self, kind: str, **more: Any) -> Any:
        """Ask for what the steward wants to see, or to have done."""
        pipe, name = self._pipe, _OWN + secrets.token_hex(8)
        if pipe is None:
            raise Unreachable("the algorithm process", "does not run just now; it is started again")
        answer = self._own[name] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(_OWN_SECONDS):
                await pipe.send({"kind": kind, "id": name, **more})
                return await answer
        except (TimeoutError, ConnectionError):
            raise Unreachable("the algorithm process", "does not answer; try again in a moment") from None
        finally:
            del self._own[name]

    def forget(self) -> None:
        """The link broke: nobody waits for what was asked over it. What is answered all the same is on disk there."""
        self._passed.clear()

    async def close(self) -> None:
        await self._lose(self._pipe)

    async def _read(self, pipe: Pipe) -> None:
        try:
            while (body := await pipe.receive_bytes()) is not None:
                name = str(glance(body)["id"])
                own = self._own.get(name)
                if own is not None and not own.done():
                    _tell(own, read_envelope(body))
                elif self._passed.pop(name, None) is not None:
                    await self._answered(name, body)
                del body
        except (Malformed, TooLarge, ConnectionError):
            pass  # killed in the middle of a message
        finally:
            if self._pipe is pipe:
                await self._lose(pipe)

    async def _lose(self, pipe: Pipe | None) -> None:
        if pipe is None or self._pipe is not pipe:
            return
        self._pipe = None
        waiting, self._passed = self._passed, {}  # before anything is awaited: what comes then is for the next process
        for own in self._own.values():
            if not own.done():
                own.set_exception(ConnectionError())
        if self._reading is not None and self._reading is not asyncio.current_task():
            self._reading.cancel()
        await pipe.close()
        for about in waiting.values():
            await self._answered(str(about["id"]), _down(about))


def _tell(own: asyncio.Future[Any], answer: Mapping[str, Any]) -> None:
    """Tell whoever asked what was asked, or the mistake in the question."""
    if answer["kind"] == "problem":
        own.set_exception(Mistake(str(answer.get("field") or "request"), _said(answer)))
    else:
        own.set_result(answer.get("body"))


def _said(answer: Mapping[str, Any]) -> str:
    """A mistake's message without its field, which it begins with."""
    return str(answer.get("reason", "")).removeprefix(f"{answer.get('field')}: ")


def _down(about: Mapping[str, Any]) -> bytes:
    ask = about.get("ask")
    place = {"task": about.get("task"), "part": ask.get("part") if isinstance(ask, Mapping) else None}
    told = {"kind": Word.REFUSAL, "id": about["id"], **place, "code": Code.DOWN, "reason": _DOWN}
    return write_envelope(told)
