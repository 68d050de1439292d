"""The coordinator's own site, named `local`: a process beside this one, over the data sets in the coordinator's home.

It is a site like any other, with a policy and a ledger of its own; only that no network lies between, so that it
needs no certificate. This process never reads a row.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from thebes.coordinator.sites.links import Links
from thebes.coordinator.sites.session import Conversation
from thebes.privacy.faults import ThebesError
from thebes.tasks.site_document import LOCAL
from thebes.wire.frames import Block
from thebes.wire.link import Pipe, read_envelope

_LOOK_SECONDS = 0.5
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
_LIVED_SECONDS = 30.0  #: whoever lived for so long starts again at once
_GOODBYE_SECONDS = 5.0
log = logging.getLogger("thebes.coordinator")


@dataclass(frozen=True, slots=True)
class Start:
    """The start of the process: its command and its environment."""

    command: Sequence[str]
    environment: Mapping[str, str]


class LocalSite:
    """Keeps the process running for as long as the home has data sets. `start` is told the number of its descriptor
    of the pipe."""

    def __init__(self, home: Path, links: Links, start: Callable[[int], Start]) -> None:
        self._datasets = home / "datasets"
        self._links = links
        self._start = start
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._keeping = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Say goodbye by closing the pipe, and end the process if it does not listen."""
        if self._keeping is not None:
            self._keeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeping
            self._keeping = None
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            try:
                await asyncio.wait_for(process.wait(), _GOODBYE_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()

    async def _keep(self) -> None:
        pause, loop = _FIRST_PAUSE, asyncio.get_running_loop()
        while True:
            if not self._datasets.is_dir():
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            began = loop.time()
            try:
                await self._run()
            except OSError as error:
                log.error(
                    "the site %s cannot be started: %s",
                    LOCAL,
                    error.strerror or type(error).__name__,
                    extra={"event": "local.unstartable"},
                )
            pause = _FIRST_PAUSE if loop.time() - began > _LIVED_SECONDS else min(2 * pause, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _run(self) -> None:
        """One life of the process."""
        ours, theirs = socket.socketpair()
        try:
            started = self._start(theirs.fileno())
            # In a session of its own: what is meant for the whole group reaches it as the pipe's end.
            self._process = await asyncio.create_subprocess_exec(
                *started.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                env=dict(started.environment),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        pipe = await Pipe.over(ours)

        async def send(_: str, blocks: Sequence[Block]) -> None:
            with suppress(ConnectionError):  # told by the end of what is read
                await pipe.send_bytes(b"".join(blocks))

        conversation = Conversation(LOCAL, send)
        self._links.put(conversation)
        try:
            while (body := await pipe.receive_bytes()) is not None:
                message = await asyncio.to_thread(read_envelope, body)
                conversation.heard(message["id"], message)
        except ThebesError as error:
            log.error("the site %s cannot be understood: %s", LOCAL, error, extra={"event": "local.unreadable"})
        finally:
            self._links.drop(conversation)
            await pipe.close()
        await self._ended()

    async def _ended(self) -> None:
        """Wait for a process whose pipe is closed; one that stays is ended."""
        assert self._process is not None  # noqa: S101
        try:
            status = await asyncio.wait_for(self._process.wait(), _GOODBYE_SECONDS)
        except TimeoutError:
            self._process.kill()
            status = await self._process.wait()
        log.error("the site %s ended with status %s; starting it again", LOCAL, status, extra={"event": "local.ended"})
