"""Waiting for blocks that others want too: whose turn it is, what shares are even, and the log of another order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from thebes.curator.pipelines.scheduler import SchedulingRule, Turns
from thebes.ledger import Ledger
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Loss, Pure


class Room:
    """A ledger, and turns over it that may be opened again."""

    def __init__(self, folder: Path) -> None:
        self.ledger, self.now, self._folder = Ledger("memory://"), 1000.0, folder
        self.opened: list[Turns] = []
        self.days = 0

    def day(self, count: int = 1) -> None:
        for _ in range(count):
            self.days += 1
            self.ledger.open_block(f"taxi/{self.days:02}", epsilon=1, delta=1e-6)

    def turns(self, policy: str = "even", **more: Any) -> Turns:
        made = Turns(
            self._folder / f"{policy}.db", self.ledger, prefix="taxi/", policy=policy, clock=lambda: self.now, **more
        )
        self.opened.append(made)
        return made

    def pay(self, turns: Turns, who: str, names: list[str], loss: Loss) -> None:
        self.ledger.reserve(names, loss=loss, purpose="a model", spender=who).consume()
        turns.spent(who, names, loss)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path)
    yield made
    for turns in made.opened:
        turns.close()


def names(*days: int) -> list[str]:
    return [f"taxi/{day:02}" for day in days]


# --- even shares ----------------------------------------------------------------------------------------------


def test_new_blocks_are_divided_among_those_who_wait(room: Room) -> None:
    turns = room.turns()
    turns.arrive("a")
    turns.arrive("b")
    room.day(2)
    assert turns.offered("a", names(1, 2), Pure("0.5")) == tuple(names(1, 2))
    assert turns.offered("a", names(1, 2), Pure("0.51")) == ()
    turns.arrive("c")
    room.day()
    assert turns.offered("c", names(1, 2, 3), Pure("0.3")) == ("taxi/03",)
    assert turns.shares("c") == pytest.approx({"taxi/03": 1 / 3})


def test_shares_outlive_the_process_that_asked(room: Room) -> None:
    first = room.turns()
    first.arrive("a")
    first.arrive("b")
    room.day()
    first.arrive("a")
    room.pay(first, "a", names(1), Pure("0.2"))
    second = room.turns()
    assert second.shares("a") == pytest.approx({"taxi/01": 0.3})
    assert second.shares("b") == pytest.approx({"taxi/01": 0.5})


def test_an_accepted_pipeline_leaves_its_rest_to_the_others(room: Room) -> None:
    turns = room.turns()
    for who in ("a", "b", "c"):
        turns.arrive(who)
    room.day()
    room.pay(turns, "a", names(1), Pure("0.1"))
    turns.leave("a")
    assert turns.shares("b") == pytest.approx({"taxi/01": 1 / 3 + (1 / 3 - 0.1) / 2})
    assert turns.shares("a") == {}
    turns.leave("a")
    assert turns.due("b", names(1), Pure("0.4"))


def test_a_retired_block_is_offered_to_nobody(room: Room) -> None:
    turns = room.turns()
    turns.arrive("a")
    room.day(2)
    room.ledger.retire_block("taxi/01")
    assert turns.offered("a", names(2), Pure("0.5")) == ("taxi/02",)
    assert not turns.due("a", names(1, 2), Pure("0.5"))


def test_whoever_never_said_that_they_came_waits_from_now_on(room: Room) -> None:
    turns = room.turns()
    room.day()
    assert turns.offered("a", names(1), Pure("0.5")) == ("taxi/01",)


# --- whose turn -----------------------------------------------------------------------------------------------


def test_the_smallest_share_goes_first_and_the_log_says_who_came_first(room: Room) -> None:
    room.day()
    turns = room.turns("dpf", fair=4)
    assert turns.due("mouse", names(1), Pure("0.3"))
    assert not turns.due("elephant", names(1), Pure("0.9"))  # a half is unlocked, and not for it alone
    room.pay(turns, "mouse", names(1), Pure("0.3"))
    assert not turns.due("elephant", names(1), Pure("0.9"))  # the mouse has had some of it
    (waits,) = turns.queue()
    assert waits.who == "elephant"
    assert (waits.came_at, waits.turn_at) == (1000, None)
    (mouse,) = turns.past()
    assert (mouse.who, mouse.spent, mouse.turn_at, mouse.fcfs_at) == ("mouse", True, 1000, 1000)


def test_one_that_waits_alone_is_served_at_once(room: Room) -> None:
    room.day(2)
    turns = room.turns("dpf")
    assert turns.due("elephant", names(1, 2), Pure("0.9"))
    assert not turns.due("other", names(2), Pure("0.8"))
    assert not turns.due("elephant", names(1, 2), Pure("0.9"))  # both want one of its blocks now
    room.now += 3601  # the other has stopped asking
    assert turns.due("elephant", names(1, 2), Pure("0.9"))


def test_time_unlocks_what_several_wait_for_and_the_smallest_goes_first(room: Room) -> None:
    room.day()
    turns = room.turns("dpf", lifetime=1000.0)
    turns.due("elephant", names(1), Pure("0.6"))
    for passed, mouse in ((0, False), (499, False), (1, True)):
        room.now += passed
        assert turns.due("mouse", names(1), Pure("0.5")) is mouse
        assert not turns.due("elephant", names(1), Pure("0.6"))
    room.now += 100
    assert turns.due("mouse", names(1), Pure("0.5"))
    assert not turns.due("elephant", names(1), Pure("0.6"))  # six tenths are unlocked; the mouse goes first
    turns.leave("mouse")
    assert turns.due("elephant", names(1), Pure("0.6"))


def test_packing_takes_many_before_one(room: Room) -> None:
    room.day(3)
    turns = room.turns("dpack")
    for mouse in range(3):
        turns.due(f"mouse {mouse}", names(mouse + 1), Pure("0.6"))
    room.now += 60
    assert not turns.due("elephant", names(1, 2, 3), Pure("0.5"))
    assert turns.due("mouse 1", names(2), Pure("0.6"))


def test_who_came_first_is_served_first_where_that_is_the_rule(room: Room) -> None:
    room.day()
    turns = room.turns("fcfs")
    assert turns.due("elephant", names(1), Pure("0.9"))
    room.now += 60
    assert not turns.due("mouse", names(1), Pure("0.3"))


def test_nobody_waits_for_one_who_stopped_asking(room: Room) -> None:
    room.day()
    turns = room.turns("fcfs", stands=600)
    assert turns.due("elephant", names(1), Pure("0.9"))
    room.now += 601
    assert turns.due("mouse", names(1), Pure("0.3"))
    assert [one.who for one in turns.past()] == ["elephant"]
    assert not turns.past()[0].spent


def test_asking_again_for_something_else_keeps_ones_place(room: Room) -> None:
    room.day()
    turns = room.turns("fcfs")
    turns.due("a", names(1), Pure("0.9"))
    room.now += 60
    turns.due("b", names(1), Pure("0.6"))
    room.now += 60
    assert turns.due("a", names(1), Pure("0.5"))
    assert [one.who for one in turns.queue()] == ["a", "b"]
    assert turns.queue()[0].loss == Pure("0.5")


def test_a_turn_is_no_claim_and_the_ledger_has_the_last_word(room: Room) -> None:
    room.day()
    turns = room.turns("dpack")
    assert turns.due("a", names(1), Pure("0.9"))
    room.ledger.reserve(names(1), epsilon="0.5", purpose="a question", spender="ana").consume()
    assert not turns.due("a", names(1), Pure("0.9"))
    assert turns.due("a", names(1), Pure("0.5"))


def test_blocks_that_are_not_there_are_waited_for(room: Room) -> None:
    room.day()
    turns = room.turns("dpf", fair=1)
    assert not turns.due("a", names(1, 2), Pure("0.1"))
    room.day()
    assert turns.due("a", names(1, 2), Pure("0.1"))


# --- mistakes -------------------------------------------------------------------------------------------------


def test_mistakes_are_named(room: Room) -> None:
    refused: list[tuple[str, Callable[[], Any]]] = [
        ("schedule", lambda: room.turns("luck")),
        ("fair", lambda: room.turns("dpf", fair=0)),
        ("lifetime", lambda: room.turns("dpf", lifetime=0.0)),
    ]
    for named, call in refused:
        with pytest.raises(Mistake) as mistake:
            call()
        assert mistake.value.argument == named
    assert set(SchedulingRule) == {"even", "dpf", "dpack", "fcfs"}
