"""Noise at two servers: sites, a coordinator and a helper, of which neither of the last two sees a total."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.coordinator import HandClock
from tests.support.federation import Gathering, Near
from tests.support.shared_totals import ASKED, HELPS, NAMES, Hospitals, Leader, allowing, answering
from tests.support.site_home import AGES
from tests.support.split_helper import Ward
from thebes.coordinator.auth.accounts import Role, Somebody
from thebes.coordinator.sites.site_store import FederationStore
from thebes.data.schema import schema_of
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import system
from thebes.sharing import HelperIdentity, SealingKey
from thebes.site.budget.policy_text import read_policy
from thebes.site.helping.keys import FOLDER
from thebes.site.helping.second_server import DATABASE
from thebes.tasks import registry
from thebes.tasks.aggregation.site_shares import context_at
from thebes.tasks.document import InvalidDocument
from thebes.wire.link import Code, Word

ANA = Somebody("ana", Role.REQUESTOR)
COLUMNS = AGES["columns"]


def run(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on a loop of its own."""

    @wraps(test)
    def on_a_loop(*given: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*given, **named), 120))

    return on_a_loop


@pytest.fixture
def ward(tmp_path: Path) -> Ward:
    return Ward(tmp_path / "ward", policy=HELPS, randomness=system)


# --- what is answered ------------------------------------------------------------------------------------


@run
async def test_a_question_is_answered_though_neither_server_sees_a_total(tmp_path: Path, ward: Ward) -> None:
    hospitals = Hospitals(tmp_path, ward)
    async with Gathering(tmp_path / "c") as coordinator:
        await hospitals.linked(coordinator)
        quote = await coordinator.service.quote(ASKED, ANA)
        assert (quote["allowed"], quote["price"]["epsilon"]) == (True, 1.0)
        over = await coordinator.asked(ASKED)
        assert over["status"] == "done"
        result, certificate = over["result"], over["result"]["certificate"]
        assert abs(result["value"] - 300) < 60  # noise of 2, its odds e^-30
        assert (certificate["trust"], certificate["epsilon"], certificate["delta"]) == ("split", 1.0, 0.0)
        assert certificate["parameters"]["servers"] == ["the coordinator", "the helper ward"]
        assert certificate["parameters"]["helper_key"] == ward.helper.fingerprint() == over["document"]["helper_key"]
        assert "at least one of the coordinator and the helper ward keeps its word" in certificate["text"]
        assert certificate["parameters"]["noise"].keys() == {"coordinator", "helper"}
        assert result["coverage"] == {"answered": [*NAMES], "missing": {}}
        assert [message["step"] for message in ward.heard] == ["open", "add"]
        assert not coordinator.home.keys.of(over["task_id"])
    assert {hospitals.spent(name) for name in NAMES} == {1.0}
    assert not [*(ward.home / FOLDER).iterdir()]


@pytest.mark.parametrize(
    "more",
    [
        {"statistic": "sum", "column": "age"},
        {"statistic": "mean", "column": "age", "delta": 1e-5},
        {"statistic": "variance", "column": "age"},
        {"statistic": "histogram", "column": "age", "bins": 4},
        {"statistic": "quantile", "column": "age", "quantile": 0.5},
        {
            "statistic": None,
            "statistics": {"n": {"statistic": "people"}, "age": {"statistic": "mean", "column": "age"}},
        },
    ],
    ids=lambda more: more["statistic"] or "several",
)
@run
async def test_every_statistic_is_that_of_all_rows_together(tmp_path: Path, more: dict[str, Any]) -> None:
    """At an epsilon with hardly any noise, beside the same question with noise at the coordinator."""
    ward = Ward(tmp_path / "ward", policy=HELPS.replace("epsilon = 10", "epsilon = 400"), randomness=system)
    hospitals = Hospitals(tmp_path, ward, epsilon=5000.0, delta=0.1)
    asked = {name: value for name, value in {**ASKED, **more, "epsilon": 400.0}.items() if value is not None}
    async with Gathering(tmp_path / "c") as coordinator:
        await hospitals.linked(coordinator)
        split = (await coordinator.asked(asked))["result"]
        told = {name: value for name, value in asked.items() if name != "helper"}
        once = (await coordinator.asked({**told, "noise": "coordinator"}))["result"]
    one, other = [
        np.array(list(r["value"].values()) if isinstance(r["value"], dict) else r["value"]) for r in (split, once)
    ]
    assert np.allclose(one, other, rtol=0.02, atol=0.5)


@run
async def test_who_is_missing_is_named_and_fewer_than_three_answer_nothing(tmp_path: Path, ward: Ward) -> None:
    strict = allowing("0" * 64)
    hospitals = Hospitals(tmp_path, ward)
    async with Gathering(tmp_path / "c") as coordinator:
        linked = await hospitals.linked(coordinator)
        other = Hospitals(tmp_path / "other", ward, policy=strict).offices["west"]
        four = await coordinator.near(east=answering(other))
        over = await coordinator.asked(ASKED)
        assert over["status"] == "done"
        (why,) = over["result"]["coverage"]["missing"].items()
        assert why[0] == "east"
        assert "names other helpers" in why[1]
        four["east"].leave()
        linked["west"].leave()
        over = await coordinator.asked({**ASKED, "patience": 0.5})
        assert (over["status"], over["result"]) == ("expired", None)
        assert [message["step"] for message in ward.heard] == ["open", "add", "open"]


# --- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "field", "words"),
    [
        ({"helper": None}, "helper", "is missing"),
        ({"helper": "north"}, "sites", "at least 3"),
        ({"sites": ["north", "south"]}, "sites", "at least 3"),
        ({"sites": [*NAMES, "ward"]}, "helper", "must not be one of the sites"),
        ({"min_sites": 2}, "min_sites", "at least 3"),
        ({"noise": "site"}, "helper", "goes with"),
        ({"helper_key": "0" * 64}, "helper_key", "is not the fingerprint"),
        ({"epsilon": 11.0}, "helper", "sites = true"),
        ({"accuracy": {"alpha": 5.0, "beta": 0.05}, "epsilon": None}, "accuracy", "ask by epsilon"),
    ],
)
@run
async def test_a_document_that_could_not_be_split_is_refused_by_field(
    tmp_path: Path, ward: Ward, more: dict[str, Any], field: str, words: str
) -> None:
    hospitals = Hospitals(tmp_path, ward)
    asked = {name: value for name, value in {**ASKED, **more}.items() if value is not None}
    if asked["type"] == "train":
        asked |= {"model": "LogisticRegression", "inputs": ["age"], "output": "age", "rounds": 1}
    async with Gathering(tmp_path / "c") as coordinator:
        await hospitals.linked(coordinator)
        with pytest.raises(InvalidDocument) as refused:
            await coordinator.post(asked)
        problems = dict(refused.value.problems)
        assert words in problems[field]


@run
async def test_two_sites_that_have_the_data_are_too_few(tmp_path: Path, ward: Ward) -> None:
    hospitals = Hospitals(tmp_path, ward)
    async with Gathering(tmp_path / "c") as coordinator:
        offices = {name: answering(hospitals.offices[name]) for name in NAMES[:2]}
        await coordinator.near(**offices)
        Near(coordinator.links, "ward", ward)
        with pytest.raises(InvalidDocument, match="at least 3"):
            await coordinator.post(ASKED)


def test_a_rule_names_the_helpers_that_it_trusts_by_their_fingerprints() -> None:
    rule = '[[allow]]\nrequestors = ["*"]\ndatasets = ["*"]\nkinds = ["*"]\nepsilon = 1\n'
    assert read_policy(allowing("a" * 64)).rules[0].helpers == ("a" * 64,)
    for bad in ('noise = ["split"]', f'helpers = ["{"a" * 64}"]', 'noise = ["split"]\nhelpers = ["ward"]'):
        with pytest.raises(Mistake, match="helpers"):
            read_policy(f"{rule}{bad}\n")
    with pytest.raises(Mistake, match="sites"):
        read_policy('[[help]]\nrequestors = ["*"]\nepsilon = 1\nsites = 1\n')


@run
async def test_a_helper_of_people_alone_helps_no_sites(tmp_path: Path) -> None:
    ward = Ward(tmp_path / "ward", policy=HELPS.replace("sites = true\n", ""))
    async with Gathering(tmp_path / "c") as coordinator:
        await Hospitals(tmp_path, ward).linked(coordinator)
        with pytest.raises(InvalidDocument, match="with sites = true"):
            await coordinator.post(ASKED)


# --- accidents -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["open", "add"])
@run
async def test_a_helper_killed_after_it_stored_an_answer_says_it_again(tmp_path: Path, ward: Ward, step: str) -> None:
    killed = list[dict[str, Any]]()

    def kill(message: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any] | None:
        if message["step"] != step or killed:
            return answer
        killed.append(answer)
        ward.start()
        links["ward"].leave()
        return None

    ward.lie = kill
    async with Gathering(tmp_path / "c") as coordinator:
        links = await Hospitals(tmp_path, ward).linked(coordinator)
        task = await coordinator.post(ASKED)
        while not killed:
            await asyncio.sleep(0.01)
        Near(coordinator.links, "ward", ward)
        assert (await coordinator.over(task))["status"] == "done"
    again = [said for message, said in zip(ward.heard, ward.said, strict=True) if message["step"] == step]
    assert again == [{}, killed[0]]


@run
async def test_a_coordinator_killed_before_it_stored_a_sum_asks_for_the_same_again(tmp_path: Path, ward: Ward) -> None:
    """Also where a site that was missing is back by then, and one that had answered is gone."""
    hospitals, dead = Hospitals(tmp_path, ward), asyncio.Event()

    async def heard(message: dict[str, Any]) -> dict[str, Any] | None:
        if message.get("step") == "add" and not dead.is_set():
            await ward(message)
            dead.set()
            return None
        return await ward(message)

    coordinator = await Gathering(tmp_path / "c").open()
    await hospitals.linked(coordinator)
    Near(coordinator.links, "ward", heard)
    task = await coordinator.post(ASKED)
    async with asyncio.timeout(60):
        await dead.wait()
    await coordinator.close(politely=False)
    async with Gathering(tmp_path / "c") as after:
        Near(after.links, "ward", heard)
        over = await after.over(task)
        assert over["status"] == "done"
        assert abs(over["result"]["value"] - 300) < 60
    sums = [
        (json.dumps({**message, "id": ""}), said)
        for message, said in zip(ward.heard, ward.said, strict=True)
        if message["step"] == "add"
    ]
    assert len(sums) == 2
    assert sums[0] == sums[1]


@pytest.mark.parametrize(
    "lie",
    [
        lambda answer: {**answer, "sum": ["ffffffffffffffff"] * 2},
        lambda answer: {**answer, "counted": "11"},
        lambda answer: {"kind": "helped"},
        lambda answer: {"kind": "refusal", "code": "policy", "reason": "no more"},
    ],
)
@run
async def test_a_helper_whose_sum_is_none_ends_the_task_without_an_answer(
    tmp_path: Path, ward: Ward, lie: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    ward.lie = lambda message, answer: lie(answer) if message["step"] == "add" else answer
    async with Gathering(tmp_path / "c") as coordinator:
        await Hospitals(tmp_path, ward).linked(coordinator)
        over = await coordinator.asked(ASKED)
        assert (over["status"], over["result"]) == ("failed", None)


@run
async def test_a_helper_that_is_gone_is_waited_for_as_long_as_a_site_is(tmp_path: Path, ward: Ward) -> None:
    def gone(message: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any] | None:
        links["ward"].leave()
        return None

    ward.lie = gone
    async with Gathering(tmp_path / "c") as coordinator:
        links = await Hospitals(tmp_path, ward).linked(coordinator)
        over = await coordinator.asked({**ASKED, "patience": 1.0})
        assert (over["status"], over["result"]) == ("failed", None)
        ward.lie = lambda message, answer: answer
        Near(coordinator.links, "ward", ward)
        while [*(ward.home / FOLDER).iterdir()]:  # it is told that the task is over, and destroys its key
            await asyncio.sleep(0.02)


@run
async def test_a_site_whose_sealed_share_does_not_open_is_in_neither_sum(tmp_path: Path, ward: Ward) -> None:
    hospitals = Hospitals(tmp_path, ward)

    async def damaged(message: dict[str, Any]) -> dict[str, Any]:
        answer = hospitals.offices["north"].answer(message)
        told = dict(answer)
        if told["kind"] == Word.CONTRIBUTION:
            text = told["payload"]["report"]
            told["payload"] = {"report": text[:40] + ("A" if text[40] != "A" else "B") + text[41:]}
        return told

    async with Gathering(tmp_path / "c") as coordinator:
        await hospitals.linked(coordinator)
        await coordinator.near(north=damaged)
        more = Hospitals(tmp_path / "more", ward).offices["north"]
        await coordinator.near(east=answering(more))
        over = await coordinator.asked({**ASKED, "epsilon": 9.0})
        assert over["status"] == "done"
        assert over["result"]["coverage"]["answered"] == ["east", "south", "west"]
        assert "cannot open" in over["result"]["coverage"]["missing"]["north"]
        assert abs(over["result"]["value"] - 300) < 30


# --- what a helper lets a coordinator do, and a site -------------------------------------------------------


def test_one_site_that_is_asked_under_many_ids_is_in_no_sum_twice(ward: Ward) -> None:
    """Else one noise would hide many times what a site paid it for."""
    leader = Leader(ward)
    again = [leader.share(100, task=f"t{number}") for number in range(3)]
    refused = leader.add([leader.share(100), *again])
    assert (refused["kind"], refused["code"]) == (Word.REFUSAL, Code.POLICY)
    said = leader.add([*(leader.share(100) for _ in range(3)), *again])
    assert said["counted"] == "111000"


def test_a_sum_is_said_once_whatever_it_is_asked_for_again(ward: Ward) -> None:
    """Two sums over sets that differ by one site would tell the difference, noise or not."""
    leader = Leader(ward)
    shares = [leader.share(100) for _ in range(4)]
    first = leader.add(shares)
    assert first["counted"] == "1111"
    assert leader.add(shares) == first
    ward.start()
    leader.helper = ward.helper
    assert leader.add(shares) == first
    assert "closed once" in leader.add(shares[1:])["reason"]
    assert leader.step("open", requestor="ana", document=leader.document.as_json())["kind"] == Word.REFUSAL
    assert not [*(ward.home / FOLDER).iterdir()]
    assert sqlite3.connect(ward.home / DATABASE).execute("SELECT count(*) FROM report").fetchone() == (0,)


def test_a_share_counts_once_and_only_under_the_declaration_that_its_site_goes_by(ward: Ward) -> None:
    """Else a coordinator would have a site counted twice under noise for once, or have less noise than rows ask for."""
    leader = Leader(ward)
    shares = [leader.share(100) for _ in range(4)]
    assert "twice" in leader.add([shares[0], *shares])["reason"]
    columns: dict[str, Any] = {**COLUMNS, "who": {"type": "string", "key": True}}
    many = {**AGES, "max_rows_per_unit": 50, "columns": columns}
    narrow = [leader.share(100, many) for _ in range(4)]
    assert "no fewer than 3" in leader.add(narrow)["reason"]
    assert leader.add([*narrow, *shares])["counted"] == "00001111"


def test_a_declaration_that_nobody_goes_by_lets_no_helper_add_less_noise(ward: Ward) -> None:
    """Made up for a share that opens for nobody, of narrow bounds, for which less noise would do."""
    leader = Leader(ward, statistic="sum", column="age")
    narrow = {"unit": "person", "columns": {"age": {"type": "integer", "low": 0, "high": 1}}}
    schemas = [schema_of(AGES).as_json(), schema_of(narrow).as_json()]
    shares = [*(leader.share(100) for _ in range(3)), ["00" * 16, "00" * 80, 1]]
    assert "declared differently" in leader.step("add", schemas=schemas, reports=shares)["reason"]


def test_fewer_shares_than_three_are_not_added_up_and_other_steps_are_refused(ward: Ward) -> None:
    leader = Leader(ward)
    assert leader.add([leader.share(1), leader.share(2)])["code"] == Code.POLICY
    for step, more in (
        ("verify", {"number": 0, "reports": ""}),
        ("close", {"dropped": [], "count": 0, "nonces": ""}),
        ("add", {}),
        ("add", {"schemas": [3], "reports": [["00" * 16, "00" * 80, 0]]}),
        ("add", {"schemas": [{"unit": "x"}], "reports": [["00" * 16, "00" * 80, 0]]}),
        ("add", {"schemas": [], "reports": [["00" * 16, "00" * 80, 0]]}),
        ("add", {"schemas": [AGES], "reports": [["00" * 16, "00" * 80, True]]}),
        ("add", {"schemas": [AGES], "reports": "x"}),
    ):
        refused = leader.step(step, **more)
        assert (refused["kind"], refused["code"]) == (Word.REFUSAL, Code.DOCUMENT), (step, more)


def test_a_helper_that_came_back_from_a_copy_adds_nothing_up(ward: Ward) -> None:
    leader = Leader(ward)
    shares = [leader.share(100) for _ in range(3)]
    for key in (ward.home / FOLDER).iterdir():  # no copy has them
        key.unlink()
    assert "restored from a copy" in leader.add(shares)["reason"]


def test_a_helper_forgets_a_question_without_a_deadline_after_a_day(tmp_path: Path) -> None:
    clock = HandClock()
    ward = Ward(tmp_path / "ward", policy=HELPS, clock=lambda: clock.now().timestamp())
    leader = Leader(ward)
    shares = [leader.share(100) for _ in range(3)]
    clock.move(hours=49)
    assert leader.add(shares)["kind"] == Word.REFUSAL
    assert not [*(ward.home / FOLDER).iterdir()]


@run
async def test_a_site_seals_to_no_key_that_its_helper_did_not_sign_and_pays_nothing(tmp_path: Path, ward: Ward) -> None:
    """A coordinator that shows a key of its own would hold both shares."""
    hospitals = Hospitals(tmp_path, ward)
    document = registry.check({**ASKED, "helper_key": ward.helper.fingerprint()})
    invented = HelperIdentity.from_bytes(HelperIdentity.new())
    shown = invented.shown(SealingKey.generate().public, context_at(document, "phase-0", "t"))  # type: ignore[arg-type]
    async with Gathering(tmp_path / "c") as coordinator:
        links = await hospitals.linked(coordinator)
        ward.lie = lambda message, answer: {**answer, **shown} if message["step"] == "open" else answer
        over = await coordinator.asked(ASKED)
        assert (over["status"], over["result"]) == ("expired", None)
        told = (await coordinator.service.progress(over["task_id"]))["sites"]["missing"]
        assert all("did not sign" in why for why in told.values())
        assert links
    assert {hospitals.spent(name) for name in NAMES} == {0.0}


@run
async def test_the_coordinators_store_holds_shares_under_the_tasks_key_alone(
    tmp_path: Path, ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, keep = list[bytes](), FederationStore.keep

    def noted(store: FederationStore, task: Any, phase: int, snapshot: bytes) -> None:
        kept.append(snapshot)
        keep(store, task, phase, snapshot)

    monkeypatch.setattr(FederationStore, "keep", noted)
    async with Gathering(tmp_path / "c") as coordinator:
        await Hospitals(tmp_path, ward).linked(coordinator)
        assert (await coordinator.asked(ASKED))["status"] == "done"
    (snapshot,) = kept
    assert b"north" not in snapshot
