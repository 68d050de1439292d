"""The process behind `thebes site`: it starts the one that holds the rows and the one that talks, and keeps both going.

What must stay true: whoever supervises holds the home before anything else, so that a second one touches nothing;
whichever of the two dies is started again and the other goes on; when this one ends, neither is left.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from thebes import machine
from thebes.database import private_files
from thebes.ledger import Ledger
from thebes.privacy.faults import Mistake, Refusal, ThebesError
from thebes.site.home import SiteHome
from thebes.site.link import certificate, connector, joining
from thebes.site.link.control import Ear, tell
from thebes.site.process_start import (
    algorithm_command,
    algorithm_environment,
    connector_command,
    connector_environment,
    library_places,
)
from thebes.site.steward.identity import stewards_provider
from thebes.wire import log_output
from thebes.wire.access import FIGURES, TokenFile, make_token
from thebes.wire.identity_provider import secret_of
from thebes.wire.local_server import DAEMON, TOKEN, listening_at

log = logging.getLogger("thebes.site")
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0  #: seconds before a process is started again
STEADY_SECONDS = 30.0  #: whoever lives so long is started again at once
LOOK_SECONDS = 1.0  #: between two looks at the files of its tokens
_STOP_SECONDS = 8.0


class Supervisor:
    """One home's two processes, of which nobody else can be the supervisor until `close` or the end of `run`. `pages`
    names, as `module:function`, what puts web pages onto the site's interface."""

    def __init__(self, home: SiteHome, *, coordinator: str, port: int, pages: str | None = None) -> None:
        if home.of_a_coordinator:
            raise Mistake("--home", "is a coordinator's home, whose own site thebes coordinator starts by itself")
        self._home, self._coordinator, self._pages = home, coordinator, pages
        with contextlib.ExitStack() as held:
            held.enter_context(contextlib.closing(home.hold()))
            joining.resume(home)
            home.link.mkdir(mode=0o700, exist_ok=True)
            self._folder = os.open(home.link, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, self._folder)
            self.name = certificate.read(self._folder).name
            self._tokens = {"token": _token(home, TOKEN), "figures": _token(home, FIGURES)}
            self._told = self._read_tokens()
            provider = stewards_provider(home.folder)
            secret = None if provider is None else secret_of(provider, home.folder)
            self._provider = None if provider is None else {"settings": provider.model_dump(), "secret": secret}
            self._listening = held.enter_context(listening_at(port))
            held.callback((home.folder / DAEMON).unlink, missing_ok=True)
            self._held = held.pop_all()
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._algorithm: _Child | None = None
        self._connector: _Child | None = None
        self._control: socket.socket | None = None
        self._ear: Ear | None = None
        self._announced = False
        self._noticing: bool | None = None
        self._stopping = False

    def run(self) -> None:
        """Until SIGTERM or SIGINT."""
        log_output.to_stderr("thebes site: %(message)s")
        self._noticing = self._notices_older_copies()  # before anybody else can spend
        wake, woken = socket.socketpair()
        for end in (wake, woken):
            end.setblocking(False)
        before = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        for number in machine.signals("SIGTERM", "SIGINT", "SIGHUP"):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        try:
            while not self._stopping:
                soon = self._look()
                self._tell_tokens()
                heard = [woken] if self._control is None else [woken, self._control]
                ready, _, _ = select.select(heard, [], [], LOOK_SECONDS if soon is None else min(soon, LOOK_SECONDS))
                with contextlib.suppress(BlockingIOError):
                    while woken in ready and woken.recv(4096):
                        continue
                if self._control in ready:
                    self._hear()
        finally:
            signal.set_wakeup_fd(before)
            self.close()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True

    # --- keeping both going -----------------------------------------------------------------------------

    def _look(self) -> float | None:
        """Start what does not run; how many seconds until there is more to do, None for as long as nothing happens."""
        for child in (self._algorithm, self._connector):
            if child is not None and child.ended():
                _say(f"the {child.what} process has ended ({child.how()}); it is started again")
        if self._connector is None or self._connector.over:
            return self._both()
        if self._algorithm is None or self._algorithm.over:
            return self._one()
        return None

    def _both(self) -> float | None:
        """The one that talks is gone, and with it the pipe: begin with both anew."""
        wait = self._connector.wait() if self._connector is not None else 0.0
        if wait > 0:
            return wait
        self._forget()
        mine, theirs = socket.socketpair()
        inner, outer = socket.socketpair()
        with theirs, inner, outer:
            command, given = connector_command(), connector_environment(theirs.fileno())
            self._connector = _Child("connector", command, given, theirs, self._connector)
            self._control, self._ear = mine, Ear(mine)
            settings: dict[str, Any] = {"coordinator": self._coordinator, "site": self.name, **self._told}
            settings |= {"pages": self._pages, "apart": self._beyond_reach(), "provider": self._provider}
            tell(mine, settings, [self._folder, self._listening.fileno(), outer.fileno()])
            if self._algorithm is not None:
                self._algorithm.stop()
            self._start_algorithm(inner)
        return None

    def _one(self) -> float | None:
        """The one with the rows is gone: another pipe, and the one that talks goes on."""
        wait = self._algorithm.wait() if self._algorithm is not None else 0.0
        if wait > 0:
            return wait
        inner, outer = socket.socketpair()
        with inner, outer:
            self._start_algorithm(inner)
            if self._control is not None:
                with contextlib.suppress(OSError):  # then that one is gone, too, and seen to next
                    tell(self._control, {"pipe": True}, [outer.fileno()])
        return None

    def _start_algorithm(self, pipe: socket.socket) -> None:
        command = algorithm_command(self._home.folder, self.name)
        self._algorithm = _Child("algorithm", command, algorithm_environment(pipe.fileno()), pipe, self._algorithm)

    def _tell_tokens(self) -> None:
        """Hand over tokens that were replaced, so that they count at once."""
        now = self._read_tokens()
        if now == self._told:
            return
        for name, token in now.items():
            if token != self._told[name]:
                _say(f"another {name} counts" if token else f"no {name} counts: its file cannot be used")
        self._told = now
        if self._control is not None:
            with contextlib.suppress(OSError):  # then the one that talks is gone, and is told when it starts
                tell(self._control, now)

    def _read_tokens(self) -> dict[str, str]:
        """Return each token; an empty one, which nobody has, where its file is not there or not safe."""
        found = {}
        for name, held in self._tokens.items():
            try:
                found[name] = held()
            except (Refusal, OSError):
                found[name] = ""
        return found

    def _hear(self) -> None:
        assert self._ear is not None  # noqa: S101
        try:
            heard = self._ear.listen()
        except OSError:
            heard = None
        if heard is None:
            self._forget()
            return
        for message, _ in heard:
            if message.get("ready") and not self._announced:
                self._announced = True
                confined = bool(message.get("confined"))
                if not confined:
                    _say("this system cannot keep the connector process away from the rows; docs/sites.md says more")
                private_files.write(self._home.folder / DAEMON, json.dumps({"url": self.address, "pid": os.getpid()}))
                line = {"ready": True, "url": message["url"], "address": self.address}
                line |= {"site": self.name, "confined": confined, "notices_older_copies": self._noticing}
                _announce(line)

    def _notices_older_copies(self) -> bool | None:
        """Return whether an older copy of the home would be noticed; None where its ledger cannot be opened. The
        process with the rows says so in words, and why it cannot."""
        try:
            with Ledger(self._home.ledger) as ledger:
                return ledger.notices_older_copies
        except ThebesError:
            return None

    def _beyond_reach(self) -> bool:
        """Return whether the home lies outside everything that the connector may read."""
        reach = [Path(place) for place in (*library_places(), *connector.SYSTEM)]
        return not any(self._home.folder.is_relative_to(place) for place in reach)

    def _forget(self) -> None:
        if self._control is not None:
            self._control.close()
        self._control = self._ear = None

    def close(self) -> None:
        """End both, and let go of the home."""
        children = [child for child in (self._connector, self._algorithm) if child is not None]
        for child in children:
            child.ask_to_stop()
        self._forget()
        until = time.monotonic() + _STOP_SECONDS
        for child in children:
            child.stop(max(0.1, until - time.monotonic()))
        self._held.close()


class _Child:
    """One of the two, and how long to wait before it is started again after `earlier` ones."""

    def __init__(
        self, what: str, command: list[str], given: dict[str, str], pipe: socket.socket, earlier: _Child | None
    ) -> None:
        self.what, self.over = what, False
        self._began = time.monotonic()
        self._pause = 0.0 if earlier is None else earlier._next()
        self._ended = 0.0
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=given,
            cwd="/",
            pass_fds=[pipe.fileno()],
            start_new_session=True,
        )

    def ended(self) -> bool:
        """Return whether it has ended since this was asked last."""
        if self.over or self._process.poll() is None:
            return False
        self.over, self._ended = True, time.monotonic()
        return True

    def how(self) -> str:
        status = self._process.returncode
        return f"killed by {signal.Signals(-status).name}" if status and status < 0 else f"status {status}"

    def wait(self) -> float:
        """For how many seconds it is too early to start it again."""
        return self._ended + self._next() - time.monotonic()

    def _next(self) -> float:
        if self._ended and self._ended - self._began > STEADY_SECONDS:
            return 0.0
        return min(max(FIRST_PAUSE, self._pause * 2), LONGEST_PAUSE)

    def ask_to_stop(self) -> None:
        with contextlib.suppress(OSError):
            self._process.terminate()

    def stop(self, seconds: float = _STOP_SECONDS) -> None:
        self.ask_to_stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self.over = True


def _token(home: SiteHome, file: str) -> TokenFile:
    """The token in a file of a home, which is made where there is none; refused where it is not safe."""
    make_token(home.folder, file=file)
    return TokenFile(home.folder, file)


def _announce(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _say(sentence: str) -> None:
    log.warning("%s", sentence, extra={"event": "site.standing"})
