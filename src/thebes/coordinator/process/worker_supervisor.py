"""The server's hold on its worker process: start it, tell it to look, start it again when it dies."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import sys
from contextlib import suppress

from thebes.coordinator.storage.database import Database
from thebes.coordinator.tasks.phase_queue import PhaseQueue

_PAUSE_SECONDS = 0.2
_GOODBYE_SECONDS = 5.0
log = logging.getLogger("thebes.coordinator")


class Crew:
    """One worker at a time, always."""

    def __init__(self, home: str, store: str, database: Database) -> None:
        self._home = home
        self._store = store
        self._database = database
        self._worker: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._watch = asyncio.create_task(self._keep_one())

    def look(self) -> None:
        """A phase may be full: do not wait for the next round."""
        if self._worker is not None and self._worker.stdin is not None and not self._worker.stdin.is_closing():
            self._worker.stdin.write(b"\n")

    async def stop(self) -> None:
        """Say goodbye, and end it if it does not listen; what it was computing is taken up after the next start."""
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
        worker = self._worker
        if worker is None or worker.returncode is not None:
            return
        if worker.stdin is not None:
            worker.stdin.close()
        try:
            await asyncio.wait_for(worker.wait(), _GOODBYE_SECONDS)
        except TimeoutError:
            worker.kill()
            await worker.wait()

    async def _keep_one(self) -> None:
        while True:
            holder = secrets.token_hex(8)
            # The address of the store may hold a password: it goes through the pipe, where nobody lists it.
            # In a session of its own: what is meant for the whole group reaches it as the server's goodbye.
            self._worker = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "thebes.coordinator.process.worker"),
                stdin=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
            assert self._worker.stdin is not None  # noqa: S101
            told = {"home": self._home, "store": self._store, "holder": holder}
            self._worker.stdin.write(json.dumps(told).encode() + b"\n")
            status = await self._worker.wait()
            log.error("the worker ended with status %s; starting another one", status, extra={"event": "worker.ended"})
            with suppress(Exception):  # if the database is away, what it held runs out by itself
                await asyncio.to_thread(PhaseQueue(self._database, holder).let_go)
            await asyncio.sleep(_PAUSE_SECONDS)
