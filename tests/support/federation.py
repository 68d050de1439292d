"""Sites for tests: what they say is a function of what they are asked; over a link in this process, or a real one."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import grpc

from thebes.coordinator.auth.accounts import ADMIN, Somebody
from thebes.coordinator.clock import Clock, SystemClock
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.service import CoordinatorService
from thebes.coordinator.sites.federation import Federation
from thebes.coordinator.sites.intervals import Pace
from thebes.coordinator.sites.links import Links
from thebes.coordinator.sites.session import Conversation, LinkOutbox
from thebes.coordinator.storage.database import Database
from thebes.coordinator.tasks.phase_end import Closing
from thebes.coordinator.tasks.phase_queue import PhaseQueue
from thebes.wire.frames import Block
from thebes.wire.link import (
    FLOW,
    FOR_GOOD,
    PATH,
    SERVER_NAME,
    Assembly,
    Word,
    read_envelope,
    write_blocks,
    write_envelope,
)

#: what every test site has
PATIENTS: dict[str, Any] = {
    "unit": "person",
    "max_rows_per_unit": 3,
    "columns": {"age": {"type": "integer", "low": 0, "high": 120}, "sex": {"type": "string", "values": ["f", "m"]}},
}
CENSUS: dict[str, Any] = {"type": "census", "epsilon": 1.0, "dataset": "patients", "patience": 20.0}

QUICK = Pace(ping=0.2, silence=30.0, check=0.05, describe=0.1, look=0.05, note=0.2, seat=0.6)

#: the answer to a message: without an id, which is filled in; None: none
Answer = Callable[[dict[str, Any]], "dict[str, Any] | Awaitable[dict[str, Any] | None] | None"]


def contribution(ask: Mapping[str, Any], payload: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A contribution as a site writes it."""
    return {
        "kind": str(Word.CONTRIBUTION),
        "task": ask["task"],
        "ask_id": ask["ask"]["ask_id"],
        "part": ask["ask"]["part"],
        "payload": dict(payload),
        "cost": {"epsilon": 0.5, "delta": 0.0},
        "source": "fresh",
        "seconds": {"compute": 0.01},
        **more,
    }


def refusal(ask: Mapping[str, Any], code: str, reason: str = "no") -> dict[str, Any]:
    """A refusal as a site writes it."""
    return {"kind": "refusal", "task": ask["task"], "part": ask["ask"]["part"], "code": code, "reason": reason}


class Steward:
    """A well-behaved site: `asked` says what it answers to an ask. Remembers what it was asked and told."""

    def __init__(self, asked: Answer, *, datasets: Mapping[str, Any] | None = None, describes: bool = True) -> None:
        self._asked = asked
        self.datasets = {"patients": {"schema": PATIENTS, "public": False}} if datasets is None else dict(datasets)
        self.describes = describes
        self.asks: list[dict[str, Any]] = []
        self.closed: list[str] = []

    async def __call__(self, message: dict[str, Any]) -> dict[str, Any] | None:
        kind = message["kind"]
        if kind == Word.DESCRIBE:
            return {"kind": "described", "datasets": self.datasets, "version": "1"} if self.describes else None
        if kind == Word.PING:
            return {"kind": "pong"}
        if kind == Word.CLOSED:
            self.closed.append(message["task"])
            return {"kind": "noted"}
        self.asks.append(message)
        answer = self._asked(message)
        return await answer if isinstance(answer, Awaitable) else answer


def counting(*numbers: int) -> Steward:
    """A site that answers every census with these numbers."""
    return Steward(lambda ask: contribution(ask, {"numbers": list(numbers)}))


class OneOfSeveral(Database):
    """A database that is believed to serve several processes, whatever it is."""

    alone = False


class Gathering:
    """A coordinator that speaks with sites, in this process and on the loop that runs now; `among` others, if said."""

    def __init__(
        self,
        folder: Path,
        *,
        pace: Pace = QUICK,
        store: str | None = None,
        clock: Clock | None = None,
        among: bool = False,
    ) -> None:
        self.clock = clock or SystemClock()
        self.home = CoordinatorHome(folder)
        self.database = (OneOfSeveral if among else Database)(store or self.home.store)
        self.service = CoordinatorService(self.home, self.database, self.clock, look=lambda: None)
        self.federation = Federation(self.home, self.database, self.clock, pace=pace)
        self.service.inquiries.running = self.federation
        self.closing = Closing(PhaseQueue(self.database, "worker"), self.home.keys, self.clock)
        self.url = ""

    @property
    def links(self) -> Links:
        return self.federation.links

    async def open(self, port: int | None = None) -> Self:
        """With a port for sites, where one is given."""
        taken = await self.federation.start("127.0.0.1", port)
        self.url = f"127.0.0.1:{taken}"
        return self

    async def close(self, *, politely: bool = True) -> None:
        """Stop; or stop as if killed: nothing more is written."""
        if politely:
            await self.federation.stop()
        else:
            await self.federation.drop()
        self.service.close()
        self.database.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def near(self, **sites: Callable[[dict[str, Any]], Awaitable[Any]]) -> dict[str, Near]:
        """Link these, and wait until it is known what they have."""
        linked = {name: Near(self.links, name, answer) for name, answer in sites.items()}
        await self.known(*sites)
        return linked

    async def known(self, *names: str) -> None:
        async with asyncio.timeout(120):
            while not {*names} <= {site.name for site in self.federation.store.sites() if site.datasets}:
                await asyncio.sleep(0.01)

    async def post(self, document: Mapping[str, Any], requestor: Somebody = ADMIN) -> str:
        return (await self.service.post(document, requestor))[0]

    async def over(self, task_id: str, *, seconds: float = 120) -> dict[str, Any]:
        """The task once it is over, with its release."""
        async with asyncio.timeout(seconds):
            while True:
                told, release = await self.service.task(task_id)
                if told["status"] not in ("open", "running"):
                    return {**told, "result": None if release is None else json.loads(release)}
                await asyncio.sleep(0.005)

    async def asked(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Put a task up and wait for its end."""
        return await self.over(await self.post(document))


class Near:
    """A site linked in this process, without a network."""

    def __init__(self, links: Links, name: str, answer: Callable[[dict[str, Any]], Awaitable[Any]]) -> None:
        self._links, self._answer = links, answer
        self._tasks: set[asyncio.Task[None]] = set()
        self.conversation = Conversation(name, self._send)
        links.put(self.conversation)

    def leave(self) -> None:
        self._links.drop(self.conversation)

    async def _send(self, message_id: str, blocks: Sequence[Block]) -> None:
        task = asyncio.create_task(self._reply(read_envelope(b"".join(blocks))))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reply(self, message: dict[str, Any]) -> None:
        answer = await self._answer(message)
        if answer is not None:
            body = write_envelope({**answer, "id": answer.get("id", message["id"])})
            allowed = self.conversation.allowed(message["id"])
            assert len(body) <= allowed or not allowed
            self.conversation.heard(message["id"], body)


class Far:
    """A site over a real link: it dials `url` with what lies in `link`, until it is closed. `words` is what it was told
    when it was refused."""

    def __init__(self, url: str, link: Path, answer: Callable[[dict[str, Any]], Awaitable[Any]]) -> None:
        read = {name: (link / name).read_bytes() for name in ("ca.pem", "site.key", "site.pem")}
        credentials = grpc.ssl_channel_credentials(read["ca.pem"], read["site.key"], read["site.pem"])
        options = [
            ("grpc.ssl_target_name_override", SERVER_NAME),
            *FLOW,
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self._channel = grpc.aio.secure_channel(url, credentials, options=options)
        self.call = self._channel.stream_stream(PATH)()
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn, self._outbox = asyncio.Lock(), LinkOutbox()
        self.words: list[dict[str, Any]] = []
        self.status: str | None = None
        self.paused_after: int | None = None  #: so many asks are read, and nothing from then on
        self.paused = False
        self.run = asyncio.create_task(self._run())
        self._writing = asyncio.create_task(self._write())

    async def _run(self) -> None:
        assembly = Assembly()
        try:
            while (piece := await self.call.read()) is not grpc.aio.EOF:
                whole = assembly.add(piece)
                if whole is None:
                    continue
                message = await asyncio.to_thread(read_envelope, whole[1])
                if message["kind"] == Word.REFUSED:
                    self.words.append(message)
                    continue
                task = asyncio.create_task(self._reply(message))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                if self.paused_after is not None and message["kind"] == Word.ASK:
                    self.paused_after -= 1
                    self.paused = self.paused_after == 0
                if self.paused:
                    await asyncio.Event().wait()
            self.status = (await self.call.code()).name
        except grpc.aio.AioRpcError as error:
            self.status = error.code().name
        except asyncio.CancelledError:
            raise
        if self.status == "INTERNAL" and self.words:  # it was saying something as the call ended, which hides how
            self.status = "PERMISSION_DENIED" if self.words[-1]["code"] in FOR_GOOD else "UNAVAILABLE"

    async def _reply(self, message: dict[str, Any]) -> None:
        answer = await self._answer(message)
        if answer is not None:
            await self.say({**answer, "id": answer.get("id", message["id"])})

    async def say(self, message: Mapping[str, Any]) -> None:
        await self._outbox.put(message["id"], await asyncio.to_thread(write_blocks, message))

    async def _write(self) -> None:
        while True:
            await self.send((await self._outbox.next())[0])

    async def send(self, piece: bytes) -> None:
        """Bytes as they are."""
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):  # `run` says how the link ended
            async with self._turn:
                await self.call.write(piece)

    async def close(self) -> None:
        self.run.cancel()
        self._writing.cancel()
        self.call.cancel()
        for task in list(self._tasks):
            task.cancel()
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
