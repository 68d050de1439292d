"""Children are forked by a process that knows of no task, have only what is theirs, and end when they should."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.children import Children
from thebes.confinement.fork_server import ForkedChild, ForkServer
from thebes.confinement.parent import ChildLost

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux knows processes by descriptors")

MODULE = "tests.support.echo"
PATIENCE = 120.0


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    place = os.pathsep.join(p for p in sys.path if p)
    made = ForkServer(MODULE, PYTHONPATH=place)
    yield made
    made._end()


def soon() -> float:
    return time.monotonic() + PATIENCE


def echoed(child: ForkedChild, said: bytes) -> bytes:
    return child.talk(said, soon(), lambda _: len(said))


def pipes(pid: int) -> set[str]:
    return {where for where in descriptors(pid) if where.startswith("pipe:")}


def descriptors(pid: int) -> list[str]:
    return [os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir()]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "Z"
    except OSError:
        return True


def wait_for(pid: int) -> None:
    end = soon()
    while not gone(pid):
        assert time.monotonic() < end, "it is still there"
        time.sleep(0.01)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into processes that hide their memory")
def test_children_answer_side_by_side_and_have_no_end_of_anothers_pipes(server: ForkServer) -> None:
    with closing(server.child(soon())) as one, closing(server.child(soon())) as other:
        assert (echoed(one, b"one"), echoed(other, b"other")) == (b"one", b"other")
        assert len(pipes(one.pid)) == len(pipes(other.pid)) == 2
        assert not pipes(one.pid) & pipes(other.pid)
        for child in (one, other):
            rest = [where for where in descriptors(child.pid) if not where.startswith("pipe:")]
            assert set(rest) == {"/dev/null"}
        parent = int(Path(f"/proc/{one.pid}/stat").read_text().rpartition(") ")[2].split()[1])
        assert not pipes(parent), "what forks them can hear none of them"
        assert len(list(Path(f"/proc/{parent}/task").iterdir())) == 1


def test_a_child_that_is_closed_is_gone_and_the_others_go_on(server: ForkServer) -> None:
    with closing(server.child(soon())) as stays:
        child = server.child(soon())
        assert echoed(child, b"x") == b"x"
        child.close()
        assert gone(child.pid)
        child.close()
        with pytest.raises(ChildLost, match="not there"):
            echoed(child, b"y")
        assert echoed(stays, b"z") == b"z"


def test_a_killed_server_takes_its_children_along_and_another_is_started(server: ForkServer) -> None:
    child = server.child(soon())
    assert server._process is not None
    os.kill(server._process.pid, signal.SIGKILL)
    wait_for(child.pid)
    with closing(server.child(soon())) as next_one:
        assert echoed(next_one, b"again") == b"again"
    child.close()


def test_it_outlives_the_thread_that_first_wanted_a_child(server: ForkServer) -> None:
    found: list[ForkedChild] = []
    thread = threading.Thread(target=lambda: found.append(server.child(soon())))
    thread.start()
    thread.join()
    with closing(found[0]) as child:
        assert echoed(child, b"still here") == b"still here"


def test_nobody_waits_longer_for_a_child_than_they_say(server: ForkServer) -> None:
    with pytest.raises(ChildLost, match="wall-clock"):
        server.child(time.monotonic() - 1)
    with server._lock, pytest.raises(ChildLost, match="wall-clock"):
        server.child(time.monotonic() + 0.01)
    with closing(server.child(soon())) as first:
        assert server._process is not None
        os.kill(server._process.pid, signal.SIGSTOP)
        for _ in range(3):  # who has no time to wait leaves the others what they have
            with pytest.raises(ChildLost, match="wall-clock"):
                server.child(time.monotonic() + 0.01)
        os.kill(server._process.pid, signal.SIGCONT)
        assert echoed(first, b"still") == b"still"
        with closing(server.child(soon())) as child:
            assert echoed(child, b"later") == b"later"
            assert child.pid != first.pid


def test_a_server_that_cannot_start_gives_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ChildLost, match="ended early"):
        ForkServer(MODULE).child(soon())


def test_a_server_without_children_ends_after_a_while_for_its_memory() -> None:
    program = (
        "from thebes.confinement import fork_server\n"
        "fork_server.IDLE_SECONDS = 0.05\n"
        "fork_server.fork_for_each(lambda: None, lambda source, sink: None)"
    )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        process = subprocess.Popen([sys.executable, "-c", program], stdin=theirs)
        theirs.close()
        assert process.wait(PATIENCE) == 0


@pytest.mark.slow
def test_all_of_them_end_with_the_process_that_wanted_them(tmp_path: Path) -> None:
    program = (
        "import sys, time, os\n"
        "from thebes.confinement.fork_server import ForkServer\n"
        f"server = ForkServer({MODULE!r}, PYTHONPATH=os.pathsep.join(p for p in sys.path if p))\n"
        "child = server.child(time.monotonic() + 60)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)"
    )
    place = str(Path(__file__).parents[2])
    host = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": place}
    )
    assert host.stdout is not None
    pid = int(host.stdout.readline())
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])
    host.kill()
    host.wait()
    wait_for(pid)
    wait_for(parent)
    host.stdout.close()


@pytest.mark.slow
def test_every_task_of_a_process_has_a_child_of_one_server_and_leaves_none() -> None:
    torch = pytest.importorskip("torch")
    import thebes.torch
    from thebes.learning.graph import GradientWorker

    pair = thebes.torch.encode(torch.nn.Linear(2, 1), torch.nn.MSELoss())
    servers = Children("thebes.learning.graph.child_server")
    children = Children("thebes.learning.graph.child_server", forked=True)
    for _ in range(3):
        with GradientWorker(*pair) as worker:
            assert worker.gradients(worker.model.initial, [[1.0, 2.0]], [[5.0]]).any()
            assert len(children()) == 1
        assert not children()
    assert len(servers()) <= 1
