"""Another key in the place of the one that there was: whoever knew the old one follows where that one says so only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.command import exit_status
from tests.support.coordinator import AGES, Front
from tests.support.coordinator_in_memory import CoordinatorInMemory
from tests.support.postgres import new_database
from thebes.cli import main, user
from thebes.cli.homes.examination import Surroundings, examined
from thebes.cli.homes.findings import How
from thebes.coordinator.auth.accounts import Role
from thebes.coordinator.home import CoordinatorHome
from thebes.person.home import Person
from thebes.person.tasks.task_feed import NotListed
from thebes.privacy.faults import Mistake
from thebes.wire import task_log
from thebes.wire.refusals import BrokenLog, NotFound

PASSWORD = "a long password"


@pytest.fixture
def server() -> CoordinatorInMemory:
    return CoordinatorInMemory()


@pytest.fixture
def me(tmp_path: Path, server: CoordinatorInMemory) -> Iterator[Person]:
    person = Person(tmp_path / "me", client=server, delay=False)  # type: ignore[arg-type]
    yield person
    person.close()


def names(person: Person) -> list[str]:
    return sorted(str(task["name"]) for task in person.tasks())


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest) -> str | None:
    """The address of a coordinator's database that is not in its home, or None."""
    return new_database() if request.param == "postgres" else None


def list_key(home: Path, store: str | None) -> list[str]:
    """Return what puts another key of the list in the place of that one."""
    return ["rotate", "log.key", "--home", str(home), *([] if store is None else ["--store", store])]


def fingerprint(private: bytes) -> str:
    return task_log.fingerprint(task_log.public_key(private))


# --- a person's machine ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 3])
def test_a_machine_follows_a_key_that_the_one_before_it_signed(
    me: Person, server: CoordinatorInMemory, times: int
) -> None:
    server.post({**AGES, "name": "before"})
    assert names(me) == ["before"]
    first = fingerprint(server.key)
    for _ in range(times):  # it was switched off meanwhile, and missed all but the last
        server.rotate()
    server.post({**AGES, "name": "after"})
    assert names(me) == ["after", "before"]
    told = me.coordinator_key()
    assert told["fingerprint"] == fingerprint(server.key)
    assert told["earlier"][0]["fingerprint"] == first
    assert len(told["earlier"]) == times
    server.post({**AGES, "name": "later"})
    assert len(names(me)) == 3


def test_a_machine_that_had_read_past_the_entry_follows_too(me: Person, server: CoordinatorInMemory) -> None:
    """The coordinator died between naming the next key and signing with it."""
    before = server.key
    server.rotate()
    following, server.key = server.key, before
    server.post({**AGES, "name": "between"})
    assert names(me) == ["between"]
    server.key = following
    server.post({**AGES, "name": "after"})
    assert names(me) == ["after", "between"]


def test_a_key_that_the_one_before_it_did_not_sign_is_not_followed(me: Person, server: CoordinatorInMemory) -> None:
    server.post({**AGES, "name": "before"})
    assert names(me) == ["before"]
    known = me.coordinator_key()
    server.rotate(by=task_log.new_key())
    server.post({**AGES, "name": "after"})
    with pytest.raises(BrokenLog, match="not signed by the one before it"):
        me.tasks()
    assert me.coordinator_key() == known


def test_a_key_is_not_followed_unless_the_list_names_it(me: Person, server: CoordinatorInMemory) -> None:
    server.post({**AGES, "name": "before"})
    assert names(me) == ["before"]
    server.rotate()
    kept = server.entries.pop()  # shown to this machine only, and not to everybody
    server.post({**AGES, "name": "after"})
    with pytest.raises(BrokenLog, match="does not name the key"):
        me.tasks()
    server.entries.append(kept)


@pytest.mark.parametrize("part", ["key", "next", "length", "head", "signature"])
def test_what_a_key_said_last_cannot_be_changed(part: str) -> None:
    server = CoordinatorInMemory()
    server.post(AGES)
    pinned = task_log.public_key(server.key)
    server.rotate()
    other = {
        "key": task_log.public_key(task_log.new_key()),
        "next": task_log.public_key(task_log.new_key()),
        "length": 1,
        "head": "0" * 64,
        "signature": task_log.sign(task_log.new_key(), task_log.Seen()),
    }
    assert task_log.verify(server.log(), key=pinned).earlier == (pinned,)
    changed: dict[str, Any] = {part: other[part]}
    server.successions = [replace(server.successions[0], **changed)]
    with pytest.raises(BrokenLog):
        task_log.verify(server.log(), key=pinned)


def test_who_followed_does_not_go_back(me: Person, server: CoordinatorInMemory) -> None:
    server.post({**AGES, "name": "before"})
    assert names(me) == ["before"]
    stolen = server.key
    server.rotate()
    server.post({**AGES, "name": "after"})
    assert names(me) == ["after", "before"]
    server.key = stolen
    server.post({**AGES, "name": "by a thief"})
    with pytest.raises(BrokenLog, match="another key"):
        me.tasks()


def test_a_fingerprint_that_was_pinned_beforehand_admits_that_key_and_its_successors_only(
    tmp_path: Path, server: CoordinatorInMemory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server.post({**AGES, "name": "before"})
    printed = fingerprint(server.key)
    home = tmp_path / "me"
    spelled = " ".join(printed[place : place + 4].upper() for place in range(0, 64, 4))
    assert exit_status("person", "--home", str(home), "--pin", spelled) == 0
    server.rotate()
    with Person(home, client=server) as me:  # type: ignore[arg-type]
        assert me.coordinator_key()["fingerprint"] == printed
        assert names(me) == ["before"]
        assert me.coordinator_key()["fingerprint"] == fingerprint(server.key)
    assert exit_status("person", "--home", str(home), "--pin", "a" * 64) == 0
    server.post({**AGES, "name": "after"})
    with Person(home, client=server) as me, pytest.raises(BrokenLog, match="fingerprint that was pinned"):  # type: ignore[arg-type]
        me.tasks()
    assert exit_status("person", "--home", str(home), "--pin", printed[:-1]) == 2
    assert "64 hexadecimal digits" in capsys.readouterr().err


def test_what_the_list_says_of_a_key_vouches_for_no_task(me: Person, server: CoordinatorInMemory) -> None:
    server.rotate()
    posted, listed = server.post(AGES), server.entries[0].task_id
    held: tuple[dict[str, Any], ...] = (server.documents, server.status, server.requestors, server.aggregators)
    for known in held:
        known[listed] = known[posted]
    with pytest.raises(NotListed):
        me.task(listed)


# --- a coordinator -----------------------------------------------------------------------------------------------


def test_a_coordinator_that_runs_signs_with_the_next_key_at_once(
    tmp_path: Path, store: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Front(tmp_path / "home", store=store) as front:
        front.post(AGES)
        first = task_log.verify(front.client.get("/api/log").json())
        assert exit_status(*list_key(tmp_path / "home", store)) == 0
        said = capsys.readouterr().out
        body = front.client.get("/api/log", params={"after": first.seen.length}).json()
        followed = task_log.verify(body, key=first.key, seen=first.seen)
        assert followed.earlier == (first.key,)
        assert followed.key != first.key
        assert task_log.fingerprint(first.key) in said
        assert task_log.fingerprint(followed.key) in said
        front.post(AGES)
        later = front.client.get("/api/log", params={"after": followed.seen.length}).json()
        assert task_log.verify(later, key=followed.key, seen=followed.seen).seen.length == 3
        page = front.client.get("/log").text
        assert "Another key" in page
        assert task_log.fingerprint(first.key)[:4] in page


@pytest.mark.postgres
def test_every_process_on_one_database_signs_with_the_next_key_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home, where = tmp_path / "home", new_database()
    with Front(home, store=where) as one, Front(home, store=where) as two:
        one.post(AGES)
        known = task_log.verify(two.client.get("/api/log").json())
        assert exit_status("rotate", "log.key", "--home", str(home)) == 2
        assert "--store" in capsys.readouterr().err
        for front, other in ((one, two), (two, one)):
            assert exit_status(*list_key(home, where)) == 0
            front.post(AGES)
            bodies = [each.client.get("/api/log").json() for each in (front, other)]
            assert bodies[0] == bodies[1]
            followed = task_log.verify(bodies[0], key=known.key, seen=known.seen)
            assert followed.earlier[-1] == known.key
            known = followed


def said_of_the_list_key(front: Front) -> How:
    """Return what `thebes doctor` says of it."""
    (front.home.folder / "coordinator.db").chmod(0o600)
    around = Surroundings(clock=lambda: front.clock.now().timestamp())
    return {f.what: f.how for f in examined(front.home.folder, around)}["log.key is the one that the list names last"]


@pytest.mark.few(1)
@pytest.mark.parametrize("moment", ["the entry", "what the key says last", "the key itself"])
def test_killed_at_any_moment_the_same_again_ends_what_was_begun(
    tmp_path: Path, store: str | None, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    class Killed(BaseException):
        pass

    def dies(*arguments: Any, **more: Any) -> Any:
        if moment != "the key itself" or Path(arguments[1]).name == "log.key":
            raise Killed
        return renamed(*arguments, **more)

    renamed = os.replace
    home = tmp_path / "home"
    with Front(home, store=store) as front:
        front.post(AGES)
        first = task_log.verify(front.client.get("/api/log").json())
        where = {
            "the entry": "thebes.coordinator.auth.log_key.append",
            "what the key says last": "thebes.coordinator.home.CoordinatorHome._put",
            "the key itself": "thebes.coordinator.home.os.replace",
        }[moment]
        with monkeypatch.context() as patched:
            patched.setattr(where, dies)
            with pytest.raises(Killed):
                main.main(list_key(home, store))
        between = task_log.verify(front.client.get("/api/log").json(), key=first.key, seen=first.seen)
        assert between.key == first.key
        front.post(AGES)
        assert store or said_of_the_list_key(front) is How.WARNING  # the doctor reads the list of a home only
        assert exit_status(*list_key(home, store)) == 0
        body = front.client.get("/api/log").json()
        assert task_log.verify(body, key=first.key, seen=first.seen).earlier == (first.key,)
        assert sum(entry["task_id"].startswith("key~") for entry in body["entries"]) == 1
        assert store or said_of_the_list_key(front) is How.OK


def test_the_key_is_not_rotated_in_the_list_of_another_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Front(tmp_path / "home") as front:
        front.post(AGES)
        before = front.home.log_key
        another = f"sqlite:///{tmp_path / 'another.db'}"
        assert exit_status(*list_key(tmp_path / "home", another)) == 2
        assert "must be left out" in capsys.readouterr().err
        assert (tmp_path / "home" / "log.key").read_bytes() == before
        assert exit_status(*list_key(tmp_path / "home", None)) == 0


def test_who_is_logged_in_is_out_once_the_key_of_sessions_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Front(tmp_path / "home") as front:
        front.service.accounts.add("ana", PASSWORD, Role.REQUESTOR)
        login = {"username": "ana", "password": PASSWORD}
        token = {"Authorization": f"Bearer {front.client.post('/api/login', json=login).json()['token']}"}
        assert front.client.post("/api/task", json=AGES, headers=token).status_code == 201
        assert exit_status("rotate", "session.key", "--home", str(tmp_path / "home")) == 0
        assert front.client.post("/api/task", json=AGES, headers=token).status_code == 401
        token = {"Authorization": f"Bearer {front.client.post('/api/login', json=login).json()['token']}"}
        assert front.client.post("/api/task", json=AGES, headers=token).status_code == 201


def test_an_operators_token_that_was_replaced_counts_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Front(tmp_path / "home") as front:
        old = front.admin
        assert exit_status("rotate", "admin.token", "--home", str(tmp_path / "home")) == 0
        assert front.client.post("/api/task", json=AGES, headers=old).status_code == 401
        front.admin_token = (tmp_path / "home" / "admin.token").read_text().strip()
        assert front.client.post("/api/task", json=AGES, headers=front.admin).status_code == 201


def test_a_new_secret_that_others_can_read_is_not_taken(tmp_path: Path) -> None:
    home = CoordinatorHome(tmp_path / "home")
    before = home.admin_token
    CoordinatorHome(tmp_path / "home").replace("admin.token")
    (tmp_path / "home" / "admin.token").chmod(0o644)
    assert home.admin_token == before
    (tmp_path / "home" / "admin.token").chmod(0o600)
    assert home.admin_token != before


def test_another_password_logs_in_and_the_one_before_does_not(tmp_path: Path) -> None:
    with Front(tmp_path / "home") as front:
        front.service.accounts.add("ana", PASSWORD, Role.REQUESTOR)
        told = ["password", "ana", "--password-stdin", "--home", str(tmp_path / "home")]
        done = CliRunner().invoke(user.app, told, input="quite another one\n")
        assert done.exit_code == 0, done.output
        status = [
            front.client.post("/api/login", json={"username": "ana", "password": tried}).status_code
            for tried in (PASSWORD, "quite another one")
        ]
        assert status == [401, 200]
        with pytest.raises(Mistake):
            front.service.accounts.change_password("ana", "short")
        with pytest.raises(NotFound):
            front.service.accounts.change_password("eve", PASSWORD)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["token"], "the home of a coordinator has no token"),
        (["session.key", "--store", "postgresql:///x"], "goes with log.key only"),
        (["nothing.key"], "nothing.key"),
    ],
)
def test_what_cannot_be_replaced_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    CoordinatorHome(tmp_path / "home")
    assert exit_status("rotate", *arguments, "--home", str(tmp_path / "home")) == 2
    assert said in capsys.readouterr().err


def test_the_token_of_a_persons_page_is_replaced_by_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from thebes.wire.access import Access, make_token

    Person(tmp_path / "me").close()
    make_token(tmp_path / "me")
    access = Access(tmp_path / "me")
    before = (tmp_path / "me" / "token").read_text().strip()
    assert access.knows(before)
    browser, unused = access.exchange(access.new_code()) or "", access.new_code()
    named = access.admit("ana@idp.example", 60)
    assert (access.admits(browser), access.admits(named), access.who(named)) == (True, True, "ana@idp.example")
    assert exit_status("rotate", "token", "--home", str(tmp_path / "me")) == 0
    assert not access.knows(before)
    assert access.knows((tmp_path / "me" / "token").read_text().strip())
    assert not access.admits(browser), "it came in by an address that the token before it made"
    assert access.exchange(unused) is None
    assert access.admits(named), "somebody else named them"
    again = access.exchange(access.new_code()) or ""
    assert access.admits(again)
