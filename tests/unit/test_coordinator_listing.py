"""The coordinator's lists beside the open tasks: those that are over, what is wrong with a document, its users."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator import AGES, PETS, Front
from tests.support.federation import CENSUS, Gathering, Steward, counting
from tests.support.half_kinds import known
from thebes.coordinator.api.single_flight import Together
from thebes.coordinator.auth.accounts import ADMIN, Role, Somebody
from thebes.coordinator.service import CoordinatorService
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
    assert good["price"] == {"epsilon": 1.0, "delta": 0.0, "unit": "device", "in_all": None}
    assert "SELECT species FROM profile.pets" in good["explanation"]
    assert front.client.get("/api/task").json() == []


def test_only_operators_see_and_change_users(front: Front) -> None:
    service, ana = front.service, Somebody("ana", Role.REQUESTOR)

    async def story() -> list[tuple[str, str, bool]]:
        await service.auth.add("ana", "correct horse battery", Role.REQUESTOR, ADMIN)
        for work in (
            service.auth.users(ana),
            service.auth.add("eve", "correct horse battery", Role.OPERATOR, ana),
            service.auth.disable("ana", ana),
            service.auth.grant("ana", Role.OPERATOR, ana),
        ):
            with pytest.raises(NotAllowed):
                await work
        await service.auth.grant("ana", Role.AUDITOR, ADMIN)
        await service.auth.disable("ana", ADMIN)
        return [(user.name, str(user.role), user.disabled) for user in await service.auth.users(ADMIN)]

    assert asyncio.run(story()) == [("ana", "auditor", True)]


def test_a_token_tells_when_it_ends(front: Front) -> None:
    accounts = front.service.accounts
    accounts.add("ana", "correct horse battery", Role.REQUESTOR)
    token, end = accounts.login("ana", "correct horse battery")
    assert accounts.ends(token) == end
    assert accounts.ends(front.admin_token) is None
    front.clock.move(minutes=16)
    with pytest.raises(NotSignedIn):
        accounts.ends(token)


def test_many_who_ask_together_are_told_the_same_and_nobody_what_was_so_before_they_asked() -> None:
    async def story() -> None:
        begun, so, gates = 0, "old", [asyncio.Event() for _ in range(3)]

        async def make() -> str:
            nonlocal begun
            begun, made = begun + 1, so
            await gates[begun - 1].wait()
            return made

        listing = Together(make)
        first = asyncio.create_task(listing.get())
        while begun == 0:
            await asyncio.sleep(0)
        so = "new"
        others = [asyncio.create_task(listing.get()) for _ in range(100)]
        others[0].cancel()  # who leaves takes nothing with them
        gates[0].set()
        assert await first == "old"
        gates[1].set()
        assert await asyncio.gather(*others[1:]) == ["new"] * 99
        assert begun == 2
        gates[2].set()
        assert await listing.get() == "new"
        assert begun == 3

    asyncio.run(asyncio.wait_for(story(), 60))


def test_what_cannot_be_made_is_told_to_all_who_asked_and_made_again_for_the_next() -> None:
    async def story() -> None:
        broken = True

        async def make() -> int:
            await asyncio.sleep(0)
            if broken:
                raise ValueError
            return 7

        listing = Together(make)
        told = await asyncio.gather(*(listing.get() for _ in range(3)), return_exceptions=True)
        assert [type(each) for each in told] == [ValueError] * 3
        broken = False
        assert await listing.get() == 7

    asyncio.run(asyncio.wait_for(story(), 60))


@pytest.fixture
def census() -> Iterator[None]:
    with known("thebes.testing.census"):
        yield


@pytest.mark.usefixtures("census")
def test_the_list_says_of_every_task_what_is_said_of_it_alone_also_where_sites_answer(tmp_path: Path) -> None:
    async def story() -> None:
        async with Gathering(tmp_path / "home") as world:
            asked = asyncio.Event()

            async def silent(ask: dict[str, Any]) -> None:
                asked.set()
                await asyncio.sleep(3600)

            await world.near(north=counting(1, 2, 3), south=Steward(silent))
            posted = [
                await world.post(CENSUS),
                await world.post(AGES),
                await world.post({**CENSUS, "sites": ["north"]}),
            ]
            await asked.wait()
            await world.over(posted[2])
            while (await world.service.task(posted[0]))[0]["contributions"] != 1:
                await asyncio.sleep(0.01)
            alone = [(await world.service.task(task))[0] for task in posted[:2]]
            assert alone[0].pop("refusals") == {}  # that is said of a task by itself only
            assert [task["task_id"] for task in json.loads(await world.service.listed())] == posted[:2]
            assert json.loads(await world.service.listed()) == json.loads(json.dumps(alone))
            assert alone[0]["sites"] == ["north", "south"]
            other = CoordinatorService(
                world.home, world.database, world.clock, look=lambda: None
            )  # speaks with no site
            while json.loads(await other.listed())[0]["contributions"] != 1:  # once that was written down
                await asyncio.sleep(0.01)
            other.close()

    asyncio.run(asyncio.wait_for(story(), 120))
