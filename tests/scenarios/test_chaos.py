"""A short storm over a small world of real processes; `python -m evidence.chaos` is the long form."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from evidence.chaos.blows import storm
from evidence.chaos.soak import DAY, soak
from evidence.chaos.world import World
from tests.support.postgres import new_database

SECONDS, SEED = 12.0, 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "sites"),
    [
        pytest.param(1, 3, marks=pytest.mark.heavy),  # as many as two servers add up
        pytest.param(2, 1, marks=pytest.mark.postgres),
    ],
)
def test_whatever_befalls_a_world_its_databases_tell_of_no_broken_promise(
    tmp_path: Path, processes: int, sites: int
) -> None:
    told: list[str] = []
    store = None if processes == 1 else new_database()
    kinds = ["split"]  # with a helper, who is killed as anybody is
    with World(tmp_path, people=2, sites=sites, seed=SEED, store=store, processes=processes, kinds=kinds) as world:
        storm(world, random.Random(SEED), SECONDS, told.append)
        left = world.settle(within=120)
        left += world.stop()
        found = [str(each) for each in world.broken()]
    assert (left, found) == ([], []), told
    assert len(world.witnessed) >= 2  # what was asked before the first blow is released at last


@pytest.mark.heavy  # minutes: a day's worth of asks
def test_a_day_of_asks_with_restarts_in_between_is_answered_and_breaks_no_promise(tmp_path: Path) -> None:
    told: list[str] = []
    with World(tmp_path, people=2, sites=2, seed=SEED, kinds=["pipeline"]) as world:
        restarts = soak(world, DAY, told.append)
        left = world.settle(within=120)
        left += world.stop()
        found = [str(each) for each in world.broken()]
    assert (left, found) == ([], []), told
    assert restarts >= 20
    assert len(world.witnessed) == len(world.posted) >= DAY
