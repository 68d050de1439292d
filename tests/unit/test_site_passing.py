"""The process that talks and the one that has the rows: what is passed on, and what is said while nobody is there."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.site_home import ask, site_home
from thebes.cli import site as command
from thebes.confinement import landlock
from thebes.ledger.keeper import UNNOTICED
from thebes.privacy.faults import Mistake
from thebes.site.algorithm_process import Office, serve
from thebes.site.link import certificate
from thebes.site.link.control import Ear, tell
from thebes.site.link.proxy import proxy_of
from thebes.site.link.row_process import Algorithm
from thebes.site.process_start import PIPE, algorithm_command, algorithm_environment, connector_environment
from thebes.wire.link import BlockingPipe, glance, read_envelope, write_envelope
from thebes.wire.refusals import Malformed, Unreachable

COUNT = {"type": "query", "dataset": "patients", "statistic": "count", "epsilon": 0.5}
OLDER = {**COUNT, "where": "age > 40"}


class Heard:
    """List what was said to the coordinator."""

    def __init__(self) -> None:
        self.all: dict[str, dict[str, Any]] = {}
        self.came = asyncio.Event()

    async def __call__(self, name: str, body: bytes) -> None:
        self.all[name] = read_envelope(body)
        self.came.set()

    async def wait(self, name: str) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while name not in self.all:
                self.came.clear()
                await self.came.wait()
        return self.all[name]


async def passed(algorithm: Algorithm, message: dict[str, Any]) -> None:
    body = write_envelope(message)
    await algorithm.pass_on(glance(body), body)


def test_while_nobody_is_there_every_ask_is_answered_down_and_others_go_on() -> None:
    async def story() -> None:
        heard = Heard()
        algorithm = Algorithm(heard)
        await passed(algorithm, ask(COUNT, task="t1"))
        told = await heard.wait("m-t1-0")
        assert (told["kind"], told["code"], told["task"], told["part"]) == ("refusal", "down", "t1", "phase-0")
        with pytest.raises(Unreachable):
            await algorithm.ask("requests")
        mine, theirs = socket.socketpair()
        await algorithm.meet(mine)
        assert algorithm.up
        await passed(algorithm, ask(COUNT, task="t2"))
        waiting = asyncio.create_task(algorithm.ask("requests"))
        await asyncio.sleep(0.05)
        theirs.close()  # killed in the middle
        assert (await heard.wait("m-t2-0"))["code"] == "down"
        with pytest.raises(Unreachable):
            await waiting
        assert not algorithm.up

    asyncio.run(story())


def test_an_answer_reaches_whoever_asked_and_nobody_else(tmp_path: Path) -> None:
    office = Office(site_home(tmp_path / "site"), "north")

    async def story() -> None:
        heard = Heard()
        algorithm = Algorithm(heard)
        mine, theirs = socket.socketpair()
        threading.Thread(target=serve, args=(office, BlockingPipe(theirs)), daemon=True).start()
        await algorithm.meet(mine)
        await passed(algorithm, ask(COUNT))
        assert (await heard.wait("m-t1-0"))["kind"] == "contribution"
        assert (await algorithm.ask("requests"))[0]["task"] == "t1"
        assert list(heard.all) == ["m-t1-0"]
        with pytest.raises(Malformed):
            await passed(algorithm, {**ask(COUNT), "id": "own-1"})
        await passed(algorithm, ask(OLDER, task="t2"))
        algorithm.forget()  # the link broke: the answer is on disk, and nobody is told
        await algorithm.ask("requests")
        assert "m-t2-0" not in heard.all
        await passed(algorithm, ask(OLDER, task="t2"))
        assert (await heard.wait("m-t2-0"))["kind"] == "contribution"
        await algorithm.close()

    asyncio.run(story())
    assert office.ledger.block("patients").meters["epsilon"].spent == 10**12


def test_a_data_set_that_is_not_declared_gets_no_lane_of_its_own(tmp_path: Path) -> None:
    office = Office(site_home(tmp_path / "site"), "north")
    lanes = {office.lane(ask({**COUNT, "dataset": name})) for name in ("patients", "x1", "x2", "../x", 7, None)}
    assert lanes == {"patients", ""}


@pytest.mark.slow
def test_the_process_with_the_rows_answers_over_its_pipe_and_ends_with_it(tmp_path: Path) -> None:
    home = site_home(tmp_path / "site")
    mine, theirs = socket.socketpair()
    command, given = algorithm_command(home.folder, "north"), algorithm_environment(theirs.fileno())
    given["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    process = subprocess.Popen(
        command, env=given, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True, cwd="/"
    )
    theirs.close()
    pipe = BlockingPipe(mine)
    pipe.send({"kind": "describe", "id": "1"})
    told = pipe.receive()
    assert told is not None
    assert list(told["datasets"]) == ["patients"]
    pipe.send(ask(COUNT))
    assert pipe.receive()["kind"] == "contribution"  # type: ignore[index]
    pipe.close()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert UNNOTICED in said  # nothing outside the home remembers its head


@pytest.mark.slow
def test_the_process_with_the_rows_needs_a_pipe(tmp_path: Path) -> None:
    given = {name: value for name, value in os.environ.items() if name != PIPE}
    ended = subprocess.run(algorithm_command(tmp_path, "x"), env=given, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "thebes site" in ended.stderr


def test_the_process_that_talks_is_given_no_password_and_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATIENTS_PASSWORD", "secret")
    monkeypatch.setenv("THEBES_HOME", "/srv/site")
    given = connector_environment(7)
    assert "secret" not in str(given)
    assert "/srv/site" not in str(given)


@pytest.mark.parametrize("spelled", [str.lower, str.upper])
def test_the_process_that_talks_finds_the_proxy_that_whoever_starts_it_finds(
    monkeypatch: pytest.MonkeyPatch, spelled: Callable[[str], str]
) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    said = {"grpc_proxy": "http://proxy:1", "https_proxy": "http://proxy:2", "no_proxy": "a", "no_grpc_proxy": "b"}
    for name, value in said.items():
        monkeypatch.setenv(spelled(name), value)
    given = connector_environment(7)
    assert {name: given[spelled(name)] for name in said} == said
    here = [proxy_of(f"{host}:1") for host in ("a", "b", "c")]
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in given.items():
        if name.lower().endswith("_proxy"):
            monkeypatch.setenv(name, value)
    assert [proxy_of(f"{host}:1") for host in ("a", "b", "c")] == here == ["http://proxy:1", None, "http://proxy:1"]


@pytest.mark.parametrize("name", ["https_proxy", "HTTPS_PROXY", "grpc_proxy", "GRPC_PROXY"])
@pytest.mark.parametrize("proxy", ["socks5h://me:secret@127.0.0.1:9050", "https://me:secret@proxy.example:3128"])
def test_a_site_that_would_go_past_its_proxy_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, proxy: str
) -> None:
    for known in [known for known in os.environ if known.lower().endswith("_proxy")]:
        monkeypatch.delenv(known)
    monkeypatch.setenv(name, proxy)
    started = list[str]()
    monkeypatch.setattr("thebes.site.supervisor.Supervisor.__init__", lambda *_, **__: started.append("it"))
    monkeypatch.setattr("thebes.site.supervisor.Supervisor.run", lambda _: None)
    with pytest.raises(Mistake, match="no_proxy") as refused:
        command.site(SimpleNamespace(invoked_subcommand=None), home=tmp_path / "site", coordinator="far.example:8443")  # type: ignore[arg-type]
    assert "secret" not in str(refused.value)
    assert not started
    for reached in ("127.0.0.1:8443", "near.example:8443"):
        monkeypatch.setenv("no_proxy", "near.example")
        command.site(SimpleNamespace(invoked_subcommand=None), home=tmp_path / "site", coordinator=reached)  # type: ignore[arg-type]
    monkeypatch.setenv(name, "http://proxy.example:3128")
    command.site(SimpleNamespace(invoked_subcommand=None), home=tmp_path / "site", coordinator="far.example:8443")  # type: ignore[arg-type]
    assert len(started) == 3


def test_descriptors_travel_with_the_lines_they_were_sent_with(tmp_path: Path) -> None:
    one, other = socket.socketpair()
    ear = Ear(other)
    files = [os.open(tmp_path, os.O_RDONLY) for _ in range(3)]
    tell(one, {"first": 1}, files[:2])
    assert [(m, len(d)) for m, d in ear.listen() or []] == [({"first": 1}, 2)]
    tell(one, {"second": 2})
    tell(one, {"third": 3}, files[2:])
    heard: list[tuple[dict[str, Any], int]] = []
    while len(heard) < 2:
        heard += [(m, len(d)) for m, d in ear.listen() or []]
    assert heard == [({"second": 2}, 0), ({"third": 3}, 1)]
    one.close()
    assert ear.listen() is None


REACHER = """
import os, socket, sys
from thebes.site.link.connector import confine
folder = os.open(sys.argv[1] + "/link", os.O_RDONLY | os.O_DIRECTORY)
print(confine(folder))
def tried(what, work):
    try:
        work()
        print(what, "reached")
    except OSError as error:
        print(what, error.errno)
tried("policy", lambda: open(sys.argv[1] + "/policy.toml").read())
tried("rows", lambda: open(sys.argv[1] + "/patients.csv").read())
tried("datasets", lambda: os.listdir(sys.argv[1] + "/datasets"))
tried("up", lambda: os.open("../policy.toml", os.O_RDONLY, dir_fd=folder))
tried("write", lambda: open(sys.argv[1] + "/link/new", "w"))
tried("parent", lambda: open(f"/proc/{os.getppid()}/environ").read())
tried("signal", lambda: os.kill(os.getppid(), 0))
tried("link", lambda: os.open("site.pem", os.O_RDONLY, dir_fd=folder))
tried("hosts", lambda: open("/etc/hosts").read())
import grpc, uvicorn, fastapi, numpy, thebes.site.link.dialer, thebes.site.steward.rest
print("imported")
"""


@pytest.mark.skipif(landlock.version() == 0, reason="this system has no Landlock")
def test_the_process_that_talks_cannot_open_anything_of_the_home_but_its_certificate(tmp_path: Path) -> None:
    home = site_home(tmp_path / "site")
    home.link.mkdir()
    (home.link / "site.pem").write_text("certificate")
    script = tmp_path / "reacher.py"
    script.write_text(REACHER)
    command = [sys.executable, "-P", "-c", REACHER, str(home.folder)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd="/")
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    assert lines[0] == "True"
    said = dict(line.rsplit(" ", 1) for line in lines[1:-1])
    denied = {name: said.pop(name) for name in ("policy", "rows", "datasets", "up", "write", "parent")}
    assert set(denied.values()) == {"13"}
    if landlock.version() >= 6:
        assert said.pop("signal") == "1"
    else:
        said.pop("signal")
    assert said == {"link": "reached", "hosts": "reached"}
    assert lines[-1] == "imported"


def test_without_landlock_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "version", lambda: 0)
    assert landlock.restrict(["/"]) is False


# --- the certificate ---------------------------------------------------------------------------------------------


@pytest.fixture
def link(tmp_path: Path) -> Path:
    from thebes.coordinator.auth.authority import CertificateAuthority
    from thebes.coordinator.clock import SystemClock

    CertificateAuthority(tmp_path / "coordinator", SystemClock()).issue("north", tmp_path / "site")
    return tmp_path / "site" / "link"


def read(link: Path, **more: Any) -> certificate.SiteIdentity:
    folder = os.open(link, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return certificate.read(folder, **more)
    finally:
        os.close(folder)


def test_a_certificate_names_its_site(link: Path) -> None:
    assert read(link).name == "north"


def test_a_certificate_that_cannot_be_used_says_what_to_do(link: Path) -> None:
    from datetime import UTC, datetime

    from thebes.privacy.faults import Refusal

    with pytest.raises(Refusal, match=r"ended on .*thebes ca invite north"):
        read(link, now=datetime(2100, 1, 1, tzinfo=UTC))
    (link / "site.key").chmod(0o644)
    with pytest.raises(Refusal, match="read by others"):
        read(link)
    (link / "site.pem").write_text("nonsense")
    (link / "site.key").chmod(0o600)
    with pytest.raises(Refusal, match="not a site's certificate"):
        read(link)
    (link / "site.pem").unlink()
    with pytest.raises(Refusal, match="thebes ca invite"):
        read(link)
