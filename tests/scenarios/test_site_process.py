"""`thebes site` as its steward runs it: over real sockets, confined, revoked, renewed, and killed again and again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

import thebes

sys.path.insert(0, str(Path(__file__).parent))
from processes import PATIENCE, Process, stopped

from tests.support.ports import free_ports
from tests.support.site_home import site_home
from thebes.confinement import landlock
from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.clock import SystemClock
from thebes.ledger import Ledger
from thebes.privacy.faults import ThebesError
from thebes.site.home import AUDIT, SiteHome
from thebes.site.steward.audit_log import Audit
from thebes.testing.command import typed

pytestmark = pytest.mark.slow
COUNT = {"type": "query", "sites": "all", "dataset": "patients", "statistic": "count", "epsilon": 0.5}


def thebes_ca(*arguments: str) -> None:
    done = typed("ca", *arguments)
    assert done.returncode == 0, done.stderr


def until(what: Callable[[], Any], seconds: float = 2 * PATIENCE) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def children(pid: int) -> list[int]:
    """Processes that this one started, oldest first."""
    found = []
    for place in Path("/proc").iterdir():
        try:
            words = (place / "stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if place.name.isdigit() and int(words[1]) == pid and words[0] != "Z":
            found.append((int(words[19]), int(place.name)))
    return [number for _, number in sorted(found)]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def line_of(pid: int) -> bytes:
    """Return how a process was called; nothing once it has gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except PermissionError:
        pytest.skip("a process that hides its memory is known to nobody but its own privileged user here")
    except OSError:
        return b""


class Site:
    """A site and the REST client of its steward."""

    def __init__(self, home: SiteHome, address: str) -> None:
        self.home = home
        self.process = Process("site", "--home", str(home.folder), "--coordinator", address, "--port", "0")

    def ready(self) -> Site:
        facts = self.process.ready()
        token = (self.home.folder / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        self.http = httpx.Client(base_url=facts["address"], headers=headers, timeout=PATIENCE, trust_env=False)
        return self

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def both(self) -> list[int]:
        """(the process that talks, the one with the rows)."""
        named = {pid: line_of(pid) for pid in children(self.pid)}
        talks = [pid for pid, line in named.items() if b"site.link.connector" in line]
        return [*talks, *(pid for pid, line in named.items() if b"site.algorithm" in line)]

    def get(self, path: str) -> Any:
        answer = self.http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def is_(self, state: str) -> bool:
        try:
            return bool(self.get("/api/site")["state"] == state)
        except (httpx.HTTPError, AssertionError):
            return False


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = free_ports(2)
        place = ("coordinator", "--home", str(folder / "c"), "--port", str(self.ports[0]))
        self.coordinator = Process(*place, "--site-port", str(self.ports[1]))
        self.coordinator.ready()
        token = (folder / "c" / "admin.token").read_text().strip()
        self.server = thebes.connect(f"http://127.0.0.1:{self.ports[0]}", token=token, timeout=PATIENCE)
        self.running: list[Process] = [self.coordinator]

    def site(self, name: str, **more: Any) -> Site:
        home = site_home(self.folder / name, **more)
        thebes_ca("issue", name, "--home", str(self.folder / "c"), "--out", str(home.folder))
        site = Site(home, f"127.0.0.1:{self.ports[1]}")
        self.running.append(site.process)
        return site.ready()

    def linked(self, site: Site) -> None:
        """Wait until the coordinator knows what the site can be asked."""
        until(lambda: site.is_("connected"))
        until(lambda: any(one["datasets"] for one in self.server.sites()))

    def ask(self, document: dict[str, Any], timeout: float = PATIENCE) -> Any:
        return self.server.submit(document).wait(timeout=timeout)

    def close(self) -> None:
        self.server.close()
        stopped(self.running)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_a_steward_sees_what_was_asked_decided_and_spent(world: World) -> None:
    site = world.site("north")
    world.linked(site)
    release = world.ask(COUNT)
    assert 50 < release.value < 150
    until(lambda: site.get("/api/requests")[0]["state"] == "closed")  # it is told after the release is there
    (request,) = site.get("/api/requests")
    assert request["kind"] == "query"
    assert request["cost"] == {"epsilon": 0.5, "delta": 0.0}
    assert site.get("/api/ledger")["blocks"][0]["remaining"]["epsilon"] == 9.5
    assert site.get("/api/datasets")[0]["name"] == "patients"
    assert {e["event"] for e in site.get("/api/audit")["entries"]} == {"ask", "allowed", "answer", "closed"}
    told = site.get("/api/site")
    assert (told["name"], told["algorithm"], told["confined"]) == ("north", "up", site.process.facts["confined"])
    assert site.process.facts["notices_older_copies"] is site.get("/api/ledger")["notices_older_copies"] is False
    assert (
        httpx.get(f"{site.process.facts['address']}/api/ledger", trust_env=False, timeout=PATIENCE).status_code == 401
    )


def test_the_process_that_talks_holds_no_file_of_the_data_and_is_told_nothing_of_them(world: World) -> None:
    site = world.site("north")
    world.linked(site)
    world.ask(COUNT)
    talks, _ = site.both
    assert site.process.facts["confined"] is (landlock.version() > 0)
    held = []
    for place in Path(f"/proc/{talks}/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed just now
            held.append(os.readlink(place))
    said = Path(f"/proc/{talks}/environ").read_bytes() + line_of(talks)
    home = str(site.home.folder)
    ours = {place for place in held if place.startswith(home)}
    assert f"{home}/link" in ours
    assert all(Path(place).is_relative_to(f"{home}/link") for place in ours)  # it may be reading its certificate
    assert home.encode() not in said


def test_with_sigterm_everything_ends_and_with_a_dead_supervisor_too(world: World) -> None:
    site = world.site("north")
    both = site.both
    assert len(both) == 2
    assert site.process.stop() == 0
    until(lambda: not any(alive(pid) for pid in both))
    world.running.remove(site.process)
    site = Site(site.home, f"127.0.0.1:{world.ports[1]}").ready()
    both = site.both
    site.process.kill()
    until(lambda: not any(alive(pid) for pid in both))


def test_a_second_start_on_a_home_says_so_and_the_first_goes_on(world: World) -> None:
    site = world.site("north")
    world.linked(site)
    announced, both = (site.home.folder / "daemon.json").read_bytes(), site.both
    line = [sys.executable, "-m", "thebes.cli.main", "site", "--home", str(site.home.folder)]
    second = subprocess.run(
        [*line, "--coordinator", f"127.0.0.1:{world.ports[1]}"], capture_output=True, text=True, timeout=PATIENCE
    )
    assert (second.returncode, second.stdout) == (1, "")
    assert "another process uses the home" in second.stderr
    assert (site.home.folder / "daemon.json").read_bytes() == announced
    assert (site.both, site.is_("connected")) == (both, True)
    opened = subprocess.run([*line, "--open"], capture_output=True, text=True, timeout=PATIENCE)
    assert opened.stdout.startswith(site.process.facts["address"])
    assert world.ask(COUNT).value > 0


def test_a_replaced_token_counts_at_once_and_the_one_before_lets_nobody_in_any_more(world: World) -> None:
    site = world.site("north")
    address, home = site.process.facts["address"], str(site.home.folder)
    browser = httpx.Client(base_url=address, timeout=PATIENCE, trust_env=False, follow_redirects=True)
    assert browser.get(site.process.facts["url"]).status_code == 200
    before = {name: (site.home.folder / name).read_text().strip() for name in ("token", "figures.token")}

    def status(path: str, token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.get(f"{address}{path}", headers=headers, timeout=PATIENCE, trust_env=False).status_code

    paths = {"token": "/api/ledger", "figures.token": "/metrics"}
    for name, path in paths.items():
        assert typed("rotate", name, "--home", home).returncode == 0
        until(lambda name=name, path=path: status(path, (site.home.folder / name).read_text().strip()) == 200)
        assert status(path, before[name]) == 401
    assert browser.get("/").status_code == 401
    talks, _ = site.both
    os.kill(talks, signal.SIGKILL)  # whoever talks next is told the same
    until(lambda: talks not in (both := site.both) and len(both) == 2)
    until(lambda: _answers(lambda: status("/api/ledger", (site.home.folder / "token").read_text().strip()) == 200))
    assert status("/api/ledger", before["token"]) == 401


def _answers(what: Callable[[], bool]) -> bool:
    try:
        return what()
    except httpx.TransportError:
        return False


def test_either_process_is_started_again_and_the_other_goes_on(world: World) -> None:
    site = world.site("north")
    world.linked(site)
    talks, rows = site.both
    os.kill(rows, signal.SIGKILL)
    until(lambda: rows not in (both := site.both) and len(both) == 2)
    assert site.both[0] == talks
    assert world.ask(COUNT).value > 0
    talks, rows = site.both
    os.kill(talks, signal.SIGKILL)
    until(lambda: talks not in (both := site.both) and len(both) == 2 and site.is_("connected"))
    assert world.ask({**COUNT, "where": "age > 30"}).value > 0
    assert site.get("/api/ledger")["blocks"][0]["remaining"]["epsilon"] == 9


def test_a_revoked_site_is_told_why_and_one_with_a_new_certificate_comes_back_without_a_restart(world: World) -> None:
    site = world.site("north")
    world.linked(site)
    thebes_ca("revoke", "north", "--home", str(world.folder / "c"))
    until(lambda: site.is_("refused"))
    assert "revoked" in site.get("/api/site")["reason"]
    thebes_ca("issue", "north", "--home", str(world.folder / "c"), "--out", str(site.home.folder))
    until(lambda: site.is_("connected"))
    assert world.ask(COUNT).value > 0


def test_a_site_with_a_strangers_certificate_says_why_it_gets_no_further(world: World) -> None:
    site = world.site("north")
    world.linked(site)
    CertificateAuthority(world.folder / "stranger", SystemClock()).issue("north", site.home.folder)
    until(lambda: site.is_("refused"))
    assert "not certified by the authority in link/ca.pem" in site.get("/api/site")["reason"]
    (site.home.link / "ca.pem").write_bytes((world.folder / "c" / "ca" / "authority.pem").read_bytes())
    until(lambda: "north, which is not from the authority" in site.get("/api/site")["reason"])
    thebes_ca("issue", "north", "--home", str(world.folder / "c"), "--out", str(site.home.folder))
    until(lambda: site.is_("connected"))


def test_a_new_certificate_is_shown_while_the_site_is_linked(world: World) -> None:
    site = world.site("north")
    world.linked(site)
    before = site.get("/api/site")["certificate_ends"]
    place = ("--home", str(world.folder / "c"), "--out", str(site.home.folder))
    thebes_ca("issue", "north", *place, "--days", "3")
    until(lambda: site.is_("connected") and site.get("/api/site")["certificate_ends"] != before)
    assert world.ask(COUNT).value > 0


def test_another_authority_takes_the_place_of_the_one_before_while_everything_runs(world: World) -> None:
    sites = {name: world.site(name) for name in ("north", "south")}
    home = ("--home", str(world.folder / "c"))
    until(lambda: sum(bool(each["datasets"]) for each in world.server.sites()) == 2)

    def asked(*names: str, where: str) -> int:
        return len(world.ask({**COUNT, "sites": list(names), "where": where}).coverage["answered"])

    def listed() -> str:
        return typed("ca", "list", *home).stdout

    began = typed("rotate", "ca", *home)
    assert (began.returncode, typed("rotate", "ca", *home).returncode) == (0, 0)
    assert asked("north", "south", where="age > 20") == 2
    thebes_ca("issue", "north", *home, "--out", str(sites["north"].home.folder))
    until(lambda: "one: south. " in listed())  # north has come with its new one
    until(lambda: sites["north"].is_("connected"))
    assert asked("north", "south", where="age > 30") == 2
    refused = typed("ca", "end-old", *home)
    assert (refused.returncode, refused.stderr.startswith("thebes: south would be shut out")) == (1, True)
    thebes_ca("end-old", *home, "--anyway")
    until(lambda: sites["south"].is_("refused"))
    until(lambda: "the coordinator has a new authority" in sites["south"].get("/api/site")["reason"])
    assert sites["north"].is_("connected")
    assert asked("north", where="age > 40") == 1
    world.coordinator.kill()
    world.coordinator.launch().ready()  # from now on it shows what the new authority certified to everybody
    until(lambda: sites["north"].is_("connected"))
    assert asked("north", where="age > 50") == 1
    thebes_ca("issue", "south", *home, "--out", str(sites["south"].home.folder))
    until(lambda: sites["south"].is_("connected"))
    assert asked("north", "south", where="age > 60") == 2


def test_a_site_without_a_certificate_or_at_a_wrong_home_says_what_to_do(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "thebes.cli.main", "site", "--home", str(tmp_path / "s")]

    def said(*more: str) -> tuple[int, str]:
        ended = subprocess.run([*command, *more], capture_output=True, text=True, timeout=PATIENCE)
        return ended.returncode, ended.stderr

    status, words = said("--coordinator", "localhost:9")
    assert status == 1
    assert "thebes ca invite" in words
    assert said()[0] == 2
    assert said("--coordinator", "http://localhost:9")[0] == 2
    (tmp_path / "s" / "admin.token").write_text("x")
    status, words = said("--coordinator", "localhost:9")
    assert status == 2
    assert "coordinator's home" in words


def test_killed_ten_times_at_random_everything_is_answered_and_paid_once(world: World) -> None:
    dice = random.Random(20261122)
    site = world.site("north", epsilon=100.0)
    world.linked(site)
    asked = [{**COUNT, "name": f"task {n}", "where": f"age > {n}", "patience": 120} for n in range(20)]
    tasks = [world.server.submit(document) for document in asked]
    for _ in range(10):
        time.sleep(dice.random() * 0.4)
        victim = dice.randrange(4)
        if victim == 3:
            site.process.kill()
            site.process.launch()
            site.ready()
        elif len(both := site.both) == 2:
            with suppress(ProcessLookupError):  # it may have gone just now with the other one
                os.kill(both[min(victim, 1)], signal.SIGKILL)
    answered = 0
    for task in tasks:
        try:
            answered += task.wait(timeout=2 * PATIENCE).value > 0
        except ThebesError:  # asked while nobody was there, and told so
            continue
    assert answered > 0
    until(lambda: site.is_("connected") and site.get("/api/site")["algorithm"] == "up")
    time.sleep(1.0)
    world.running.remove(site.process)
    assert site.process.stop() == 0
    with Ledger(site.home.ledger, create=False) as ledger:
        ledger.verify()
        meter = ledger.block("patients").meters["epsilon"]
        claims = [claim for claim in ledger.claims() if claim.state == "closed"]
    spent = Decimal(meter.spent).scaleb(-12)
    assert spent >= Decimal("0.5") * answered  # everything that was released was paid for
    assert spent == Decimal("0.5") * len(claims)  # and no task twice
    audit = Audit(site.home.folder / AUDIT)
    audit.verify()
    paid = [json.dumps(e.facts["task"]) for e in audit.entries() if e.event == "answer" and not e.facts["again"]]
    assert len(paid) == len(set(paid))
