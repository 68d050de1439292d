"""Several processes of one coordinator behind one port: started, kept going, and ended together.

What must stay true: all take from one queue of connections, so that none which nobody has taken yet is lost with a
process that dies; only the first has the port for sites; none is left when this process is gone. What they share is in
the database, and who does what only one may do is decided there.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.process.metrics import FIGURES
from thebes.coordinator.process.socket import check_tls, inherited, listen
from thebes.coordinator.storage.database_owner import database_of, hold_of
from thebes.privacy.faults import Mistake
from thebes.wire import log_output

MOST = 64
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  #: seconds before a process is started again
STEADY_SECONDS = 30.0  #: whoever lived for so long is started again at once
_GOODBYE_SECONDS = 20.0
log = logging.getLogger("thebes.coordinator")


@dataclass(frozen=True, slots=True)
class Told:
    """The settings that one of them is told, on the first line of its standard input: the address of a store may hold a
    password, and there nobody lists it. The input's end is the goodbye."""

    store: str
    host: str
    descriptor: int  #: of the socket that is bound
    site_port: int | None
    tls_cert: str | None
    tls_key: str | None

    @classmethod
    def read(cls) -> Self:
        """In the process that was started."""
        line = sys.stdin.readline()
        if not line:
            raise SystemExit(0)  # the goodbye came first
        return cls(**json.loads(line))

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def serve_together(
    home: Path,
    *,
    processes: int,
    command: Sequence[str],
    host: str,
    port: int,
    store: str | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    site_port: int | None = None,
) -> int:
    """Run so many until SIGTERM or ctrl-c; the exit status. Prints one line of JSON when all of them listen. `command`
    starts one of them, which reads what it is told."""
    if not 2 <= processes <= MOST:
        raise Mistake("--processes", f"must lie between 1 and {MOST}")
    check_tls(tls_cert, tls_key)
    log_output.to_stderr("%(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    place = CoordinatorHome(home)
    where = store or place.store
    if where.startswith("sqlite:"):
        raise Mistake("--processes", "above 1 needs --store postgresql://...: a file is one process's")
    with hold_of(place, store), tempfile.TemporaryDirectory(prefix="thebes-figures-") as figures:
        with closing(database_of(place, store)) as database:  # brought to its newest version once, and refused once
            database.check_writable()
        with closing(listen(host, port)) as listening:
            named = [None if path is None else str(path.absolute()) for path in (tls_cert, tls_key)]
            told = Told(where, host, listening.fileno(), site_port, *named)
            return asyncio.run(Fronts(command, told, processes, {**os.environ, FIGURES: figures}).run())


def serve_one(home: Path, **parts: Any) -> None:
    """Be one of them: `parts` is what else a coordinator is made of."""
    from thebes.coordinator.process.server import serve  # heavy, and nothing for whoever only starts others

    told = Told.read()
    serve(
        home,
        host=told.host,
        port=0,
        store=told.store,
        tls_cert=None if told.tls_cert is None else Path(told.tls_cert),
        tls_key=None if told.tls_key is None else Path(told.tls_key),
        site_port=told.site_port,
        listening=inherited(told.descriptor),
        parent=sys.stdin.fileno(),
        **parts,
    )


class Fronts:
    """So many processes at a time, always."""

    def __init__(self, command: Sequence[str], told: Told, count: int, environment: dict[str, str]) -> None:
        self._command, self._told, self._environment = command, told, environment
        self._begun: dict[int, asyncio.Future[asyncio.subprocess.Process]] = {}
        self._facts: list[dict[str, Any] | None] = [None] * count  #: what each said when it first listened
        self._over = asyncio.Event()
        self._status = 0

    async def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stop)
        keeping = [asyncio.create_task(self._keep(place)) for place in range(len(self._facts))]
        try:
            await self._over.wait()
        finally:
            for each in keeping:
                each.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)
            await self._goodbye()
        return self._status

    def _stop(self) -> None:
        """They finish what was begun, then end. A second time: at once."""
        for process in self._running() if self._over.is_set() else ():
            process.kill()
        self._over.set()

    def _running(self) -> list[asyncio.subprocess.Process]:
        done = [each.result() for each in self._begun.values() if each.done() and each.exception() is None]
        return [process for process in done if process.returncode is None]

    async def _keep(self, place: int) -> None:
        pause, loop = FIRST_PAUSE, asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                status = await self._one(place)
            except OSError as error:
                log.error(
                    "a process cannot be started: %s",
                    error.strerror or type(error).__name__,
                    extra={"event": "process.unstartable"},
                )
                status = 1
            if not self._ready:
                self._status = status if status > 0 else 1
                self._over.set()
                return
            pause = FIRST_PAUSE if loop.time() - began > STEADY_SECONDS else min(2 * pause, LONGEST_PAUSE)
            await asyncio.sleep(pause)
            log.error(
                "one of %d processes ended with status %s; starting another one",
                len(self._facts),
                status,
                extra={"event": "process.ended"},
            )

    async def _one(self, place: int) -> int:
        """One life of a process."""
        beginning = asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=self._environment,
            pass_fds=(self._told.descriptor,),
            start_new_session=True,  # what is meant for the whole group reaches it as the goodbye
        )
        self._begun[place] = asyncio.ensure_future(beginning)
        process = await asyncio.shield(self._begun[place])
        assert process.stdin is not None  # noqa: S101
        assert process.stdout is not None  # noqa: S101
        process.stdin.write((self._told if place == 0 else replace(self._told, site_port=None)).line())
        line = await process.stdout.readline()
        if line:
            self._listens(place, json.loads(line))
        return await process.wait()

    def _listens(self, place: int, facts: dict[str, Any]) -> None:
        first = not self._ready
        self._facts[place] = facts
        if "site_url" in facts:  # whoever takes its place listens where sites know it
            self._told = replace(self._told, site_port=int(facts["site_url"].rpartition(":")[2]))
        if first and self._ready:
            known: dict[str, Any] = {}
            for each in self._facts:
                known |= each or {}
            sys.stdout.write(json.dumps({**known, "processes": len(self._facts)}) + "\n")
            sys.stdout.flush()

    @property
    def _ready(self) -> bool:
        """Return whether each has listened once."""
        return all(facts is not None for facts in self._facts)

    async def _goodbye(self) -> None:
        await asyncio.gather(*self._begun.values(), return_exceptions=True)
        running = self._running()
        for process in running:
            if process.stdin is not None:
                process.stdin.close()
        try:
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await asyncio.gather(*(process.wait() for process in running))
        except TimeoutError:
            for process in running:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
