"""A device is lost, or there are two: what the commands of the page do, and that nothing is spent twice unseen."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keyring
import pytest

from tests.support.command import exit_status
from tests.support.coordinator import AGES, Front
from tests.support.peers import enrolment
from thebes.cli.homes import archive, sealed_file
from thebes.cli.homes.examination import Surroundings, examined
from thebes.cli.homes.findings import How
from thebes.ledger import Frozen
from thebes.person.home import Person
from thebes.wire.client import CoordinatorClient

Run = Callable[..., tuple[int, str, str]]
OTHERS = 12
TOKENS = {**AGES, "group": "city", "anonymity": "token"}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setattr(sealed_file, "_MEMORY_KIB", 64)

    def go(*arguments: object) -> tuple[int, str, str]:
        return exit_status(*arguments), *capsys.readouterr()

    return go


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with Front(tmp_path / "coordinator") as opened:
        yield opened


@pytest.fixture
def device(tmp_path: Path, front: Front, run: Run) -> Callable[[str], Person]:
    """A person's machine of this name; `run` comes first, so that no ledger asks a keyring."""

    def opened(name: str) -> Person:
        client = CoordinatorClient("http://127.0.0.1:1", transport=front.transport, retries=0)
        return Person(tmp_path / name, client=client, delay=False)

    return opened


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "passphrase"
    file.write_text("a passphrase of some length\n")
    file.chmod(0o600)
    return file


def fill(me: Person, age: float = 41.0) -> None:
    me.register("profile", {"demographics": {"columns": {"age": {"type": "float", "description": "years"}}}})
    me.insert("profile", "demographics", [{"age": age}])


def answered(me: Person, task: str) -> dict[str, Any]:
    me.accept(task)
    return me.wait(task, timeout=60)


def left(me: Person) -> float:
    return float(me.ledger()["trusted"]["overall"]["remaining"]["epsilon"])


@pytest.mark.slow
def test_after_a_loss_the_last_copy_spends_nothing_until_its_owner_says_so(
    tmp_path: Path, front: Front, device: Callable[[str], Person], run: Run, secret: Path
) -> None:
    with device("lost") as lost:
        fill(lost)
        first, second = front.post(AGES), front.post(AGES)
        whole = left(lost)
        assert run("backup", tmp_path / "lost", "--to", tmp_path / "copy", "--passphrase-file", secret)[0] == 0
        assert answered(lost, first)["state"] == "sent"  # what the copy will have forgotten
        assert left(lost) < whole
    status, out, _ = run("restore", tmp_path / "copy", "--home", tmp_path / "new", "--passphrase-file", secret)
    assert (status, "is frozen" in out) == (0, True)
    with device("new") as new:
        assert new.store()[0]["tables"][0]["rows"] == 1
        assert {task["task_id"] for task in new.tasks()} == {first, second}
        with pytest.raises(Frozen):
            new.accept(second)
        assert front.task(second)["contributions"] == 0
    found = {each.what: each.how for each in examined(tmp_path / "new", Surroundings())}
    assert found["the ledger may spend"] is How.WARNING
    assert run("ledger", "thaw", "--home", tmp_path / "new")[0] == 0
    with device("new") as new:
        assert answered(new, second)["state"] == "sent"
    assert front.task(second)["contributions"] == 1


@pytest.mark.slow
def test_of_two_devices_with_one_membership_one_answer_counts(
    tmp_path: Path, front: Front, device: Callable[[str], Person], run: Run
) -> None:
    register = front.service.register
    register.create("city", minimum=3, epoch="one")
    codes = register.admit("city", ["me", *(f"member {number}" for number in range(OTHERS))])
    with device("one") as one:
        fill(one)
        one.enrol("city", codes.pop("me"))
        for code in codes.values():
            enrolment(front.client, "city", code)
        register.publish("city")
        assert run("backup", tmp_path / "one", "--to", tmp_path / "copy")[0] == 0
        task = front.post(TOKENS)
        assert answered(one, task)["state"] == "sent"
    assert run("restore", tmp_path / "copy", "--home", tmp_path / "two")[0] == 0
    assert run("ledger", "thaw", "--home", tmp_path / "two")[0] == 0
    with device("two") as two:
        two.remove("profile", keep_data=False)
        fill(two, age=99.0)
        assert answered(two, task)["state"] == "refused"  # it is known there by the same pseudonym
    assert front.task(task)["contributions"] == 1


@pytest.mark.slow
def test_a_home_that_moved_forgets_nothing_and_spends_on_the_other_device_only(
    tmp_path: Path, front: Front, device: Callable[[str], Person], run: Run, secret: Path
) -> None:
    moving = ("backup", tmp_path / "old", "--to", tmp_path / "copy", "--passphrase-file", secret, "--move")
    first, second = front.post(AGES), front.post(AGES)
    with device("old") as old:
        fill(old)
        assert answered(old, first)["state"] == "sent"
        before = left(old)
        status, _, err = run(*moving)  # it is in use
        assert (status, (tmp_path / "copy").exists()) == (1, False)
        assert "process" in err
    status, out, _ = run(*moving)
    assert (status, "spends nothing any more" in out) == (0, True)
    with device("old") as old, pytest.raises(Frozen):
        old.accept(second)
    assert run("restore", tmp_path / "copy", "--home", tmp_path / "new", "--passphrase-file", secret)[0] == 0
    assert run("ledger", "thaw", "--home", tmp_path / "new")[0] == 0
    with device("new") as new:
        assert left(new) == before
        assert new.participations()[0]["task_id"] == first
        assert answered(new, second)["state"] == "sent"


def test_only_a_persons_home_moves_and_never_over_a_file(tmp_path: Path, front: Front, run: Run) -> None:
    status, _, err = run("backup", tmp_path / "coordinator", "--to", tmp_path / "copy", "--move")
    assert (status, "is for a person's home" in err) == (2, True)
    Person(tmp_path / "me").close()
    (tmp_path / "copy").write_text("precious")
    status, _, err = run("backup", tmp_path / "me", "--to", tmp_path / "copy", "--move")
    assert (status, "there is" in err) == (2, True)
    status, out, _ = run("ledger", "show", "--home", tmp_path / "me")
    assert "FROZEN" not in out


def test_a_home_does_not_move_without_the_key_that_opens_it(
    tmp_path: Path, run: Run, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: dict[tuple[str, str], str] = {}
    monkeypatch.setattr(keyring, "set_password", lambda s, n, p: held.__setitem__((s, n), p))
    monkeypatch.setattr(keyring, "get_password", lambda s, n: held.get((s, n)))
    Person(tmp_path / "me").close()
    moving = ("backup", tmp_path / "me", "--to", tmp_path / "copy", "--move")
    status, _, err = run(*moving)
    assert (status, (tmp_path / "copy").exists()) == (2, False)
    assert "--passphrase-file: is needed with --move" in err
    assert "FROZEN" not in run("ledger", "show", "--home", tmp_path / "me")[1]
    assert run(*moving, "--passphrase-file", secret)[0] == 0
    assert "FROZEN" in run("ledger", "show", "--home", tmp_path / "me")[1]


def test_a_home_goes_on_spending_where_its_copy_could_not_be_begun(tmp_path: Path, run: Run) -> None:
    Person(tmp_path / "me").close()
    (tmp_path / "short").write_text("short\n")
    to = ("--to", tmp_path / "copy")
    for wrong in (("--to", tmp_path / "nowhere" / "copy"), (*to, "--passphrase-file", tmp_path / "short")):
        assert run("backup", tmp_path / "me", "--move", *wrong)[0] == 2
    assert "FROZEN" not in run("ledger", "show", "--home", tmp_path / "me")[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["me", "short"]  # no part of a copy either


def test_where_a_copy_breaks_off_it_is_said_that_its_home_spends_no_more(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Person(tmp_path / "me").close()

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(archive, "write", full)
        status, _, err = run("backup", tmp_path / "me", "--to", tmp_path / "copy", "--move")
    assert (status, "No space left" in err, "thebes ledger thaw" in err) == (1, True, True)
    assert "FROZEN" in run("ledger", "show", "--home", tmp_path / "me")[1]
    assert run("backup", tmp_path / "me", "--to", tmp_path / "copy", "--move")[0] == 0  # again, with room


def test_a_copy_goes_onto_a_stick_whose_file_system_knows_no_links(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Person(tmp_path / "me").close()

    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")  # what FAT says

    monkeypatch.setattr(os, "link", refused)
    assert run("backup", tmp_path / "me", "--to", tmp_path / "copy", "--move")[0] == 0
    assert run("backup", tmp_path / "me", "--to", tmp_path / "copy")[0] == 2  # never over a file, here as well
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "me"]
    assert run("restore", tmp_path / "copy", "--home", tmp_path / "new")[0] == 0
