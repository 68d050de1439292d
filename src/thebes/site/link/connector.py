"""The process that talks: to the coordinator, and to whoever opens the site's own page. It never has a row.

What must stay true: it is told neither where the home is nor any password of a source; before it hears anybody it
gives up every file but its libraries and the folder with its certificate, where the system can take them.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

from thebes import machine
from thebes.confinement import landlock
from thebes.confinement.calls import die_with_parent, hide_memory
from thebes.site.link.control import Ear, tell
from thebes.site.process_start import PIPE, library_places
from thebes.wire import log_output
from thebes.wire.server_options import manners

#: what the system's libraries read: names of hosts, certificates, time zones, loaders, what machine this is
SYSTEM = (
    *("/usr", "/lib", "/lib64", "/bin", "/etc", "/run/systemd/resolve", "/run/nscd", "/nix/store", "/opt/homebrew"),
    *("/dev/urandom", "/dev/random", "/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/sys"),
    *("/sys/devices/system/cpu", "/sys/fs/cgroup"),
)
_WRITABLE = ("/dev/null",)
TOKENS = ("token", "figures")  #: that it is told, at the start and whenever one is replaced


def main() -> None:
    """Run until the supervisor ends."""
    die_with_parent()
    for number in machine.signals("SIGINT", "SIGHUP"):
        signal.signal(number, signal.SIG_IGN)  # whoever started it ends it
    log_output.to_stderr("thebes site: %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        control = socket.socket(fileno=int(os.environ.pop(PIPE)))
    except (KeyError, ValueError, OSError):
        sys.exit("thebes.site.link.connector is started by `thebes site`")
    ear = Ear(control)
    heard = ear.listen()
    if not heard:
        sys.exit(0)
    (settings, (folder, listening, pipe)), *_ = heard
    confined = confine(folder) and bool(settings.get("apart"))
    asyncio.run(
        _live(settings, control, ear, folder, socket.socket(fileno=listening), socket.socket(fileno=pipe), confined)
    )


def confine(folder: int) -> bool:
    """Give up every file but the libraries' and those in `folder`, and being looked at; whether all of this process
    did. Meant for one that still has one thread: those it has already would keep what they can reach."""
    os.chdir("/")
    hidden, alone = hide_memory(), _threads() == 1
    return landlock.restrict([*library_places(), *SYSTEM, folder], _WRITABLE) and hidden and alone


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 0


async def _live(
    settings: dict[str, Any],
    control: socket.socket,
    ear: Ear,
    folder: int,
    listening: socket.socket,
    pipe: socket.socket,
    confined: bool,
) -> None:
    # Only now, behind the walls: what these load starts threads.
    from thebes.site.link.dialer import Link
    from thebes.site.steward.identity import StewardsProvider
    from thebes.site.steward.rest import guarded, one_time
    from thebes.wire.access import Access
    from thebes.wire.identity_provider import IdentityProvider

    link = Link(settings["coordinator"], settings["site"], folder)
    await link.algorithm.meet(pipe)
    port, tokens = int(listening.getsockname()[1]), {name: str(settings[name]) for name in TOKENS}
    access = Access(lambda: tokens["token"], figures=lambda: tokens["figures"])
    named, provider = settings.get("provider"), None
    if named is not None:
        provider = IdentityProvider(StewardsProvider.model_validate(named["settings"]), named["secret"], time.time)
    pages = _named(settings.get("pages"))
    app = guarded(link, access, port=port, confined=confined, pages=pages, provider=provider)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    control.setblocking(False)
    meetings: set[asyncio.Task[None]] = set()

    def hear() -> None:
        try:
            heard = ear.listen()
        except BlockingIOError:
            return
        except OSError:
            heard = None
        if heard is None:
            loop.remove_reader(control)
            ended.set()
            return
        for message, descriptors in heard:
            tokens.update({name: str(message[name]) for name in TOKENS if name in message})
            for descriptor in descriptors:
                meeting = loop.create_task(link.algorithm.meet(socket.socket(fileno=descriptor)))
                meetings.add(meeting)
                meeting.add_done_callback(meetings.discard)

    loop.add_reader(control, hear)
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    server = _server(app)
    serving = loop.create_task(server.serve(sockets=[listening]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    tell(control, {"ready": True, "confined": confined, "url": one_time(port, access)})
    running = loop.create_task(link.run())
    await asyncio.wait([running, serving, loop.create_task(ended.wait())], return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await link.algorithm.close()
    await serving


def _named(pages: str | None) -> Any:
    """Return what puts pages on, by the name `module:function` that the command gave."""
    if pages is None:
        return None
    module, _, function = pages.partition(":")
    return getattr(importlib.import_module(module), function)


def _server(app: Any) -> Any:
    import uvicorn

    class ConnectorServer(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    return ConnectorServer(
        uvicorn.Config(
            app,
            **manners(),
            lifespan="off",
            timeout_graceful_shutdown=2,
            limit_concurrency=100,
        )
    )


if __name__ == "__main__":
    main()
