"""From consent to receipt: set aside, computed once, consumed, sent; and killed at every step on the way."""

from __future__ import annotations

import itertools
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.coordinator_in_memory import CoordinatorInMemory
from tests.support.person import killed
from thebes.data.rows import Rows
from thebes.data.store import Store
from thebes.ledger import Budget, BudgetExceeded, Ledger
from thebes.ledger.amounts import Amount
from thebes.person.budget import budget
from thebes.person.home import TASK_STORE, Person
from thebes.person.participation import worker
from thebes.person.participation.participation import AFTER, ParticipationState
from thebes.person.tasks.decisions import NothingToSend
from thebes.person.tasks.task_feed import NotListed
from thebes.person.tasks.task_store import TaskStore
from thebes.privacy.faults import Refusal
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import system
from thebes.sharing import HelperIdentity, SealingKey, bound_to, context_of
from thebes.simulation import example
from thebes.tasks import registry
from thebes.tasks.basic.aggregator import BasicAggregator
from thebes.tasks.protocols import Ask, Setting, TaskClosed
from thebes.wire import frames
from thebes.wire import task_log as wire_log
from thebes.wire.refusals import BrokenLog, Conflict, NotAllowed, NotFound, Unreachable

AGE = {"age": {"type": "range", "low": 0.0, "high": 100.0}}


def median(**more: Any) -> dict[str, Any]:
    return {
        "type": "basic",
        "epsilon": 1.0,
        "delta": 1e-5,
        "min_count": 20,
        "featurizer": "SELECT age FROM profile.demographics",
        "aggregator": "median",
        "bounds": AGE,
        **more,
    }


def bounded(**more: Any) -> dict[str, Any]:
    return {
        "type": "bounded",
        "epsilon": 1.0,
        "min_count": 20,
        "featurizer": "SELECT species, age FROM profile.pets",
        "bounds": {"species": {"type": "set", "values": ["cat", "dog"], "default": "dog"}, **AGE},
        **more,
    }


def gradient(**more: Any) -> dict[str, Any]:
    import torch

    from thebes.torch import encode

    model, loss = encode(torch.nn.Linear(2, 1), torch.nn.MSELoss())
    return {
        "type": "gradient",
        "epsilon": 4.0,
        "delta": 1e-5,
        "server": "untrusted",
        "min_count": 1,
        "featurizer": "SELECT x0, x1, z FROM profile.example",
        "inputs": ["x0", "x1"],
        "outputs": ["z"],
        "model": model,
        "loss": loss,
        **more,
    }


@pytest.fixture
def server() -> CoordinatorInMemory:
    return CoordinatorInMemory()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def me(home: Path, server: CoordinatorInMemory) -> Iterator[Person]:
    person = Person(home, client=server, delay=False)  # type: ignore[arg-type]
    example.fill(person, seed=4)
    yield person
    person.close()


@pytest.fixture
def quick_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows.one_each({"age": [37.0]})
    monkeypatch.setattr(Store, "featurize", lambda self, sql, most_rows=1: rows)


@pytest.fixture
def quick_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same arithmetic without a confined child, where confinement is not what is tested."""
    from thebes.tasks.gradient import owner

    monkeypatch.setattr(owner, "OWNER", owner.SIMULATED)


@pytest.fixture
def quick_computing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seconds that hide how long it takes pass in this world and not by the clock in hand."""
    monkeypatch.setattr(worker, "COMPUTING_SECONDS", 0.0)


@contextmanager
def kept(home: Path) -> Iterator[sqlite3.Connection]:
    """Open what a home has written down about its participations, as whoever holds the file reads and changes it."""
    with closing(sqlite3.connect(home / TASK_STORE)) as file, file:
        yield file


def due_at(home: Path) -> list[float]:
    """The moments before which nothing is sent, by participation."""
    with kept(home) as task_store:
        return [due for (due,) in task_store.execute("SELECT due_at FROM participation ORDER BY id")]


def spent(person: Person, trust: str = "trusted") -> dict[str, float]:
    return dict(person.ledger()[trust]["overall"]["spent"])


def nothing_reserved(person: Person) -> bool:
    view = person.ledger()
    return all(view[t][b]["reserved"]["epsilon"] == 0 for t in ("local", "trusted") for b in ("period", "overall"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "trust", "price"),
    [
        (median, "trusted", (1.0, 1e-5)),
        (bounded, "local", (1.0, 0.0)),
        (gradient, "local", (4.0, 1e-5)),
        (
            lambda: {
                "type": "integrated",
                "epsilon": 10.0,
                "min_count": 20,
                "featurizer": "SELECT x0, x1, y FROM profile.example",
                "model": "GaussianNB",
                "inputs": ["x0", "x1"],
                "output": "y",
                "bounds": {
                    **{c: {"type": "range", "low": -4.0, "high": 4.0} for c in ("x0", "x1")},
                    "y": {"type": "set", "values": [0, 1]},
                },
            },
            "trusted",
            (10.0, 0.0),
        ),
    ],
    ids=["basic", "bounded", "gradient", "integrated"],
)
def test_accepting_ends_in_one_contribution_and_one_charge(
    me: Person,
    server: CoordinatorInMemory,
    document: Callable[[], dict[str, Any]],
    trust: str,
    price: tuple[float, float],
) -> None:
    task = server.post(document())
    offered = next(t for t in me.tasks() if t["task_id"] == task)
    assert (offered["price"]["epsilon"], offered["price"]["delta"]) == price
    assert offered["state"] == "seen"
    assert me.accept(task)["state"] == "reserved"
    assert me.wait(task)["state"] in ("sent", "done")
    assert len(server.heard) == len(server.bodies) == 1
    assert spent(me, trust) == {"epsilon": price[0], "delta": price[1]}
    assert spent(me, "local" if trust == "trusted" else "trusted")["epsilon"] == 0
    assert nothing_reserved(me)


def test_an_owners_half_and_the_aggregator_agree_on_every_layout(server: CoordinatorInMemory) -> None:
    for document in (median(), bounded(), gradient(), median(diagnostics=0.1), bounded(mechanism="auto")):
        checked = registry.check(document)
        task = server.post(document)
        aggregator = server.aggregators[task]
        ask = aggregator.ask("x")
        assert isinstance(ask, Ask)
        assert registry.owner(checked).layout(checked, ask) == aggregator.layout(ask.part)


def test_accepting_reserves_before_anything_is_asked(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post(median())
    me.accept(task)
    assert me.ledger()["trusted"]["period"]["reserved"] == {"epsilon": 1.0, "delta": 1e-5}
    assert spent(me)["epsilon"] == 0
    assert server.bodies == []


def test_the_share_is_consumed_before_the_first_byte_leaves(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post(median())
    seen: list[float] = []
    server.before = lambda what: seen.append(spent(me)["epsilon"]) if what == "submit" else None
    me.accept(task)
    me.wait(task)
    assert seen == [1.0]


def test_a_second_participation_is_a_conflict_and_costs_nothing(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post(median())
    me.accept(task)
    with pytest.raises(Conflict, match="not finished"):
        me.accept(task)
    me.wait(task)
    with pytest.raises(Conflict, match="1 participation"):
        me.accept(task)
    assert spent(me)["epsilon"] == 1.0
    assert nothing_reserved(me)


@pytest.mark.usefixtures("quick_gradients")
def test_a_gradient_task_of_two_rounds_takes_two_participations_within_its_price(
    me: Person, server: CoordinatorInMemory
) -> None:
    task = server.post(gradient(rounds=3, rounds_per_owner=2))
    me.accept(task)
    me.wait(task)
    assert spent(me, "local")["epsilon"] == 2.0
    me.accept(task)
    me.wait(task)
    assert spent(me, "local") == {"epsilon": 4.0, "delta": 1e-5}
    assert sorted(part for _, part, _ in server.heard) == ["phase-0", "phase-1"]
    with pytest.raises(Conflict, match="2 participations"):
        me.accept(task)


@pytest.mark.usefixtures("quick_gradients")
def test_a_second_round_waits_until_the_first_has_closed(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post(gradient(rounds=2, rounds_per_owner=2, min_count=2))
    me.accept(task)
    me.wait(task)
    me.accept(task)
    me.turn()
    assert len(server.bodies) == 1
    assert me.participations()[-1]["state"] == "reserved"


def test_more_than_the_budget_is_refused_and_leaves_everything_untouched(
    me: Person, server: CoordinatorInMemory
) -> None:
    me.set_settings({"trusted": {"epsilon": 1.5}})
    first, second = server.post(median()), server.post(median(name="second"))
    me.accept(first)
    me.wait(first)
    before = me.ledger()
    with pytest.raises(BudgetExceeded) as refused:
        me.accept(second)
    assert refused.value.remaining.epsilon == 0.5
    assert me.ledger() == before
    assert [p["task_id"] for p in me.participations()] == [first]
    me.set_settings({"trusted": {"epsilon": 2}})
    me.accept(second)
    me.wait(second)
    assert spent(me)["epsilon"] == 2.0


def test_a_requestors_cap_holds_for_that_requestor_only(me: Person, server: CoordinatorInMemory) -> None:
    me.set_settings({"caps": {"ana": {"epsilon": 1.5}, "*": {"epsilon": 0.5}}})
    tasks = [server.post(median(name=n), requestor=n) for n in ("ana", "bert")]
    again = server.post(median(name="again"), requestor="ana")
    me.accept(tasks[0])
    for refused in (tasks[1], again):
        with pytest.raises(BudgetExceeded):
            me.accept(refused)
    me.set_settings({"caps": {"*": {"epsilon": 0.5}, "ana": {"epsilon": 2}}})
    me.accept(again)


def test_nothing_is_computed_for_a_task_that_closed_before_it_was_asked(
    me: Person, server: CoordinatorInMemory
) -> None:
    task = server.post(median())
    me.accept(task)
    server.end(task, "cancelled")
    assert me.wait(task)["state"] == "closed"
    assert server.bodies == []
    assert spent(me)["epsilon"] == 0
    assert nothing_reserved(me)


@pytest.mark.usefixtures("quick_computing")
def test_what_waited_long_is_not_sent_to_a_closed_task(home: Path, server: CoordinatorInMemory) -> None:
    now = [1_800_000_000.0]
    with Person(home, client=server, clock=lambda: now[0]) as me:  # type: ignore[arg-type]
        example.fill(me, seed=4)
        task = server.post(median())
        me.accept(task)
        me.turn()
        assert me.participations()[0]["state"] == "computed"
        assert server.bodies == []
        server.end(task, "expired")
        now[0] += 1000
        me.turn()
        assert me.participations()[0]["state"] == "closed"
        assert spent(me)["epsilon"] == 0
        assert server.bodies == []
        assert nothing_reserved(me)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_computing")
def test_the_moment_of_sending_is_drawn_at_consent_and_kept(home: Path, server: CoordinatorInMemory) -> None:
    now = [1_800_000_000.0]
    with Person(home, client=server, clock=lambda: now[0]) as me:  # type: ignore[arg-type]
        example.fill(me, seed=4)
        tasks = [server.post(median(name=str(i), epsilon=0.1)) for i in range(20)]
        for task in tasks:
            me.accept(task)
        due = due_at(home)
        assert all(d is not None and now[0] + 5 <= d <= now[0] + 125 for d in due)
        assert len(set(due)) >= 17  # of a million moments: fewer less than once in 10^11
        me.turn()
        assert server.bodies == []
        now[0] += 126
        me.turn()
        assert len(server.bodies) == 20
        assert due_at(home) == due


@pytest.mark.parametrize("busy", [0.0, 0.3])
def test_how_long_reading_took_shows_nowhere(
    home: Path, server: CoordinatorInMemory, monkeypatch: pytest.MonkeyPatch, busy: float
) -> None:
    """Neither this contribution nor the one behind it leaves earlier or later by what the rows did. Time passes while
    rows are read and while something is held back, and at no other moment."""
    monkeypatch.setattr(worker, "COMPUTING_SECONDS", 0.6)
    passed = [100.0]

    class Held:
        def wait(self, seconds: float) -> bool:
            passed[0] += seconds
            return False

        def set(self) -> None: ...

    def slowly(self: Store, sql: str, most_rows: int = 1) -> Rows:
        passed[0] += busy
        return Rows.one_each({"age": [37.0]})

    now, left = time.time(), []
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: passed[0]))
    monkeypatch.setattr(worker, "threading", SimpleNamespace(Event=Held, Lock=threading.Lock))
    with Person(home, client=server, clock=lambda: now) as me:  # type: ignore[arg-type]
        example.fill(me, seed=4)
        for name in ("a", "b"):
            me.accept(server.post(median(name=name, epsilon=0.5)))
        monkeypatch.setattr(Store, "featurize", slowly)
        server.before = lambda what: left.append(passed[0] - 100) if what == "submit" else None
        now += 200  # both are due
        me.turn()
    assert left == pytest.approx([0.6, 1.2])


@pytest.mark.parametrize("began", [100.0, 101.75])
def test_how_long_a_computation_is_held_does_not_count_from_when_reading_ended(
    monkeypatch: pytest.MonkeyPatch, began: float
) -> None:
    monkeypatch.setattr(budget.time, "monotonic", lambda: began)
    claim = budget.PacketClaim(SimpleNamespace(remaining=None))  # type: ignore[arg-type]
    claim.hold(began + 20.0)
    assert claim.held == 20.0


def test_a_process_that_ends_sends_nothing_that_is_held_back(
    home: Path, server: CoordinatorInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "COMPUTING_SECONDS", 3600.0)
    now = time.time()
    me = Person(home, client=server, clock=lambda: now)  # type: ignore[arg-type]
    example.fill(me, seed=4)
    task = server.post(median())
    me.accept(task)
    now += 200
    me.start()
    end = time.monotonic() + 120
    while me.participations()[0]["state"] != "computed" and time.monotonic() < end:
        time.sleep(0.02)
    began = time.monotonic()
    me.close()
    assert time.monotonic() - began < 120
    assert server.bodies == []


def test_too_late_is_still_paid_for(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post(median())
    server.before = lambda what: server.end(task, "expired") if what == "submit" else None
    me.accept(task)
    assert me.wait(task)["state"] == "closed"
    assert spent(me)["epsilon"] == 1.0


def test_a_refusal_by_the_server_ends_it_and_the_charge_stays(me: Person, server: CoordinatorInMemory) -> None:
    def refuse(what: str) -> None:
        if what == "submit":
            raise NotAllowed("not you")

    task = server.post(median())
    server.before = refuse
    me.accept(task)
    ended = me.wait(task)
    assert (ended["state"], spent(me)["epsilon"]) == ("refused", 1.0)
    assert "not you" in ended["note"]


def test_a_lost_receipt_is_fetched_with_the_same_bytes(me: Person, server: CoordinatorInMemory) -> None:
    lost = itertools.count()

    def lose(what: str) -> None:
        if what == "submit" and next(lost) < 3:
            raise Unreachable(server.url, "the connection broke")

    server.after = lose
    task = server.post(bounded())
    me.accept(task)
    assert me.wait(task)["state"] == "sent"
    assert len(server.bodies) >= 2
    assert len(set(server.bodies)) == 1
    assert spent(me, "local")["epsilon"] == 1.0


class Killed(BaseException):
    """The process ends here."""


class Fuse:
    """Counts everything durable or visible outside, and kills the process at one of these moments."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.passed = 0

    def burn(self) -> None:
        self.passed += 1
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                raise Killed

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **named: Any) -> Any:
            self.burn()
            result = function(*arguments, **named)
            self.burn()
            return result

        return wrapped


@pytest.mark.slow
@pytest.mark.usefixtures("quick_rows")
def test_killed_at_every_single_moment_nothing_is_lost_counted_twice_or_drawn_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fuse = Fuse()
    monkeypatch.setattr(TaskStore, "_write", fuse.around(TaskStore._write))
    monkeypatch.setattr(Ledger, "_write", fuse.around(Ledger._write))

    def world(name: str) -> tuple[Path, CoordinatorInMemory, str]:
        server = CoordinatorInMemory()
        server.before = server.after = lambda what: fuse.burn()
        return tmp_path / name, server, server.post(median())

    def live(home: Path, server: CoordinatorInMemory, task: str) -> str:
        person = Person(home, client=server, delay=False)  # type: ignore[arg-type]
        try:
            if not any(p["state"] != "seen" for p in person.participations()):
                person.accept(task)  # nobody was told that it had been accepted
            for _ in range(5):
                person.turn()
            return str(person.participations()[0]["state"])
        finally:
            killed(person)

    fuse.left = None
    assert live(*world("calm")) == "sent"
    moments = fuse.passed
    assert moments > 20
    for moment in range(1, moments + 1):
        home, server, task = world(f"killed-{moment}")
        fuse.left = moment
        with pytest.raises(Killed):
            live(home, server, task)
        fuse.left = None
        assert live(home, server, task) == "sent"
        assert len(server.heard) == 1
        assert len(set(server.bodies)) == 1
        with Person(home, client=server, delay=False) as again:  # type: ignore[arg-type]
            assert spent(again) == {"epsilon": 1.0, "delta": 1e-5}
            assert nothing_reserved(again)
            assert again.verify()["whole"]


def test_noise_is_drawn_once_even_when_killed_between_tries(home: Path, server: CoordinatorInMemory) -> None:
    def die(what: str) -> None:
        if what == "submit":
            raise Killed

    server.after = die
    task = server.post(bounded())
    for attempt in range(3):
        person = Person(home, client=server, delay=False)  # type: ignore[arg-type]
        example.fill(person, seed=4)
        if attempt == 0:
            person.accept(task)
        else:
            server.after = lambda what: None
        try:
            person.turn()
        except Killed:
            assert person.participations()[0]["state"] == "sending"
        killed(person)
    assert len(set(server.bodies)) == 1
    assert len(server.bodies) == 2


@pytest.mark.usefixtures("quick_computing")
def test_a_value_that_waits_to_be_sent_does_not_lie_in_the_clear(home: Path, server: CoordinatorInMemory) -> None:
    now = [1_800_000_000.0]
    with Person(home, client=server, clock=lambda: now[0]) as me:  # type: ignore[arg-type]
        me.register("profile", {"tables": example.TABLES})
        row = {"age": 73.25, "gender": "Female", "city": "Thebes", "income": 1.0, "education": 9}
        me.insert("profile", "demographics", [row])
        task = server.post(median())
        me.accept(task)
        me.turn()
        assert me.participations()[0]["state"] == "computed"
        for path in home.rglob("*"):
            if path.is_file():
                assert b"73.25" not in path.read_bytes(), path.name
        now[0] += 1000
        me.turn()
        assert b"73.25" in server.bodies[0]  # which is what waited


def test_the_bytes_are_gone_once_the_receipt_is_there(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post(median())
    me.accept(task)
    me.wait(task)
    with kept(me.home) as task_store:
        assert task_store.execute("SELECT body, receipt IS NOT NULL FROM sending").fetchall() == [(b"", 1)]


@pytest.mark.slow
@pytest.mark.usefixtures("quick_gradients")
def test_a_featurizer_that_fails_after_consent_sends_something_of_the_same_size(
    me: Person, server: CoordinatorInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for document in (median(), bounded(), gradient(min_count=20)):
        working, failing = server.post({**document, "name": "a"}), server.post({**document, "name": "b"})
        me.accept(working)
        me.accept(failing)
        me.turn()
        states = {p["task_id"]: p["state"] for p in me.participations()}
        assert states[working] == states[failing] == "sent"
    sizes = {len(body) for body in server.bodies[:2]}, {len(body) for body in server.bodies[2:4]}
    other = server.post(median(name="c"))
    me.accept(other)

    def broken(self: Store, sql: str, most_rows: int = 1) -> Rows:
        raise RuntimeError("the sandbox is gone")

    monkeypatch.setattr(Store, "featurize", broken)
    me.turn()
    assert {len(server.bodies[-1])} == sizes[0]
    assert json.loads(server.bodies[-1])["payload"] == {"age": 50.0}
    assert spent(me)["epsilon"] == 3.0
    local = server.post(bounded(name="d"))
    monkeypatch.undo()
    me.accept(local)
    monkeypatch.setattr(Store, "featurize", broken)
    me.turn()
    assert {len(server.bodies[-1])} == sizes[1]


def test_who_lacks_the_value_is_told_before_accepting_and_nothing_changes(
    me: Person, server: CoordinatorInMemory
) -> None:
    task = server.post(median(featurizer="SELECT age FROM profile.elsewhere"))
    before = me.ledger()
    with pytest.raises(NothingToSend):
        me.accept(task)
    assert (me.ledger(), me.participations()) == (before, [])


@pytest.mark.usefixtures("quick_gradients")
def test_preview_shows_exactly_the_rows_and_leaves_no_trace(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post(median())
    before = len(server.bodies)
    shown = me.preview(task)
    assert shown["columns"] == ["age"]
    assert len(shown["rows"]) == 1
    assert shown["able"] is True
    assert (len(server.bodies), me.participations()) == (before, [])
    pets = server.post(gradient())
    assert me.preview(pets)["rows"][0].keys() == {"x0", "x1", "z"}


def test_only_the_first_row_is_shown_where_only_one_is_read(me: Person, server: CoordinatorInMemory) -> None:
    me.insert("profile", "pets", [{"species": "dog", "age": 1.0}, {"species": "dog", "age": 2.0}])
    assert len(me.preview(server.post(bounded()))["rows"]) == 1


# --- consent ----------------------------------------------------------------------------------------------------


def test_a_task_that_is_not_in_the_signed_list_is_neither_shown_nor_answered(
    me: Person, server: CoordinatorInMemory
) -> None:
    hidden, listed = server.post(median(), listed=False), server.post(median(name="listed"))
    assert [t["task_id"] for t in me.tasks()] == [listed]
    with pytest.raises(NotListed):
        me.accept(hidden)
    assert me.participations() == []


def test_a_task_without_any_noise_is_neither_shown_nor_answered(me: Person, server: CoordinatorInMemory) -> None:
    """A coordinator that keeps to its rules never lists one; whatever its price says, it would be the row itself."""
    bare = {
        "type": "draw-discard",
        "epsilon": 0.001,
        "min_count": 20,
        "featurizer": "SELECT age, income FROM profile.demographics",
        "family": "linear",
        "inputs": ["age"],
        "output": "income",
        "bounds": {
            "age": {"type": "range", "low": 0, "high": 100},
            "income": {"type": "range", "low": 0, "high": 1e6},
        },
        "mechanism": "none",
    }
    task = server.post(bare)
    assert me.tasks() == []
    with pytest.raises(NotListed, match="adds no noise"):
        me.accept(task)
    assert me.participations() == []


def test_a_task_of_two_servers_is_neither_shown_nor_answered(
    me: Person, server: CoordinatorInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can tell yet that its second server is another institution's: a coordinator that breaks its own rules, and
    puts up such a task, would hold both shares."""
    monkeypatch.setattr("thebes.tasks.basic.split_answer.SplitLeader", BasicAggregator)
    task = server.post({**median(), "server": "split", "bins": 10})
    assert me.tasks() == []
    with pytest.raises(NotListed, match="name the site of a second institution"):
        me.accept(task)
    assert me.participations() == []


@pytest.mark.parametrize("moment", ["before computing", "before sending", "never"])
def test_a_helpers_key_is_looked_at_again_before_computing_and_before_sending(
    me: Person, server: CoordinatorInMemory, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Days may lie between a yes and its bytes, in which the person learns of another key."""
    helper = HelperIdentity.from_bytes(HelperIdentity.new())
    two = {"server": "split", "bins": 10, "delta": 0.0, "helper": "ward", "helper_key": helper.fingerprint}
    document = registry.check(median(**two))
    task = server.post(document.as_json())
    shown = helper.shown(
        SealingKey.generate().public, bound_to(task, context_of(bytes.fromhex(document.digest), "phase-0"))
    )
    setting = Setting(Unit.DEVICE, system(), helper={**shown, "verify_key": "0" * 64})
    server.aggregators[task] = registry.aggregator(document, setting)
    read = Store.featurize

    def another() -> None:
        me.forget_helper("ward")
        me.set_settings({"helpers": {"ward": "f" * 64}})

    def meanwhile(store: Store, sql: str, most_rows: int = 1000) -> Rows:
        another()
        return read(store, sql, most_rows=most_rows)

    me.confirm_helper(task, helper.fingerprint)
    me.accept(task)
    if moment == "before computing":
        server.after = lambda what: another() if what == "ask" else None
        monkeypatch.setattr(Store, "featurize", None)  # no row is read
    elif moment == "before sending":
        monkeypatch.setattr(Store, "featurize", meanwhile)
    me.turn()
    [mine] = me.participations()
    if moment == "never":
        assert len(server.bodies) == 1
        return
    assert (mine["state"], server.bodies) == ("failed", [])
    assert "not the one that you confirmed" in mine["note"]
    assert spent(me)["epsilon"] == 0
    assert me.ledger()["trusted"]["period"]["reserved"]["epsilon"] == 0


@pytest.mark.parametrize(
    "change",
    [{"epsilon": 0.5}, {"min_count": 21}, {"featurizer": "SELECT income FROM profile.demographics"}, {"name": "other"}],
)
def test_a_document_that_differs_from_the_listed_one_is_refused(
    me: Person, server: CoordinatorInMemory, change: dict[str, Any]
) -> None:
    task = server.post(median())
    changed = {**server.documents[task], **change}
    if "featurizer" in change:
        changed["bounds"] = {"income": changed["bounds"]["age"]}
    server.documents[task] = changed
    assert me.tasks() == []
    with pytest.raises(NotListed):
        me.accept(task)


def test_another_key_or_a_rewritten_list_is_refused(me: Person, server: CoordinatorInMemory) -> None:
    server.post(median())
    assert len(me.tasks()) == 1
    honest, server.key = server.key, wire_log.new_key()
    server.post(median(name="second"))
    with pytest.raises(BrokenLog):
        me.tasks()
    server.key = honest
    assert len(me.tasks()) == 2
    first = server.entries[0]
    server.entries = [wire_log.TaskLogEntry.after(None, first.task_id, "0" * 64)]
    server.post(median(name="third"))
    with pytest.raises(BrokenLog):
        me.tasks()


@pytest.mark.parametrize(("epsilon", "delta"), [(0.75, 0.0), (0.25, 1e-6)])
def test_no_contribution_costs_more_than_was_set_aside_for_it(epsilon: float, delta: float) -> None:
    claim = budget.PacketClaim(SimpleNamespace(remaining=Budget(Amount("1"), Amount("0.000001"))))  # type: ignore[arg-type]
    claim.consume(epsilon=0.5, delta=5e-7)
    with pytest.raises(Refusal, match="more than was set aside"):
        claim.consume(epsilon=epsilon, delta=delta)


@pytest.mark.parametrize("epsilon", [9.0, 1.0])
def test_consent_to_one_document_is_none_to_another(me: Person, server: CoordinatorInMemory, epsilon: float) -> None:
    task, other = server.post(median()), server.post(median(epsilon=epsilon, name="other"))
    me.accept(task)
    other_digest = registry.check(server.documents[other]).digest
    with kept(me.home) as task_store:
        task_store.execute("INSERT INTO document VALUES (?, ?)", (other_digest, json.dumps(server.documents[other])))
        task_store.execute("UPDATE participation SET digest = ?", (other_digest,))
    assert me.wait(task)["state"] == "failed"
    assert server.bodies == []
    assert nothing_reserved(me)


def test_words_that_hide_or_reorder_are_taken_out_of_what_is_shown(me: Person, server: CoordinatorInMemory) -> None:
    hostile = "safe\u202e evil\u200b \u0007\u2066x\ufeff"
    task = server.post(median(name=hostile, purpose=hostile))
    shown = next(t for t in me.tasks() if t["task_id"] == task)
    for text in (shown["name"], shown["explanation"]):
        assert not set("\u202e\u200b\u0007\u2066\ufeff") & set(text)
    assert shown["name"] == "safe evil x"


def test_values_are_not_sent_as_they_are_over_a_wire_that_others_can_read(tmp_path: Path) -> None:
    far = CoordinatorInMemory("http://coordinator.example:8000")
    with Person(tmp_path / "far", client=far, delay=False) as me:  # type: ignore[arg-type]
        example.fill(me, seed=4)
        trusted, local = far.post(median()), far.post(bounded())
        with pytest.raises(NotAllowed, match="https"):
            me.accept(trusted)
        assert me.accept(local)["state"] == "reserved"


@pytest.mark.usefixtures("quick_gradients")
def test_a_pseudonym_is_kept_for_one_task_and_never_used_for_another(me: Person, server: CoordinatorInMemory) -> None:
    tasks = [server.post(gradient(rounds=2, rounds_per_owner=2)), server.post(bounded())]
    for task in (tasks[0], tasks[0], tasks[1]):
        me.accept(task)
        me.wait(task)
    names = {(task, contributor) for task, _, contributor in server.heard}
    assert len(names) == 2
    assert len({contributor for _, contributor in names}) == 2
    assert all(len(contributor) == 32 for _, contributor in names)


# --- saying no, and taking back ------------------------------------------------------------------------------------


def test_declining_costs_nothing_and_may_be_reconsidered(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post(median())
    assert me.decline(task)["state"] == me.decline(task)["state"] == "declined"
    me.turn()
    assert (server.bodies, spent(me)["epsilon"]) == ([], 0)
    me.accept(task)
    assert me.wait(task)["state"] == "sent"
    with pytest.raises(Conflict):
        me.decline(task)


@pytest.mark.usefixtures("quick_computing")
def test_withdrawn_before_sending_costs_nothing(home: Path, server: CoordinatorInMemory) -> None:
    with Person(home, client=server) as me:  # type: ignore[arg-type]
        example.fill(me, seed=4)
        task = server.post(median())
        me.accept(task)
        me.turn()
        assert me.withdraw(task)["state"] == "withdrawn"
        assert (spent(me)["epsilon"], server.bodies) == (0, [])
        assert nothing_reserved(me)


def test_withdrawn_after_sending_is_destroyed_there_and_stays_charged(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post(median())
    me.accept(task)
    me.wait(task)
    assert me.withdraw(task)["state"] == "withdrawn"
    assert server.heard == {}
    assert spent(me)["epsilon"] == 1.0
    with pytest.raises(Conflict):
        me.withdraw(task)
    with pytest.raises(Conflict):
        me.accept(task)
    with pytest.raises(NotFound):
        me.withdraw("unknown")


def test_withdrawing_after_the_phase_closed_is_too_late(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post(median(min_count=1))
    me.accept(task)
    me.turn()
    with pytest.raises(TaskClosed):
        me.withdraw(task)
    assert me.participations()[0]["state"] == "sent"


def test_the_result_is_kept_to_be_shown(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post(median(min_count=1))
    me.accept(task)
    told = me.wait(task, state="done")
    assert told["state"] == "done"
    assert 0 <= told["result"]["value"] <= 100
    cancelled = server.post(median(name="other"))
    me.accept(cancelled)
    me.wait(cancelled)
    server.end(cancelled, "cancelled")
    assert me.wait(cancelled, state="done")["state"] == "closed"


def test_that_the_coordinator_knows_a_task_no_longer_is_said_and_ends_nothing(
    me: Person, server: CoordinatorInMemory
) -> None:
    task = server.post(median())
    me.accept(task)
    me.wait(task)
    known = server.status.pop(task)
    for _ in range(2):
        me.poll()
        (mine,) = me.participations()
        assert (mine["state"], mine["note"]) == ("sent", worker.FORGOTTEN)
        assert mine["receipts"]
    with pytest.raises(Refusal, match="still sent: the coordinator no longer knows"):
        me.wait(task, state="done", timeout=0)
    server.status[task] = known  # it was brought back from a copy in which the task is
    me.poll()
    assert [p["note"] for p in me.participations()] == [""]
    server.end(task, "cancelled")
    me.poll()
    assert me.participations()[0]["state"] == "closed"


@pytest.mark.usefixtures("quick_gradients")
def test_a_large_contribution_travels_as_a_frame(me: Person, server: CoordinatorInMemory) -> None:
    import torch

    from thebes.torch import encode

    model, loss = encode(torch.nn.Sequential(torch.nn.Linear(2, 4000), torch.nn.Linear(4000, 1)), torch.nn.MSELoss())
    task = server.post(gradient(model=model, loss=loss, mechanism="gaussian", min_count=20))
    me.accept(task)
    assert me.wait(task)["state"] == "sent"
    assert server.bodies[0].startswith(frames.MAGIC)


def test_every_state_is_documented_and_can_be_reached_or_begins() -> None:
    reached = set().union(*AFTER.values())
    assert set(ParticipationState) - reached == {ParticipationState.SEEN}
    page = (Path(__file__).parents[2] / "docs" / "person.md").read_text(encoding="utf-8")
    assert not [state for state in ParticipationState if f"`{state}`" not in page]


def test_an_owner_who_never_pays_is_stopped(
    me: Person, server: CoordinatorInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from thebes.tasks.basic.owner import BasicOwner
    from thebes.tasks.contributions import Contributions

    def free(self: object, document: Any, ask: Any, rows: Any, claim: Any, *, randomness: Any) -> Contributions:
        return Contributions(ask.part, 1, {"age": np.array([1.0])})

    monkeypatch.setattr(BasicOwner, "contribute", free)
    task = server.post(median())
    me.accept(task)
    assert me.wait(task)["state"] == "failed"
    assert server.bodies == []
