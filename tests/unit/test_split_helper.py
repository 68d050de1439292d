"""Split trust over the link: people, a coordinator and a helper, of which the last two never meet a value."""

from __future__ import annotations

import asyncio
import base64
import secrets
import sqlite3
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import wraps
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.coordinator import HandClock
from tests.support.federation import Gathering, Near
from tests.support.split_helper import HELPS, VALUES, Led, Ward, document
from thebes.coordinator.auth.accounts import ADMIN
from thebes.coordinator.people.contribution_check import Sent
from thebes.coordinator.sites.helped_store import HelpedStore, LedTask, VerifyJob
from thebes.data.rows import Rows
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import system
from thebes.sharing import LEADER, HelperIdentity, SealingKey, StrangeHelper, bound_to, context_of
from thebes.sharing.circuits import CountCircuit
from thebes.sharing.field import ORDER, read, roots, written
from thebes.site.budget.policy import Policy
from thebes.site.budget.policy_text import read_policy
from thebes.site.helping.keys import FOLDER, HelperKeys
from thebes.site.helping.second_server import DATABASE, Helper
from thebes.site.home import AUDIT
from thebes.site.steward.audit_log import Audit
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.document import InvalidDocument
from thebes.tasks.protocols import Ask, TaskClosed
from thebes.wire import helping
from thebes.wire.link import Code, Word

CUT = np.clip(VALUES, 0, 100)


def run(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on a loop of its own."""

    @wraps(test)
    def on_a_loop(*given: Any, **named: Any) -> None:
        asyncio.run(test(*given, **named))

    return on_a_loop


@pytest.fixture
def ward(tmp_path: Path) -> Ward:
    return Ward(tmp_path / "ward")


async def linked(coordinator: Gathering, ward: Ward) -> Near:
    found = Near(coordinator.links, "ward", ward)
    await asyncio.sleep(0)
    return found


async def asked(coordinator: Gathering, task: str) -> Ask:
    async with asyncio.timeout(60):
        while not isinstance(found := await coordinator.service.contributions.ask(task, "me"), Ask):
            await asyncio.sleep(0.01)
    return replace(found, task=task)  # as whoever answers has booked it


def made(told: dict[str, Any], ask: Ask, values: list[float]) -> list[dict[str, Any]]:
    checked = registry.check(told)
    owner = registry.owner(checked)
    rows = Rows.one_each({"age": np.array(values)})
    sent = owner.contribute(checked, ask, rows, RecordedClaim(), randomness=system())
    return list(sent.payloads(owner.layout(checked, ask)))


async def send(coordinator: Gathering, task: str, ask: Ask, payload: dict[str, Any], who: str | None = None) -> str:
    sent = Sent(ask.ask_id, ask.part, payload, contributor=who or secrets.token_hex(16))
    return await coordinator.service.contributions.submit(task, sent)


async def ended(coordinator: Gathering, task: str) -> dict[str, Any]:
    """End the task, the coordinator's worker working meanwhile."""
    async with asyncio.timeout(120):
        while (await coordinator.service.task(task))[0]["status"] in ("open", "running"):
            await asyncio.to_thread(coordinator.closing.step)
            await asyncio.sleep(0.02)
    await asyncio.to_thread(coordinator.closing.step)
    return await coordinator.over(task)


async def put_up(coordinator: Gathering, **more: Any) -> tuple[str, dict[str, Any]]:
    task = await coordinator.post(document(**more))
    return task, (await coordinator.service.task(task))[0]["document"]


@run
async def test_two_servers_answer_without_either_seeing_a_value(tmp_path: Path, ward: Ward) -> None:
    async with Gathering(tmp_path / "c") as coordinator:
        await linked(coordinator, ward)
        task, told = await put_up(coordinator, epsilon=8.0)
        assert told["helper_key"] == ward.helper.fingerprint()
        ask = await asked(coordinator, task)
        for payload in made(told, ask, VALUES):
            await send(coordinator, task, ask, payload)
        over = await ended(coordinator, task)
        assert over["status"] == "done"
        bar, certificate = over["result"]["interval"], over["result"]["certificate"]
        assert abs(over["result"]["value"] - CUT.mean()) < 40
        assert bar is not None
        assert certificate["trust"] == "split"
        assert certificate["parameters"]["servers"] == ["the coordinator", "the helper ward"]
        assert certificate["parameters"]["helper_key"] == ward.helper.fingerprint()
        assert "at least one of the coordinator and the helper ward keeps its word" in certificate["text"]
        assert certificate["contributors"] == len(VALUES)


# --- what goes wrong between people and the two ----------------------------------------------------------


@run
async def test_what_proves_nothing_is_not_counted_and_the_task_waits_for_more(tmp_path: Path, ward: Ward) -> None:
    async with Gathering(tmp_path / "c") as coordinator:
        await linked(coordinator, ward)
        first, _ = await put_up(coordinator, name="another")
        task, told = await put_up(coordinator)
        other, ask = await asked(coordinator, first), await asked(coordinator, task)
        strange = made((await coordinator.service.task(first))[0]["document"], other, [40.0])[0]
        good = made(told, ask, VALUES)
        await send(coordinator, task, ask, strange)  # of another task: it does not open here
        for payload in good[:10]:
            await send(coordinator, task, ask, payload)
        async with asyncio.timeout(60):
            while len(ward.heard) < 3 or (await coordinator.service.task(task))[0]["status"] != "open":
                await asyncio.sleep(0.02)
        assert ward.said[-1]["counted"].count("0") == 1
        assert (await coordinator.service.task(task))[0]["contributions"] == 10
        await send(coordinator, task, ask, good[10])
        over = await ended(coordinator, task)
        assert over["status"] == "done"
        assert over["result"]["certificate"]["contributors"] == 11


@run
async def test_who_takes_an_answer_back_after_it_was_verified_is_not_added_up(tmp_path: Path, ward: Ward) -> None:
    async with Gathering(tmp_path / "c") as coordinator:
        await linked(coordinator, ward)
        task, told = await put_up(coordinator, epsilon=9.0)
        ask = await asked(coordinator, task)
        good = made(told, ask, [*VALUES, 60.0, 61.0])
        receipts = [await send(coordinator, task, ask, payload) for payload in good[:10]]
        bad = {"report": good[10]["report"][:-8] + "AAAAAAA="}  # of a sealed share that was damaged on its way
        await send(coordinator, task, ask, bad)
        async with asyncio.timeout(60):
            while not any(said.get("counted") for said in ward.said):
                await asyncio.sleep(0.02)
            while (await coordinator.service.task(task))[0]["status"] != "open":
                await asyncio.sleep(0.02)
        await coordinator.service.contributions.withdraw(task, receipts[0])
        for payload in good[11:]:
            await send(coordinator, task, ask, payload)
        over = await ended(coordinator, task)
        close = next(message for message in ward.heard if message["step"] == "close")
        assert over["status"] == "done"
        assert len(close["dropped"]) == 1
        assert close["count"] == over["result"]["certificate"]["contributors"] == 11


@run
async def test_a_report_with_a_number_that_is_no_element_is_refused_by_field(tmp_path: Path, ward: Ward) -> None:
    async with Gathering(tmp_path / "c") as coordinator:
        await linked(coordinator, ward)
        task, told = await put_up(coordinator)
        ask = await asked(coordinator, task)
        raw = bytearray(base64.b64decode(made(told, ask, [40.0])[0]["report"]))
        raw[16:24] = b"\xff" * 8
        for report in (base64.b64encode(raw).decode(), "AAAA", base64.b64encode(raw[:-3]).decode()):
            with pytest.raises(Mistake, match=r"payload\.report"):
                await send(coordinator, task, ask, {"report": report})
        assert (await coordinator.service.task(task))[0]["contributions"] == 0


def test_nothing_is_sealed_to_a_key_that_the_named_helper_did_not_sign() -> None:
    """A coordinator that invents a helper, or shows one's key of another document or of another run, gets nothing."""
    honest, other = (HelperIdentity.from_bytes(HelperIdentity.new()) for _ in range(2))
    told = registry.check(document(helper_key=honest.fingerprint))
    context = bound_to("t", context_of(bytes.fromhex(told.digest), "phase-0"))
    owner, rows = registry.owner(told), Rows.one_each({"age": np.array([40.0])})

    def sealed(shown: dict[str, str]) -> Any:
        ask = Ask("a", "phase-0", 0, shown, task="t")
        return owner.contribute(told, ask, rows, RecordedClaim(), randomness=system())

    good = honest.shown(SealingKey.generate().public, context)
    assert sealed(good).count == 1
    moved = honest.shown(SealingKey.generate().public, bound_to("t", context_of(bytes(32), "phase-0")))
    other_run = honest.shown(
        SealingKey.generate().public, bound_to("u", context_of(bytes.fromhex(told.digest), "phase-0"))
    )
    swapped = {**good, "helper_key": SealingKey.generate().public.hex()}
    strangers = other.shown(SealingKey.generate().public, context)
    for bad in (strangers, moved, other_run, swapped, {}, {**good, "signature": "zz"}):
        with pytest.raises(StrangeHelper):
            sealed(bad)


def test_what_was_sealed_for_another_run_of_the_document_does_not_open(ward: Ward) -> None:
    """Else a leader could ask one person under many ids, and have all their answers added up under one noise."""
    one = Led(ward, task="v")
    own = one.ask.payload["helper_key"]
    identity = HelperKeys(ward.home).identity()
    context = bound_to("w", context_of(bytes.fromhex(one.document.digest), "phase-0"))
    one.ask = replace(one.ask, task="w", payload=identity.shown(bytes.fromhex(own), context))
    strange, _ = one.rows([40.0, 50.0])
    assert one.step("verify", number=0, reports=strange)["counted"] == "00"


# --- accidents -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["open", "verify", "close"])
@run
async def test_a_helper_killed_after_it_stored_an_answer_says_it_again(tmp_path: Path, step: str) -> None:
    """Its answer never arrives; it begins anew over its disk, and is asked the same."""
    ward, killed = Ward(tmp_path / "ward", randomness=system), list[dict[str, Any]]()

    def kill(message: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any] | None:
        if message["step"] != step or killed:
            return answer
        killed.append(answer)
        ward.start()
        near.leave()
        return None

    ward.lie = kill
    async with Gathering(tmp_path / "c") as coordinator:
        near = await linked(coordinator, ward)
        task, told = await put_up(coordinator)
        if step == "open":
            async with asyncio.timeout(60):
                while not killed:
                    await asyncio.sleep(0.01)
            await linked(coordinator, ward)
        ask = await asked(coordinator, task)
        for payload in made(told, ask, VALUES):
            await send(coordinator, task, ask, payload)
        async with asyncio.timeout(60):
            while not killed:
                await asyncio.sleep(0.01)
        await linked(coordinator, ward)
        assert (await ended(coordinator, task))["status"] == "done"
    again = [said for message, said in zip(ward.heard, ward.said, strict=True) if message["step"] == step]
    assert again == [{}, killed[0]]


@pytest.mark.parametrize("step", ["verify", "close"])
@run
async def test_a_leader_killed_before_it_stored_an_answer_asks_the_same_again(tmp_path: Path, step: str) -> None:
    ward, dead = Ward(tmp_path / "ward", randomness=system), asyncio.Event()

    async def heard(message: dict[str, Any]) -> dict[str, Any] | None:
        if message.get("step") == step and not dead.is_set():
            await ward(message)
            dead.set()
            return None
        return await ward(message)

    coordinator = await Gathering(tmp_path / "c").open()
    Near(coordinator.links, "ward", heard)
    task, told = await put_up(coordinator)
    ask = await asked(coordinator, task)
    for payload in made(told, ask, VALUES):
        await send(coordinator, task, ask, payload)
    async with asyncio.timeout(60):
        await dead.wait()
    await coordinator.close(politely=False)
    async with Gathering(tmp_path / "c") as after:
        Near(after.links, "ward", heard)
        assert (await ended(after, task))["status"] == "done"
    asked_ = [message for message in ward.heard if message["step"] == step]
    said = [said for message, said in zip(ward.heard, ward.said, strict=True) if message["step"] == step]
    assert {**asked_[0], "id": ""} == {**asked_[1], "id": ""}
    assert said[0] == said[1]


@run
async def test_a_leader_that_another_one_overtakes_goes_on_with_what_that_one_stored(
    tmp_path: Path, ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes have the seat for a moment: the other stores a verdict on a job that this one is about to read."""
    read, took_over = HelpedStore.records, list[LedTask]()

    def overtaken(store: HelpedStore, task: LedTask, job: VerifyJob) -> Any:
        if not took_over:
            took_over.append(task)
            store.judge(task, job, "0" * len(job.reports), [False] * len(job.reports))
        return read(store, task, job)

    monkeypatch.setattr(HelpedStore, "records", overtaken)
    async with Gathering(tmp_path / "c") as coordinator:
        await linked(coordinator, ward)
        task, told = await put_up(coordinator)
        ask = await asked(coordinator, task)
        for payload in made(told, ask, VALUES):
            await send(coordinator, task, ask, payload)
        async with asyncio.timeout(60):
            while not took_over or (await coordinator.service.task(task))[0]["status"] == "running":
                await asyncio.sleep(0.02)
        assert (await coordinator.service.task(task))[0]["status"] == "open"
        for payload in made(told, ask, VALUES):
            await send(coordinator, task, ask, payload)
        assert (await ended(coordinator, task))["status"] == "done"


@run
async def test_a_helper_that_came_back_from_a_copy_noises_nothing_again(tmp_path: Path, ward: Ward) -> None:
    async with Gathering(tmp_path / "c") as coordinator:
        await linked(coordinator, ward)
        task, told = await put_up(coordinator)
        ask = await asked(coordinator, task)
        for key in (ward.home / FOLDER).iterdir():  # no copy has them
            key.unlink()
        for payload in made(told, ask, VALUES):
            await send(coordinator, task, ask, payload)
        assert (await ended(coordinator, task))["status"] == "failed"
        assert not coordinator.home.keys.of(task)


@pytest.mark.parametrize(
    "lie",
    [
        lambda message, answer: {**answer, "sum": ["ffffffffffffffff"]},
        lambda message, answer: {**answer, "sum": answer["sum"] * 2},
        lambda message, answer: {"kind": "helped", "sum": "1"},
        lambda message, answer: {"kind": "contribution"},
        lambda message, answer: {"kind": "refusal", "code": "policy", "reason": "no more"},
    ],
)
@run
async def test_a_helper_whose_sum_is_none_ends_the_task_without_an_answer(
    tmp_path: Path, ward: Ward, lie: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]
) -> None:
    ward.lie = lambda message, answer: lie(message, answer) if message["step"] == "close" else answer
    async with Gathering(tmp_path / "c") as coordinator:
        await linked(coordinator, ward)
        task, told = await put_up(coordinator)
        ask = await asked(coordinator, task)
        for payload in made(told, ask, VALUES):
            await send(coordinator, task, ask, payload)
        over = await ended(coordinator, task)
        assert (over["status"], over["result"]) == ("failed", None)
        assert not coordinator.home.keys.of(task)


@run
async def test_a_helper_that_lies_about_seeds_counts_nobody(tmp_path: Path, ward: Ward) -> None:
    def lie(message: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        if message["step"] != "verify":
            return answer
        return {**answer, "seeds": base64.b64encode(bytes(len(base64.b64decode(answer["seeds"])))).decode()}

    ward.lie = lie
    async with Gathering(tmp_path / "c") as coordinator:
        await linked(coordinator, ward)
        task, shown = await put_up(coordinator, aggregator="histogram", bins=4)
        ask = await asked(coordinator, task)
        for payload in made(shown, ask, VALUES):
            await send(coordinator, task, ask, payload)
        async with asyncio.timeout(60):
            while True:
                told = (await coordinator.service.task(task))[0]
                if (told["status"], told["contributions"]) == ("open", 0):
                    break
                await asyncio.sleep(0.02)


@run
async def test_a_helper_that_is_gone_is_waited_for_and_then_everything_is_destroyed(tmp_path: Path) -> None:
    clock = HandClock()
    ward = Ward(tmp_path / "ward", clock=lambda: clock.now().timestamp())
    async with Gathering(tmp_path / "c", clock=clock) as coordinator:
        near = await linked(coordinator, ward)
        until = (clock.now() + timedelta(hours=1)).isoformat()
        task, told = await put_up(coordinator, expires_at=until)
        ask = await asked(coordinator, task)
        near.leave()
        for payload in made(told, ask, VALUES):
            await send(coordinator, task, ask, payload)
        await asyncio.sleep(0.3)
        assert (await coordinator.service.task(task))[0]["status"] == "running"
        clock.move(hours=2, seconds=1)
        assert (await ended(coordinator, task))["status"] == "expired"
        assert not coordinator.home.keys.of(task)
        assert [*(ward.home / FOLDER).iterdir()]
        await linked(coordinator, ward)  # back: it is told, and destroys its half
        async with asyncio.timeout(60):
            while [*(ward.home / FOLDER).iterdir()]:
                await asyncio.sleep(0.05)


@run
async def test_a_task_that_is_cancelled_is_forgotten_by_its_helper(tmp_path: Path, ward: Ward) -> None:
    async with Gathering(tmp_path / "c") as coordinator:
        await linked(coordinator, ward)
        task, told = await put_up(coordinator)
        ask = await asked(coordinator, task)
        await send(coordinator, task, ask, made(told, ask, [40.0])[0])
        await coordinator.service.cancel(task, ADMIN)
        async with asyncio.timeout(60):
            while [*(ward.home / FOLDER).iterdir()]:
                await asyncio.sleep(0.05)
        with pytest.raises(TaskClosed):
            await coordinator.service.contributions.ask(task, "me")


# --- what a helper lets a leader do ----------------------------------------------------------------------


def test_a_report_is_judged_once_and_the_same_job_gets_the_same_bytes(ward: Ward) -> None:
    led = Led(ward)
    reports, _ = led.rows(VALUES)
    first = led.step("verify", number=0, reports=reports)
    assert first["counted"] == "1" * 11
    ward.start()
    led.helper = ward.helper
    assert led.step("verify", number=0, reports=reports) == first
    for number, again in ((1, reports), (0, led.rows(VALUES)[0])):
        refused = led.step("verify", number=number, reports=again)
        assert (refused["kind"], refused["code"]) == (Word.REFUSAL, Code.DOCUMENT)
        assert "once" in refused["reason"]


def test_a_sum_is_said_once_whatever_it_is_asked_for_again(tmp_path: Path) -> None:
    """Two sums over sets that differ by one person would tell the difference, noise or not."""
    ward = Ward(tmp_path / "ward", randomness=system)
    led = Led(ward)
    reports, nonces = led.rows([*VALUES, 60.0])
    led.step("verify", number=0, reports=reports)
    first = led.close(nonces)
    assert first["kind"] == Word.HELPED
    assert led.close(nonces) == first
    ward.start()
    led.helper = ward.helper
    assert led.close(nonces) == first
    assert led.close(nonces[1:], nonces[:1])["kind"] == Word.REFUSAL
    assert led.step("verify", number=1, reports=led.rows(VALUES)[0])["kind"] == Word.REFUSAL
    assert led.step("open", requestor="ana", document=led.told)["kind"] == Word.REFUSAL
    assert not [*(ward.home / FOLDER).iterdir()]
    rows = sqlite3.connect(ward.home / DATABASE).execute("SELECT (SELECT count(*) FROM job), count(*) FROM report")
    assert rows.fetchone() == (0, 0)


def test_a_helper_adds_up_no_fewer_than_the_document_says(ward: Ward) -> None:
    led = Led(ward)
    reports, nonces = led.rows(VALUES)
    led.step("verify", number=0, reports=reports)
    few = led.close(nonces[1:], nonces[:1])
    assert (few["kind"], few["code"]) == (Word.REFUSAL, Code.POLICY)
    for other in (led.close(nonces[1:]), led.close([*nonces, bytes(16)])):
        assert "other reports" in other["reason"]
    assert led.close(nonces)["kind"] == Word.HELPED


def test_a_changed_bit_of_what_a_leader_tells_is_refused_whatever_the_value(ward: Ward) -> None:
    """So that no verdict tells of a value: one bit of each byte of its verifier share, for 1 and for 0."""
    led = Led(ward, bounds=None, aggregator="count", missing="count")
    width = led.leader._prio.verifier_bytes
    told = led.rows([40.0, float("nan")] * width)[0]
    rows = np.frombuffer(base64.b64decode(told), dtype=np.uint8).reshape(2 * width, -1).copy()
    for row in range(2 * width):
        rows[row, -1 - row // 2] ^= 1 << row // 2 % 8
    assert led.step("verify", number=0, reports=helping.packed(rows))["counted"] == "0" * 2 * width


#: value, what the leader adds to its share of it, what it takes the value for, and what the random first values of the
#: proof's two wires add up to: its own half of them, nothing, or the truth, which no leader knows
SHIFTS = [*product((0, 1), (1, -1), (0, 1), ("own", "nothing", "known"))]


def test_a_leader_that_shifts_its_share_and_mends_the_proof_learns_nothing_from_the_verdict(ward: Ward) -> None:
    """Selective failure: were 0 + 1 counted and 1 + 1 not, the verdict would be the value. A leader can mend the proof
    for a value that it guesses, but for the wires' random first values, of which it holds one share. That the attack is
    the right one is seen where they are given away: then the verdict is whether the guess was right."""
    led = Led(ward, bounds=None, aggregator="count", missing="count")
    led.rows([40.0 if value else float("nan") for value, *_ in SHIFTS])
    reports, prio = led.sent[0], led.leader._prio
    key, context = (
        HelperKeys(ward.home).of("t"),
        bound_to("t", context_of(bytes.fromhex(led.document.digest), "phase-0")),
    )
    assert isinstance(prio.circuit, CountCircuit)
    assert key is not None
    shares, verifiers = reports.leader.copy(), np.empty((len(SHIFTS), prio.verifier_bytes), dtype=np.uint8)
    at = [int(each) for each in roots(4)]
    half = pow(2, -1, ORDER)
    for row, (_, shift, guess, first) in enumerate(SHIFTS):
        nonce = reports.nonces[row].tobytes()
        theirs = key.sealing.open(reports.sealed[row], context=context, nonce=nonce, public_share=b"")
        proof = prio._expanded(1, np.frombuffer(theirs, dtype=np.uint8)[None])[1][0]
        mine = [int(each) for each in read(shares[row][None])[0]]
        firsts = {"own": sum(mine[1:3]), "nothing": 0, "known": sum(mine[1:3]) + int(proof[0]) + int(proof[1])}
        for place, point in enumerate(at[:-1]):  # the gadget's polynomial: both wires are raised by `shift` at one root
            low, high = (1 + point) * half, (1 - point) * half
            more = shift * low * high * firsts[first] + (2 * guess * shift + shift**2) * high**2
            mine[3 + place] += more
        mine[0] += shift
        shares[row] = written(np.array([[each % ORDER for each in mine]], dtype=np.uint64))[0]
        told = prio.prepare(
            LEADER, key.verify_key, reports.nonces[row : row + 1], reports.public[row : row + 1], shares[row : row + 1]
        ).verifier
        verifier = read(told)
        verifier[0, 0] = (int(verifier[0, 0]) - (guess + shift) * (guess + shift - 1)) % ORDER  # and its check
        verifiers[row] = written(verifier)[0]
    sealed = np.stack([np.frombuffer(each, dtype=np.uint8) for each in reports.sealed])
    rows = np.concatenate([reports.nonces, reports.public, sealed, verifiers], axis=1)
    counted = led.step("verify", number=0, reports=helping.packed(rows))["counted"]
    right = [first == "known" and guess == value for value, _, guess, first in SHIFTS]
    assert [said == "1" for said in counted] == right
    assert sum(right) == 4


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"step": 3},
        {"step": "open"},
        {"step": "verify"},
        {"step": "verify", "number": -1, "reports": ""},
        {"step": "verify", "number": True, "reports": "AAAA"},
        {"step": "verify", "number": 0, "reports": "AAAA"},
        {"step": "verify", "number": 0, "reports": "?"},
        {"step": "close", "dropped": "x"},
        {"step": "close", "dropped": [3], "count": 1, "nonces": "x"},
        {"step": "verify", "task": "../../x", "number": 0, "reports": ""},
    ],
)
def test_whatever_cannot_be_read_is_refused_and_the_helper_goes_on(ward: Ward, message: dict[str, Any]) -> None:
    led = Led(ward)
    refused = ward.helper.step({"kind": "help", "task": "t", **message})
    assert refused["kind"] == Word.REFUSAL
    assert refused["reason"]
    assert led.step("verify", number=0, reports=led.rows(VALUES)[0])["counted"] == "1" * 11


# --- whom a helper helps ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "more", "field", "words"),
    [
        ("", {}, "helper", "no \\[\\[help\\]\\]"),
        (HELPS, {"epsilon": 11.0}, "helper", "no \\[\\[help\\]\\]"),
        (HELPS, {"delta": 1e-6}, "helper", "no \\[\\[help\\]\\]"),
        ('[[help]]\nrequestors = ["*"]\nepsilon = 10\n', {}, "helper", "at least 100 people"),
        (HELPS, {"helper": "local"}, "helper", "another institution"),
        (HELPS, {"helper": "nobody"}, "helper", "is not linked"),
        (HELPS, {"expires_at": None}, "expires_at", "must be given"),
        (HELPS, {"helper": None}, "helper", "is missing"),
        (HELPS, {"helper_key": "0" * 64}, "helper_key", "is not the fingerprint"),
    ],
)
@run
async def test_a_document_whose_helper_would_not_help_is_refused_by_field(
    tmp_path: Path, policy: str, more: dict[str, Any], field: str, words: str
) -> None:
    ward = Ward(tmp_path / "ward", policy=policy)
    async with Gathering(tmp_path / "c") as coordinator:
        await linked(coordinator, ward)
        told = {name: value for name, value in document(**more).items() if value is not None}
        with pytest.raises(InvalidDocument, match=words) as refused:
            await coordinator.post(told)
        assert refused.value.problems[0][0] == field


def test_a_rule_about_helping_is_read_strictly() -> None:
    assert read_policy(HELPS).helping[0].min_count == 11
    assert Policy().helps("ana", Decimal(1), Decimal(0)) is None
    for bad in ("min_count = 1", 'kinds = ["*"]', "delta = true", 'delta = "x"'):
        with pytest.raises(Mistake, match="line 4: help 1, "):
            read_policy(f'[[help]]\nrequestors = ["*"]\nepsilon = 1\n{bad}\n')
    with pytest.raises(Mistake, match="epsilon: is missing"):
        read_policy('[[help]]\nrequestors = ["*"]\n')
    assert read_policy(HELPS + "ended = true\n").helps("ana", Decimal(1), Decimal(0)) is None


def test_a_helper_is_no_institution_of_its_own_at_its_coordinator(tmp_path: Path) -> None:
    helper = Helper(
        tmp_path, name="ward", apart=False, policy=lambda: read_policy(HELPS), audit=Audit(tmp_path / AUDIT)
    )
    refused = helper.quote({"requestor": "ana", "document": document()})
    assert refused["kind"] == Word.REFUSAL
    assert "one institution" in refused["reason"]
