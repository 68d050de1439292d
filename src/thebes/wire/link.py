"""The link between a coordinator and a site: envelopes, the pieces in which they travel, and the pipe between a site's
two processes.

What must stay true: the reader trusts nothing; what it keeps of messages that are not whole yet is bounded; a message
is handed on only if after every piece the SHA-256 of it so far was the one that the piece told.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NoReturn

from thebes.wire import frames
from thebes.wire.refusals import Malformed, TooLarge

SERVICE = "thebes.Link"
METHOD = "Connect"  #: of raw bytes both ways, opened by the site
PATH = f"/{SERVICE}/{METHOD}"
#: a name that the coordinator's certificate always has, so that a site can insist on it by whichever address it comes
#: (`grpc.ssl_target_name_override`); its authority certifies nothing else by it
SERVER_NAME = "coordinator.thebes.internal"
PIECE_BYTES = 2**20
MOST_BYTES = 2**29  #: of one envelope
MOST_TEXT = 2**26 + 2**20  #: of one beside its arrays: a document as large as a coordinator takes, and what is about it
MOST_OPEN = 16  #: messages of one reader that are not whole yet
MOST_HELD = 2**30  #: bytes of them together
_LONGEST_ID = 200
_HEAD = struct.Struct(">4sHQQ32s")  # magic, length of the id, offset, total, SHA-256 of everything up to here
_MAGIC = b"THL1"
_LENGTH = struct.Struct(">I")
#: a message that a reader takes is at most this long with its piece's head
LARGEST_PIECE = PIECE_BYTES + _HEAD.size + _LONGEST_ID
#: what both ends' channels are told: nothing is packed, and what is anyway is refused; and so that long messages flow:
#: larger frames, and so much that may be on its way
FLOW = (
    ("grpc.compression_enabled_algorithms_bitset", 1),
    ("grpc.max_receive_message_length", LARGEST_PIECE + 1024),
    ("grpc.max_send_message_length", LARGEST_PIECE + 1024),
    ("grpc.http2.max_frame_size", PIECE_BYTES),
    ("grpc.http2.lookahead_bytes", 4 * PIECE_BYTES),
)


#: codes of `refused` after which coming back with the same certificate changes nothing
FOR_GOOD = ("unknown", "revoked", "expired")


class Word(StrEnum):
    """The word that an envelope's `kind` says. The first seven come from the coordinator, the others answer under the
    same id."""

    DESCRIBE = "describe"
    QUOTE = "quote"  # what an answer to a document would cost, and what of it is known already
    ASK = "ask"
    HELP = "help"  # a step of a task of people whose second server the site is: `wire.helping`
    CLOSED = "closed"
    PING = "ping"
    REFUSED = "refused"  # the last word to a site that may not take part, with the `reason`
    DESCRIBED = "described"
    QUOTED = "quoted"
    CONTRIBUTION = "contribution"
    HELPED = "helped"
    REFUSAL = "refusal"
    NOTED = "noted"  # of `closed`, with `charged` where the site knows whether the task was charged anything
    PONG = "pong"


class Code(StrEnum):
    """The reason why a site says no to an ask."""

    POLICY = "policy"
    BUDGET = "budget"
    DATASET = "dataset"
    SCHEMA = "schema"
    DOCUMENT = "document"
    BUSY = "busy"
    DOWN = "down"
    FAILED = "failed"


class Oversized(TooLarge):
    """A message of the link is longer than its reader takes; what is left of it is skipped."""

    def __init__(self, message_id: str, most_bytes: int) -> None:
        super().__init__(f"a message has more than the {most_bytes} bytes that are taken")
        self.message_id = message_id
        self.most_bytes = most_bytes

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.message_id, self.most_bytes))


def new_id() -> str:
    """A name for a message that nobody used before."""
    return secrets.token_hex(8)


def write_envelope(message: Mapping[str, Any]) -> bytes:
    """A message as bytes: a frame where its payload has long fields, else JSON."""
    return b"".join(write_blocks(message))


def write_blocks(message: Mapping[str, Any]) -> list[frames.Block]:
    """The same without a copy of its arrays: the bytes one after another."""
    frame = frames.split(message)
    if not frame.arrays:
        return [frames.encode(message, worth=sys.maxsize)[0]]
    return frames.write_blocks(frame, digests=False)  # every piece of the message has one


def read_envelope(body: bytes, *, arrays: bool = True) -> dict[str, Any]:
    """The message in an envelope from anybody; whatever is not exactly one raises `Malformed`. Long fields of its
    payload are arrays, or as JSON writes them."""
    if body.startswith(frames.MAGIC):
        message = frames.read(body, most_bytes=MOST_BYTES, most_header=MOST_TEXT, digests=False).message(arrays=arrays)
    elif len(body) > MOST_TEXT:
        _refuse(f"is larger than {MOST_TEXT} bytes and has no arrays")
    else:
        message = frames.read_object(body)
    return _named(message)


def glance(body: bytes) -> dict[str, Any]:
    """The message in an envelope without its arrays, of which nothing is looked at: for who passes it on."""
    if body.startswith(frames.MAGIC):
        return _named(frames.glance(body, most_header=MOST_TEXT))
    if len(body) > MOST_TEXT:
        _refuse(f"is larger than {MOST_TEXT} bytes and has no arrays")
    return _named(frames.read_object(body))


def _named(message: dict[str, Any]) -> dict[str, Any]:
    for name, longest in (("kind", 40), ("id", _LONGEST_ID)):
        value = message.get(name)
        if not isinstance(value, str) or not 0 < len(value) <= longest or not value.isascii():
            _refuse(f"has no {name}")
    return message


def pieces(message_id: str, body: bytes | Sequence[frames.Block]) -> Iterator[bytes]:
    """The body in pieces that can be told from those of other messages; an empty one in one piece."""
    blocks = [body] if isinstance(body, bytes) else body
    name, total = message_id.encode("ascii"), sum(map(len, blocks))
    offset, room, cut, made = 0, PIECE_BYTES, list[frames.Block](), hashlib.sha256()
    for block in blocks:
        view = memoryview(block)
        while len(view) >= room:
            made.update(view[:room])
            yield b"".join((_HEAD.pack(_MAGIC, len(name), offset, total, made.digest()), name, *cut, view[:room]))
            view, offset, room, cut = view[room:], offset + PIECE_BYTES, PIECE_BYTES, []
        if view:
            made.update(view)
            cut.append(view)
            room -= len(view)
    if cut or not total:
        yield b"".join((_HEAD.pack(_MAGIC, len(name), offset, total, made.digest()), name, *cut))


@dataclass(slots=True)
class _Open:
    """A message that is not whole yet."""

    total: int
    skipped: bool = False
    received: int = 0
    hash: Any = field(default_factory=hashlib.sha256)
    parts: list[memoryview] = field(default_factory=list)

    def add(self, block: memoryview, digest: bytes) -> None:
        self.received += len(block)
        if not self.skipped:
            self.hash.update(block)
            self.parts.append(block)
            if self.hash.digest() != digest:
                _refuse("does not match its SHA-256")


class Assembly:
    """Puts messages together again, several at once, each piece after piece. `allowed` says how many bytes a message
    of that id may have; 0 refuses it as one that nobody waits for. Of all that are not whole no more than `most_held`
    bytes are kept."""

    def __init__(
        self,
        allowed: Callable[[str], int] = lambda _: MOST_BYTES,
        *,
        most_open: int = MOST_OPEN,
        most_held: int = MOST_HELD,
    ) -> None:
        self._allowed = allowed
        self._most_open, self._most_held = most_open, most_held
        self._open: dict[str, _Open] = {}

    def skip(self, message_id: str) -> None:
        """Nobody waits for this message any more: keep nothing of what is left of it."""
        known = self._open.get(message_id)
        if known is not None:
            known.skipped = True
            known.parts.clear()

    def add(self, piece: bytes) -> tuple[str, bytes] | None:
        """(id, body) of the message that this piece completes. `Malformed` ends the link; after `Oversized` the rest
        of the message is skipped and the others go on."""
        message_id, offset, total, digest, block = _parsed(piece)
        known = self._open.get(message_id)
        begun = known is not None
        if known is None:
            if offset != 0:
                _refuse("has a piece without those before it")
            if len(self._open) >= self._most_open:
                _refuse(f"is one of more than {self._most_open} that are not whole")
            most = min(self._allowed(message_id), MOST_BYTES)
            known = _Open(total, skipped=total > most)
        elif (total, offset) != (known.total, known.received):
            _refuse("has pieces that do not follow one another")
        known.add(block, digest)
        if known.received < total:
            self._open[message_id] = known
            if sum(each.received for each in self._open.values() if not each.skipped) > self._most_held:
                _refuse(f"is one of several that together are longer than {self._most_held} bytes and not whole")
        else:
            self._open.pop(message_id, None)
        if known.skipped:
            if begun:
                return None
            raise Oversized(message_id, min(self._allowed(message_id), MOST_BYTES))
        if known.received < total:
            return None
        return message_id, b"".join(known.parts)


def _parsed(piece: bytes) -> tuple[str, int, int, bytes, memoryview]:
    if not _HEAD.size < len(piece) <= LARGEST_PIECE:
        _refuse("has a piece of no possible length")
    magic, length, offset, total, digest = _HEAD.unpack_from(piece)
    name, block = piece[_HEAD.size : _HEAD.size + length], memoryview(piece)[_HEAD.size + length :]
    if magic != _MAGIC:
        _refuse("does not start like a piece")
    if not 0 < length <= _LONGEST_ID or len(name) != length or not name.isascii():
        _refuse("has a piece without an id")
    if len(block) != min(PIECE_BYTES, total - offset) or (total and offset >= total):
        _refuse("has a piece of another length than it tells")
    return name.decode("ascii"), offset, total, digest, block


class Pipe:
    """Envelopes over a socket between two processes of one machine, each after its length."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()

    @classmethod
    async def over(cls, end: socket.socket) -> Pipe:
        """Over one end of `socket.socketpair()`, which is the pipe's from now on."""
        end.setblocking(False)
        return cls(*await asyncio.open_connection(sock=end, limit=PIECE_BYTES))

    async def send(self, message: Mapping[str, Any]) -> None:
        await self.send_bytes(write_envelope(message))

    async def receive(self, *, arrays: bool = True) -> dict[str, Any] | None:
        """The next message; None when the other end has closed."""
        body = await self.receive_bytes()
        return None if body is None else read_envelope(body, arrays=arrays)

    async def send_bytes(self, body: bytes) -> None:
        """An envelope as it is. Returns when the other end keeps up; `ConnectionError` where there is none."""
        _check_length(len(body))
        async with self._turn:
            self._writer.write(_LENGTH.pack(len(body)))
            self._writer.write(body)
            await self._writer.drain()

    async def receive_bytes(self) -> bytes | None:
        try:
            head = await self._reader.readexactly(_LENGTH.size)
            return await self._reader.readexactly(_check_length(_LENGTH.unpack(head)[0]))
        except asyncio.IncompleteReadError as cut:
            if cut.partial:
                _refuse("is cut off")
            return None
        except ConnectionError:
            return None

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class BlockingPipe:
    """The same for a process without an event loop."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(True)
        self._socket = end

    def send(self, message: Mapping[str, Any]) -> None:
        self.send_blocks(write_blocks(message))

    def receive(self, *, arrays: bool = True) -> dict[str, Any] | None:
        """The next message; None when the other end has closed."""
        body = self.receive_bytes()
        return None if body is None else read_envelope(body, arrays=arrays)

    def send_bytes(self, body: bytes) -> None:
        self.send_blocks([body])

    def send_blocks(self, blocks: Sequence[frames.Block]) -> None:
        """Send one envelope, of which these are the bytes one after another."""
        self._socket.sendall(_LENGTH.pack(_check_length(sum(map(len, blocks)))))
        for block in blocks:
            self._socket.sendall(block)

    def receive_bytes(self) -> bytes | None:
        head = self._exactly(_LENGTH.size)
        if not head:
            return None
        return self._exactly(_check_length(_LENGTH.unpack(head)[0]), begun=True)

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, length: int, *, begun: bool = False) -> bytes:
        found = bytearray()
        while len(found) < length:
            try:
                block = self._socket.recv(min(PIECE_BYTES, length - len(found)))
            except ConnectionError:
                block = b""
            if not block:
                if found or begun:
                    _refuse("is cut off")
                return b""
            found += block
        return bytes(found)


def _check_length(length: int) -> int:
    if not 0 < length <= MOST_BYTES:
        raise TooLarge(f"an envelope has between 1 and {MOST_BYTES} bytes")
    return length


def _refuse(what: str) -> NoReturn:
    raise Malformed("envelope", what)
