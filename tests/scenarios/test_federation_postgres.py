"""Several coordinators on one PostgreSQL: one speaks with the sites, whoever is asked; another takes its place; and all
say the same of what an answer would cost."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.support.coordinator import Server
from tests.support.federation import CENSUS, QUICK, Far, Gathering, Steward, contribution, counting
from tests.support.half_kinds import known
from tests.support.ports import free_ports
from tests.support.postgres import new_database
from tests.support.site_home import site_home
from thebes.coordinator.auth.accounts import ADMIN
from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.sites import quote_queue
from thebes.coordinator.storage.schema import QUESTION

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.scenarios import deployment

#: a busy machine that keeps a process from a word for some seconds costs it no seat
CALM = replace(QUICK, seat=8.0)


@pytest.fixture(autouse=True)
def _census() -> Iterator[None]:
    with known("thebes.testing.census"):
        yield


async def until(condition: Any, seconds: float = 120) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.mark.slow
def test_tasks_put_up_anywhere_are_run_by_the_one_that_speaks_with_sites_and_survive_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home, store = tmp_path / "home", new_database()

    async def scenario() -> None:
        front = await Gathering(home, store=store, pace=CALM).open()
        await until(lambda: front.federation.seated)
        first = await Gathering(home, store=store, pace=CALM).open(0)
        await until(lambda: first.federation.seated and not front.federation.seated)
        second = await Gathering(home, store=store, pace=CALM).open(0)
        authority, deaf = CertificateAuthority(home, front.clock), asyncio.Event()
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
        assert {site["name"]: site["state"] for site in await second.service.sites()} == {
            "north": "connected",
            "south": "connected",
        }
        await front.service.cancel(cancelled, ADMIN)
        await until(lambda: first.federation.progress(cancelled) is None)
        await until(lambda: cancelled in south.closed)

        await first.close(politely=False)
        for link in links:
            await link.close()
        # Front may have had the seat for a moment, and then knows of the task itself until it has left.
        await until(lambda: second.federation.seated and not front.federation.seated)
        again = Far(second.url, tmp_path / "north" / "link", counting(1, 2, 3))
        late = Far(second.url, tmp_path / "south" / "link", south)
        done = await front.over(task, seconds=120)
        assert (done["status"], done["result"]["value"]) == ("done", 4 * 66.0)
        assert done["result"]["answered"] == ["north", "south"]
        told = (await front.service.progress(task))["sites"]["seconds"]["phases"]
        assert [each["phase"] for each in told] == [0, 1, 2, 3]
        for link in (again, late, turned_away):
            await link.close()
        await second.close()
        await until(lambda: front.federation.seated)
        await front.close()

    with caplog.at_level(logging.ERROR, "thebes.coordinator"):
        asyncio.run(asyncio.wait_for(scenario(), 400))
    assert caplog.text == ""


class Ahead(SystemClock):
    """Ten minutes."""

    def now(self) -> datetime:
        return super().now() + timedelta(minutes=10)


def test_the_place_of_a_process_whose_clock_was_ahead_is_free_as_soon_as_that_of_any_other(tmp_path: Path) -> None:
    home, store = tmp_path / "home", new_database()

    async def scenario() -> None:
        first = await Gathering(home, store=store, clock=Ahead()).open()
        await until(lambda: first.federation.seated)
        second = await Gathering(home, store=store).open()
        assert second.service.inquiries.store.seated()
        await first.close(politely=False)
        await until(lambda: second.federation.seated)
        await second.close()

    asyncio.run(asyncio.wait_for(scenario(), 400))


# --- what an answer would cost ---------------------------------------------------------------------------------------

COUNT: dict[str, Any] = {"type": "query", "sites": "all", "dataset": "patients", "statistic": "count", "epsilon": 0.5}


def waiting(world: Gathering) -> int:
    """Count the questions that lie in the database."""
    return world.database.read(lambda c: c.scalar(sa.select(sa.func.count()).select_from(QUESTION))) or 0


class Known(Steward):
    """A site that has what is asked already; with `silent` set it says so to nobody."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)
        self.silent = False

    async def __call__(self, message: dict[str, Any]) -> dict[str, Any] | None:
        if message["kind"] != "quote":
            return await super().__call__(message)
        self.asks.append(message)
        return None if self.silent else {"kind": "quoted", "cost": [0.0, 0.0], "source": "cache", "filter": "basic"}


@pytest.mark.slow
def test_every_process_says_the_same_of_what_an_answer_would_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, store = tmp_path / "home", new_database()

    async def scenario() -> None:
        first = await Gathering(home, store=store, pace=CALM).open()
        await until(lambda: first.federation.seated)
        second = await Gathering(home, store=store, pace=CALM).open()
        north = Known()
        await first.near(north=north)
        there = await first.service.quote(COUNT, ADMIN)
        assert there["sites"] == {"north": {"epsilon": 0.0, "delta": 0.0, "source": "cache"}}
        answers = await asyncio.gather(*(second.service.quote(COUNT, ADMIN) for _ in range(5)))
        assert all({**each, "expires_at": None} == {**there, "expires_at": None} for each in answers)
        assert len(north.asks) == 6
        assert [ask["requestor"] for ask in north.asks] == [ADMIN.name] * 6
        assert waiting(first) == 0

        monkeypatch.setattr(quote_queue, "PATIENCE_SECONDS", 0.5)
        north.silent = True
        told = await second.service.quote(COUNT, ADMIN)
        assert told["sites"] == {}
        assert "another process" in told["missing"]["north"]
        assert waiting(first) == 0

        table = quote_queue._Table(second.database)
        question = quote_queue.QuoteQuestion("q", ("north",), {})
        table.put(question, first.clock.now().timestamp() - 3600)  # of one that died
        await second.service.quote(COUNT, ADMIN)
        assert waiting(first) == 0
        await second.close()
        await first.close()

    asyncio.run(asyncio.wait_for(scenario(), 400))


@pytest.mark.slow
def test_a_question_outlives_the_process_that_was_about_to_put_it_to_sites(tmp_path: Path) -> None:
    home, store = tmp_path / "home", new_database()

    async def scenario() -> None:
        first = await Gathering(home, store=store, pace=CALM).open()
        await until(lambda: first.federation.seated)
        second = await Gathering(home, store=store, pace=CALM).open()
        third = await Gathering(home, store=store, pace=CALM).open()
        north = Known()
        north.silent = True
        await first.near(north=north)
        asked = asyncio.create_task(third.federation.quotes(["north"], {"document": {}}))
        await until(lambda: north.asks)
        await second.close()
        await first.close()  # third takes the seat, and the site is linked to nobody
        assert {site: quoted.silent for site, quoted in (await asyncio.wait_for(asked, 120)).items()} == {
            "north": "is not linked"
        }
        assert waiting(third) == 0
        await third.close()

    asyncio.run(asyncio.wait_for(scenario(), 400))


@pytest.mark.slow
def test_a_question_by_accuracy_is_priced_alike_in_whichever_process(tmp_path: Path) -> None:
    home, store, (site_port,) = tmp_path / "home", new_database(), free_ports(1)
    with Server(home, store=store, more=["--site-port", str(site_port)]) as one, Server(home, store=store) as two:
        place = site_home(tmp_path / "north")
        CertificateAuthority(home, SystemClock()).issue("north", place.folder)
        site = deployment.Institution("north", place, f"127.0.0.1:{site_port}")
        site.start()

        def quoted(server: Server, document: dict[str, Any]) -> dict[str, Any]:
            answer = server.client.post("/api/quote", json=document, headers=one.admin)
            assert answer.status_code == 200, answer.text
            return {**answer.json(), "expires_at": None}

        try:
            deployment.until(lambda: linked(two.client) or None, deployment.SOON)
            paid = two.post(COUNT)
            assert two.wait_for(paid, "done")["status"] == "done"
            again = {**{name: COUNT[name] for name in COUNT if name != "epsilon"}, "accuracy": [40, 0.05]}
            for document in (COUNT, again):
                told = [quoted(server, document) for server in (one, two)]
                assert told[0] == told[1]
                assert told[0]["sites"] == {"north": {"epsilon": 0.0, "delta": 0.0, "source": "cache"}}
            task = two.post(again)
            done = one.wait_for(task, "done")
            assert done["result"]["source"] == "cache"
        finally:
            site.end()


def linked(client: httpx.Client) -> bool:
    """Return whether a site is there and has said what it has."""
    return any(site["state"] == "connected" and site["datasets"] for site in client.get("/api/site").json())
