"""The owner's side of a child process: started with nothing of this one, heard by a deadline, killed when it fails.

What a child says is a stranger's word. Here only its length is bounded; whoever asked checks the rest.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import thebes
from thebes import machine


class ChildLost(Exception):
    """The child gave no answer that can be used; the words are ours, never the child's."""


class ChildProcess(Protocol):
    """A child that is spoken to."""

    @property
    def pid(self) -> int: ...

    def talk(self, question: bytes, deadline: float, wanted: Callable[[bytearray], int]) -> bytes:
        """Send everything and hear one answer by the deadline (of `time.monotonic`); see `converse`."""
        ...

    def close(self) -> None:
        """End the child."""
        ...


def begun(module: str, *imported: str, stdin: int, stdout: int, **environment: str) -> subprocess.Popen[bytes]:
    """Start `python -m module` with a clean environment, in a session of its own.

    `imported` are folders to import from, beside this package's and those where packages are installed.
    """
    machine.require()
    package = str(Path(thebes.__file__).parent.parent)
    places = [package, *(place for place in sys.path if place and "site-packages" in place), *imported]
    return subprocess.Popen(
        [sys.executable, "-P", "-s", "-B", "-m", module],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        cwd="/",
        env={"PYTHONPATH": os.pathsep.join(places), "HOME": "/nonexistent", **environment},
        start_new_session=True,
    )


class Child(ChildProcess):
    """A process of its own, begun as above, that reads and writes two pipes."""

    def __init__(self, module: str, *imported: str, **environment: str) -> None:
        self._process = begun(module, *imported, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **environment)

    @property
    def pid(self) -> int:
        return self._process.pid

    def talk(self, question: bytes, deadline: float, wanted: Callable[[bytearray], int]) -> bytes:
        """Send everything and hear one answer by the deadline (of `time.monotonic`); see `converse`."""
        sink, source = self._process.stdin, self._process.stdout
        if sink is None or source is None or sink.closed or source.closed:
            raise ChildLost("it is not there")
        return converse(sink.fileno(), source.fileno(), question, deadline, wanted)

    def close(self) -> None:
        """End the child."""
        self._process.kill()
        self._process.wait()
        for end in (self._process.stdin, self._process.stdout):
            if end is not None:
                end.close()


def converse(sink: int, source: int, question: bytes, deadline: float, wanted: Callable[[bytearray], int]) -> bytes:
    """Writes `question` to `sink` and gives exactly the answer from `source`.

    `wanted` says how long the answer will be, from what was heard of it so far, and may raise `ChildLost` itself. A
    child that speaks before it was asked everything, or says more than that, is lost.
    """
    os.set_blocking(sink, False)
    os.set_blocking(source, False)
    rest, heard, length = memoryview(question), bytearray(), wanted(bytearray())
    with selectors.DefaultSelector() as waiting:
        waiting.register(source, selectors.EVENT_READ)
        if rest:
            waiting.register(sink, selectors.EVENT_WRITE)
        while rest or len(heard) < length:
            left = deadline - time.monotonic()
            ready = waiting.select(left) if left > 0 else []
            if not ready:
                raise ChildLost("it took longer than the wall-clock limit")
            for place, _ in ready:
                if place.fd == sink:
                    rest = rest[_sent(sink, rest) :]
                    if not rest:
                        waiting.unregister(sink)
                    continue
                part = os.read(source, 2**20)
                if not part:
                    raise ChildLost("it ended early")
                if rest:
                    raise ChildLost("it answered out of turn")
                heard += part
                length = wanted(heard)
                if len(heard) > length:
                    raise ChildLost("it answered more than it was asked")
    return bytes(heard)


def _sent(sink: int, rest: memoryview) -> int:
    try:
        return os.write(sink, rest[: 2**16])
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        raise ChildLost("it ended early") from None
