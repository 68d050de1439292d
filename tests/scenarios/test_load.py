"""Many people at a real coordinator, and people among attackers: nothing is lost and everybody is answered."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from evidence.bench import load
from evidence.bench._hostile import ATTACKS
from evidence.bench._institutions import Institutions
from tests.support.postgres import new_database

pytestmark = pytest.mark.slow
PEOPLE, SECONDS = 100, 0.5
PATIENT = 100  #: an ordinary 99th percentile may grow so many times, or to so many milliseconds
MOST_MILLISECONDS = 20_000


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[load.World]:
    home = tmp_path_factory.mktemp("load") / "home"
    home.mkdir()
    (home / "coordinator.toml").write_text("waiting_logins = 8\n")  # so that a flood is soon over
    with load.opened(home) as opened:
        yield opened


def test_everybody_who_comes_is_counted_once(world: load.World) -> None:
    found = load.together(world, PEOPLE, SECONDS)
    assert (found["receipts"], found["lost"], found["in the release"]) == (PEOPLE, 0, PEOPLE)
    assert found["errors"] == "none"


@pytest.mark.parametrize("attack", list(ATTACKS))
def test_ordinary_people_are_answered_while_somebody_attacks(world: load.World, attack: str) -> None:
    found = load.attacked(world, attack, SECONDS)
    assert found["without a receipt"] == 0
    assert sum(found["the attacker"].values()) > 0
    for what in ("list", "ask", "submit", "poll"):
        waited = found["with it"][f"{what} p99, ms"]
        assert found[f"{what}: ratio"] < PATIENT or waited < MOST_MILLISECONDS, (what, waited)


@pytest.mark.postgres
def test_people_trainings_and_pipelines_lose_nothing_to_a_killed_process_behind_their_port(tmp_path: Path) -> None:
    there = Institutions(tmp_path, tmp_path / "home", sites=1, pipelines=2, rounds=3)
    with load.opened(tmp_path / "home", new_database(), processes=2, institutions=there) as world:
        (server,) = world.servers
        first, second = server.fronts()
        found = load.together(world, PEOPLE, 2 * SECONDS, kills=1, requestors=10)
        end = time.monotonic() + 300
        while first in server.fronts() or len(server.fronts()) < 2:  # another one comes in its place
            assert time.monotonic() < end
            time.sleep(0.05)
        assert second in server.fronts()
    assert (found["receipts"], found["lost"], found["in the release"]) == (PEOPLE, 0, PEOPLE)
    assert found["training"]["rounds"] == 3 * found["training"]["trainings"] > 0
    assert sum(found["pipelines"]["verdicts"].values()) == 2
