"""Faults of sites, by mistake or on purpose: each is named and refused, and the others' answer comes all the
same. Coordinator and honest sites are processes of their own; who lies dials in with a certificate like any site."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.scenarios.deployment import SOON, Institutions, until
from tests.support.coordinator import HandClock
from tests.support.federation import Far, Steward, contribution
from thebes.coordinator.auth.authority import CertificateAuthority

pytestmark = pytest.mark.slow

PEOPLE = 200
SCHEMA: dict[str, Any] = {
    "unit": "person",
    "columns": {
        "x": {"type": "float", "low": -1.0, "high": 1.0},
        "y": {"type": "string", "values": ["no", "yes"]},
    },
}
OTHER_BOUNDS = {**SCHEMA, "columns": {**SCHEMA["columns"], "x": {"type": "float", "low": -9.0, "high": 9.0}}}
POLICY = """
[[allow]]
requestors = ["*"]
datasets = ["patients"]
kinds = ["query", "train"]
epsilon = 1000000
"""
HONEST = ["north", "south"]
COUNT: dict[str, Any] = {"type": "query", "dataset": "patients", "statistic": "count", "epsilon": 20.0}
TRAIN: dict[str, Any] = {
    "type": "train",
    "dataset": "patients",
    "model": "LogisticRegression",
    "inputs": ["x"],
    "output": "y",
    "rounds": 3,
    "epsilon": 1000.0,
    "delta": 1e-6,
    "min_sites": 2,
}
Answer = Callable[[Mapping[str, Any]], Any]


def people(seed: int, count: int = PEOPLE) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    x = np.round(draw.uniform(-1, 1, count), 3)
    return pd.DataFrame({"x": x, "y": np.where(draw.random(count) < 1 / (1 + np.exp(-3 * x)), "yes", "no")})


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Institutions]:
    """Two honest sites; one with another schema, one without rows, and one whose rows lack a declared column."""
    with Institutions(tmp_path_factory.mktemp("institutions")) as made:
        declared: dict[str, Any] = {"policy": POLICY, "epsilon": 1_000_000, "delta": 1e-5}
        made.add("north", people(1), schema=SCHEMA, **declared)
        made.add("south", people(2), schema=SCHEMA, **declared)
        made.add("odd", people(3), schema=OTHER_BOUNDS, **declared)
        made.add("empty", people(4, 0), schema=SCHEMA, **declared)
        made.add("careless", people(5)[["y"]], schema=SCHEMA, **declared)
        made.start_sites()
        yield made


def asked(there: Institutions, document: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    """The task once it is over, asked of the honest sites and of one that answers so."""

    async def work() -> dict[str, Any]:
        folder = there.folder / "liar"
        there.authority.issue("liar", folder)
        said = Steward(answer, datasets={"patients": {"schema": SCHEMA, "public": False}})
        async with Far(f"127.0.0.1:{there.site_port}", folder / "link", said):
            await asyncio.to_thread(there.connected, "liar")
            task = await asyncio.to_thread(there.submit, {**document, "sites": [*HONEST, "liar"]})
            return await asyncio.to_thread(there.ended, task)

    return asyncio.run(work())


def missed(task: Mapping[str, Any], site: str = "liar") -> str:
    """Return why a site is not in a release that came all the same."""
    assert task["status"] == "done", task
    coverage = task["result"]["coverage"]
    assert set(HONEST) <= {*coverage["answered"]}
    later = coverage.get("missed", {}).get(site)
    return str(coverage["missing"][site] if later is None else later["why"])


def assert_counted(task: Mapping[str, Any], people: int) -> None:
    assert abs(task["result"]["value"] - people) < 5


# --- by mistake ----------------------------------------------------------------------------------------------


def test_a_site_that_declares_a_column_differently_is_left_out_and_named(there: Institutions) -> None:
    mean = {**COUNT, "statistic": "mean", "column": "x"}
    told = there.ended(there.submit({**mean, "sites": [*HONEST, "odd"]}))
    assert "'x' is declared differently" in missed(told, "odd")


def test_a_site_whose_rows_do_not_fit_its_own_schema_is_named_without_a_word_of_them(there: Institutions) -> None:
    told = there.ended(there.submit({**COUNT, "sites": [*HONEST, "careless"]}))
    why = missed(told, "careless")
    assert "cannot reach the rows" in why
    assert_counted(told, 2 * PEOPLE)


def test_a_site_without_rows_answers_like_any_other(there: Institutions) -> None:
    """That it is empty is as private as how many rows the others have."""
    counted = there.ended(there.submit({**COUNT, "sites": [*HONEST, "empty"]}))
    assert counted["result"]["coverage"]["missing"] == {}
    assert_counted(counted, 2 * PEOPLE)
    trained = there.ended(there.submit({**TRAIN, "sites": [*HONEST, "empty"], "min_sites": 3}))
    assert trained["status"] == "done"
    assert trained["result"]["coverage"]["rounds"] == {"north": 3, "south": 3, "empty": 3}
    assert 0 < trained["result"]["value"]["weights"]["x"] < 10


def test_a_certificate_that_has_ended_lets_nobody_in(there: Institutions) -> None:
    folder = there.folder / "late"
    steward = Steward(lambda ask: None, datasets={"patients": {"schema": SCHEMA, "public": False}})

    async def dialled(*, known: bool) -> Far:
        async with Far(f"127.0.0.1:{there.site_port}", folder / "link", steward) as site:
            async with asyncio.timeout(SOON):
                await (asyncio.to_thread(there.connected, "late") if known else site.run)
            return site

    there.authority.issue("late", folder, days=30)
    asyncio.run(dialled(known=True))
    CertificateAuthority(there.home, HandClock(datetime.now(UTC) - timedelta(days=40))).issue("late", folder, days=30)
    assert asyncio.run(dialled(known=False)).status in ("UNAVAILABLE", "PERMISSION_DENIED")
    told = there.ended(there.submit({**COUNT, "sites": [*HONEST, "late"], "patience": 15.0}))
    assert "is not linked" in missed(told, "late")
    assert_counted(told, 2 * PEOPLE)
    assert steward.asks == []


# --- on purpose ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [1e17, -1e17, 0.1 + 0.2, "NaN", None, [3.0]])
def test_a_count_that_no_data_set_gives_is_refused_naming_the_field(there: Institutions, total: Any) -> None:
    honest = {"made_epsilon": COUNT["epsilon"], "made_delta": 0.0, "width": 0.0, "beta": 0.0}
    told = asked(there, COUNT, lambda ask: contribution(ask, {"totals": [total], **honest}))
    assert "payload.totals" in missed(told)
    assert_counted(told, 2 * PEOPLE)


def update(*numbers: float) -> np.ndarray:
    """Weights as they travel."""
    return np.frombuffer(np.array(numbers, dtype="<f4").tobytes(), dtype="|u1")


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"update": update(np.nan, 0.0), "size": 100.0}, "payload.update"),
        ({"update": update(np.inf, 0.0), "size": 100.0}, "payload.update"),
        ({"update": update(3e38, 0.0), "size": 100.0}, "payload.update"),
        ({"update": update(*[0.0] * 1000), "size": 100.0}, "payload.update"),
        ({"update": update(0.0, 0.0), "size": 1e300}, "payload.size"),
        ({"update": update(0.0, 0.0)}, "payload.size"),
        ({"update": update(0.0, 0.0), "size": 100.0, "more": 1.0}, "payload.more"),
    ],
    ids=["NaN", "infinite", "too far", "too long", "too many people", "no size", "something else"],
)
def test_an_update_that_no_site_could_compute_is_refused_naming_the_field(
    there: Institutions, sent: dict[str, Any], field: str
) -> None:
    told = asked(there, TRAIN, lambda ask: contribution(ask, sent))
    assert field in missed(told)
    assert [each["sites"] for each in told["result"]["rounds"]] == [2, 2, 2]


def test_an_update_of_a_hundred_megabytes_is_not_even_kept(there: Institutions) -> None:
    huge = np.zeros(100_000_000, dtype="|u1")
    told = asked(there, TRAIN, lambda ask: contribution(ask, {"update": huge, "size": 100.0}))
    assert "more than" in missed(told)
    assert "bytes" in missed(told)


def test_a_replayed_answer_is_not_counted_again(there: Institutions) -> None:
    kept: dict[str, Any] = {}

    def replay(ask: Mapping[str, Any]) -> dict[str, Any]:
        """The first round's answer to every ask, as if somebody had recorded it."""
        if not kept:
            kept.update(contribution(ask, {"update": update(0.0, 0.0), "size": 100.0}))
        return kept

    told = asked(there, TRAIN, replay)
    assert "something else than what was asked" in missed(told)
    assert told["result"]["coverage"]["rounds"]["liar"] == 1


def test_an_answer_sent_twice_and_one_to_a_question_of_long_ago_are_dropped(there: Institutions) -> None:
    sites: list[Far] = []
    earlier: list[dict[str, Any]] = []

    async def work() -> dict[str, Any]:
        folder = there.folder / "liar"
        there.authority.issue("liar", folder)

        async def answer(message: dict[str, Any]) -> Any:
            told = await steward(message)
            if message["kind"] == "ask":
                again = {**told, "id": message["id"]}
                for old in [*earlier, again]:
                    await sites[0].say(old)  # and then the same once more, as the answer
                earlier.append(again)
            return told

        sizes = {0: {"size": 100.0}}
        steward = Steward(
            lambda ask: contribution(ask, {"update": update(0.0, 0.0), **sizes.get(ask["ask"]["phase"], {})}),
            datasets={"patients": {"schema": SCHEMA, "public": False}},
        )
        said: Callable[[dict[str, Any]], Awaitable[Any]] = answer
        async with Far(f"127.0.0.1:{there.site_port}", folder / "link", said) as site:
            sites.append(site)
            await asyncio.to_thread(there.connected, "liar")
            document = {**TRAIN, "sites": [*HONEST, "liar"], "min_sites": 3}
            return await asyncio.to_thread(lambda: there.ended(there.submit(document)))

    told = asyncio.run(work())
    assert told["status"] == "done"
    assert told["result"]["coverage"]["rounds"] == {"north": 3, "south": 3, "liar": 3}
    assert [each["sites"] for each in told["result"]["rounds"]] == [3, 3, 3]


def test_after_all_of_this_the_honest_sites_ledgers_agree(there: Institutions) -> None:
    for name in HONEST:
        site = there.sites[name]
        until(lambda site=site: True if all(m.reserved == 0 for m in site.block().meters.values()) else None, SOON)
        assert any(entry.event == "answer" for entry in site.audited())
