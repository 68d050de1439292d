"""Several coordinators on one PostgreSQL: one speaks with the sites, whoever is asked; another takes its place."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from thebes.coordinator.accounts import ADMIN
from thebes.coordinator.authority import Authority
from thebes.tasks import registry
from thebes.testing.federation import CENSUS, QUICK, Far, Gathering, Steward, contribution, counting
from thebes.testing.postgres import new_database

#: a busy machine that keeps a process from a word for some seconds costs it no seat
CALM = replace(QUICK, seat=8.0)


@pytest.fixture(autouse=True)
def _census(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._folders(), "census", "thebes.testing.census")


async def until(condition: Any, seconds: float = 120) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


def test_tasks_put_up_anywhere_are_run_by_the_one_that_speaks_with_sites_and_survive_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home, store = tmp_path / "home", new_database()

    async def scenario() -> None:
        front = await Gathering(home, store=store, pace=CALM).open()
        await until(lambda: front.federation._seated)
        first = await Gathering(home, store=store, pace=CALM).open(0)
        await until(lambda: first.federation._seated and not front.federation._seated)
        second = await Gathering(home, store=store, pace=CALM).open(0)
        authority, deaf = Authority(home, front.clock), asyncio.Event()
        for name in ("north", "south"):
            authority.issue(name, tmp_path / name)

        async def slow(ask: dict[str, Any]) -> dict[str, Any] | None:
            if ask["ask"]["phase"] == 2 and not deaf.is_set():
                deaf.set()
                await asyncio.sleep(3600)
            return contribution(ask, {"numbers": [10, 20, 30]})

        south = Steward(slow)
        links = [Far(first.url, tmp_path / "north" / "link", counting(1, 2, 3))]
        links.append(Far(first.url, tmp_path / "south" / "link", south))
        await front.known("north", "south")
        turned_away = Far(second.url, tmp_path / "north" / "link", counting(1, 2, 3))
        await asyncio.wait_for(turned_away.run, 120)
        assert (turned_away.status, turned_away.words[0]["code"]) == ("UNAVAILABLE", "busy")

        task = await front.post({**CENSUS, "rounds": 4})
        cancelled = await front.post({**CENSUS, "rounds": 1000})
        await asyncio.wait_for(deaf.wait(), 120)
        assert {site["name"]: site["state"] for site in await second.reception.sites()} == {
            "north": "connected",
            "south": "connected",
        }
        await front.reception.cancel(cancelled, ADMIN)
        await until(lambda: first.federation.progress(cancelled) is None)
        await until(lambda: cancelled in south.closed)

        await first.close(politely=False)
        for link in links:
            await link.close()
        # Front may have had the seat for a moment, and then knows of the task itself until it has left.
        await until(lambda: second.federation._seated and not front.federation._seated)
        again = Far(second.url, tmp_path / "north" / "link", counting(1, 2, 3))
        late = Far(second.url, tmp_path / "south" / "link", south)
        done = await front.over(task, seconds=120)
        assert (done["status"], done["result"]["value"]) == ("done", 4 * 66.0)
        assert done["result"]["answered"] == ["north", "south"]
        told = (await front.reception.progress(task))["sites"]["seconds"]["phases"]
        assert [each["phase"] for each in told] == [0, 1, 2, 3]
        for link in (again, late, turned_away):
            await link.close()
        await second.close()
        await until(lambda: front.federation._seated)
        await front.close()

    with caplog.at_level(logging.ERROR, "thebes.coordinator"):
        asyncio.run(asyncio.wait_for(scenario(), 400))
    assert caplog.text == ""
