"""Many people at a real coordinator, and people among attackers: nothing is lost and everybody is answered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from bench import load

pytestmark = pytest.mark.slow
PEOPLE, SECONDS = 100, 0.5
PATIENT = 100  #: an ordinary 99th percentile may grow so many times, or to so many milliseconds
MOST_MILLISECONDS = 3_000


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


@pytest.mark.parametrize("attack", list(load.ATTACKS))
def test_ordinary_people_are_answered_while_somebody_attacks(world: load.World, attack: str) -> None:
    found = load.attacked(world, attack, SECONDS)
    assert found["without a receipt"] == 0
    assert sum(found["the attacker"].values()) > 0
    for what in ("list", "ask", "submit", "poll"):
        waited = found["with it"][f"{what} p99, ms"]
        assert found[f"{what}: ratio"] < PATIENT or waited < MOST_MILLISECONDS, (what, waited)
