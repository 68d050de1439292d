"""Somebody whose rows lie at several sites pays at each: what that is in all is said before and after, and may be
capped."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.federation import CENSUS, Gathering, Steward, contribution, counting, refusal
from tests.support.half_kinds import known
from tests.support.site_home import AGES, site_home
from thebes.coordinator.auth.accounts import Role, Somebody
from thebes.data.schema import schema_of
from thebes.privacy import randomness
from thebes.privacy.promise import Unit
from thebes.requestor.quote import quote_from_json
from thebes.site.algorithm_process import Office
from thebes.tasks import registry
from thebes.tasks.contributions import Contributions
from thebes.tasks.document import InvalidDocument
from thebes.tasks.protocols import Setting
from thebes.tasks.site_document import SiteDocument
from thebes.web.coordinator import words

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANA = Somebody("ana", Role.REQUESTOR)
COUNT = {"type": "query", "sites": "all", "dataset": "patients", "statistic": "count", "epsilon": 0.5}
RULE = '[[allow]]\nrequestors = ["ana"]\ndatasets = ["patients"]\nkinds = ["query"]\nepsilon = 9\n'
HOUSES = ("north", "south", "west")


def houses(folder: Path) -> dict[str, Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]]:
    def house(name: str) -> Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]:
        office = Office(site_home(folder / name, policy=RULE, epsilon=20, delta="1e-3"), name)

        async def answer(message: dict[str, Any]) -> dict[str, Any]:
            return office.answer(message)

        return answer

    return {name: house(name) for name in HOUSES}


def test_a_document_that_names_its_sites_says_what_all_of_them_cost_together() -> None:
    def told(**more: Any) -> str:
        checked = registry.check({**COUNT, **more})
        return registry.drawn("query").explain(checked)

    assert "at all 3 sites that it names pays at most epsilon 1.5 in all." in told(sites=list(HOUSES))
    assert "delta 2e-06 in all" in told(sites=["north", "south"], delta=1e-6)
    assert "in all" not in told(sites=["north"])
    assert "in all" not in told(), "how many sites there are is not the document's to know"


def test_quote_task_and_certificate_say_what_somebody_pays_at_all_sites(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            await world.near(**houses(tmp_path))
            told = await world.service.quote(COUNT, ANA)
            assert told["price"]["in_all"] == {"sites": 3, "epsilon": 1.5, "delta": 0.0}
            assert "at all 3 sites that are asked pays at most epsilon 1.5 in all" in str(quote_from_json(told))
            assert words.in_all(told["price"]) in str(quote_from_json(told))
            examined = await world.service.examined(COUNT)
            assert examined["price"]["in_all"]["epsilon"] == 1.5
            once = {**COUNT, "noise": "coordinator", "delta": 1e-6}
            grown = (await world.service.quote(once, ANA))["price"]["in_all"]["delta"]
            assert grown == pytest.approx(1e-6 * math.expm1(1.5) / math.expm1(0.5))
            task_id, _ = await world.service.post(COUNT, ANA)
            over = await world.over(task_id)
            assert over["price"]["in_all"]["sites"] == 3
            said = over["result"]["certificate"]["notes"]
            assert "Somebody whose rows lie at all 3 sites that answered pays at most epsilon 1.5 in all." in said
            two_id, _ = await world.service.post({**COUNT, "sites": ["north", "south"]}, ANA)
            two = (await world.over(two_id))["result"]["certificate"]["notes"]
            assert any("all 2 sites that answered pays at most epsilon 1 in all" in each for each in two)

    asyncio.run(scenario())


def test_a_site_that_answered_an_earlier_phase_only_counts_in_the_certificate_also_after_a_restart(
    tmp_path: Path,
) -> None:
    def once(message: dict[str, Any]) -> dict[str, Any]:
        if message["ask"]["phase"]:
            return refusal(message, "budget")
        return contribution(message, {"numbers": [1, 2, 3]})

    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            await world.near(north=counting(1, 2, 3), south=Steward(once))
            over = await world.asked({**CENSUS, "rounds": 2})
            assert over["result"]["answered"] == ["north"]
            assert "all 2 sites that answered pays at most epsilon 2 in all" in str(over["result"]["certificate"])

    with known("thebes.testing.census"):
        asyncio.run(scenario())
        document = registry.check({**CENSUS, "rounds": 2})
        assert isinstance(document, SiteDocument)
        setting = Setting(Unit.PERSON, randomness.system(), sites=dict.fromkeys(("a", "b"), schema_of(AGES)))
        first = registry.aggregator(document, setting)
        for place in range(2):
            first.accept(Contributions("phase-0", 1, {"numbers": np.ones((1, 3), dtype=np.int64)}, partition=place))
        first.advance(NOW)
        again = registry.aggregator(document, setting)
        again.restore(first.snapshot())
        for made in (first, again):
            made.excuse("b", "refused")
            made.accept(Contributions("phase-1", 1, {"numbers": np.ones((1, 3), dtype=np.int64)}, partition=0))
            made.advance(NOW)
            release = made.release()
            assert release is not None
            assert "all 2 sites that answered" in release.certificate.text


def test_a_coordinator_refuses_by_name_what_costs_somebody_at_all_sites_too_much(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "coordinator.toml").write_text("most_epsilon_in_all = 1.2\nmost_delta_in_all = 1e-6\n")

    async def scenario() -> None:
        async with Gathering(home) as world:
            await world.near(**houses(tmp_path))
            for ask in (world.service.quote, world.service.post):
                with pytest.raises(InvalidDocument) as refused:
                    await ask(COUNT, ANA)
                ((field, message),) = refused.value.problems
                assert field == "epsilon"
                assert "at all 3 sites epsilon 1.5, and this coordinator allows 1.2 (most_epsilon_in_all)" in message
            assert [each["field"] for each in (await world.service.examined(COUNT))["problems"]] == ["epsilon"]
            with pytest.raises(InvalidDocument) as refused:
                await world.service.post({**COUNT, "epsilon": 0.3, "delta": 5e-7}, ANA)
            assert refused.value.problems[0][0] == "delta"
            accurate = {key: value for key, value in COUNT.items() if key != "epsilon"}
            accurate |= {"accuracy": {"alpha": 4.0, "beta": 0.05}, "where": "age < 40"}
            with pytest.raises(InvalidDocument) as refused:
                await world.service.post(accurate, ANA)
            assert refused.value.problems[0][0] == "accuracy"
            fine, _ = await world.service.post({**COUNT, "sites": ["north", "west"]}, ANA)
            assert (await world.over(fine))["status"] == "done"

    asyncio.run(scenario())
