"""Pipelines that want the same blocks: each has its share or its turn, and never more than its blocks can pay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from tests.support.pipelines import Home, Lines
from thebes.curator.pipelines.attempt_store import PipelineRun, RunState
from thebes.curator.pipelines.scheduler import Turns
from thebes.curator.pipelines.validators import Verdict
from thebes.privacy.losses import Pure


class Hopeless(Lines):
    name = "hopeless"
    targets = {"mse": 1e-9}  # noqa: RUF012


class Modest(Lines):
    targets = {"mse": 0.5}  # noqa: RUF012


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path, epsilon="1")
    yield made
    made.close()


def turns(home: Home, policy: str) -> Turns:
    where = home.folder / f"{policy}.db"
    return Turns(where, home.ledger, prefix="rides/", policy=policy, clock=lambda: home.now.timestamp())


def run(home: Home, pipeline: Lines, room: Turns) -> PipelineRun:
    runner = home.runner()
    runner.turns = room
    return runner.run(pipeline)


def test_two_that_wait_have_half_of_each_new_block(home: Home) -> None:
    with closing(turns(home, "even")) as room:
        room.arrive("hopeless")
        room.arrive("lines")
        home.grow(4)
        tried = run(home, Hopeless(), room)
        assert (tried.state, tried.verdict) == (RunState.OPEN, Verdict.RETRY)
        assert 0 < max(home.spent().values()) <= Decimal("0.5")
        before = room.shares("hopeless")
        accepted = run(home, Modest(), room)
        assert accepted.verdict == Verdict.ACCEPT
        assert room.shares("lines") == {}  # what it left is the other's
        after, (trained,) = room.shares("hopeless"), home.workspace.attempts.attempts(accepted.id)
        for block in home.stream.blocks():
            paid = float(trained.epsilon) if block.name in trained.blocks else 0.0
            assert after[block.name] == pytest.approx(before.get(block.name, 0.0) + 0.5 - paid)
        assert run(home, Hopeless(), room).id == tried.id
        assert max(home.spent().values()) <= 1


def test_a_pipeline_waits_for_its_turn_and_says_so(home: Home) -> None:
    class Large(Lines):
        name = "large"
        epsilon, start_epsilon = "0.9", "0.9"

    home.grow(2)
    with closing(turns(home, "dpf")) as room:  # a twentieth of a block is unlocked by each that asks for it
        room.due("other", [block.name for block in home.stream.blocks()], Pure("0.5"))
        waits = run(home, Large(), room)
        assert (waits.state, waits.verdict) == (RunState.OPEN, Verdict.RETRY)
        assert "turn" in waits.reason
        assert set(home.spent().values()) == {0}
        assert {one.who: one.turn_at is None for one in room.queue()} == {"other": False, "large": True}
        room.leave("other")
        assert run(home, Large(), room).id == waits.id
        assert max(home.spent().values()) == Decimal("0.9")  # nobody else wants them now


def test_a_run_that_has_ended_waits_no_longer(home: Home) -> None:
    home.grow(8)
    with closing(turns(home, "dpack")) as room:
        assert run(home, Lines(), room).verdict == Verdict.ACCEPT
        assert room.queue() == []
        assert all(one.spent for one in room.past())
        assert len(room.past()) == len(home.workspace.attempts.attempts(1))
