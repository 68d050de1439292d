"""The made-up people of `thebes demo`: they answer what they are asked, and leave a place where one is to be left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator_in_memory import CoordinatorInMemory
from thebes.cli.demo import crowd

PEOPLE, COUNT = 14, 11
MEDIAN = {
    "type": "basic",
    "epsilon": 1.0,
    "min_count": COUNT,
    "featurizer": "SELECT age FROM profile.demographics",
    "aggregator": "median",
    "bounds": {"age": {"type": "range", "low": 0.0, "high": 100.0}},
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> CoordinatorInMemory:
    made = CoordinatorInMemory()
    monkeypatch.setattr(crowd, "CoordinatorClient", lambda url, retries: made)
    monkeypatch.setattr(crowd, "YES", 1)
    monkeypatch.setattr(crowd, "AT_ONCE", 1)
    return made


@pytest.fixture
def said() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def homes(server: CoordinatorInMemory, said: list[dict[str, Any]], tmp_path: Path) -> Iterator[crowd.Homes]:
    work = {"coordinator": server.url, "homes": str(tmp_path), "size": PEOPLE, "seed": 7, "settings": crowd.ALLOWANCE}
    work |= {"first": 0, "end": PEOPLE}
    made = crowd.Homes(work, said.append)
    yield made
    made.close()


def answered(server: CoordinatorInMemory, task_id: str) -> int:
    return sum(heard == task_id for heard, _, _ in server.heard)


@pytest.mark.slow
def test_whoever_is_asked_about_another_task_leaves_the_waiting_one_alone(
    server: CoordinatorInMemory, homes: crowd.Homes, said: list[dict[str, Any]]
) -> None:
    waiting = server.post(MEDIAN)
    homes.answer(waiting, COUNT - 1)
    another = server.post(MEDIAN)
    homes.answer(another, COUNT, leave=[waiting])
    assert (answered(server, waiting), server.status[waiting]) == (COUNT - 1, "open")
    assert (answered(server, another), server.status[another]) == (COUNT, "done")
    assert sum("sent" in line for line in said) == 2 * COUNT - 1


@pytest.mark.slow
def test_of_a_task_for_a_group_its_members_are_asked_and_nobody_else(
    server: CoordinatorInMemory, homes: crowd.Homes, said: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    joined: list[tuple[Any, ...]] = []
    monkeypatch.setattr(crowd.Person, "enrol", lambda person, *told: joined.append((person.home.name, *told)))
    homes.join("few", {"3": "code of 3", "5": "code of 5", "99": "somebody in another process"})
    assert sorted(joined) == [("person-3", "few", "code of 3"), ("person-5", "few", "code of 5")]
    task_id = server.post(MEDIAN)
    homes.answer(task_id, COUNT, group="few")
    assert sorted(line["sent"] for line in said if "sent" in line) == [3, 5]
    homes.answer(server.post(MEDIAN), COUNT, group="unknown")
    assert len(server.heard) == 2
