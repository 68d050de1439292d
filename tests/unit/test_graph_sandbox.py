"""The child process: same gradients as in this process, nothing it should not have, zeros when anything goes wrong."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from torch import nn

import thebes.torch
from tests.support.children import Children
from thebes.confinement import parent
from thebes.confinement.fork_server import ForkServer
from thebes.confinement.measures import MEASURES
from thebes.learning.graph import GradientWorker, read_model, sandbox
from thebes.privacy.faults import Fault, Mistake, Refusal


@pytest.fixture
def children() -> Children:
    return Children("thebes.learning.graph.child_server", forked=True)


@pytest.fixture(scope="module")
def pair() -> tuple[str, str]:
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
    return thebes.torch.encode(module, nn.MSELoss())


@pytest.fixture(scope="module")
def heavy() -> tuple[str, str]:
    """About a gigabyte of activations for a hundred rows at a time, and minutes of work for all of them."""
    module = nn.Sequential(
        *(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 7, padding=3), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 2)),
    )
    return thebes.torch.encode(module, nn.CrossEntropyLoss(), inputs=(3, 64, 64))


@pytest.fixture(scope="module")
def worker(pair):
    with GradientWorker(*pair) as started:
        yield started


def rows(count: int, columns: int = 3):
    draw = np.random.default_rng(4)
    return draw.normal(size=(count, columns)), draw.normal(size=(count, 2))


@pytest.mark.slow
def test_child_computes_what_this_process_computes(pair, worker):
    with GradientWorker(*pair, trusted=True) as here:
        for count in (0, 1, 7, 5000):
            inputs, targets = rows(count)
            weights = here.model.initial * (count + 1)
            found = worker.gradients(weights, inputs, targets)
            assert found.shape == (count, here.parameter_count)
            assert found.dtype == np.float32
            assert np.abs(found - here.gradients(weights, inputs, targets)).max(initial=0.0) < 1e-5
    assert not worker.failures


def test_mean_is_over_the_rows_of_one_owner_and_counts_what_is_not_finite_as_zero(pair, worker):
    inputs, targets = rows(10)
    inputs[4] = np.nan
    found = worker.mean(worker.model.initial, inputs, targets)
    single = np.nan_to_num(worker.gradients(worker.model.initial, inputs, targets).astype(float), nan=0.0)
    assert np.allclose(found, single.mean(axis=0), atol=1e-6)
    assert not worker.mean(worker.model.initial, inputs[:0], targets[:0]).any()


def test_many_exchanges_give_the_same_as_one(pair, worker, monkeypatch):
    inputs, targets = rows(50)
    expected = worker.gradients(worker.model.initial, inputs, targets)
    monkeypatch.setattr(sandbox, "_EXCHANGE_FLOATS", 1000)
    assert np.allclose(worker.gradients(worker.model.initial, inputs, targets), expected, atol=1e-6)


def test_child_reports_its_confinement(worker):
    assert set(worker.confinement) <= set(MEASURES)
    assert {"network", "memory", "cpu", "files", "writing"} <= set(worker.confinement)


def test_rows_that_do_not_fit_are_a_mistake(worker):
    inputs, targets = rows(4)
    weights = worker.model.initial
    for argument, given in (
        ("inputs", (weights, inputs[:, :2], targets)),
        ("targets", (weights, inputs, targets[:3])),
        ("targets", (weights, inputs, targets[:, :1])),
        ("inputs", (weights, [["a", "b", "c"]], targets[:1])),
        ("weights", (weights[1:], inputs, targets)),
    ):
        with pytest.raises(Mistake, match=f"^{argument}"):
            worker.gradients(*given)
    with pytest.raises(Mistake, match="wall_seconds"):
        GradientWorker("x", "y", wall_seconds=0)


@pytest.mark.slow
def test_endless_work_ends_in_zeros(heavy, children):
    with GradientWorker(*heavy, wall_seconds=0.5) as limited:
        found = limited.gradients(limited.model.initial, np.ones((500, 3 * 64 * 64)), np.zeros(500))
        assert not found.any()
        assert list(limited.failures) == ["it took longer than the wall-clock limit"]
        assert not children()


@pytest.mark.slow
def test_several_requests_share_one_moment_at_which_they_end(heavy):
    inputs, targets = np.ones((500, 3 * 64 * 64)), np.zeros(500)
    with GradientWorker(*heavy) as limited:
        began = time.monotonic()
        limited.finish_by(began + 0.5)
        for _ in range(3):
            assert not limited.gradients(limited.model.initial, inputs, targets).any()
        assert time.monotonic() - began < 50  # each by itself may take a minute
        assert list(limited.failures) == [
            "it took longer than the wall-clock limit",
            *["its time was over before it began"] * 2,
        ]


@pytest.mark.slow
def test_memory_beyond_the_cap_ends_in_zeros_and_the_next_child_works(heavy):
    inputs, targets = np.ones((200, 3 * 64 * 64)), np.zeros(200)
    with GradientWorker(*heavy, memory_bytes=2**25) as limited:
        assert not limited.gradients(limited.model.initial, inputs, targets).any()
        assert not limited.mean(limited.model.initial, inputs, targets).any()
        assert len(limited.failures) == 2
        limited._caps = (2**31, 3600)
        limited._stop()
        assert limited.gradients(limited.model.initial, inputs[:2], targets[:2]).any()


@pytest.mark.slow
def test_killed_child_ends_in_zeros_and_is_started_again(pair, children):
    inputs, targets = rows(5)
    with GradientWorker(*pair) as worker:
        (pid,) = children()
        os.kill(pid, signal.SIGKILL)
        assert not worker.gradients(worker.model.initial, inputs, targets).any()
        assert list(worker.failures) == ["it ended early"]
        assert worker.gradients(worker.model.initial, inputs, targets).any()
    assert not children()


def test_child_that_says_too_much_is_not_believed():
    for answer, words in ((b"\x01" + b"x" * 9, "more"), (b"\x07" + b"x" * 8, "turn"), (b"\x00x", "more")):
        question, source = os.pipe(), os.pipe()
        os.write(source[1], answer)
        with pytest.raises(parent.ChildLost, match=words):
            parent.converse(question[1], source[0], b"", time.monotonic() + 5, sandbox._with_status(8))
        for end in (*question, *source):
            os.close(end)


@pytest.mark.slow
def test_without_a_cut_network_nothing_starts(pair, monkeypatch):
    monkeypatch.setattr(sandbox, "MEASURES", ("none", *MEASURES[1:]))
    with pytest.raises(Refusal, match="network"), GradientWorker(*pair):
        pass
    with GradientWorker(*pair, unsafe_allow_network=True) as worker:
        assert "network" not in worker.confinement


def test_child_that_does_not_start_is_our_fault(pair, monkeypatch):
    monkeypatch.setattr(parent.sys, "executable", "/bin/false")
    monkeypatch.setattr(sandbox, "_SERVER", ForkServer("thebes.learning.graph.child_server"))
    with pytest.raises(Fault, match="does not start"), GradientWorker(*pair):
        pass


@pytest.mark.slow
def test_backbone_turns_rows_into_features_inside_the_child():
    from thebes.learning.graph.backbones import write_backbone

    torch.manual_seed(2)
    backbone = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    head = nn.Linear(4, 2)
    model, loss = thebes.torch.encode(head, nn.CrossEntropyLoss())
    text = write_backbone(backbone, shape=(3, 8, 8))
    pictures = torch.randn(6, 3, 8, 8)
    with torch.no_grad():
        features = backbone(pictures).numpy()
    targets = np.array([0, 1, 0, 1, 0, 1])
    with GradientWorker(model, loss, backbone=text) as whole, GradientWorker(model, loss, trusted=True) as only_head:
        found = whole.gradients(whole.model.initial, pictures.numpy(), targets)
        expected = only_head.gradients(whole.model.initial, features, targets)
    assert np.abs(found - expected).max() < 1e-5
    assert found.any()
    other, other_loss = thebes.torch.encode(nn.Linear(5, 2), nn.CrossEntropyLoss())
    with pytest.raises(Mistake, match="backbone"):
        GradientWorker(other, other_loss, backbone=text)


ATTEMPTS = """
import ctypes, json, os, resource, socket, sys
from thebes.confinement import calls, measures
target, port, without = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
for measure in without:
    setattr(calls, measure, lambda: False)
achieved = measures.confine(memory_bytes=2**28, cpu_seconds=60)

def tried(action):
    try:
        action()
        return "done"
    except (OSError, MemoryError) as error:
        return type(error).__name__

def connect():
    with socket.create_connection(("127.0.0.1", port), timeout=60):
        pass

def write():
    with open(target + ".new", "w") as file:
        file.write("x")
        file.flush()

def shared_memory():
    if ctypes.CDLL(None, use_errno=True).shmget(0, 4096, 0o1600) < 0:
        raise OSError(ctypes.get_errno(), "no segment")

def append():
    with open(target, "a") as file:
        file.write("x")
        file.flush()

answers = {
    "connect": tried(connect),
    "append": tried(append),
    "memory": tried(lambda: bytearray(2**30)),
    "read": tried(lambda: open(target).read()),
    "own limits": tried(lambda: resource.prlimit(0, resource.RLIMIT_NOFILE)),
}
if "system-calls" in achieved:
    answers |= {
        "write": tried(write),
        "remove": tried(lambda: os.remove(target)),
        "fork": tried(os.fork),
        "exec": tried(lambda: os.execv("/bin/true", ["true"])),
        "signal": tried(lambda: os.kill(os.getppid(), 0)),
        "limits of another": tried(lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (3, 3))),
        "priority of another": tried(lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)),
        "place of another": tried(lambda: os.sched_setaffinity(os.getppid(), {0})),
        "memory that stays": tried(shared_memory),
    }
print(json.dumps([achieved, answers]))
"""


@pytest.mark.parametrize("without", [(), ("leave_network",), ("filter_calls",), ("leave_network", "filter_calls")])
def test_confined_process_has_what_it_reports_and_no_more(tmp_path, without):
    import socket

    target = tmp_path / "owners-file"
    target.write_text("kept")
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = subprocess.run(
            [sys.executable, "-c", ATTEMPTS, str(target), str(server.getsockname()[1]), *without],
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    achieved, answers = json.loads(found.stdout)
    assert answers.pop("read") == answers.pop("own limits") == "done"
    assert answers["memory"] == "MemoryError"
    assert answers["append"] != "done"
    assert (answers["connect"] == "done") == ("network" not in achieved)
    assert ("system-calls" in achieved) == ("filter_calls" not in without)
    if "system-calls" in achieved:
        assert "done" not in answers.values(), answers
    assert target.read_text() == "kept"


def test_model_and_loss_are_checked_before_any_child_starts(pair, monkeypatch):
    def never(*arguments, **options):
        raise AssertionError("a process was started")

    monkeypatch.setattr(parent.subprocess, "Popen", never)
    with pytest.raises(Mistake, match=r"^model"):
        GradientWorker("nonsense", pair[1])
    with pytest.raises(Mistake, match=r"^loss"):
        GradientWorker(pair[0], "nonsense")
    assert read_model(pair[0]).graph.parameter_count == 98
