"""Training with noise at two servers: round after round in shares, of which none stands for another."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.federation import Gathering, Near, refusal
from tests.support.shared_totals import ASKED, HELPS, NAMES, Hospitals, Leader, answering
from tests.support.split_helper import Ward
from tests.support.training import DOCUMENT, Silent, patients, site
from tests.support.training import run as run_alone
from thebes.data.schema import schema_of
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import system
from thebes.site.helping.keys import FOLDER
from thebes.site.helping.second_server import DATABASE
from thebes.tasks import registry
from thebes.tasks.document import InvalidDocument
from thebes.tasks.train.noises import FIRST, LATER, TEST
from thebes.tasks.train.plan import TrainingPlan
from thebes.wire.link import Code, Word

TRAIN: dict[str, Any] = {
    **{name: value for name, value in ASKED.items() if name != "statistic"},
    "type": "train",
    "model": "LinearRegression",
    "inputs": ["age"],
    "output": "share",
    "features": {"share": {"divide": ["age", 100]}},
    "rounds": 3,
    "epsilon": 8.0,
    "delta": 1e-5,
}
BUDGET = {"epsilon": 10.0, "delta": 1e-3}


def run(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on a loop of its own."""

    @wraps(test)
    def on_a_loop(*given: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*given, **named), 120))

    return on_a_loop


@pytest.fixture
def ward(tmp_path: Path) -> Ward:
    return Ward(tmp_path / "ward", policy=HELPS, randomness=system)


def tables() -> dict[str, Any]:
    return {name: site(patients(count, seed=count)) for name, count in (("a", 800), ("b", 600), ("c", 700))}


# --- what is learned -------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"loss_share": 0.1}, {"average": "last", "momentum": 0.5}])
def test_without_noise_it_learns_what_one_that_sees_every_total_learns(more: dict[str, Any]) -> None:
    """Also where it goes on from what was kept after every round."""
    weights = [
        run_alone({**DOCUMENT, **more, "noise": noise}, tables(), Silent(), restarted=True)[0].release().model.weights
        for noise in ("coordinator", "split")
    ]
    assert np.array_equal(*weights)


def test_steps_by_the_curvature_are_those_of_two_noises_instead_of_one() -> None:
    """The noise to expect in it makes them shorter."""
    asked = {**DOCUMENT, "update": "newton", "epsilon": 2.0}
    once, split = (
        run_alone({**asked, "noise": noise}, tables(), Silent())[0].release().model.weights
        for noise in ("coordinator", "split")
    )
    assert not np.array_equal(once, split)
    assert np.allclose(once, split, rtol=0.2)


def test_a_test_of_the_model_counts_everybody_whom_a_coin_keeps_out() -> None:
    release = run_alone({**DOCUMENT, "noise": "split", "quality": True, "epsilon": 50.0}, tables(), Silent())[
        0
    ].release()
    assert 150 < release.extra["quality"]["people"] < 280
    assert release.extra["quality"]["value"] > 0.8


@run
async def test_sites_train_a_model_though_neither_server_sees_a_sum(tmp_path: Path, ward: Ward) -> None:
    hospitals = Hospitals(tmp_path, ward, **BUDGET)
    async with Gathering(tmp_path / "c") as coordinator:
        await hospitals.linked(coordinator)
        over = await coordinator.asked({**TRAIN, "quality": True})
        assert over["status"] == "done"
        result, certificate = over["result"], over["result"]["certificate"]
        assert (certificate["trust"], certificate["epsilon"], certificate["delta"]) == ("split", 8.0, 1e-5)
        assert certificate["parameters"]["servers"] == ["the coordinator", "the helper ward"]
        assert certificate["parameters"]["helper_key"] == ward.helper.fingerprint()
        assert "at least one of the coordinator and the helper ward keeps its word" in certificate["text"]
        assert "once at each of two servers in every round" in certificate["mechanism"]
        assert result["coverage"]["rounds"] == dict.fromkeys(NAMES, 3)
        assert result["value"]["weights"]["age"] > 0.2  # to be .55, of 300 people with ages from 20 to 79
        steps = [(message["step"], message.get("phase")) for message in ward.heard]
        assert steps == [("open", None), ("add", 0), ("add", 1), ("add", 2), ("add", 3)]
        assert not coordinator.home.keys.of(over["task_id"])
    assert not [*(ward.home / FOLDER).iterdir()]


@run
async def test_what_a_site_pays_is_the_document_and_who_is_missing_is_named(tmp_path: Path, ward: Ward) -> None:
    hospitals = Hospitals(tmp_path, ward, **BUDGET, filter="basic")
    more = Hospitals(tmp_path / "more", ward, **BUDGET)
    async with Gathering(tmp_path / "c") as coordinator:
        await hospitals.linked(coordinator)

        async def once(message: dict[str, Any]) -> dict[str, Any]:
            if message["kind"] == Word.ASK and message["ask"]["phase"] > 0:
                return refusal(message, "policy")
            return await answering(more.offices["north"])(message)

        await coordinator.near(east=once)
        over = await coordinator.asked({**TRAIN, "min_sites": 3})
        assert over["status"] == "done"
        assert over["result"]["coverage"]["missed"]["east"]["rounds"] == 2
        with pytest.raises(InvalidDocument, match="min_sites"):
            await coordinator.post({**TRAIN, "min_sites": 5})
    assert {hospitals.spent(name) for name in NAMES} == {8.0}


# --- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "field", "words"),
    [
        ({"local_steps": 2}, "local_steps", "split"),
        ({"min_sites": 2}, "min_sites", "at least 3"),
        ({"noise": "site"}, "helper", "goes with"),
        ({"sites": [*NAMES, "ward"]}, "helper", "must not be one of the sites"),
    ],
)
def test_a_training_that_cannot_be_split_is_refused_by_field(more: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        registry.check({**TRAIN, **more})
    assert words in dict(refused.value.problems)[field]


def test_more_numbers_than_go_in_shares_are_refused_before_anybody_is_asked() -> None:
    codes = {"type": "string", "values": [f"c{n}" for n in range(1100)]}
    age = {"type": "integer", "low": 0, "high": 100}
    schema = schema_of({"unit": "person", "columns": {"age": age, "code": codes}})
    asked = {**TRAIN, "features": None, "inputs": ["code"], "output": "age"}
    TrainingPlan(registry.check(asked).descent, schema)  # type: ignore[attr-defined]
    with pytest.raises(Mistake, match="524,288"):
        TrainingPlan(registry.check({**asked, "update": "newton"}).descent, schema)  # type: ignore[attr-defined]


def test_an_algorithm_in_blocks_is_split_like_the_training_that_it_is() -> None:
    gradient = {"model": "LinearRegression", "inputs": ["age"], "output": "share"}
    told = {name: TRAIN[name] for name in ("dataset", "noise", "helper", "features", "epsilon", "delta", "patience")}
    blocks = {"map": {"gradient": gradient}, "reduce": "mean", "update": {"rule": "sgd"}, "stop": {"rounds": 3}}
    assert registry.check({"type": "algorithm", **told, **blocks}) == registry.check(TRAIN)


# --- what a helper lets a coordinator do -----------------------------------------------------------------


def of_round(leader: Leader, phase: int, sort: str = LATER, size: int = 2) -> list[Any]:
    return [leader.share(100, phase=phase, sort=sort, size=size) for _ in range(3)]


def test_no_round_stands_for_another(ward: Ward) -> None:
    """A round's shares added up with those of another would be told under less noise than they were paid for."""
    leader = Leader(ward, TRAIN)
    first, second = of_round(leader, 0, FIRST), of_round(leader, 1)
    assert "one after another" in leader.add(second, phase=1)["reason"]
    assert leader.add(second, phase=0)["code"] == Code.POLICY  # none opens
    said = leader.add([*first, *second], phase=0)
    assert said["counted"] == "111000"
    assert leader.add(first, phase=1)["code"] == Code.POLICY
    assert "closed once" in leader.add(first, phase=0)["reason"]
    assert leader.add([*first, *second], phase=0) == said
    assert leader.add(second, phase=1)["counted"] == "111"
    for phase in (3, -1, True, "1"):
        assert leader.add(of_round(leader, 2), phase=phase)["code"] == Code.DOCUMENT
    assert "closed once" in leader.add([*first, *second], phase=0)["reason"]  # nobody needs that any more
    last = of_round(leader, 2)
    said = leader.add(last, phase=2)
    assert said["counted"] == "111"
    assert leader.add(last, phase=2) == said
    assert leader.add(of_round(leader, 2), phase=2)["kind"] == Word.REFUSAL
    assert not [*(ward.home / FOLDER).iterdir()]


def test_a_share_opens_only_for_what_its_site_says_that_it_is(ward: Ward) -> None:
    """In the round in which a site tells its people the rest has more noise, and a test has that of counts."""
    leader = Leader(ward, {**TRAIN, "quality": True})
    first = of_round(leader, 0, FIRST)
    assert leader.add([[*share[:3], LATER] for share in first], phase=0)["code"] == Code.POLICY
    assert leader.add([[*share[:3], TEST] for share in first], phase=0)["code"] == Code.POLICY
    for sort in ("", "x", "é", "r" * 41, 3):
        assert leader.add([*first, [*first[0][:3], sort]], phase=0)["code"] == Code.DOCUMENT
    mixed = [*first, leader.share(1, phase=0, sort=TEST, size=4)]
    assert "neither all of a round" in leader.add(mixed, phase=0)["reason"]
    assert leader.add([*first, *of_round(leader, 0)], phase=0)["counted"] == "111111"
    tested = of_round(leader, 1, TEST, size=4)  # a training may end early
    assert leader.add(tested, phase=1)["counted"] == "111"
    plain = Leader(Ward(ward.home.parent / "plain", policy=HELPS), TRAIN)
    assert "neither all of a round" in plain.add(of_round(plain, 0, TEST, size=4), phase=0)["reason"]


def test_an_older_database_beside_the_keys_lets_no_round_be_noised_twice(ward: Ward) -> None:
    leader = Leader(ward, TRAIN)
    first = of_round(leader, 0, FIRST)
    with closing(sqlite3.connect(ward.home / DATABASE)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    older = (ward.home / DATABASE).read_bytes()
    assert leader.add(first, phase=0)["counted"] == "111"
    ward.helper._tasks.close()  # with its last connection the write-ahead log goes
    (ward.home / DATABASE).write_bytes(older)
    ward.start()
    leader.helper = ward.helper
    assert "restored from a copy" in leader.add(first, phase=0)["reason"]


# --- accidents -------------------------------------------------------------------------------------------


@run
async def test_a_helper_killed_in_the_middle_says_the_same_round_again(tmp_path: Path, ward: Ward) -> None:
    killed = list[dict[str, Any]]()

    def kill(message: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any] | None:
        if message.get("phase") != 1 or killed:
            return answer
        killed.append(answer)
        ward.start()
        links["ward"].leave()
        return None

    ward.lie = kill
    async with Gathering(tmp_path / "c") as coordinator:
        links = await Hospitals(tmp_path, ward, **BUDGET).linked(coordinator)
        task = await coordinator.post(TRAIN)
        while not killed:
            await asyncio.sleep(0.01)
        Near(coordinator.links, "ward", ward)
        assert (await coordinator.over(task))["status"] == "done"
    again = [said for message, said in zip(ward.heard, ward.said, strict=True) if message.get("phase") == 1]
    assert again == [{}, killed[0]]


@run
async def test_a_coordinator_killed_in_the_middle_goes_on_and_nobody_pays_twice(tmp_path: Path, ward: Ward) -> None:
    """Before it has stored what the helper said of a round, and while another one is asked for."""
    hospitals, dead = Hospitals(tmp_path, ward, **BUDGET, filter="basic"), asyncio.Event()

    async def heard(message: dict[str, Any]) -> dict[str, Any] | None:
        if message.get("phase") == 1 and not dead.is_set():
            await ward(message)
            dead.set()
            return None
        return await ward(message)

    coordinator = await Gathering(tmp_path / "c").open()
    await hospitals.linked(coordinator)
    Near(coordinator.links, "ward", heard)
    task = await coordinator.post(TRAIN)
    async with asyncio.timeout(60):
        await dead.wait()
    await coordinator.close(politely=False)
    async with Gathering(tmp_path / "c") as after:
        await hospitals.linked(after)
        Near(after.links, "ward", heard)
        over = await after.over(task)
        assert over["status"] == "done"
        assert over["result"]["coverage"]["rounds"] == dict.fromkeys(NAMES, 3)
    sums = [said for message, said in zip(ward.heard, ward.said, strict=True) if message.get("phase") == 1]
    assert len(sums) == 2
    assert sums[0] == sums[1]
    assert [message["step"] for message in ward.heard].count("open") == 1
    assert {hospitals.spent(name) for name in NAMES} == {8.0}


@run
async def test_a_helper_that_will_not_go_on_leaves_the_model_of_the_rounds_before(tmp_path: Path, ward: Ward) -> None:
    no = {"kind": "refusal", "code": "policy", "reason": "no more"}
    ward.lie = lambda message, answer: no if message.get("phase") == 2 else answer
    async with Gathering(tmp_path / "c") as coordinator:
        await Hospitals(tmp_path, ward, **BUDGET).linked(coordinator)
        over = await coordinator.asked(TRAIN)
        assert over["status"] == "expired"
        assert len(over["result"]["rounds"]) == 2
        parameters = over["result"]["certificate"]["parameters"]
        assert (parameters["rounds"], parameters["charged"]["at_most"]) == (2, 3)
        told = (await coordinator.service.progress(over["task_id"]))["sites"]
        assert all("the helper refused: no more" in why for why in told["missing"].values())
        assert told["reasons"] == dict.fromkeys(NAMES, "failed")
