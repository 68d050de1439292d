"""What the coordinator tells beside the open tasks: those that are over, what is wrong with a document, its users."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from thebes.coordinator.accounts import ADMIN, Role, Somebody
from thebes.testing.coordinator import AGES, PETS, Front
from thebes.wire.refusals import NotAllowed, NotSignedIn


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with Front(tmp_path / "home") as made:
        yield made


def test_tasks_that_are_over_are_listed_newest_first_and_by_pages(front: Front) -> None:
    ids = []
    for number in range(5):
        ids.append(front.post({**AGES, "name": f"task {number}"}))
        front.clock.move(minutes=1)
    for task_id in ids[:4]:
        assert front.client.delete(f"/api/task/{task_id}", headers=front.admin).status_code == 204
    assert [t["task_id"] for t in front.client.get("/api/task").json()] == ids[4:]
    over = front.client.get("/api/task", params={"state": "ended"}).json()
    assert [t["task_id"] for t in over] == ids[3::-1]
    assert {t["status"] for t in over} == {"cancelled"}
    assert over[-1]["created"] == "2030-01-01T12:00:00+00:00"
    page = front.client.get("/api/task", params={"state": "ended", "skip": 1, "most": 2}).json()
    assert [t["task_id"] for t in page] == [ids[2], ids[1]]
    assert front.client.get("/api/task", params={"state": "ended", "most": 0}).status_code == 422


def test_a_check_names_every_problem_and_puts_nothing_up(front: Front) -> None:
    found = front.client.post("/api/check", json={**AGES, "epsilon": -1, "colour": "red"})
    assert found.status_code == 200
    assert {problem["field"] for problem in found.json()["problems"]} == {"epsilon", "colour"}
    assert found.json()["price"] is None
    small = front.client.post("/api/check", json={**AGES, "min_count": 2}).json()
    assert [problem["field"] for problem in small["problems"]] == ["min_count"]
    good = front.client.post("/api/check", json=PETS).json()
    assert good["problems"] == []
    assert good["price"] == {"epsilon": 1.0, "delta": 0.0, "unit": "device"}
    assert "SELECT species FROM profile.pets" in good["explanation"]
    assert front.client.get("/api/task").json() == []


def test_only_operators_see_and_change_users(front: Front) -> None:
    reception, ana = front.reception, Somebody("ana", Role.REQUESTOR)

    async def story() -> list[tuple[str, str, bool]]:
        await reception.lobby.add("ana", "correct horse battery", Role.REQUESTOR, ADMIN)
        for work in (
            reception.lobby.users(ana),
            reception.lobby.add("eve", "correct horse battery", Role.OPERATOR, ana),
            reception.lobby.disable("ana", ana),
            reception.lobby.grant("ana", Role.OPERATOR, ana),
        ):
            with pytest.raises(NotAllowed):
                await work
        await reception.lobby.grant("ana", Role.AUDITOR, ADMIN)
        await reception.lobby.disable("ana", ADMIN)
        return [(user.name, str(user.role), user.disabled) for user in await reception.lobby.users(ADMIN)]

    assert asyncio.run(story()) == [("ana", "auditor", True)]


def test_a_token_tells_when_it_ends(front: Front) -> None:
    accounts = front.reception.accounts
    accounts.add("ana", "correct horse battery", Role.REQUESTOR)
    token, end = accounts.login("ana", "correct horse battery")
    assert accounts.ends(token) == end
    assert accounts.ends(front.admin_token) is None
    front.clock.move(minutes=16)
    with pytest.raises(NotSignedIn):
        accounts.ends(token)
