"""The session in which things are said with one linked site: questions, and answers that are told apart by their
ids."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thebes.privacy.faults import ThebesError
from thebes.wire.frames import Block
from thebes.wire.link import MOST_BYTES, Word, new_id, pieces, read_envelope, write_blocks

_HEAVY = 2**18  #: bytes (or numbers) from which a message is read and written beside the event loop
_WAITING = 4  #: messages to one site that may be on their way together
#: an answer that holds nothing but words
SHORT = 2**16


class LinkLost(Exception):
    """The link ended before the answer came; whether the site heard the question is not known."""


@dataclass(frozen=True, slots=True)
class _Pending:
    most: int
    answer: asyncio.Future[bytes | dict[str, Any]]


class Conversation:
    """`send` takes a message's id and body and returns when there is room for it. Used from the event loop only."""

    def __init__(self, site: str, send: Callable[[str, Sequence[Block]], Awaitable[None]]) -> None:
        self.site = site
        self._send = send
        self._pending: dict[str, _Pending] = {}
        self._over = False
        self.given_up: Callable[[str], None] = lambda _: None  #: is told of answers that nobody waits for any more

    async def ask(self, word: Word, message: Mapping[str, Any], *, most: int = SHORT) -> dict[str, Any]:
        """Ask, and return the answer, of at most so many bytes. `LinkLost` where the link ends first; a refusal of the
        reader's where what came cannot be read."""
        if self._over:
            raise LinkLost
        name, answer = new_id(), asyncio.get_running_loop().create_future()
        self._pending[name] = _Pending(min(most, MOST_BYTES), answer)
        try:
            envelope = {"kind": str(word), "id": name, **message}
            blocks = await asyncio.to_thread(write_blocks, envelope) if _heavy(message) else write_blocks(envelope)
            await self._send(name, blocks)
            body = await answer
            if isinstance(body, dict):
                return body
            return await asyncio.to_thread(read_envelope, body) if len(body) >= _HEAVY else read_envelope(body)
        finally:
            del self._pending[name]
            if not answer.done() or answer.cancelled():
                self.given_up(name)

    def allowed(self, message_id: str) -> int:
        """Return how many bytes a message of that id may have; 0 where nobody waits for it."""
        pending = self._pending.get(message_id)
        return 0 if pending is None or pending.answer.done() else pending.most

    def heard(self, message_id: str, body: bytes | dict[str, Any]) -> None:
        """An answer came, as bytes or read already; one that nobody waits for is dropped."""
        pending = self._pending.get(message_id)
        if pending is not None and not pending.answer.done():
            pending.answer.set_result(body)

    def refused(self, message_id: str, why: ThebesError) -> bool:
        """Tell whoever waits under this id that what came cannot be taken, and return whether anybody waited for it."""
        pending = self._pending.get(message_id)
        if pending is None or pending.answer.done():
            return False
        pending.answer.set_exception(why)
        return True

    def end(self) -> None:
        """The link is gone: nobody waits any longer."""
        self._over = True
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(LinkLost())


class LinkOutbox:
    """The messages that are on their way to one site: several messages side by side, piece by piece, short words
    between the pieces. Whoever sends waits while there is no room, so a slow reader costs no memory."""

    def __init__(self) -> None:
        self._words: deque[bytes] = deque()
        self._messages: deque[tuple[Iterator[bytes], bool]] = deque()  # and whether a piece takes a while to make
        self._room = asyncio.Semaphore(_WAITING)
        self._ready = asyncio.Event()

    async def put(self, message_id: str, blocks: Sequence[Block]) -> None:
        await self._room.acquire()
        self._messages.append((pieces(message_id, blocks), sum(map(len, blocks)) >= _HEAVY))
        self._ready.set()

    def say(self, message: Mapping[str, Any]) -> None:
        """A short word that overtakes everything else."""
        self._words.extend(pieces(message["id"], write_blocks(message)))
        self._ready.set()

    async def next(self) -> tuple[bytes, bool]:
        """The next piece, and whether it is one of a message and not a word."""
        while True:
            if self._words:
                return self._words.popleft(), False
            while self._messages:
                message, heavy = self._messages.popleft()
                piece = await asyncio.to_thread(next, message, None) if heavy else next(message, None)
                if piece is not None:
                    self._messages.append((message, heavy))
                    return piece, True
                self._room.release()
            self._ready.clear()
            await self._ready.wait()


def _heavy(message: Mapping[str, Any]) -> bool:
    parts = [message.get("payload"), message.get("document")]  # which may hold a network
    return any(
        hasattr(value, "__len__") and len(value) >= _HEAVY
        for part in parts
        if isinstance(part, Mapping)
        for value in part.values()
    )
