"""REST, Python, command line and pages say in the same words why a site is not in an answer, and that nobody paid."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import thebes
from tests.support.federation import Gathering, refusal
from tests.support.site_home import ask, site_home
from thebes.cli import task_runs
from thebes.coordinator.api.routes import interface
from thebes.coordinator.auth.accounts import ADMIN, Role, Somebody
from thebes.coordinator.storage.database import StoreUnavailable
from thebes.database import private_files
from thebes.privacy.faults import ThebesError
from thebes.requestor.handle import Handle
from thebes.requestor.refusals import SitesRefused, TaskExpired
from thebes.site.algorithm_process import Office
from thebes.site.home import SiteHome
from thebes.web.coordinator.pages import put_on
from thebes.wire.refused_sites import BEYOND, WORDS, nobody_charged, why

ANA, EVE = Somebody("ana", Role.REQUESTOR), Somebody("eve", Role.REQUESTOR)
COUNT = {"type": "query", "sites": "all", "dataset": "patients", "statistic": "count", "patience": 2.0, "epsilon": 1.0}
RULE = '[[allow]]\nrequestors = ["ana"]\ndatasets = ["patients"]\nkinds = ["query"]\nepsilon = 1.5\n'
NOTHING = "no site charged anything for it"


class Spoken:
    """A coordinator in this process, as the client of a requestor's library speaks with it."""

    url = "here"

    def __init__(self, task: dict[str, Any]) -> None:
        self._task = task

    def task(self, task_id: str, *, wait: float = 0.0) -> dict[str, Any]:
        return self._task


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(site_home(tmp_path / "north", policy=RULE), "north")
    yield made
    made.ledger.close()


def at(office: Office, *, but: Callable[[dict[str, Any]], Any] | None = None) -> Callable[..., Awaitable[Any]]:
    """The site; `but` answers in its place where it says anything else than None."""

    async def answer(message: dict[str, Any]) -> Any:
        instead = but(message) if but is not None and message["kind"] in ("ask", "closed") else None
        if instead == "silence":
            return None
        return office.answer(message) if instead is None else instead

    return answer


def told(tmp_path: Path, site: Any, document: dict[str, Any], by: Somebody = ANA, *, leave: bool = False) -> Any:
    """Return what is told of a task of which nothing comes: (its detail over HTTP, its page, what Python raises)."""

    async def scenario() -> Any:
        async with Gathering(tmp_path / "home") as world:
            links = await world.near(north=site)
            if leave:
                links["north"].leave()
            task_id, digest = await world.service.post(document, by)
            assert (await world.over(task_id))["result"] is None
            app = interface(world.service, largest_body=2**20, pages=put_on)
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(app=app), base_url="http://testserver"
            ) as client:
                detail = (await client.get(f"/api/task/{task_id}")).json()
                page = (await client.get(f"/task/{task_id}")).text
            return Handle(Spoken(detail), task_id, digest), detail, page  # type: ignore[arg-type]

    handle, detail, page = asyncio.run(scenario())
    with pytest.raises(SitesRefused) as raised:
        handle.wait(timeout=0)
    return detail, page, raised.value


def test_an_answer_of_some_of_the_sites_warns_unless_the_document_said_that_they_are_enough() -> None:
    made = thebes.simulate(
        {"type": "query", "dataset": "patients", "statistic": "count", "epsilon": 1},
        {"north": {"age": [1.0] * 50}},
        schema={"unit": "person", "columns": {"age": {"type": "float", "low": 0, "high": 9}}},
        seed=1,
    ).as_json()
    away = {"south": "refused: not today"}
    cases: list[tuple[dict[str, str], dict[str, int], bool]]
    cases = [(away, {}, True), ({}, {}, False), (away, {"min_sites": 1}, False)]
    for missing, least, warned in cases:
        result = {**made, "coverage": {"answered": ["north"], "missing": missing}}
        body = {"status": "done", "document": {"dataset": "patients", **least}, "result": result}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            Handle(Spoken(body), "0" * 32).wait(timeout=0)  # type: ignore[arg-type]
        assert ["others alone; without south: refused" in str(one.message) for one in caught] == [True] * warned


def everywhere(heard: Any, code: str, *, charged: bool | None) -> str:
    """Every place says that code in the same words, and that nothing was charged only where that is so; what it says
    beside."""
    detail, page, raised = heard
    (one,) = detail["refusals"].values()
    shown = "\n".join(task_runs._refusals(detail))
    words = why(code, one["message"])
    assert (detail["status"], one["reason"], one.get("charged", "unknown")) == (
        "expired",
        code,
        "unknown" if charged is None else charged,
    )
    assert (raised.sites["north"].reason, raised.sites["north"].charged) == (code, charged)
    assert WORDS[code] in words
    for place in (str(raised), shown, page.replace("&#39;", "'")):
        assert words in place
    for place in (str(raised), shown, page.replace("No site", "no site")):
        assert (NOTHING in place) is (charged is False)
    return str(one["message"])


def test_a_budget_that_is_spent_is_told_and_that_the_question_cost_nothing(tmp_path: Path, office: Office) -> None:
    assert office.answer(ask(COUNT))["kind"] == "contribution"
    head = office.ledger.head()
    message = everywhere(told(tmp_path, at(office), {**COUNT, "where": "age < 50"}), "budget", charged=False)
    assert message == f"refused: {BEYOND}"
    assert office.ledger.head() == head


def test_a_policy_that_covers_nobody_is_told_with_nothing_of_what_others_may(tmp_path: Path, office: Office) -> None:
    message = everywhere(told(tmp_path, at(office), COUNT, EVE), "policy", charged=False)
    assert message == "refused: the site's policy does not allow this"


def test_a_site_that_stays_busy_is_told_as_that_and_nobody_says_it_was_not_charged(
    tmp_path: Path, office: Office
) -> None:
    """An ask of the same task may still wait at the site, and be answered and charged when the task is over."""
    document = {**COUNT, "patience": 0.3}

    kept: list[dict[str, Any]] = []

    def busy(message: dict[str, Any]) -> dict[str, Any] | None:
        if message["kind"] != "ask":
            return None
        kept.append(message)
        return {**refusal(message, "busy", "the site has too much to do"), "charged": False}

    everywhere(told(tmp_path, at(office, but=busy), document), "busy", charged=None)
    assert office.answer(kept[0])["kind"] == "contribution"


def test_a_site_that_was_asked_by_a_process_that_is_gone_is_not_said_to_have_charged_nothing(
    tmp_path: Path, office: Office
) -> None:
    """The first ask waits at the site still, and is answered and charged after the second was refused."""
    kept: list[dict[str, Any]] = []

    async def waiting(message: dict[str, Any]) -> dict[str, Any] | None:
        if message["kind"] != "ask":
            return office.answer(message)
        kept.append(message)
        return None

    async def refusing(message: dict[str, Any]) -> dict[str, Any] | None:
        if message["kind"] != "ask":
            return office.answer(message)
        return {**refusal(message, "policy", "no"), "charged": False}  # as sites said it once

    async def scenario() -> Any:
        world = await Gathering(tmp_path / "home").open()
        await world.near(north=waiting)
        task, _ = await world.service.post({**COUNT, "patience": 30.0}, ANA)
        while not kept:
            await asyncio.sleep(0.01)
        await world.close(politely=False)
        world = await Gathering(tmp_path / "home").open()
        await world.near(north=refusing)
        detail = await world.over(task)
        await world.close()
        return detail

    detail = asyncio.run(scenario())
    assert detail["refusals"]["north"]["reason"] == "policy"
    assert "charged" not in detail["refusals"]["north"]
    assert not nobody_charged(detail)
    assert office.answer(kept[0])["kind"] == "contribution"


def test_a_site_that_is_away_or_silent_is_told_as_that_and_nobody_says_it_was_not_charged(
    tmp_path: Path, office: Office
) -> None:
    document = {**COUNT, "patience": 0.3}
    everywhere(told(tmp_path / "away", at(office), document, leave=True), "gone", charged=None)
    everywhere(told(tmp_path / "late", at(office, but=lambda _: "silence"), document), "late", charged=None)


def test_a_site_that_was_paid_and_then_refuses_does_not_pass_for_free(tmp_path: Path, office: Office) -> None:
    """Its answer was lost on the way, and its policy has changed when it is asked again."""

    def lost(message: dict[str, Any]) -> dict[str, Any] | None:
        if message["kind"] != "ask":
            return None
        assert office.answer(message)["kind"] == "contribution"
        private_files.write(SiteHome(tmp_path / "north").policy, "")
        return office.answer(message)

    assert everywhere(told(tmp_path, at(office, but=lost), COUNT), "policy", charged=True)
    assert float(office.ledger.remaining("patients").epsilon) == 9.0


def test_a_home_that_came_back_from_a_copy_does_not_say_that_it_charged_nothing(tmp_path: Path, office: Office) -> None:
    office.ledger.freeze()
    everywhere(told(tmp_path / "frozen", at(office), COUNT), "budget", charged=None)
    office.ledger.thaw()
    private_files.write(SiteHome(tmp_path / "north").policy, "")
    everywhere(told(tmp_path / "thawed", at(office), COUNT), "policy", charged=None)


def test_where_one_site_answered_and_paid_nobody_says_that_none_did(tmp_path: Path, office: Office) -> None:
    async def scenario() -> dict[str, Any]:
        async with Gathering(tmp_path / "home") as world:
            south = Office(site_home(tmp_path / "south", policy=None), "south")
            await world.near(north=at(office), south=at(south))
            task_id = (await world.service.post({**COUNT, "min_sites": 2}, ANA))[0]
            detail = await world.over(task_id)
            south.ledger.close()
            return detail

    detail = asyncio.run(scenario())
    assert {site: one["charged"] for site, one in detail["refusals"].items()} == {"south": False}
    assert not nobody_charged(detail)
    with pytest.raises(SitesRefused) as raised:
        Handle(Spoken(detail), "t").wait(timeout=0)  # type: ignore[arg-type]
    assert "charged" not in str(raised.value)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("word", "charged"), [(False, False), (True, True), (None, None), (0, None), ("false", None), ("absent", None)]
)
def test_only_a_site_s_own_yes_or_no_at_the_end_counts_as_one(
    tmp_path: Path, office: Office, word: object, charged: bool | None
) -> None:
    def odd(message: dict[str, Any]) -> dict[str, Any]:
        if message["kind"] == "closed":
            return {"kind": "noted"} if word == "absent" else {"kind": "noted", "charged": word}
        return {**refusal(message, "policy"), "charged": not charged}

    everywhere(told(tmp_path, at(office, but=odd), COUNT), "policy", charged=charged)


def test_a_site_that_comes_back_after_the_end_says_then_what_it_charged(tmp_path: Path, office: Office) -> None:
    """It had computed and charged an answer that came too late."""

    async def late(message: dict[str, Any]) -> dict[str, Any] | None:
        said = office.answer(message)
        return None if message["kind"] == "ask" else said

    async def scenario() -> tuple[Any, Any]:
        async with Gathering(tmp_path / "home") as world:
            await world.near(north=late)
            task_id, _ = await world.service.post({**COUNT, "patience": 0.3}, ANA)
            at_once = await world.over(task_id)
            async with asyncio.timeout(60):
                while "charged" not in (detail := await world.over(task_id))["refusals"]["north"]:
                    await asyncio.sleep(0.01)
            return at_once["refusals"]["north"], detail["refusals"]["north"]

    before, after = asyncio.run(scenario())
    assert before["reason"] == after["reason"] == "late"
    assert after["charged"] is True


def test_a_coordinator_that_is_killed_before_the_end_is_shown_asks_the_sites_again(
    tmp_path: Path, office: Office
) -> None:
    """The site is told twice that the task is over, and says twice the same."""
    heard: list[dict[str, Any]] = []

    async def scenario() -> dict[str, Any]:
        world = await Gathering(tmp_path / "home").open()

        def killed(*_: Any) -> None:
            raise StoreUnavailable("killed")

        world.federation.store.finish = killed  # type: ignore[method-assign]

        async def north(message: dict[str, Any]) -> Any:
            said = office.answer(message)
            if message["kind"] == "closed":
                heard.append(said)
            return said

        await world.near(north=north)
        task, _ = await world.service.post(COUNT, EVE)
        async with asyncio.timeout(60):
            while not heard:
                await asyncio.sleep(0.01)
        assert (await world.service.task(task))[0]["status"] == "open"
        await world.close(politely=False)
        world = await Gathering(tmp_path / "home").open()
        await world.near(north=north)
        detail = await world.over(task)
        async with asyncio.timeout(60):
            while "charged" not in detail["refusals"]["north"]:
                await asyncio.sleep(0.01)
                detail = await world.over(task)
        await world.close()
        return detail

    detail = asyncio.run(scenario())
    assert len(heard) >= 2
    assert all(said == {"kind": "noted", "charged": False} for said in heard)
    assert detail["refusals"]["north"]["charged"] is False
    assert nobody_charged(detail)


def test_time_alone_is_no_refusal_of_sites() -> None:
    body = {"status": "expired", "refusals": {}, "sites": []}
    with pytest.raises(TaskExpired) as raised:
        Handle(Spoken(body), "t").wait(timeout=0)  # type: ignore[arg-type]
    assert not isinstance(raised.value, SitesRefused)


def test_a_coordinator_s_odd_words_are_told_without_a_crash() -> None:
    odd = {"north": {"reason": 7, "charged": False}}
    for refusals in (None, [], {"north": None}, odd, {"north": {"reason": None}}):
        body = {"status": "expired", "sites": ["north"], "refusals": refusals}
        list(task_runs._refusals(body))
        assert nobody_charged(body) is (refusals == odd)
        with pytest.raises(ThebesError):
            Handle(Spoken(body), "t").wait(timeout=0)  # type: ignore[arg-type]


def test_the_page_for_asking_says_beforehand_what_the_sites_would_say(tmp_path: Path, office: Office) -> None:
    here = {"origin": "http://testserver", "sec-fetch-site": "same-origin"}

    async def scenario() -> list[str]:
        async with Gathering(tmp_path / "home") as world:
            await world.near(north=at(office))
            app = interface(world.service, largest_body=2**20, pages=put_on)
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://testserver", headers=here) as client:
                drafts = [
                    {"kind": "query", "mode": "json", "was": "json", "raw": json.dumps({**COUNT, **more})}
                    for more in ({"epsilon": 1.9}, {"epsilon": "much"}, {"sites": ["nowhere"]})
                ]
                stranger = await client.post("/ask/quote", json=drafts[0])
                await client.post("/sign-in", json={"token": world.home.admin_token, "then": "/ask"})
                told = [(await client.post("/ask/quote", json=draft)).text for draft in drafts]
                return [stranger.text, *told, (await client.post("/ask/check", json=drafts[0])).text]

    private_files.write(SiteHome(tmp_path / "north").policy, RULE.replace("ana", ADMIN.name))
    head = office.ledger.head()
    stranger, refused, wrong, nowhere, checked = asyncio.run(scenario())
    assert "You are not signed in" in stranger
    assert "would refuse: too little of its budget is left (budget); one more answer" in refused
    assert "one more answer may cost at most epsilon 1.5, delta 0" in refused
    assert "0 of 1 site would answer (at least 1 is asked for): put up now, nothing would be released." in refused
    assert "epsilon" in wrong
    assert "nowhere" in nowhere
    assert 'hx-post="/ask/quote"' in checked
    assert office.ledger.head() == head
