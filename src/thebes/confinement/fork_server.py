"""A process that has loaded what strangers' work needs, and forks a child for each task instead of loading it again.

What must stay true: the server hears nothing but the ends of pipes, so nothing of one task is in it, or in another
task's child; no child has an end of another's pipes; it ends with its parent, and every child ends with it. Children of
one server lie alike in memory, so what a stranger's work learns of that in one is true of the next; what it may not do,
it may not do in either.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from thebes import machine
from thebes.confinement.calls import die_with_parent, hide_memory
from thebes.confinement.parent import ChildLost, begun, converse

_MOST_UNHEARD = 16
IDLE_SECONDS = 300.0  #: after which a server without children ends, for its memory


class ForkedChild:
    """A child of the server. It is known by a descriptor of the process, which no later process can have."""

    def __init__(self, pid: int, process: int, sink: int, source: int) -> None:
        self.pid = pid
        self._process, self._sink, self._source = process, sink, source
        self._closed = False

    def talk(self, question: bytes, deadline: float, wanted: Callable[[bytearray], int]) -> bytes:
        """Send everything and hear one answer by the deadline (of `time.monotonic`); see `converse`."""
        if self._closed:
            raise ChildLost("it is not there")
        return converse(self._sink, self._source, question, deadline, wanted)

    def close(self) -> None:
        """End the child."""
        if self._closed:
            return
        self._closed = True
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._process, signal.SIGKILL)
        ended = select.poll()
        ended.register(self._process, select.POLLIN)
        ended.poll()
        for end in (self._process, self._sink, self._source):
            os.close(end)


def can_fork() -> bool:
    """Return whether this system knows a process by a descriptor (Linux)."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


class ForkServer:
    """The server of one module, started when somebody first wants a child. Safe for threads."""

    def __init__(self, module: str, **environment: str) -> None:
        self._module, self._environment = module, environment
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._unheard = 0  #: children that it was asked for and that nobody waited for any more

    def child(self, deadline: float) -> ForkedChild:
        """Fork a child, which hears and says nothing before it is spoken to; `ChildLost` where there is none by the
        deadline (of `time.monotonic`)."""
        if not self._lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise ChildLost("it took longer than the wall-clock limit")
        try:
            if self._control is not None:
                try:
                    return self._forked(self._control, deadline)
                except ConnectionError:
                    self._end()  # it was idle for long, or was killed
            try:
                return self._forked(self._start(), deadline)
            except ConnectionError:
                self._end()
                raise ChildLost("it ended early") from None
        finally:
            self._lock.release()

    def _start(self) -> socket.socket:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = begun(self._module, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, **self._environment)
        return self._control

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._control = None
        self._unheard = 0

    def _forked(self, control: socket.socket, deadline: float) -> ForkedChild:
        source, its_sink = os.pipe()
        its_source, sink = os.pipe()
        try:
            try:
                control.settimeout(max(0.0, deadline - time.monotonic()) or 1e-9)
                socket.send_fds(control, [b"fork"], [its_source, its_sink])
                self._unheard += 1
                while True:
                    told, handed, _, _ = socket.recv_fds(control, 32, 1)
                    if not handed:
                        raise ConnectionError
                    self._unheard -= 1
                    if not self._unheard:
                        break
                    os.close(handed[0])  # of one that nobody waits for: it hears the end of its pipe, and ends
            except (TimeoutError, BlockingIOError):
                if self._unheard > _MOST_UNHEARD:
                    self._end()  # it hangs, and what hangs with it is lost
                raise ChildLost("it took longer than the wall-clock limit") from None
            finally:
                os.close(its_source)
                os.close(its_sink)
        except BaseException:
            os.close(source)
            os.close(sink)
            raise
        return ForkedChild(int(told), handed[0], sink, source)


def fork_for_each(prepare: Callable[[], None], serve: Callable[[int, int], None]) -> None:
    """Run `prepare` once, then `serve(source, sink)` in a child for each pair of pipes that comes over standard input.

    The end of that input ends this process, and the end of this process every child.
    """
    hide_memory()
    control = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    prepare()
    server, children = os.getpid(), dict[int, int]()  # by the descriptor of each process
    waiting = select.poll()
    waiting.register(control, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in waiting.poll(None if children else 1000 * IDLE_SECONDS)}
        if not ready:
            return
        for ended in ready & children.keys():
            waiting.unregister(ended)
            os.waitpid(children.pop(ended), 0)
            os.close(ended)
        if control.fileno() not in ready:
            continue
        asked, ends, _, _ = socket.recv_fds(control, 32, 2)
        if not asked:
            return
        source, sink = ends
        pid = machine.fork(session=True)
        if pid == 0:
            try:
                for others in (control.fileno(), *children):
                    os.close(others)
                _live(server, source, sink, serve)
            finally:
                os._exit(0)
        os.close(source)
        os.close(sink)
        process = os.pidfd_open(pid)  # it cannot be another's: whoever has ended is kept until waited for
        children[process] = pid
        waiting.register(process, select.POLLIN)
        socket.send_fds(control, [str(pid).encode()], [process])


def _live(server: int, source: int, sink: int, serve: Callable[[int, int], None]) -> None:
    """Be a child: by itself, gone with the server, and with two ends of pipes besides what leads nowhere."""
    die_with_parent()
    if os.getppid() == server:
        hide_memory()
        serve(source, sink)
