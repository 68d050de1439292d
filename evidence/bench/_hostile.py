"""Those who attack a coordinator while `load` measures what others notice of it: a process of its own, which must know
little, so that it is soon there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

HALF_OPEN, FLOODING, BODIES, POSTING = 400, 100, 2, 4  #: connections of each attack


class Line:
    """One connection, over which one request follows another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, method: str, path: str, body: bytes = b"", bearer: str = "") -> tuple[int, bytes]:
        head = f"{method} {path} HTTP/1.1\r\nHost: load\r\nContent-Length: {len(body)}\r\n"
        head += "Content-Type: application/json\r\n" if body else ""
        head += f"Authorization: Bearer {bearer}\r\n" if bearer else ""
        self.writer.write(f"{head}\r\n".encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        length = answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0]
        return int(answer.split(b" ", 2)[1]), await self.reader.readexactly(int(length))


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Line]:
    """A line that is closed at the end."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        yield Line(reader, writer)
    finally:
        writer.close()


@dataclass(frozen=True)
class Hostile:
    """An attacker: what they know, and what they were told."""

    url: str
    task: str
    token: str  #: of a requestor
    login: dict[str, str]
    document: dict[str, Any]
    sizes: list[int]  #: of bodies
    told: Counter[str] = field(default_factory=Counter)

    async def send(self, line: Line, path: str, body: bytes, bearer: str = "") -> None:
        self.told["sent"] += 1
        status, _ = await line.ask("POST", path, body, bearer)
        self.told[f"status {status}"] += 1


async def _huge_bodies(hostile: Hostile, number: int) -> None:
    """The largest JSON that is read, and the largest there may be, to addresses that take one from a stranger."""
    bodies = [b'{"a":[' + b"0," * ((size - 10) // 2) + b"0]}" for size in hostile.sizes]
    while True:
        for path in ("/api/check", "/api/login", "/api/quote", f"/api/task/{hostile.task}/submit"):
            for body in bodies:
                async with connected(hostile.url) as line:
                    await hostile.send(line, path, body)


async def _half_open(hostile: Hostile, number: int) -> None:
    """A request that never ends: of every other one its head, of the others the body."""
    whole_head = f"POST /api/task/{hostile.task}/submit HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
    first, more = (b"GET / HTTP/1.1\r\nHost: a\r\n", b"a: b\r\n") if number % 2 else (whole_head.encode(), b" ")
    async with connected(hostile.url) as line:
        line.writer.write(first)
        hostile.told["half open"] += 1
        try:
            while not line.reader.at_eof():
                await asyncio.sleep(1.0)
                line.writer.write(more)
                await line.writer.drain()
        finally:
            hostile.told["half open"] -= 1
            hostile.told["cut off"] += 1


async def _tasks(hostile: Hostile, number: int) -> None:
    """One requestor puts up tasks that nobody answers."""
    document = json.dumps(hostile.document).encode()
    async with connected(hostile.url) as line:
        while True:
            await hostile.send(line, "/api/task", document, hostile.token)


async def _logins(hostile: Hostile, number: int) -> None:
    """Passwords that are wrong, without a pause."""
    body = json.dumps(hostile.login).encode()
    async with connected(hostile.url) as line:
        while True:
            await hostile.send(line, "/api/login", body)


ATTACKS: dict[str, tuple[int, Callable[[Hostile, int], Awaitable[None]]]] = {
    "half-open requests": (HALF_OPEN, _half_open),
    "huge bodies": (BODIES, _huge_bodies),
    "logins": (FLOODING, _logins),
    "tasks": (POSTING, _tasks),  # the last one: what it puts up stays
}


async def attack(name: str, known: str) -> None:
    """Until the input closes; then what was told is said."""
    hostile = Hostile(**json.loads(known))
    many, one = ATTACKS[name]

    async def again(number: int) -> None:
        while True:
            with contextlib.suppress(OSError, EOFError):
                await one(hostile, number)
            await asyncio.sleep(0.1)

    attacking = [asyncio.create_task(again(number)) for number in range(many)]
    while not hostile.told:  # it has begun
        await asyncio.sleep(0.01)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(json.dumps(hostile.told), flush=True)
    for each in attacking:
        each.cancel()
    await asyncio.gather(*attacking, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(attack(*sys.argv[1:]))
