"""The duties of every coordinator's database, on SQLite and on PostgreSQL."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.postgres import new_database
from thebes.coordinator.storage import schema
from thebes.coordinator.storage.contribution_intake import ContributionDelivery, Taken
from thebes.coordinator.storage.database import Database, StoreUnavailable
from thebes.coordinator.storage.store import CoordinatorStore, NewTask
from thebes.coordinator.tasks.phase_queue import Concluded, Held, NoLongerHeld, PhaseQueue
from thebes.coordinator.tasks.states import Status
from thebes.privacy.faults import Mistake
from thebes.tasks.protocols import TaskClosed
from thebes.wire import task_log
from thebes.wire.refusals import Conflict, NotAllowed, NotFound
from thebes.wire.release_record import digest_of_text, listed_release

TASK, OTHER = "a" * 32, "b" * 32


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_database() if request.param == "postgres" else f"sqlite:///{tmp_path / 'coordinator.db'}"


@pytest.fixture
def database(where: str) -> Iterator[Database]:
    opened = Database(where)
    yield opened
    opened.close()


@pytest.fixture
def store(database: Database) -> CoordinatorStore:
    return CoordinatorStore(database)


def new(
    task_id: str = TASK,
    *,
    wanted: int = 3,
    least: int = 2,
    trusted: bool = False,
    expires: float | None = None,
    packets: int = 1,
):
    return NewTask(task_id, "ana", "d" * 64, {"type": "x"}, 1000.0, expires, trusted, "phase-0", packets, least, wanted)


def delivery(who: str, body: str = "body", task: str = TASK, part: str = "phase-0", record: bytes | None = b"r"):
    return ContributionDelivery(task, part, who, body.encode(), record)


def held_by(desk: PhaseQueue, task: str = TASK, now: float = 0.0) -> Held:
    held = desk.hold(task, now, now + 5)
    assert held is not None
    return held


def in_no_order(database: Database) -> None:
    """From now on rows that are asked for in no order come in none that helps."""
    ways = [f"SET enable_{way} = off" for way in ("indexscan", "indexonlyscan", "bitmapscan")]
    said = ["PRAGMA reverse_unordered_selects = on"] if database.alone else ways

    def connected(connection: Any, _: object) -> None:
        for statement in said:
            connection.execute(statement)
        connection.commit()

    database._reading.dispose()
    sa.event.listen(database._reading.pool, "connect", connected)


@pytest.mark.few(1)
def test_the_tables_are_those_that_the_code_names(database: Database) -> None:
    def found(connection: sa.Connection) -> dict[str, set[str]]:
        look = sa.inspect(connection)
        return {t: {c["name"] for c in look.get_columns(t)} for t in look.get_table_names()}

    tables = database.read(found)
    tables.pop(schema.VERSIONS.table)
    assert tables == {t.name: {c.name for c in t.columns} for t in schema.METADATA.sorted_tables}


def test_opening_again_keeps_everything(where: str, store: CoordinatorStore) -> None:
    store.add(new())
    again = Database(where)
    assert CoordinatorStore(again).standing(TASK).digest == "d" * 64
    again.close()


def test_many_may_open_a_new_database_at_once(where: str) -> None:
    opened: list[Database] = []
    threads = [threading.Thread(target=lambda: opened.append(Database(where))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 6
    for one in opened:
        one.close()


def test_so_many_tasks_of_one_requestor_are_under_way_whichever_process_put_them_up(where: str) -> None:
    processes = [CoordinatorStore(Database(where)) for _ in range(4)]
    added: list[str] = []
    together = threading.Barrier(len(processes))

    def put_up(number: int) -> None:
        together.wait()
        for place in range(3):
            task = f"{number}{place}".zfill(32)
            try:
                processes[number].add(new(task), most=5)
                added.append(task)
            except NotAllowed:
                continue

    threads = [threading.Thread(target=put_up, args=(number,)) for number in range(len(processes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(added) == processes[0].under_way("ana") == len(processes[0].entries()) == 5
    processes[0].cancel(added[0])
    processes[1].add(new(OTHER), most=5)
    with pytest.raises(NotAllowed, match="5 of your tasks are under way"):
        processes[2].add(new(TASK), most=5)
    processes[3].add(new(TASK))
    for each in processes:
        each.database.close()


def test_a_delivery_is_counted_once_however_often_it_comes(store: CoordinatorStore) -> None:
    store.add(new())
    (first,) = store.take([delivery("p")])
    again, too = store.take([delivery("p"), delivery("p")])
    assert isinstance(first, Taken)
    assert again == too == Taken(first.receipt)
    assert store.standing(TASK).accepted == 1


def test_the_first_of_two_different_bodies_is_kept(store: CoordinatorStore) -> None:
    store.add(new())
    first, other = store.take([delivery("p", "one"), delivery("p", "two")])
    assert isinstance(first, Taken)
    assert isinstance(other, Conflict)
    assert store.take([delivery("p", "one")]) == [Taken(first.receipt)]


def test_a_task_takes_exactly_what_it_wants_and_then_runs(store: CoordinatorStore) -> None:
    store.add(new(wanted=3))
    answers = store.take([delivery(name) for name in "abcde"])
    assert [isinstance(a, Taken) for a in answers] == [True, True, True, False, False]
    assert [a.closed for a in answers[:3] if isinstance(a, Taken)] == [False, False, True]
    assert all(isinstance(a, TaskClosed) for a in answers[3:])
    assert (store.standing(TASK).status, store.standing(TASK).accepted) == (Status.RUNNING, 3)


def test_a_phase_of_packets_closes_when_each_of_its_parts_is_full(store: CoordinatorStore) -> None:
    store.add(new(wanted=2, packets=2))
    first = [delivery(who, part="phase-0.packet-0") for who in "abc"]
    assert [isinstance(a, Taken) for a in store.take(first)] == [True, True, False]
    standing = store.standing(TASK)
    assert (standing.status, standing.accepted, standing.counts) == (Status.OPEN, 0, (2, 0))
    assert isinstance(store.take([delivery("a")])[0], TaskClosed)  # the phase itself is not one of its parts
    (kept, last) = store.take([delivery(who, part="phase-0.packet-1") for who in "ab"])
    assert isinstance(kept, Taken)
    assert isinstance(last, Taken)
    assert (kept.closed, last.closed) == (False, True)
    assert (store.standing(TASK).status, store.standing(TASK).counts) == (Status.RUNNING, (2, 2))


def test_a_task_from_before_there_were_packets_goes_on(database: Database, store: CoordinatorStore) -> None:
    store.add(new(wanted=2))
    store.take([delivery("a")])
    database.write(lambda connection: connection.execute(schema.TASK.update().values(counts=None)))
    assert store.standing(TASK).counts == (1,)
    store.take([delivery("b")])
    assert (store.standing(TASK).status, store.standing(TASK).counts) == (Status.RUNNING, (2,))


def test_a_packet_that_is_taken_back_is_missing_from_its_own_part(store: CoordinatorStore) -> None:
    store.add(new(wanted=2, packets=2))
    _, other = store.take([delivery("a", part=f"phase-0.packet-{packet}") for packet in (0, 1)])
    assert isinstance(other, Taken)
    store.withdraw(TASK, other.receipt)
    assert (store.standing(TASK).counts, store.standing(TASK).accepted) == ((1, 0), 0)


def test_a_repeat_is_answered_after_the_phase_closed(store: CoordinatorStore) -> None:
    store.add(new(wanted=1))
    (first,) = store.take([delivery("p")])
    (again,) = store.take([delivery("p", record=None)])
    assert isinstance(first, Taken)
    assert again == Taken(first.receipt)


def test_deliveries_to_several_tasks_are_answered_each_for_itself(store: CoordinatorStore) -> None:
    store.add(new(wanted=1))
    store.add(new(OTHER, wanted=5))
    answers = store.take(
        [
            delivery("p"),
            delivery("p", task=OTHER),
            delivery("q"),
            delivery("q", task=OTHER),
            delivery("p", task="c" * 32),
        ]
    )
    assert [type(a) for a in answers] == [Taken, Taken, TaskClosed, Taken, NotFound]


def test_a_part_that_is_not_asked_for_is_closed(store: CoordinatorStore) -> None:
    store.add(new())
    (answer,) = store.take([delivery("p", part="phase-1")])
    assert isinstance(answer, TaskClosed)


def test_threads_that_race_leave_one_contribution_of_each(store: CoordinatorStore) -> None:
    store.add(new(wanted=1000))
    receipts: set[str] = set()

    def race() -> None:
        for answer in (store.take([delivery(f"p{n}")])[0] for n in range(5)):
            assert isinstance(answer, Taken)
            receipts.add(answer.receipt)

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(receipts) == store.standing(TASK).accepted == 5


def test_what_is_withdrawn_is_gone_and_stays_gone(store: CoordinatorStore, database: Database) -> None:
    store.add(new())
    taken, _ = store.take([delivery("p"), delivery("q")])
    assert isinstance(taken, Taken)
    store.withdraw(TASK, taken.receipt)
    store.withdraw(TASK, taken.receipt)
    assert store.standing(TASK).accepted == 1
    record = database.read(
        lambda c: c.scalar(sa.select(schema.CONTRIBUTION.c.record).where(schema.CONTRIBUTION.c.contributor == "p"))
    )
    assert record is None
    assert isinstance(store.take([delivery("p")])[0], TaskClosed)


def test_nothing_is_withdrawn_from_a_closed_phase_or_by_an_unknown_receipt(store: CoordinatorStore) -> None:
    store.add(new(wanted=1))
    (taken,) = store.take([delivery("p")])
    assert isinstance(taken, Taken)
    with pytest.raises(TaskClosed):
        store.withdraw(TASK, taken.receipt)
    with pytest.raises(NotFound):
        store.withdraw(TASK, "no such receipt")
    with pytest.raises(NotFound):
        store.withdraw(OTHER, taken.receipt)


def test_the_task_list_is_one_chain_however_many_write_at_once(store: CoordinatorStore) -> None:
    names = [f"{n:032x}" for n in range(12)]
    threads = [threading.Thread(target=lambda n=n: store.add(new(n))) for n in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    listed = task_log.verify(task_log.published(task_log.new_key(), store.entries()))
    assert {entry.task_id for entry in listed.entries} == set(names)


def test_only_one_worker_holds_a_task(store: CoordinatorStore, database: Database) -> None:
    store.add(new(wanted=1))
    store.take([delivery("p")])
    one, two = PhaseQueue(database, "one"), PhaseQueue(database, "two")
    assert one.waiting(0.0) == [TASK]
    held_by(one)
    assert two.waiting(1.0) == []
    assert two.hold(TASK, 1.0, 6.0) is None
    assert two.hold(TASK, 6.0, 11.0) is not None  # the first has said nothing for too long


def test_what_a_worker_did_that_no_longer_holds_the_task_is_thrown_away(
    store: CoordinatorStore, database: Database
) -> None:
    store.add(new(wanted=1))
    store.take([delivery("p")])
    one, two = PhaseQueue(database, "one"), PhaseQueue(database, "two")
    slow = held_by(one)
    quick = held_by(two, now=6.0)
    two.conclude(quick, Concluded('{"value": 2}', Status.DONE))
    with pytest.raises(NoLongerHeld):
        one.conclude(slow, Concluded('{"value": 1}', Status.DONE))
    assert store.release(TASK) == '{"value": 2}'
    listed = [(each.task_id, each.digest) for each in store.entries()]  # once, and what was stored
    assert listed[1:] == [(listed_release(TASK, 0), digest_of_text('{"value": 2}'))]
    assert store.standing(TASK).status is Status.DONE


def test_a_worker_that_ended_puts_down_what_it_held(store: CoordinatorStore, database: Database) -> None:
    store.add(new(wanted=1))
    store.take([delivery("p")])
    held_by(PhaseQueue(database, "one"))
    PhaseQueue(database, "one").let_go()
    assert PhaseQueue(database, "two").waiting(0.0) == [TASK]


def test_records_come_in_the_order_of_pseudonyms_and_without_the_withdrawn(
    store: CoordinatorStore, database: Database
) -> None:
    store.add(new(wanted=4))
    taken = store.take([delivery(who, record=who.encode()) for who in ("d", "a", "x")])
    assert isinstance(taken[2], Taken)
    store.withdraw(TASK, taken[2].receipt)
    store.take([delivery(who, record=who.encode()) for who in ("c", "b")])
    in_no_order(database)
    desk = PhaseQueue(database, "one")
    read = [row for rows in desk.records(held_by(desk), "phase-0", 3) for row in rows]
    assert read == [("a", b"a"), ("b", b"b"), ("c", b"c"), ("d", b"d")]


def test_a_trusted_task_shows_its_end_only_when_it_is_finished(store: CoordinatorStore, database: Database) -> None:
    store.add(new(wanted=1, trusted=True))
    store.take([delivery("p")])
    desk = PhaseQueue(database, "one")
    held = held_by(desk)
    desk.conclude(held, Concluded('{"value": 1}', Status.DONE))
    assert store.standing(TASK).status is Status.RUNNING
    with pytest.raises(Conflict):
        store.cancel(TASK)  # too late: the release is stored
    desk.let_go()
    found = held_by(desk)
    assert found.following is Status.DONE
    desk.finish(found, Status.DONE)
    assert store.standing(TASK).status is Status.DONE


def test_a_next_phase_begins_empty(store: CoordinatorStore, database: Database) -> None:
    store.add(new(wanted=2))
    store.take([delivery("p"), delivery("q")])
    desk = PhaseQueue(database, "one")
    desk.conclude(held_by(desk), Concluded(None, Status.OPEN, b"memory", "phase-1", 1, 2, 2))
    standing = store.standing(TASK)
    assert (standing.status, standing.phase, standing.part, standing.accepted) == (Status.OPEN, 1, "phase-1", 0)
    assert store.snapshot(TASK, 1) == b"memory"
    assert [type(a) for a in store.take([delivery("z"), delivery("p", part="phase-1")])] == [TaskClosed, Taken]


def test_sweeping_empties_closed_phases_only(store: CoordinatorStore, database: Database) -> None:
    store.add(new(wanted=1))
    store.take([delivery("p")])
    desk = PhaseQueue(database, "one")
    desk.conclude(held_by(desk), Concluded(None, Status.OPEN, b"", "phase-1", 1, 2, 2))
    store.take([delivery("q", part="phase-1")])
    assert desk.with_leftovers() == [(TASK, False)]
    assert desk.sweep(TASK) is False
    assert desk.with_leftovers() == []
    rows = database.read(
        lambda c: c.execute(sa.select(schema.CONTRIBUTION.c.contributor, schema.CONTRIBUTION.c.record)).all()
    )
    assert dict(rows) == {"p": None, "q": b"r"}


def test_a_deadline_closes_or_expires(store: CoordinatorStore, database: Database) -> None:
    store.add(new(wanted=9, least=2, expires=50.0))
    store.add(new(OTHER, wanted=9, least=2, expires=50.0))
    store.take([delivery("p"), delivery("q"), delivery("p", task=OTHER)])
    desk = PhaseQueue(database, "one")
    assert desk.overdue(49.0) == []
    for task in desk.overdue(50.0):
        desk.end_at_deadline(task, 50.0)
    assert store.standing(TASK).status is Status.RUNNING
    assert store.standing(OTHER).status is Status.EXPIRED


def test_cancelling_ends_a_task_once_and_for_all(store: CoordinatorStore, database: Database) -> None:
    store.add(new(wanted=1))
    store.take([delivery("p")])
    desk = PhaseQueue(database, "one")
    held = held_by(desk)
    store.cancel(TASK)
    store.cancel(TASK)
    with pytest.raises(NoLongerHeld):
        desk.conclude(held, Concluded('{"value": 1}', Status.DONE))
    assert store.release(TASK) is None
    with pytest.raises(NotFound):
        store.cancel(OTHER)


def test_schemas_count_their_versions(store: CoordinatorStore) -> None:
    first, second = {"T": {"columns": {}}}, {"T": {"columns": {"a": {}}}}
    assert [store.publish("app", t) for t in (first, first, second)] == [1, 1, 2]
    assert store.schemas() == {"app": {"version": 2, "tables": second}}


@pytest.mark.parametrize(
    "address", ["sqlite:///", "sqlite:///:memory:", "sqlite:////no/such/folder/x.db", "mysql://x", ""]
)
def test_an_address_that_cannot_be_a_store_is_a_mistake(address: str) -> None:
    with pytest.raises(Mistake) as caught:
        Database(address)
    assert caught.value.argument == "--store"


@pytest.mark.postgres
def test_a_database_that_is_away_is_said_without_its_words(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        Database(f"postgresql://somebody:secret@/nothing?host={tmp_path}")
    assert "secret" not in str(caught.value)
    assert "somebody" not in str(caught.value)


def test_a_database_of_a_newer_version_is_refused(where: str, database: Database) -> None:
    database.write(lambda c: c.execute(sa.text(f"UPDATE {schema.VERSIONS.table} SET version_num = '9999'")))
    with pytest.raises(StoreUnavailable):
        Database(where)


def test_a_file_that_can_only_be_read_is_refused_before_anything_is_promised(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/coordinator.db")
    database.check_writable()
    address = f"file:{tmp_path}/coordinator.db?mode=ro"
    database._changing = sa.create_engine("sqlite://", creator=lambda: sqlite3.connect(address, uri=True))
    sa.event.listen(database._changing, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    with pytest.raises(StoreUnavailable, match=r"READONLY.*may change"):
        database.check_writable()
    database.close()
