"""A line between two processes that can be cut, slowed, shut, and that says again what was said before.

What goes again goes as whole connections, later and in another order: to a server that is a message which comes twice,
late, and after those that were sent behind it.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections import deque
from contextlib import suppress

_MOST_KEPT = 256 * 1024
_CHUNK = 65_536


class Wire:
    """Listens at `port` and passes on to `target`, both on 127.0.0.1. Safe to strike from another thread."""

    def __init__(self, target: int, seed: int) -> None:
        self._target, self._dice = target, random.Random(seed)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._said: deque[bytearray] = deque(maxlen=60)
        self._lock = threading.Lock()
        self.slowness = 0.0  #: every piece waits up to so many seconds
        self.shut = False  #: nobody gets through
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Every connection there is ends at once, in the middle of whatever was said."""
        with self._lock:
            ends = list(self._open)
        for end in ends:
            _drop(end)

    def repeat(self, count: int) -> None:
        """Say again what was said on some earlier connections, in any order; nobody waits for the answers."""
        with self._lock:
            kept = [bytes(said) for said in self._said if said]
            chosen = self._dice.sample(kept, min(count, len(kept)))
        for said in chosen:
            threading.Thread(target=self._again, args=(said,), daemon=True).start()

    def calm(self) -> None:
        self.slowness, self.shut = 0.0, False

    def close(self) -> None:
        _drop(self._listening)
        self.cut()

    def _again(self, said: bytes) -> None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._target), timeout=5) as there:
            there.sendall(said)
            there.settimeout(2)
            while there.recv(_CHUNK):
                pass

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listening.accept()
            except OSError:
                return
            if self.shut:
                _drop(here)
                continue
            threading.Thread(target=self._join, args=(here,), daemon=True).start()

    def _join(self, here: socket.socket) -> None:
        try:
            there = socket.create_connection(("127.0.0.1", self._target), timeout=10)
        except OSError:
            _drop(here)
            return
        there.settimeout(None)
        said = bytearray()
        with self._lock:
            self._open |= {here, there}
            self._said.append(said)
        back = threading.Thread(target=self._pass, args=(there, here, None), daemon=True)
        back.start()
        self._pass(here, there, said)
        back.join()
        for end in (here, there):
            with self._lock:
                self._open.discard(end)
            end.close()

    def _pass(self, source: socket.socket, sink: socket.socket, said: bytearray | None) -> None:
        try:
            while piece := source.recv(_CHUNK):
                if said is not None and len(said) < _MOST_KEPT:
                    said += piece
                if self.slowness:
                    time.sleep(self._dice.random() * self.slowness)
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            _drop(source)
            _drop(sink)


def _drop(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
