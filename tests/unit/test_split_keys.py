"""The life of a helper's keys: to the sum, the farewell or a day after the deadline, and in no accident longer."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator import HandClock
from tests.support.site_home import site_home
from tests.support.split_helper import VALUES, Led, Ward, document
from thebes.database.key_folder import KeyFolder
from thebes.privacy.randomness import system
from thebes.site.algorithm_process import Office, serve
from thebes.site.helping.keys import FOLDER, HelperKeys
from thebes.site.helping.second_server import DATABASE, GRACE_SECONDS
from thebes.tasks import registry
from thebes.wire.link import Code, Word


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def ward(tmp_path: Path, clock: HandClock) -> Ward:
    return Ward(tmp_path / "ward", randomness=system, clock=lambda: clock.now().timestamp())


def led(ward: Ward, clock: HandClock, task: str = "t", **more: Any) -> Led:
    return Led(ward, task=task, **{"expires_at": (clock.now() + timedelta(hours=1)).isoformat(), **more})


def keys(ward: Ward) -> int:
    return len({each.stem for each in (ward.home / FOLDER).iterdir()})


def rows(ward: Ward) -> tuple[int, int]:
    found = sqlite3.connect(ward.home / DATABASE).execute("SELECT (SELECT count(*) FROM job), count(*) FROM report")
    counted: tuple[int, int] = found.fetchone()
    return counted


def begun_anew(ward: Ward) -> None:
    ward.start()


def asked_something(ward: Ward) -> None:
    ward.helper.step({"kind": "help", "step": "verify", "task": "another"})


def left_alone(ward: Ward) -> None:
    """Nobody says anything: only time goes by."""
    stop, until = ward.helper.watch(0.01), time.monotonic() + 30
    while keys(ward) and time.monotonic() < until:
        time.sleep(0.01)
    stop()


every_way = pytest.mark.parametrize("then", [begun_anew, asked_something, left_alone])


# --- a leader that says nothing ------------------------------------------------------------------------------


@every_way
def test_a_day_after_the_deadline_nothing_is_left_of_a_task_whose_leader_is_silent(
    ward: Ward, clock: HandClock, then: Callable[[Ward], None]
) -> None:
    one = led(ward, clock)
    one.step("verify", number=0, reports=one.rows(VALUES)[0])
    clock.move(hours=1, seconds=GRACE_SECONDS - 1)
    begun_anew(ward)
    assert (keys(ward), rows(ward)) == (1, (1, len(VALUES)))
    clock.move(seconds=2)
    then(ward)
    assert (keys(ward), rows(ward)) == (0, (0, 0))
    again = ward.helper.step({"kind": "help", "step": "open", "task": "t", "requestor": "ana", "document": one.told})
    assert again["kind"] == Word.REFUSAL
    assert keys(ward) == 0


def test_the_process_of_a_site_looks_after_its_helpers_keys_until_it_ends(tmp_path: Path) -> None:
    office, looking = Office(site_home(tmp_path / "site"), "ward"), list[list[threading.Thread]]()

    def lookers() -> list[threading.Thread]:
        return [each for each in threading.enumerate() if each.name == "helper's keys"]

    class Ended:
        def receive_bytes(self) -> None:
            looking.append(lookers())

    serve(office, Ended())  # type: ignore[arg-type]  # a pipe at whose other end is nobody
    assert [each.daemon for each in looking[0]] == [True]
    looking[0][0].join(30)
    assert not lookers()


@pytest.mark.parametrize("until", [timedelta(seconds=-1), timedelta(days=401), None])
def test_a_helper_promises_no_key_for_a_deadline_that_has_passed_or_is_years_away(
    ward: Ward, clock: HandClock, until: timedelta | None
) -> None:
    expires = "9999-12-31T00:00:00+00:00" if until is None else (clock.now() + until).isoformat()
    told = registry.check(document(helper_key=ward.helper.fingerprint(), expires_at=expires)).as_json()
    asked = {"requestor": "ana", "document": told}
    for refused in (ward.helper.step({"step": "open", "task": "t", **asked}), ward.helper.quote(asked)):
        assert (refused["kind"], refused["code"]) == (Word.REFUSAL, Code.DOCUMENT)
        assert "expires_at" in refused["reason"]
    assert keys(ward) == 0


def test_a_helper_waits_for_a_year(ward: Ward, clock: HandClock) -> None:
    led(ward, clock, expires_at=(clock.now() + timedelta(days=399)).isoformat())
    assert keys(ward) == 1


# --- accidents -------------------------------------------------------------------------------------------------


@every_way
def test_a_key_of_no_task_is_destroyed_and_that_of_an_open_one_is_not(
    ward: Ward, clock: HandClock, then: Callable[[Ward], None]
) -> None:
    """As a helping.db leaves it that came back from a copy beside the folder that lived on."""
    one = led(ward, clock)
    HelperKeys(ward.home).begin("restored")
    if then is left_alone:
        stop, until = ward.helper.watch(0.01), time.monotonic() + 30
        while keys(ward) > 1 and time.monotonic() < until:
            time.sleep(0.01)
        stop()
    else:
        then(ward)
    assert keys(ward) == 1
    one.helper = ward.helper
    assert one.step("verify", number=0, reports=one.rows(VALUES)[0])["counted"] == "1" * len(VALUES)


@pytest.mark.parametrize("copied", [0, 1])
def test_an_older_database_put_back_beside_its_keys_judges_no_report_again(
    ward: Ward, clock: HandClock, copied: int
) -> None:
    one = led(ward, clock)
    jobs = [one.rows(VALUES)[0] for _ in range(2)]

    def copy() -> bytes:
        with closing(sqlite3.connect(ward.home / DATABASE)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return (ward.home / DATABASE).read_bytes()

    older = copy()
    for number, reports in enumerate(jobs):
        one.step("verify", number=number, reports=reports)
        if number < copied:
            older = copy()
    ward.helper._tasks.close()
    begun_anew(ward)  # nothing is missing yet: the same job is answered as before
    one.helper = ward.helper
    assert one.step("verify", number=1, reports=jobs[1])["counted"] == "1" * len(VALUES)
    ward.helper._tasks.close()  # with its last connection the write-ahead log goes
    assert not (ward.home / f"{DATABASE}-wal").exists()
    (ward.home / DATABASE).write_bytes(older)
    begun_anew(ward)
    refused = ward.helper.step({"step": "verify", "task": "t", "number": 1, "reports": jobs[1]})
    assert (refused["kind"], refused["code"]) == (Word.REFUSAL, Code.DOCUMENT)
    assert "restored from a copy" in refused["reason"]
    assert keys(ward) == 0


def test_a_farewell_that_overtakes_the_opening_leaves_no_key(ward: Ward, clock: HandClock) -> None:
    ward.helper.over("t")
    ward.start()
    told = document(helper_key=ward.helper.fingerprint(), expires_at=(clock.now() + timedelta(hours=1)).isoformat())
    asked = {"step": "open", "task": "t", "requestor": "ana", "document": registry.check(told).as_json()}
    refused = ward.helper.step(asked)
    assert (refused["kind"], refused["code"]) == (Word.REFUSAL, Code.DOCUMENT)
    assert keys(ward) == 0
    for name in ("", "../x", "x" * 201):  # none that a task could have: nothing is written down
        ward.helper.over(name)
    count = "SELECT count(*) FROM helped"
    assert sqlite3.connect(ward.home / DATABASE).execute(count).fetchone() == (1,)
    clock.move(days=500)
    ward.start()
    assert sqlite3.connect(ward.home / DATABASE).execute(count).fetchone() == (0,)


@every_way
def test_a_helper_killed_between_its_sum_and_the_end_of_its_key_ends_it_when_it_goes_on(
    ward: Ward, clock: HandClock, monkeypatch: pytest.MonkeyPatch, then: Callable[[Ward], None]
) -> None:
    one = led(ward, clock)
    reports, nonces = one.rows(VALUES)
    one.step("verify", number=0, reports=reports)

    class KilledHereError(BaseException):
        pass

    def die(folder: KeyFolder, name: str) -> None:
        raise KilledHereError

    with monkeypatch.context() as dying:
        dying.setattr(KeyFolder, "destroy", die)
        with pytest.raises(KilledHereError):
            one.close(nonces)
    assert (keys(ward), rows(ward)) == (1, (0, 0))
    then(ward)
    assert keys(ward) == 0
    one.helper = ward.helper
    said = one.close(nonces)
    assert said["kind"] == Word.HELPED
    assert one.close(nonces) == said
