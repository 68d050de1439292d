"""`thebes backup` and `thebes restore`: what a copy holds, what it must not hold, and what one brought back may do."""

from __future__ import annotations

import io
import json
import sqlite3
import stat
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import keyring
import numpy as np
import pytest

from tests.support.command import exit_status
from tests.support.coordinator import AGES, PETS, Front
from tests.support.coordinator_in_memory import CoordinatorInMemory
from tests.support.half_kinds import known
from tests.support.site_home import ask, site_home
from tests.support.split_helper import VALUES, Led, Ward
from thebes.cli.homes import archive, sealed_file
from thebes.cli.homes import copy as copying
from thebes.cli.homes import snapshot as module
from thebes.cli.homes.roles import role_of
from thebes.cli.homes.snapshot import STAGE, snapshot
from thebes.coordinator.auth.accounts import Role as AccountRole
from thebes.curator.cache.store import CacheStore as Cache
from thebes.data import keys
from thebes.data.growing.block_rule import block_by
from thebes.data.growing.manifest import Manifest
from thebes.data.rows import Rows
from thebes.data.schema import schema_of
from thebes.data.store import Store
from thebes.ledger import Frozen, Head, Ledger, NoKeeper
from thebes.person.home import Person
from thebes.privacy.faults import Fault, Mistake
from thebes.site.algorithm_process import Office
from thebes.site.helping.keys import FOLDER as HELPING
from thebes.site.helping.keys import IDENTITY
from thebes.site.requests.response_store import LARGE, KeptAnswer, ResponseStore, SiteRequest
from thebes.wire.access import make_token
from thebes.wire.homes import HomeRole
from thebes.wire.link import write_envelope
from thebes.wire.refusals import NotSignedIn

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))

MEDIAN = {
    "type": "basic",
    "epsilon": 1.0,
    "delta": 1e-5,
    "min_count": 20,
    "featurizer": "SELECT age FROM profile.demographics",
    "aggregator": "median",
    "bounds": {"age": {"type": "range", "low": 0.0, "high": 100.0}},
}
AGE_BY_DAY = {
    "time": "at",
    "columns": {"age": {"type": "integer", "low": 0, "high": 100}, "at": {"type": "timestamp"}},
}
SECRET = "a passphrase of some length"


@pytest.fixture(autouse=True)
def _quick_passphrases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_file, "_MEMORY_KIB", 64)


def copied(home: Path, to: Path, passphrase: str | None = None) -> copying.CopyAccount:
    return copying.backup(home, to, passphrase=passphrase)


def brought_back(file: Path, home: Path, passphrase: str | None = None) -> copying.CopyAccount:
    return copying.restore(file, home, passphrase=passphrase)


def names(file: Path) -> set[str]:
    with tarfile.open(file) as archived:
        return set(archived.getnames())


def content(file: Path) -> bytes:
    with tarfile.open(file) as archived:
        return b"".join(archived.extractfile(told).read() for told in archived)  # type: ignore[union-attr]


@pytest.fixture
def ledger_home(tmp_path: Path) -> Path:
    home = tmp_path / "own"
    home.mkdir()
    with Ledger(f"sqlite:///{home}/ledger.db", keeper=NoKeeper()) as ledger:
        ledger.open_block("people", epsilon=1)
        ledger.reserve(["people"], epsilon=0.25, purpose="mean", spender="ana").consume()
        ledger.reserve(["people"], epsilon=0.5, purpose="sum", spender="ana", key="open")
    return home


# --- a ledger ---------------------------------------------------------------------------------------------------


def test_a_restored_ledger_is_frozen_until_its_owner_thaws_it(ledger_home: Path, tmp_path: Path) -> None:
    copied(ledger_home, tmp_path / "copy")
    made = brought_back(tmp_path / "copy", tmp_path / "back")
    assert made.role is HomeRole.LEDGER
    with Ledger(f"sqlite:///{tmp_path}/back/ledger.db", keeper=NoKeeper()) as ledger:
        assert ledger.frozen
        with pytest.raises(Frozen):
            ledger.reserve(["people"], epsilon=0.01, purpose="mean", spender="ana")
        ledger.thaw()
        ledger.verify()
        assert float(ledger.remaining("people").epsilon) == 0.25  # what was open counts as consumed
    with Ledger(f"sqlite:///{ledger_home}/ledger.db", keeper=NoKeeper()) as living:
        assert not living.frozen


class Remembering:
    """A keyring beside the homes."""

    def __init__(self) -> None:
        self.heads: dict[str, Head] = {}

    def kept(self, ledger: str) -> Head | None:
        return self.heads.get(ledger)

    def keep(self, ledger: str, head: Head) -> None:
        self.heads[ledger] = head


def test_trying_a_copy_out_leaves_the_living_ledger_as_it_is(
    ledger_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Remembering()
    monkeypatch.setattr("thebes.ledger.ledger.system_keeper", lambda: keeper)
    where = f"sqlite:///{ledger_home}/ledger.db"
    Ledger(where).thaw()  # remembered from now on
    with Ledger(where) as living:
        living.open_block("more", epsilon=1)
    copied(ledger_home, tmp_path / "copy")
    brought_back(tmp_path / "copy", tmp_path / "back")
    with Ledger(where) as living:
        assert not living.frozen


# --- one moment -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("charged_first", [True, False])
def test_a_copy_of_a_running_home_shows_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, charged_first: bool
) -> None:
    """Whichever of the two a role writes first: no copy has more than one step of the first without the second, however
    long it takes to look at one database after the other."""
    as_of_now = module._as_of_now

    @contextmanager
    def slowly(path: Path) -> Iterator[sqlite3.Connection]:
        with as_of_now(path) as connection:
            time.sleep(0.02)
            yield connection

    monkeypatch.setattr(module, "_as_of_now", slowly)
    home = site_home(tmp_path / "site")
    begun, stop, failed = threading.Event(), threading.Event(), list[BaseException]()

    def work() -> None:
        try:
            outbox = ResponseStore(home.folder / "outbox.db")
            outbox.begin(SiteRequest("t1", "d", "ana", "patients", "relay", "site", {}))
            with Ledger(home.ledger, keeper=NoKeeper()) as ledger:
                claim = ledger.reserve(["patients"], epsilon=5, purpose="parts", spender="ana", key="task t1")
                begun.set()
                number = 0
                while not stop.is_set():
                    number += 1
                    answer = KeptAnswer(f"p{number}", "a", "q", b"x", 0.0, 0.0)
                    steps: list[Callable[[], Any]] = [
                        partial(claim.consume, epsilon=1e-6, part=f"p{number}"),
                        partial(outbox.keep, "t1", answer, rule=1),
                    ]
                    for step in steps if charged_first else reversed(steps):
                        step()
            outbox.close()
        except BaseException as error:
            failed.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    assert begun.wait(300)
    seen = list[tuple[int, int]]()
    try:
        while (len(seen) < 5 or seen[-1] == seen[0]) and not failed:
            with snapshot(home.folder, HomeRole.SITE) as stage:
                with closing(sqlite3.connect(stage / "outbox.db")) as outbox:
                    answers = outbox.execute("SELECT count(*) FROM answer").fetchone()[0]
                with Ledger(f"sqlite:///{stage}/ledger.db", keeper=NoKeeper()) as ledger:
                    paid = sum(entry.event == "consume" for entry in ledger.journal())
            seen.append((paid, answers))
    finally:
        stop.set()
        worker.join()
    assert not failed
    ahead = [paid - answers if charged_first else answers - paid for paid, answers in seen]
    assert set(ahead) <= {0, 1}


def test_what_comes_before_every_database_is_held_is_whole_in_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large answer, which lies in a file of its own, and a cache that was not there: both are written after the copy
    began and before it holds what names them."""
    home = site_home(tmp_path / "site").folder
    outbox = ResponseStore(home / "outbox.db")
    outbox.begin(SiteRequest("t1", "d", "ana", "patients", "relay", "site", {}))
    unchanged, tokens = module._unchanged, list[str]()

    @contextmanager
    def late(path: Path) -> Iterator[None]:
        if path.name == "outbox.db" and not tokens:
            outbox.keep("t1", KeptAnswer("p", "a", "q", b"x" * LARGE, 1.0, 0.0), rule=1)
            cache = Cache(home / "cache" / "patients.db")
            tokens.append(cache.buying("a synopsis"))
            opened.append(cache)
        with unchanged(path):
            yield

    opened = list[Cache]()
    monkeypatch.setattr(module, "_unchanged", late)
    with snapshot(home, HomeRole.SITE) as stage:
        copy = ResponseStore(stage / "outbox.db")
        answer = copy.answer("t1", "p")
        assert answer is not None
        assert answer.body == b"x" * LARGE
        copy.close()
        of_cache = Cache(stage / "cache" / "patients.db")
        assert of_cache.buying("a synopsis") == tokens[0]
        of_cache.close()
    opened[0].close()
    outbox.close()


def test_what_a_killed_copy_left_is_cleared_away(ledger_home: Path, tmp_path: Path) -> None:
    left = ledger_home / f"{STAGE}old"
    left.mkdir()
    (left / "rows.csv").write_text("1")
    copied(ledger_home, tmp_path / "copy")
    assert {path.name for path in ledger_home.iterdir() if path.is_dir()} == set()
    assert not any("rows.csv" in name for name in names(tmp_path / "copy"))


# --- a site -----------------------------------------------------------------------------------------------------


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    with known("relay"):
        made = Office(site_home(tmp_path / "site"), "north")
        yield made
        _shut(made)


def _shut(office: Office) -> None:
    office.ledger.close()
    office.outbox.close()
    office.audit.close()


def _relay(**more: Any) -> dict[str, Any]:
    return {"type": "relay", "dataset": "patients", "epsilon": 1.0, "rounds": 4, **more}


def test_a_restored_outbox_says_the_same_bytes_again_and_nothing_new_of_what_was_open(
    office: Office, tmp_path: Path
) -> None:
    said = office.answer(ask(_relay(long=500)))
    copied(tmp_path / "site", tmp_path / "copy")
    later = office.answer(ask(_relay(long=500), phase=1))
    assert later["kind"] == "contribution"
    brought_back(tmp_path / "copy", tmp_path / "back")
    from thebes.site.home import SiteHome

    for thawed in (False, True):
        back = Office(SiteHome(tmp_path / "back"), "north")
        if thawed:
            back.ledger.thaw()
        again = back.answer(ask(_relay(long=500)))
        assert write_envelope({**again, "id": "1"}) == write_envelope({**said, "id": "1"})
        refused = back.answer(ask(_relay(long=500), phase=1))
        assert refused["kind"] == "refusal"
        assert "restored from a copy" in refused["reason"]
        new = back.answer(ask(_relay(), task="t2"))
        assert new["kind"] == ("contribution" if thawed else "refusal")
        _shut(back)


def test_a_part_that_was_charged_and_not_yet_written_down_is_not_computed_a_second_time(
    office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the charge and the outbox: an ordinary restart computes it, a copy that comes back must not, because
    the process that was copied went on and said it."""

    def copy_then_keep(*arguments: Any, **more: Any) -> None:
        copied(tmp_path / "site", tmp_path / "copy")
        keep(*arguments, **more)

    keep = office.outbox.keep
    monkeypatch.setattr(office.outbox, "keep", copy_then_keep)
    assert office.answer(ask(_relay()))["kind"] == "contribution"
    brought_back(tmp_path / "copy", tmp_path / "back")
    from thebes.site.home import SiteHome

    back = Office(SiteHome(tmp_path / "back"), "north")
    back.ledger.thaw()
    assert "restored from a copy" in back.answer(ask(_relay()))["reason"]
    _shut(back)


def test_a_copy_of_a_site_has_its_certificate_and_not_what_seals_a_cache(tmp_path: Path) -> None:
    home = site_home(tmp_path / "site").folder
    for name in ("link/site.key", "cache/patients.key", "cache/patients.lock", "growing/v/0.parquet", "daemon.json"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(b"x" * 32)
    copied(home, tmp_path / "copy")
    found = names(tmp_path / "copy")
    assert {"link/site.key", "growing/v/0.parquet", "policy.toml", "ledger.db"} <= found
    assert not {"cache/patients.key", "cache/patients.lock", "daemon.json"} & found


def test_rows_that_did_not_fit_into_memory_are_in_no_copy(tmp_path: Path) -> None:
    home = site_home(tmp_path / "site").folder
    spilled = ("scratch/1f/rows.tmp", "scratch-ab/rows.tmp", "growing/visits/scratch/1f/rows.tmp")
    of_data_sets = ("growing/scratch/rows/a/0.parquet", "growing/scratch-2/rows/scratch/0.parquet", "datasets/scratch")
    for name in (*spilled, "growing/scratch/scratch/rows.tmp", *of_data_sets):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(b"rows")
    copied(home, tmp_path / "copy")
    found = names(tmp_path / "copy")
    assert not any(name.endswith(".tmp") for name in found)
    assert set(of_data_sets) <= found  # a data set may be called so


def test_what_was_being_bought_when_a_copy_was_made_is_paid_anew(tmp_path: Path) -> None:
    """It may have been drawn after that: the same charge must not pay for other noise."""
    home = site_home(tmp_path / "site").folder
    (home / "growing" / "visits").mkdir(parents=True)
    schema = schema_of({**AGE_BY_DAY, "unit": "event"})
    kept = Manifest(home / "growing" / "visits" / "manifest.db", block_by("time:1d", schema))
    kept.begin_with([1, 2])
    kept.seal([block.number for block in kept.blocks()])
    ((purchase, sealed),) = kept.unsized().items()
    kept.keep_sizes({sealed[0].number: 7})
    kept.name_period("spring", most=3)
    kept.keep_counts("spring", 5, 9)
    named = kept.name_period("summer", most=3)
    kept.close()
    cache = Cache(home / "cache" / "patients.db")
    token = cache.buying("a synopsis")
    cache.close()
    copied(home, tmp_path / "copy")
    brought_back(tmp_path / "copy", tmp_path / "back")
    cache = Cache(tmp_path / "back" / "cache" / "patients.db")
    assert cache.buying("a synopsis") != token
    cache.close()
    back = Manifest(tmp_path / "back" / "growing" / "visits" / "manifest.db", block_by("time:1d", schema))
    ((other, again),) = back.unsized().items()
    assert other != purchase
    assert [block.number for block in again] == [sealed[1].number]  # the size that was kept stays
    assert back.name_period("spring", most=5).users == 5
    summer = back.name_period("summer", most=5)
    assert (summer.number, summer.users) == (1, None)
    assert summer.purchase != named.purchase  # a claim of its own
    back.close()


# --- a coordinator ----------------------------------------------------------------------------------------------


def test_no_key_of_a_task_is_in_a_copy_and_what_it_sealed_is_never_opened_again(tmp_path: Path) -> None:
    home = tmp_path / "coordinator"
    with Front(home) as front:
        task = front.post(AGES)
        front.fill(task, 3, {"age": 41})
        key = (home / "keys" / task).read_bytes()
        copied(home, tmp_path / "copy")
    found = names(tmp_path / "copy")
    assert "coordinator.db" in found
    assert not any(task in name or name.startswith("keys") for name in found)
    whole = content(tmp_path / "copy")
    assert task.encode() in whole  # what is looked for would be seen
    assert key not in whole
    assert key.hex().encode() not in whole
    made = brought_back(tmp_path / "copy", tmp_path / "back")
    assert any("ended as failed" in notice for notice in made.notices)
    with Front(tmp_path / "back") as back:
        assert back.task(task)["status"] == "failed"
        assert back.client.get(f"/api/task/{task}/ask", params={"slot": "s"}).status_code == 410
        back.closing.step()
        left = "SELECT count(*) FROM coordinator_contribution WHERE record IS NOT NULL"
        with closing(sqlite3.connect(tmp_path / "back" / "coordinator.db")) as database:
            assert database.execute(left).fetchone() == (0,)


def test_no_key_of_a_task_that_a_site_helps_with_is_in_a_copy_but_its_own_key_is(tmp_path: Path) -> None:
    ward = Ward(site_home(tmp_path / "site").folder)
    led = Led(ward)
    led.step("verify", number=0, reports=led.rows(VALUES)[0])
    [key] = [path for path in (ward.home / HELPING).iterdir() if path.suffix != ".judged"]
    copied(ward.home, tmp_path / "copy")
    found, whole = names(tmp_path / "copy"), content(tmp_path / "copy")
    assert {IDENTITY, "helping.db"} <= found
    assert not any(name.split("/")[0] == HELPING for name in found)
    assert (ward.home / IDENTITY).read_bytes() in whole  # what is looked for would be seen
    assert key.read_bytes() not in whole
    brought_back(tmp_path / "copy", tmp_path / "back")
    back = Ward(tmp_path / "back")
    assert back.helper.fingerprint() == ward.helper.fingerprint()
    led.helper = back.helper
    refused = led.step("verify", number=1, reports=led.rows(VALUES)[0])
    assert "restored from a copy" in refused["reason"]


def test_a_task_that_owners_noise_goes_on_and_counts_nobody_twice(tmp_path: Path) -> None:
    home = tmp_path / "coordinator"
    with Front(home) as front:
        task = front.post(PETS)
        body = front.submission(task, {"species": 0}, "c" * 32)
        assert front.submit(task, body).status_code == 202
        copied(home, tmp_path / "copy")
    brought_back(tmp_path / "copy", tmp_path / "back")
    with Front(tmp_path / "back") as back:
        assert back.submit(task, body).status_code == 409
        back.fill(task, 11, {"species": 0})
        back.closing.step()
        told = back.task(task)
        assert told["status"] == "done"
        assert told["result"]["certificate"]["contributors"] == 12


# --- who is let in ----------------------------------------------------------------------------------------------


def test_a_copy_lets_nobody_into_the_home_that_was_copied(tmp_path: Path) -> None:
    home, passphrase = tmp_path / "coordinator", "correct horse battery staple"
    with Front(home) as front:
        secrets_of_it = [(home / name).read_bytes() for name in ("admin.token", "session.key")]
        (home / ".admin.token.k3jd8s").write_bytes(secrets_of_it[0])  # of a process that was killed at it
        front.service.accounts.add("ana", passphrase, AccountRole.REQUESTOR)
        session, _ = front.service.accounts.login("ana", passphrase)
        copied(home, tmp_path / "copy")
        assert front.service.accounts.who(session).name == "ana"  # the living home goes on as it was
    assert not {"admin.token", "session.key", ".admin.token.k3jd8s"} & names(tmp_path / "copy")
    assert not [secret for secret in secrets_of_it if secret.strip() in content(tmp_path / "copy")]
    made = brought_back(tmp_path / "copy", tmp_path / "back")
    assert any("new admin.token" in notice for notice in made.notices)
    assert role_of(tmp_path / "back") == "coordinator"
    with Front(tmp_path / "back", clock=front.clock) as back:
        assert back.admin_token.encode() not in secrets_of_it[0]
        for known in (front.admin_token, session):
            with pytest.raises(NotSignedIn):
                back.service.accounts.who(known)
        assert back.service.accounts.who(back.admin_token).role is AccountRole.OPERATOR
        assert back.service.accounts.login("ana", passphrase)


def test_a_persons_copy_has_a_token_of_its_own_also_where_the_home_moved(tmp_path: Path) -> None:
    with Person(tmp_path / "me", client=CoordinatorInMemory(), delay=False):  # type: ignore[arg-type]
        token = make_token(tmp_path / "me").read_bytes()
        copied(tmp_path / "me", tmp_path / "copy")
    copying.backup(tmp_path / "me", tmp_path / "moved", passphrase=None, move=True)
    for file in ("copy", "moved"):
        assert token.strip() not in content(tmp_path / file)
        made = brought_back(tmp_path / file, tmp_path / f"{file} back")
        fresh = tmp_path / f"{file} back" / "token"
        assert fresh.read_bytes() != token
        assert fresh.stat().st_mode & 0o777 == 0o600
        assert any("token is new" in notice for notice in made.notices)
    assert (tmp_path / "me" / "token").read_bytes() == token


def test_a_home_that_moved_spends_again_only_where_its_owner_says_that_the_copy_never_came_back(
    tmp_path: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    me, back = tmp_path / "me", tmp_path / "back"
    with Person(me, client=CoordinatorInMemory(), delay=False):  # type: ignore[arg-type]
        pass
    copying.backup(me, tmp_path / "copy", passphrase=None, move=True)
    assert "moved to another device" in run("ledger", "show", "--home", me)[1]
    run("ledger", "freeze", "--home", me)  # hides nothing
    for _ in range(2):
        status, out, err = run("ledger", "thaw", "--home", me)
        assert (status, out, "--stay" in err) == (2, "", True)
    brought_back(tmp_path / "copy", back)
    assert json.loads(run("ledger", "show", "--home", back, "--json")[1])["moved"] is False
    assert run("ledger", "thaw", "--home", back)[0] == 0
    with Person(me, client=CoordinatorInMemory(), delay=False) as here:  # type: ignore[arg-type]
        assert (here.balance()["frozen"], here.balance()["moved"]) == (True, True)
    assert run("ledger", "thaw", "--stay", "--home", me)[0] == 0
    for home in (me, back):
        with Person(home, client=CoordinatorInMemory(), delay=False) as there:  # type: ignore[arg-type]
            assert (there.balance()["frozen"], there.balance()["moved"]) == (False, False)
            assert there.verify()["whole"]


def test_a_token_in_a_copy_of_an_earlier_version_is_not_brought_back(tmp_path: Path) -> None:
    stage = tmp_path / "stage"
    (stage / "growing" / "rides").mkdir(parents=True)
    for name in ("token", "policy.toml", "growing/rides/token"):  # the last is no token: a file may be called so
        (stage / name).write_text("from before")
    archive.write(stage, tmp_path / "copy", archive.Copied(HomeRole.SITE, 1.0), None)
    assert brought_back(tmp_path / "copy", tmp_path / "back").files == 2
    assert (tmp_path / "back" / "token").read_text() != "from before"
    assert (tmp_path / "back" / "growing" / "rides" / "token").read_text() == "from before"


# --- a person ---------------------------------------------------------------------------------------------------


@pytest.fixture
def quick_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows.one_each({"age": np.array([37.0])})
    monkeypatch.setattr(Store, "featurize", lambda self, sql, most_rows=1: rows)


def test_bytes_that_had_begun_to_leave_are_sent_again_as_they_were(tmp_path: Path, quick_rows: None) -> None:
    server = CoordinatorInMemory()
    with Person(tmp_path / "me", client=server, delay=False) as me:  # type: ignore[arg-type]
        task = server.post(MEDIAN)
        me.accept(task)

        def copy_and_go_on(what: str) -> None:
            if what == "submit" and not (tmp_path / "copy").exists():
                copied(tmp_path / "me", tmp_path / "copy")

        server.before = copy_and_go_on
        me.turn()
        assert me.participations()[0]["state"] == "sent"
    brought_back(tmp_path / "copy", tmp_path / "back")
    with Person(tmp_path / "back", client=server, delay=False) as back:  # type: ignore[arg-type]
        assert back.balance()["frozen"]  # and this part was charged before the copy was made
        back.turn()
        assert back.participations()[0]["state"] == "sent"
    assert len(server.bodies) == 2
    assert server.bodies[0] == server.bodies[1]


@pytest.mark.parametrize("moment", ["ask", "reserved"])
def test_what_a_copy_has_not_computed_yet_is_never_sent_by_it(tmp_path: Path, quick_rows: None, moment: str) -> None:
    server = CoordinatorInMemory()
    with Person(tmp_path / "me", client=server, delay=False) as me:  # type: ignore[arg-type]
        task = server.post(MEDIAN)
        me.accept(task)

        def copy(what: str) -> None:
            if what == moment and not (tmp_path / "copy").exists():
                copied(tmp_path / "me", tmp_path / "copy")

        copy("reserved")
        server.before = copy
        me.turn()
    assert len(server.bodies) == 1
    brought_back(tmp_path / "copy", tmp_path / "back")
    for thaw in (False, True):
        if thaw:
            with Ledger(f"sqlite:///{tmp_path / 'back' / 'ledger.db'}") as ledger:
                ledger.thaw()
        with Person(tmp_path / "back", client=server, delay=False) as back:  # type: ignore[arg-type]
            back.turn()
            assert back.participations()[0]["state"] == ("failed" if thaw else "sending")
    assert len(server.bodies) == 1


def test_a_persons_rows_come_back_and_so_does_a_key_from_the_keyring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: dict[tuple[str, str], str] = {}
    monkeypatch.setattr(keyring, "set_password", lambda s, n, p: held.__setitem__((s, n), p))
    monkeypatch.setattr(keyring, "get_password", lambda s, n: held.get((s, n)))
    home = tmp_path / "me"
    with Person(home, delay=False) as me:
        me.register("notes", {"tables": {"line": {"columns": {"said": {"type": "string"}}}}})
        me.insert("notes", "line", [{"said": "telltale"}])
        open_ = copied(home, tmp_path / "open")
        sealed = copied(home, tmp_path / "sealed", SECRET)
        me.insert("notes", "line", [{"said": "later"}])
    assert keys.kept(home) == "keyring"
    assert any("keyring" in notice for notice in open_.notices)
    assert not sealed.notices
    held.clear()  # another machine
    brought_back(tmp_path / "sealed", tmp_path / "back", SECRET)
    with Person(tmp_path / "back", delay=False) as back:
        assert back.newest("notes", "line", 5) == [{"said": "telltale"}]
    brought_back(tmp_path / "open", tmp_path / "locked")
    with pytest.raises(Mistake, match="keyring"):
        Person(tmp_path / "locked", delay=False)


def test_a_key_from_the_keyring_lies_open_on_no_disk_while_it_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed there, a copy leaves what it has put together beside the store."""
    held: dict[tuple[str, str], str] = {}
    monkeypatch.setattr(keyring, "set_password", lambda s, n, p: held.__setitem__((s, n), p))
    monkeypatch.setattr(keyring, "get_password", lambda s, n: held.get((s, n)))
    home, left = tmp_path / "me", list[bytes]()
    Person(home, delay=False).close()
    write = archive.write

    def looked_at(stage: Path, *arguments: Any, **more: Any) -> int:
        left.extend(path.read_bytes() for path in home.rglob("*") if path.is_file())
        return write(stage, *arguments, **more)

    monkeypatch.setattr(archive, "write", looked_at)
    copied(home, tmp_path / "sealed", SECRET)
    (key,) = held.values()
    assert len(left) > 4
    assert not [content for content in left if key.encode() in content or bytes.fromhex(key) in content]
    held.clear()
    brought_back(tmp_path / "sealed", tmp_path / "back", SECRET)
    assert keys.key_of(tmp_path / "back").hex() == key


# --- the file ---------------------------------------------------------------------------------------------------


def test_a_copy_is_its_owners_alone_and_encrypted_where_a_passphrase_is_given(
    ledger_home: Path, tmp_path: Path
) -> None:
    copied(ledger_home, tmp_path / "open")
    copied(ledger_home, tmp_path / "sealed", SECRET)
    for file in ("open", "sealed"):
        assert stat.S_IMODE((tmp_path / file).stat().st_mode) == 0o600
    assert b"people" in (tmp_path / "open").read_bytes()
    assert b"people" not in (tmp_path / "sealed").read_bytes()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    brought_back(tmp_path / "sealed", tmp_path / "back", SECRET)
    assert role_of(tmp_path / "back") is HomeRole.LEDGER


@pytest.mark.parametrize("sealed", [True, False])
def test_what_was_cut_off_or_changed_restores_nothing(ledger_home: Path, tmp_path: Path, sealed: bool) -> None:
    file, passphrase = tmp_path / "copy", SECRET if sealed else None
    copied(ledger_home, file, passphrase)
    whole = file.read_bytes()
    # Sealed: the last chunk lacks a byte. Else: the digests, which come last, are missing.
    last = len(whole) - 1 if sealed else whole.rindex(b"thebes-digests.json")
    broken = [whole[:end] for end in (len(whole) // 3, len(whole) * 2 // 3, last)]
    middle = len(whole) // 2 if sealed else whole.index(b"people")
    broken.append(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    for wrong in broken:
        file.write_bytes(wrong)
        with pytest.raises(Mistake, match="nothing was restored"):
            brought_back(file, tmp_path / "back", passphrase)
        assert not (tmp_path / "back").exists()
    assert not list(tmp_path.glob(".back*"))


def test_another_passphrase_opens_nothing(ledger_home: Path, tmp_path: Path) -> None:
    copied(ledger_home, tmp_path / "copy", SECRET)
    for passphrase, said in ((SECRET + "!", "another passphrase"), (None, "opens with a passphrase only")):
        with pytest.raises(Mistake, match=said):
            brought_back(tmp_path / "copy", tmp_path / "back", passphrase)
    with pytest.raises(Mistake, match="at least 8"):
        copied(ledger_home, tmp_path / "short", "short")


def test_what_must_not_lie_open_on_a_disk_goes_into_a_sealed_copy_only(tmp_path: Path) -> None:
    (tmp_path / "stage").mkdir()
    (tmp_path / "stage" / "key").write_bytes(b"where it is")
    about, to, instead = archive.Copied(HomeRole.PERSON, 0.0), tmp_path / "copy", {"key": b"telltale"}
    with pytest.raises(Fault):
        archive.write(tmp_path / "stage", to, about, None, instead=instead)
    assert not to.exists()
    assert archive.write(tmp_path / "stage", to, about, SECRET, instead=instead) == 1
    assert b"telltale" not in to.read_bytes()
    with archive.opened(to, SECRET) as (_, contents):
        assert [(name, held.read()) for name, held in contents] == [("key", b"telltale")]


def test_chunks_of_a_sealed_file_cannot_change_places_or_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_file, "_CHUNK", 8)
    file = io.BytesIO()
    sealing_ = sealed_file.Sealing(file, SECRET)
    sealing_.write(bytes(range(30)))
    sealing_.close()
    head, body = file.getvalue()[: len(sealed_file.MAGIC) + 16], file.getvalue()[len(sealed_file.MAGIC) + 16 :]
    chunks = [body[place : place + 24] for place in range(0, len(body), 24)]
    assert len(chunks) == 4

    def read(chosen: list[bytes]) -> bytes:
        return sealed_file.Opening(io.BytesIO(head[len(sealed_file.MAGIC) :] + b"".join(chosen)), SECRET).read(100)

    assert read(chunks) == bytes(range(30))
    for wrong in (chunks[:3], [chunks[1], chunks[0], *chunks[2:]], [chunks[0], *chunks[2:]], [*chunks, chunks[3]], []):
        with pytest.raises(Mistake):
            read(wrong)


@pytest.mark.parametrize("name", ["../out", "/out", "a/../../out", "link", "./a", "a//b"])
def test_a_copy_that_reaches_out_of_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "copy"
    with tarfile.open(file, "w") as made:
        about = {"role": "ledger", "made_at": 0.0, "version": "1", "format": archive.FORMAT}
        archive._add(made, "thebes-copy.json", json.dumps(about).encode())
        told = tarfile.TarInfo(name)
        if name == "link":
            told.type, told.linkname = tarfile.SYMTYPE, "/etc/passwd"
        made.addfile(told, io.BytesIO())
        archive._add(made, "thebes-digests.json", b"{}")
    with pytest.raises(Mistake, match="nothing was restored"):
        brought_back(file, tmp_path / "back")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ("is not a copy", lambda file: file.write_bytes(b"")),
        ("nothing was restored", lambda file: file.write_bytes(b"GIF89a" * 1000)),
        ("cannot be read", lambda file: file.unlink()),
    ],
)
def test_what_is_no_copy_is_said_to_be_none(
    ledger_home: Path, tmp_path: Path, said: str, change: Callable[[Path], Any]
) -> None:
    copied(ledger_home, tmp_path / "copy")
    change(tmp_path / "copy")
    with pytest.raises(Mistake, match=said):
        brought_back(tmp_path / "copy", tmp_path / "back")


def test_a_copy_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "stage").mkdir()
    about = archive.Copied(HomeRole.LEDGER, 0.0, "99.0", archive.FORMAT + 1)
    archive.write(tmp_path / "stage", tmp_path / "copy", about, None)
    with pytest.raises(Mistake, match=r"newer version of Thebes \(99\.0\)"):
        brought_back(tmp_path / "copy", tmp_path / "back")


# --- at a terminal ----------------------------------------------------------------------------------------------


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def go(*arguments: object) -> tuple[int, str, str]:
        return exit_status(*arguments), *capsys.readouterr()

    return go


@pytest.mark.slow
def test_the_two_commands_say_what_they_did_and_what_is_to_be_done(
    run: Callable[..., tuple[int, str, str]], ledger_home: Path, tmp_path: Path
) -> None:
    status, out, err = run("backup", ledger_home, "--to", tmp_path / "copy")
    assert (status, "1 files of a ledger's home" in out) == (0, True)
    assert "is not encrypted" in err
    secret = tmp_path / "passphrase"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)
    status, out, err = run("backup", ledger_home, "--to", tmp_path / "sealed", "--passphrase-file", secret, "--json")
    assert (status, err, json.loads(out)["role"]) == (0, "", "ledger")
    status, out, _ = run("restore", tmp_path / "sealed", "--home", tmp_path / "back", "--passphrase-file", secret)
    assert status == 0
    assert "thebes ledger thaw" in out
    assert stat.S_IMODE((tmp_path / "back").stat().st_mode) == 0o700
    for arguments, said in (
        (("backup", ledger_home, "--to", tmp_path / "copy"), "never written over another"),
        (("backup", ledger_home, "--to", ledger_home / "copy"), "outside the home"),
        (("backup", tmp_path / "nothing", "--to", tmp_path / "new"), "there is no folder"),
        (("restore", tmp_path / "copy", "--home", tmp_path / "back"), "is not empty"),
    ):
        status, _, err = run(*arguments)
        assert (status, said in err) == (2, True), err


def test_a_ledger_that_came_back_by_other_means_can_be_frozen(
    run: Callable[..., tuple[int, str, str]], ledger_home: Path
) -> None:
    assert run("ledger", "freeze", "--home", ledger_home)[0] == 0
    assert json.loads(run("ledger", "freeze", "--home", ledger_home, "--json")[1])["was_frozen"] is True
    with Ledger(f"sqlite:///{ledger_home}/ledger.db", keeper=NoKeeper()) as ledger:
        assert ledger.frozen
