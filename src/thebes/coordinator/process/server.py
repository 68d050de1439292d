"""A coordinator as a process: one socket for people and one for sites, one event loop, one worker beside it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from thebes.coordinator.api.routes import Pages, interface
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.institution_models import Models
from thebes.coordinator.process.socket import check_tls, listen, shown, url_of
from thebes.coordinator.process.worker_supervisor import Crew
from thebes.coordinator.service import CoordinatorService
from thebes.coordinator.sites.federation import Federation
from thebes.coordinator.sites.intervals import Pace
from thebes.coordinator.sites.local_site import Start
from thebes.coordinator.storage.database import StoreUnavailable
from thebes.coordinator.storage.database_owner import database_of, hold_of
from thebes.wire import log_output
from thebes.wire.server_options import hold_many, manners

_FORGET_SECONDS = 2.0
_GRACE_SECONDS = 5
log = logging.getLogger("thebes.coordinator")


def serve(
    home: Path,
    *,
    host: str,
    port: int,
    store: str | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    site_port: int | None = None,
    pages: Pages | None = None,
    local: Callable[[Path, int], Start] | None = None,
    models: Callable[[Path], Models] | None = None,
    listening: socket.socket | None = None,
    parent: int | None = None,
) -> None:
    """Run until SIGTERM or ctrl-c. Prints one line of JSON when it listens. `pages` puts web pages on; `local` says how
    the process of the coordinator's own site is started, of a home and with the descriptor of its pipe; `models` gives
    the models of a home. `listening` is a socket that is bound already; `parent` a descriptor that ends when whoever
    started this process says goodbye, or is gone."""
    check_tls(tls_cert, tls_key)
    hold_many()
    log_output.to_stderr("%(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    place = CoordinatorHome(home)
    where = store or place.store
    hold = hold_of(place, store)
    database = database_of(place, store)
    database.check_writable()
    listening = listening or listen(host, port)
    url = url_of(host, listening, secure=tls_cert is not None)
    crew = Crew(str(place.folder), where, database)
    clock = SystemClock()
    service = CoordinatorService(place, database, clock, look=crew.look, models=models)
    pace = Pace(ping=place.settings.site_ping, silence=place.settings.site_silence)
    start = None if local is None else partial(local, place.folder)
    known_as, metrics = place.settings.site_hosts, service.operation.metrics
    federation = Federation(place, database, clock, pace=pace, start=start, known_as=known_as, metrics=metrics)
    service.inquiries.running, federation.over = federation, service.watch.look
    config = uvicorn.Config(
        interface(service, largest_body=place.settings.largest_body, pages=pages, figures=place.settings.metrics),
        **manners(),
        lifespan="off",
        ssl_certfile=None if tls_cert is None else str(tls_cert),
        ssl_keyfile=None if tls_key is None else str(tls_key),
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    try:
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            server = _Server(config, url, parent)
            runner.run(_run(server, listening, crew, service, _Sites(federation, host, site_port)))
    finally:
        service.close()
        database.close()
        hold.close()


@dataclass(frozen=True, slots=True)
class _Sites:
    """The federation, and where sites come to it."""

    federation: Federation
    host: str
    port: int | None


async def _run(
    server: _Server, listening: socket.socket, crew: Crew, service: CoordinatorService, sites: _Sites
) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    server.follow_parent()
    server.ending = service.watch.end
    taken = await sites.federation.start(sites.host, sites.port)
    if taken is not None:
        server.facts["site_url"] = f"{shown(sites.host)}:{taken}"
    await crew.start()
    forgetting = asyncio.create_task(_forget(service))
    try:
        await server.serve(sockets=[listening])
    finally:
        forgetting.cancel()
        with suppress(StoreUnavailable):  # told in the log; `close` tries once more
            await service.contributions.settle()
        await asyncio.gather(crew.stop(), sites.federation.stop())


async def _forget(service: CoordinatorService) -> None:
    while True:
        await asyncio.sleep(_FORGET_SECONDS)
        with suppress(Exception):  # the database is away; the next round tries again
            await service.contributions.forget_ended()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, url: str, parent: int | None) -> None:
        super().__init__(config)
        self.facts: dict[str, Any] = {"ready": True, "url": url}
        self._parent = parent
        self.ending: Callable[[], None] = lambda: None  #: lets go of requests that only wait

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            try:
                sys.stdout.write(json.dumps(self.facts) + "\n")
                sys.stdout.flush()
            except BrokenPipeError:  # who started this process is gone, which `follow_parent` hears
                with open(os.devnull, "w") as nobody:
                    os.dup2(nobody.fileno(), sys.stdout.fileno())

    def follow_parent(self) -> None:
        """End when whoever started this process says goodbye or is gone."""
        if self._parent is not None:
            asyncio.get_running_loop().add_reader(self._parent, self._left)

    def _left(self) -> None:
        assert self._parent is not None  # noqa: S101
        asyncio.get_running_loop().remove_reader(self._parent)
        self.stop()

    def stop(self) -> None:
        """Finish what was begun, then end. A second time: at once."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self.ending()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # ours are set on the loop, and end in status 0
