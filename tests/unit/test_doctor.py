"""`thebes doctor --home`: what is wrong with a home is found and named without a secret; looking changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import sqlite3
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.command import exit_status
from tests.support.coordinator import AGES, Front, HandClock
from tests.support.site_home import site_home
from thebes.cli import doctor
from thebes.cli.homes import examination
from thebes.cli.homes.examination import Surroundings, examined
from thebes.cli.homes.findings import HomeFinding, How
from thebes.cli.homes.reachability import over_tls
from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.ledger import Ledger, NoKeeper
from thebes.person.home import Person
from thebes.privacy.faults import Mistake
from thebes.site.requests.response_store import ResponseStore
from thebes.site.steward.audit_log import Audit

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
DAY = 86400.0
UNNOTICED = "an older copy put in the ledger's place would be noticed"  #: not where no keyring is
NOBODY = "127.0.0.1:1"  #: nobody listens there
#: of a person's home that nothing runs on, and that nobody chose anything for
AT_REST = {
    "`thebes person` runs on this home",
    "it starts with this user's session",
    "limits were chosen",
    "collectors are installed",
}


def look(home: Path, *, days: float = 0.0, **around: str) -> list[HomeFinding]:
    return list(examined(home, Surroundings(clock=lambda: NOW.timestamp() + days * DAY, **around)))


def trouble(home: Path, *, days: float = 0.0, **around: str) -> dict[str, How]:
    """List what is not as it should be."""
    found = look(home, days=days, **around)
    for finding in found:
        assert finding.how is How.OK or finding.advice, finding
    assert all(f.how is How.ABSENT for f in found if f.what in AT_REST and f.how is not How.OK)
    return {f.what: f.how for f in found if f.how is not How.OK and f.what not in AT_REST | {UNNOTICED}}


def everything(home: Path) -> dict[str, tuple[int, str]]:
    """Every file with its mode and content, but for what SQLite keeps beside its databases."""
    return {
        str(path.relative_to(home)): (path.stat().st_mode, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(home.rglob("*"))
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


@pytest.fixture
def site(tmp_path: Path) -> Path:
    home = site_home(tmp_path / "site").folder
    ResponseStore(home / "outbox.db").close()
    Audit(home / "audit.db").close()
    CertificateAuthority(tmp_path / "coordinator", HandClock(NOW)).issue("north", home, days=30)
    return home


@pytest.fixture
def coordinator(tmp_path: Path) -> Path:
    home = tmp_path / "coordinator"
    with Front(home, clock=HandClock(NOW)) as front:
        task = front.post(AGES)
        front.fill(task, 1, {"age": 41})
        CertificateAuthority(home, front.clock).init()
    (home / "coordinator.db").chmod(0o600)  # as a coordinator makes it
    return home


@pytest.fixture
def person(tmp_path: Path) -> Path:
    with Person(tmp_path / "me", delay=False) as me:
        me.register("notes", {"tables": {"line": {"columns": {"said": {"type": "string"}}}}})
        me.insert("notes", "line", [{"said": "telltale"}])
    return tmp_path / "me"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    home = tmp_path / "own"
    home.mkdir(mode=0o700)
    with Ledger(f"sqlite:///{home}/ledger.db", keeper=NoKeeper()) as made:
        made.open_block("people", epsilon=1)
    return home


@pytest.mark.parametrize("role", ["site", "coordinator", "person", "ledger"])
def test_a_sound_home_has_nothing_broken_and_is_left_as_it_was(role: str, request: pytest.FixtureRequest) -> None:
    home: Path = request.getfixturevalue(role)
    before = everything(home)
    found = look(home)
    assert found[0].what.endswith(f"is the home of a {role}")
    assert {f.what for f in found if f.how is not How.OK} <= {
        "the coordinator can be reached",
        UNNOTICED,
        *AT_REST,
    }
    assert everything(home) == before


def _write(name: str, text: bytes) -> Callable[[Path], None]:
    def write(home: Path) -> None:
        (home / name).write_bytes(text)

    return write


def _mode(name: str, mode: int) -> Callable[[Path], None]:
    return lambda home: (home / name).chmod(mode)


def _gone(name: str) -> Callable[[Path], None]:
    return lambda home: (home / name).unlink()


def _sql(name: str, statement: str) -> Callable[[Path], None]:
    def run(home: Path) -> None:
        with closing(sqlite3.connect(home / name)) as opened, opened:
            opened.execute(statement)

    return run


def _frozen(home: Path) -> None:
    with Ledger(f"sqlite:///{home}/ledger.db", keeper=NoKeeper()) as ledger:
        ledger.freeze()


def _overwritten(home: Path) -> None:
    """The first page is whole, what comes after is not."""
    with open(home / "ledger.db", "r+b") as file:
        file.seek(8192)
        file.write(b"\xa5" * 20000)


def _other_certificate(home: Path) -> None:
    other = home.parent / "other"
    CertificateAuthority(home.parent / "coordinator", HandClock(NOW)).issue("north", other)
    shutil.copy(other / "link" / "site.pem", home / "link" / "site.pem")


def _other_authority(home: Path) -> None:
    other = home.parent / "other"
    CertificateAuthority(other, HandClock(NOW)).issue("north", other)
    shutil.copy(other / "link" / "ca.pem", home / "link" / "ca.pem")


def _over(home: Path) -> None:
    _sql("coordinator.db", "UPDATE coordinator_task SET status = 'done'")(home)
    for key in (home / "keys").iterdir():
        os.utime(key, (NOW.timestamp() - 3600,) * 2)


def _no_keys(home: Path) -> None:
    for key in (home / "keys").iterdir():
        key.unlink()


def _rule(**changed: str) -> Callable[[Path], None]:
    rule = {"requestors": '["ana"]', "datasets": '["patients"]', "kinds": '["query"]', "epsilon": "1", **changed}
    text = "\n".join(["[[allow]]", *(f"{key} = {value}" for key, value in rule.items())])
    return _write("policy.toml", text.encode())


_begun = _sql("coordinator.db", "DELETE FROM coordinator_version")
_unreleased = _sql("coordinator.db", "UPDATE coordinator_version SET version_num = '0005'")
_ANOTHER = b'{"kept": "file", "key": "' + b"00" * 32 + b'"}'
SAID = [
    ("site", _mode(".", 0o755), "nobody else can look into the home", How.BROKEN),
    ("site", _mode("link/site.key", 0o640), "secrets and databases are for their owner only", How.BROKEN),
    ("person", _mode("person.db", 0o644), "secrets and databases are for their owner only", How.BROKEN),
    ("ledger", _mode("ledger.db", 0o604), "secrets and databases are for their owner only", How.BROKEN),
    ("site", lambda home: (home / ".copying-x").mkdir(), "a copy that was begun lies in the home", How.WARNING),
    ("ledger", _overwritten, "ledger.db is whole", How.BROKEN),
    ("ledger", _write("ledger.db", b"no database at all" * 100), "ledger.db can be read", How.BROKEN),
    ("ledger", _sql("ledger.db", "UPDATE ledger_version SET version_num = '9999'"), "has the tables", How.BROKEN),
    ("ledger", _sql("ledger.db", "DELETE FROM ledger_version"), "has the tables", How.WARNING),
    ("coordinator", _begun, "coordinator.db has the tables of this version", How.WARNING),
    ("coordinator", _unreleased, "coordinator.db has the tables of this version", How.BROKEN),
    ("ledger", _sql("ledger.db", "UPDATE ledger_block SET epsilon = epsilon + 1"), "balances fit together", How.BROKEN),
    ("site", _frozen, "the ledger may spend", How.WARNING),
    ("site", _gone("link/site.key"), "the site has a certificate", How.BROKEN),
    ("site", _other_certificate, "the site's key is that of its certificate", How.BROKEN),
    ("site", _other_authority, "is of the authority that the site believes", How.BROKEN),
    ("site", _write("link/site.pem", b"none"), "the site's key is that of its certificate", How.BROKEN),
    ("site", _write("policy.toml", b"allow everything"), "policy.toml says who may ask", How.BROKEN),
    ("site", _write("policy.toml", b""), "policy.toml says who may ask", How.WARNING),
    ("site", _rule(kinds='["query", "algorithm"]'), "names what is there", How.WARNING),
    ("site", _rule(datasets='["patient"]'), "names what is there", How.WARNING),
    ("site", _write("datasets/patients.toml", b"="), "the data set patients is declared", How.BROKEN),
    ("coordinator", _write("coordinator.toml", b"min_count_floor = 0"), "coordinator.toml can be read", How.BROKEN),
    ("coordinator", _write("log.key", b"short"), "log.key signs the task list", How.BROKEN),
    ("coordinator", _gone("log.key"), "log.key signs the task list", How.BROKEN),
    ("coordinator", _no_keys, "every task under way has its key", How.BROKEN),
    ("coordinator", _over, "no key outlives its trusted task", How.BROKEN),
    ("coordinator", _gone("ca/authority.key"), "the authority's key is that of its certificate", How.BROKEN),
    ("coordinator", _write("ca/register.json", b"{"), "the register of certificates can be read", How.BROKEN),
    ("person", _write("person.toml", b"period_days = 'x'"), "person.toml can be read", How.BROKEN),
    ("person", _gone("key.json"), "a key is made at the first start", How.BROKEN),
    ("person", _write("key.json", _ANOTHER), "the store's key opens the store", How.BROKEN),
    ("person", _write("key.json", b"{"), "the store's key opens the store", How.BROKEN),
]  # fmt: skip


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("role", "spoil", "what", "how"), SAID, ids=[f"{role}: {what} ({how})" for role, _, what, how in SAID]
)
def test_what_is_wrong_is_found_and_nothing_else(
    role: str, spoil: Callable[[Path], None], what: str, how: How, request: pytest.FixtureRequest
) -> None:
    home: Path = request.getfixturevalue(role)
    spoil(home)
    found = {said: each for said, each in trouble(home).items() if said != "the coordinator can be reached"}
    assert [each for said, each in found.items() if what in said] == [how]
    assert len(found) == 1


@pytest.mark.parametrize(
    ("days", "how"), [(-1, How.BROKEN), (0, None), (22, None), (24, How.WARNING), (31, How.BROKEN)]
)
def test_a_certificate_is_looked_at_by_the_clock_that_is_given(site: Path, days: float, how: How | None) -> None:
    found = {what: each for what, each in trouble(site, days=days).items() if "site.pem counts until" in what}
    assert found == ({} if how is None else {"site.pem counts until 2030-01-31": how})


@pytest.mark.parametrize(("free", "how"), [(2**31, None), (2**29, How.WARNING), (2**20, How.BROKEN)])
def test_little_room_is_told(ledger: Path, monkeypatch: pytest.MonkeyPatch, free: int, how: How | None) -> None:
    usage = type(shutil.disk_usage("/"))(2**40, 0, free)
    monkeypatch.setattr(examination.shutil, "disk_usage", lambda path: usage)
    assert list(trouble(ledger).values()) == ([] if how is None else [how])


def test_no_finding_shows_a_secret(site: Path, coordinator: Path, person: Path) -> None:
    secrets = [(coordinator / "admin.token").read_text().strip(), json.loads((person / "key.json").read_text())["key"]]
    secrets += [line for line in (site / "link" / "site.key").read_text().splitlines() if "-" not in line]
    said = "\n".join(f.line for home in (site, coordinator, person) for f in look(home))
    assert len(secrets) > 4
    assert not [secret for secret in [*secrets, "telltale"] if secret in said]


def test_a_folder_that_is_nobodys_home_is_a_mistake(tmp_path: Path) -> None:
    for where in (tmp_path, tmp_path / "none"):
        with pytest.raises(Mistake):
            look(where)


# --- reaching ---------------------------------------------------------------------------------------------------


@contextmanager
def answering(ahead: float, said: bytes = b'{"status": "ok"}') -> Iterator[str]:
    """A coordinator whose clock is wrong by so many seconds."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(NOW.timestamp() + ahead)

        def log_message(self, *_: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("ahead", "how"), [(0.0, None), (-100.0, How.WARNING), (200.0, How.WARNING), (-5000.0, How.BROKEN)]
)
def test_clocks_that_are_far_apart_are_told(ledger: Path, ahead: float, how: How | None) -> None:
    with answering(ahead) as url:
        found = {f.what: f for f in look(ledger, coordinator=url)}
    assert found[f"the coordinator at {url} answers"].how is How.OK
    clocks = found["the clocks of this machine and the coordinator agree"]
    assert clocks.how is (how or How.OK)
    if how is not None:
        assert ("behind" if ahead > 0 else "ahead") in clocks.advice


def test_what_is_no_coordinator_is_told(ledger: Path) -> None:
    with answering(0.0, said=b"[]") as url:
        found = trouble(ledger, coordinator=url)
    assert found == {f"the coordinator at {url} answers": How.BROKEN}
    nowhere = f"http://{NOBODY}"
    assert trouble(ledger, coordinator=nowhere) == {f"the coordinator at {nowhere} answers": How.BROKEN}


@pytest.mark.parametrize("address", [f"http://ana:hushhush@{NOBODY}", f"ana:hushhush@{NOBODY}"])
@pytest.mark.parametrize("role", ["site", "ledger"])
def test_an_address_that_holds_a_password_is_refused_and_not_shown(
    role: str, address: str, request: pytest.FixtureRequest
) -> None:
    home: Path = request.getfixturevalue(role)
    said = list[str]()
    with pytest.raises(Mistake) as mistake:
        said += (finding.line for finding in examined(home, Surroundings(coordinator=address)))
    assert mistake.value.argument == "--coordinator"
    assert said
    assert "hushhush" not in "\n".join([*said, str(mistake.value)])


@contextmanager
def port_for_sites(authority: CertificateAuthority, *, believes: Path) -> Iterator[str]:
    """A port that shows the coordinator's certificate and believes one authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(believes))
    context.verify_mode = ssl.CERT_REQUIRED
    authority.hub([])
    context.load_cert_chain(str(authority.folder / "hub.pem"))
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            raw, _ = listening.accept()
            with raw, context.wrap_socket(raw, server_side=True) as opened:
                opened.sendall(b"\0\0\0\4\0\0\0\0\0")  # what HTTP/2 says first
                opened.recv(1)
        except OSError:
            pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)  # wakes who waits there
        listening.close()
        thread.join(10)


@pytest.mark.parametrize("whose", ["ours", "another coordinator", "it does not believe us", "nobody"])
def test_a_site_shows_its_certificate_and_looks_at_the_other(tmp_path: Path, whose: str) -> None:
    clock = HandClock(datetime.now(UTC))  # TLS looks at the machine's own clock
    home = site_home(tmp_path / "site").folder
    ours, other = CertificateAuthority(tmp_path / "coordinator", clock), CertificateAuthority(tmp_path / "other", clock)
    ours.issue("north", home)
    other.init()
    shown = other if whose == "another coordinator" else ours
    believed = other if whose == "it does not believe us" else ours
    with port_for_sites(shown, believes=believed.folder / "authority.pem") as address:
        if whose == "nobody":
            address = NOBODY
        found = list(examined(home, Surroundings(coordinator=address)))
    reached = [f for f in found if f.what.startswith(f"the coordinator at {address}")]
    assert [f.how for f in reached] == [How.OK if whose == "ours" else How.BROKEN]
    said = {
        "another coordinator": "is it another coordinator",
        "it does not believe us": "does not take the site's certificate",
        "nobody": "Connection refused",
        "ours": "",
    }
    assert said[whose] in reached[0].advice


def test_a_coordinator_that_a_site_reaches_by_a_proxy_is_not_looked_for_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = site_home(tmp_path / "site").folder
    CertificateAuthority(tmp_path / "coordinator", HandClock(datetime.now(UTC))).issue("north", home)
    monkeypatch.setenv("https_proxy", f"http://{NOBODY}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    found = [f for f in examined(home, Surroundings(coordinator="there.invalid:8443")) if "there.invalid" in f.what]
    assert [f.how for f in found] == [How.ABSENT]
    assert "proxy" in found[0].advice


@pytest.mark.parametrize("scheme", ["https", "socks5h"])
def test_a_proxy_that_a_site_would_go_past_is_said_to_be_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv("https_proxy", f"{scheme}://{NOBODY}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    (found,) = over_tls("there.invalid:8443", tmp_path)
    assert found.how is How.BROKEN
    assert "goes past it" in found.advice


def test_a_person_behind_a_proxy_is_looked_at_through_it_only(person: Path) -> None:
    """A connection that went another way would tell the coordinator who asks."""
    seen: list[str] = []
    with answering(0.0) as url:
        (person / "person.toml").write_text(f'coordinator = "{url}"\nproxy = "socks5h://{NOBODY}"\n')
        (person / "person.toml").chmod(0o600)
        found = trouble(person)
        seen += [what for what, how in found.items() if "coordinator at" in what]
    assert seen == [f"the coordinator at {url} does not answer now"]


@pytest.mark.postgres
def test_a_database_elsewhere_is_looked_at_without_showing_its_address(coordinator: Path, tmp_path: Path) -> None:
    from tests.support.postgres import new_database
    from thebes.coordinator.storage.database import Database

    url = new_database()
    Database(url).close()
    around = Surroundings(store=url)
    found = {f.what: f.how for f in examined(coordinator, around)}
    for what in ("the database can be reached", "the database has the tables of this version"):
        assert found[what] is How.OK
    assert "the clocks of this machine and the database agree" in found
    nowhere = "postgresql://telltale:hushhush@127.0.0.1:1/nothing"
    lines = [f.line for f in examined(coordinator, Surroundings(store=nowhere))]
    assert any(line.startswith("BROKEN the database can be reached") for line in lines)
    assert not [line for line in lines if "hushhush" in line or "telltale" in line]


# --- at a terminal ----------------------------------------------------------------------------------------------


def test_the_command_tells_of_a_home_in_words_and_as_json(
    ledger: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: object) -> int:
        return exit_status("doctor", *arguments)

    monkeypatch.setattr(doctor, "_walls", lambda: iter(()))
    assert run("--home", ledger) == 0
    assert "ok     ledger.db is whole" in capsys.readouterr().out
    ledger.chmod(0o755)
    assert run("--home", ledger, "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["sound"] is False
    broken = [finding for finding in told["findings"] if finding["how"] == "broken"]
    assert [finding["advice"] for finding in broken] == [f"run: chmod 700 {ledger}"]
    assert run("--home", ledger / "none") == 2
