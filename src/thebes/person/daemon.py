"""The process behind `thebes person`: one home, one port of this machine, one thread that works."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

from thebes.person.folder import DAEMON, announce, prepared
from thebes.person.home import POLL_SECONDS, Person
from thebes.person.rest import Pages, guarded
from thebes.privacy.faults import ThebesError
from thebes.wire import log_output
from thebes.wire.access import Access, make_token
from thebes.wire.local_server import listening_at
from thebes.wire.server_options import manners

QUICK_POLL_SECONDS = 1.0
_UNNOTICED = (
    "it runs. One thing to know: never put an older copy of this home back by hand, nobody would notice that it has "
    "forgotten what was spent; My privacy says what helps"
)


def run(
    home: str | Path,
    *,
    coordinator: str | None,
    proxy: str | None = None,
    port: int = 0,
    delay: bool = True,
    fill: Callable[[Person], None] | None = None,
    pages: Pages | None = None,
    passphrase: str | None = None,
) -> None:
    """Serve a home until SIGTERM or SIGINT. Prints one line of JSON when it listens, or two lines of words to a
    terminal. `fill` is given the home first, `pages` puts web pages onto the interface."""
    os.umask(0o077)
    # Not from INFO on: whoever speaks HTTP would write down addresses, which carry ids of tasks.
    log_output.to_stderr("%(message)s", level=logging.WARNING)
    folder = prepared(home)
    person = Person(folder, coordinator=coordinator, proxy=proxy, delay=delay, passphrase=passphrase)
    try:
        make_token(folder)
        access = Access(folder)
        if fill is not None:
            fill(person)
        listening = listening_at(port)
        with listening:
            _serve(person, access, listening, folder, pages, quick=not delay)
    finally:
        person.close()


def _serve(
    person: Person, access: Access, listening: socket.socket, folder: Path, pages: Pages | None, *, quick: bool
) -> None:
    import uvicorn

    port = int(listening.getsockname()[1])
    url = f"http://127.0.0.1:{port}"

    class PersonServer(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            # uvicorn would raise the signal again once it has stopped, before the home is closed
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: stop())
            yield

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            announce(folder, {"url": url, "pid": os.getpid()})
            line: dict[str, Any] = {"ready": True, "url": f"{url}/?code={access.new_code()}", "address": url}
            line |= {"home": str(folder), "notices_older_copies": person.balance()["notices_older_copies"]}
            _tell(line)

    def stop() -> None:
        server.should_exit = True

    config = uvicorn.Config(
        guarded(person, access, port=port, stop=stop, pages=pages),
        **manners(),
        timeout_graceful_shutdown=3,
        limit_concurrency=200,
    )
    server = PersonServer(config)
    threading.Thread(target=_greet, args=(person,), name="greeting", daemon=True).start()
    person.start(poll_seconds=QUICK_POLL_SECONDS if quick else POLL_SECONDS)
    try:
        server.run(sockets=[listening])
    finally:
        (folder / DAEMON).unlink(missing_ok=True)


def _tell(line: Mapping[str, Any]) -> None:
    """Tell a program in JSON that the home is served. Somebody at a terminal reads where the pages are, and how to end
    and come back; what else there is to know of a home stands on its pages."""
    if sys.stdout.isatty():
        again = f"thebes person --home {quote(line['home'])} --open"
        sys.stdout.write(f"Your machine runs. Open this address in your browser, it works once: {line['url']}\n")
        sys.stdout.write(f"Ctrl-C stops it. For another address, in a second terminal: {again}\n")
        sys.stdout.flush()
        return
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
    if sys.stderr.isatty():
        sys.stderr.write(f"thebes: open this address in your browser; it works once: {line['url']}\n")
    if not line["notices_older_copies"]:
        sys.stderr.write(f"thebes: {_UNNOTICED}\n")


def _greet(person: Person) -> None:
    """One line where the coordinator cannot be asked: an address with a mistake in it looks like any other."""
    try:
        person.tasks()
    except ThebesError as error:
        sys.stderr.write(f"thebes: the coordinator cannot be asked now: {error}; this goes on and asks again\n")
