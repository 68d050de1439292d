"""Tasks that institutions answer, run beside sites that answer, refuse, lie, are slow, or go away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from tests.support.federation import CENSUS, PATIENTS, Gathering, Near, Steward, contribution, counting, refusal
from tests.support.half_kinds import known
from thebes.coordinator.auth.accounts import Role, Somebody
from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.sites.federation import Federation
from thebes.coordinator.sites.links import Links
from thebes.coordinator.sites.session import LinkLost
from thebes.coordinator.sites.site_answers import longest
from thebes.coordinator.sites.site_store import FederationStore
from thebes.coordinator.storage.database import StoreUnavailable
from thebes.coordinator.storage.schema import FAREWELL, RELEASE, RUN, TASK
from thebes.data.schema import read_shown
from thebes.tasks.contributions import Contributions, Slot
from thebes.tasks.document import InvalidDocument
from thebes.tasks.protocols import TaskClosed
from thebes.tasks.site_document import declared
from thebes.wire.link import Word, write_envelope
from thebes.wire.refusals import Conflict, NotAllowed


@pytest.fixture(autouse=True)
def _census() -> Iterator[None]:
    with known("thebes.testing.census"):
        yield


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 120))


async def never(_: dict[str, Any]) -> dict[str, Any] | None:
    await asyncio.sleep(3600)
    return None


async def until(condition: Any, seconds: float = 50) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def test_every_site_is_asked_and_the_sum_is_released_with_its_cost_and_its_way(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            north, south = counting(1, 2, 3), counting(10, 20, 30)
            await world.near(north=north, south=south)
            done = await world.asked(CENSUS)
            assert (done["status"], done["result"]["value"]) == ("done", 66.0)
            assert (done["contributions"], done["min_count"], done["sites"]) == (2, 1, ["north", "south"])
            assert done["result"]["answered"] == ["north", "south"]
            (ask,) = north.asks
            assert ask["requestor"] == "the operator"
            assert ask["document"]["dataset"] == "patients"
            assert ask["declared"] == declared(read_shown(PATIENTS), ("age",))
            assert ask["ask"] | {"ask_id": ""} == {"ask_id": "", "part": "phase-0", "phase": 0, "partition": 0}
            told = (await world.service.progress(done["task_id"]))["sites"]
            assert told["answers"]["south"] == {"cost": {"epsilon": 0.5, "delta": 0.0}, "source": "fresh"}
            assert told["seconds"]["total"]["compute"] <= 0.01
            assert told["seconds"]["phases"][0].keys() == {"phase", "compute", "transfer", "aggregation"}
            assert (told["answered"], told["missing"], told["needed"]) == (["north", "south"], {}, 1)
            await until(lambda: north.closed == south.closed == [done["task_id"]])
            await until(lambda: not world.federation.store.farewells(["north", "south"]))

    run(scenario())


def test_phase_follows_phase_and_each_ask_holds_what_the_last_one_gave(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            north = Steward(lambda ask: contribution(ask, {"numbers": [1] * 100}))
            await world.near(north=north, south=Steward(lambda ask: contribution(ask, {"numbers": [2] * 100})))
            done = await world.asked({**CENSUS, "size": 100, "rounds": 4})
            assert done["result"]["value"] == 1200
            assert [ask["ask"]["part"] for ask in north.asks] == [f"phase-{n}" for n in range(4)]
            assert [float(np.sum(ask["payload"].get("so_far", 0))) for ask in north.asks] == [0, 300, 600, 900]
            assert (done["phase"], done["phases"]) == (3, 4)
            phases = (await world.service.progress(done["task_id"]))["sites"]["seconds"]["phases"]
            assert [each["phase"] for each in phases] == [0, 1, 2, 3]

    run(scenario())


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda ask: refusal(ask, "policy", "not for you"), "refused: not for you"),
        (lambda ask: refusal(ask, "budget", "x\ny"), "refused: without a reason"),
        (lambda ask: {"kind": "nonsense"}, "answered something else than what was asked"),
        (lambda ask: contribution(ask, {"numbers": [1, 2]}), "payload.numbers must be a list of 3 numbers"),
        (lambda ask: contribution(ask, {"numbers": [1, 2, 5000]}), "payload.numbers is out of range"),
        (lambda ask: contribution(ask, {"numbers": [1, 2, -1]}), "payload.numbers is out of range"),
        (lambda ask: contribution(ask, {"numbers": [1, 2, 2.5]}), "must be a whole number"),
        (lambda ask: contribution(ask, {"numbers": [1, 2, None]}), "payload.numbers must be a number"),
        (lambda ask: contribution(ask, {}), "payload.numbers is missing"),
        (lambda ask: contribution(ask, {"numbers": [1, 2, 3], "rows": 7}), "payload.rows is not a field"),
        (lambda ask: {**contribution(ask, {}), "payload": [1, 2, 3]}, "must be a JSON object"),
        (lambda ask: contribution(ask, {"numbers": [1, 2, 3]}, part="phase-1"), "something else than what was asked"),
        (lambda ask: contribution(ask, {"numbers": [1, 2, 3]}, task="0" * 32), "something else than what was asked"),
        (lambda ask: contribution(ask, {"numbers": [1, 2, 3]}, ask_id="old"), "something else than what was asked"),
    ],
)
def test_a_site_that_refuses_or_sends_what_does_not_fit_is_named_and_the_rest_goes_on(
    tmp_path: Path, answer: Any, why: str
) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            await world.near(north=counting(1, 2, 3), south=Steward(answer))
            done = await world.asked(CENSUS)
            assert (done["status"], done["result"]["value"]) == ("done", 6.0)
            assert why in done["result"]["missing"]["south"]
            assert done["contributions"] == 1

    run(scenario())


def test_numbers_that_are_none_are_refused_also_where_they_travel_as_bytes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            gradient = np.ones(1000, dtype="<f4")
            gradient[500] = np.nan
            bad = np.frombuffer(gradient.tobytes(), dtype=np.uint8)
            good = np.frombuffer(np.ones(1000, dtype="<f4").tobytes(), dtype=np.uint8)
            await world.near(
                north=Steward(lambda ask: contribution(ask, {"numbers": good})),
                south=Steward(lambda ask: contribution(ask, {"numbers": bad})),
            )
            done = await world.asked({**CENSUS, "size": 1000, "packed": True})
            assert done["result"]["value"] == 1000
            assert "payload.numbers must be a number" in done["result"]["missing"]["south"]

    run(scenario())


def test_too_few_answers_release_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            await world.near(
                north=counting(1, 2, 3),
                south=Steward(lambda ask: refusal(ask, "policy")),
                west=Steward(lambda ask: refusal(ask, "budget")),
            )
            done = await world.asked({**CENSUS, "min_sites": 2})
            assert (done["status"], done["result"], done["min_count"]) == ("expired", None, 2)
            told = (await world.service.progress(done["task_id"]))["sites"]
            assert (told["answered"], sorted(told["missing"])) == (["north"], ["south", "west"])

    run(scenario())


@pytest.mark.slow
def test_a_slow_site_is_given_up_when_its_patience_is_over_and_holds_up_no_other_task(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            slow = Steward(
                lambda ask: never(ask) if ask["document"]["patience"] < 9 else contribution(ask, {"numbers": [7, 7, 7]})
            )
            await world.near(north=counting(1, 2, 3), south=slow)
            waiting = await world.post({**CENSUS, "patience": 8.0})
            quick = await world.asked({**CENSUS, "name": "another"})
            assert quick["result"]["value"] == 27.0
            assert (await world.service.task(waiting))[0]["status"] == "open"
            done = await world.over(waiting)
            assert done["result"]["value"] == 6.0
            assert done["result"]["missing"] == {"south": "had not answered within 8 seconds"}

    run(scenario())


def test_a_site_that_is_away_is_not_waited_for_and_one_that_just_left_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            linked = await world.near(north=counting(1, 2, 3), south=counting(10, 20, 30), west=counting(100, 0, 0))
            linked["west"].leave()
            world.links.forget("west")  # away for longer than any patience
            linked["south"].leave()
            task = await world.post(CENSUS)
            async with asyncio.timeout(50):
                while (
                    not (told := (await world.service.progress(task))["sites"] or {}).get("answered")
                    or not (told["missing"])
                ):
                    await asyncio.sleep(0.01)
            assert (told["answered"], told["missing"]) == (["north"], {"west": "is not linked"})
            Near(world.links, "south", counting(10, 20, 30))
            done = await world.over(task)
            assert (done["result"]["value"], done["result"]["answered"]) == (66.0, ["north", "south"])

    run(scenario())


def test_a_site_whose_link_breaks_is_asked_again_when_it_is_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            deaf = Steward(never)
            linked = await world.near(north=deaf)
            task = await world.post(CENSUS)
            await until(lambda: deaf.asks)
            linked["north"].leave()
            back = counting(1, 2, 3)
            Near(world.links, "north", back)
            assert (await world.over(task))["result"]["value"] == 6.0
            assert back.asks[0]["ask"] == deaf.asks[0]["ask"]  # the very same ask, so that it costs nothing again

    run(scenario())


@pytest.mark.slow
@pytest.mark.parametrize("code", ["busy", "down"])
def test_a_site_that_is_busy_or_down_is_asked_again_until_its_time_is_over(tmp_path: Path, code: str) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            tries = iter([True, True, False])
            await world.near(
                north=Steward(
                    lambda ask: (
                        refusal(ask, code, "later") if next(tries) else contribution(ask, {"numbers": [1, 2, 3]})
                    )
                ),
                south=Steward(lambda ask: refusal(ask, code, "later")),
            )
            done = await world.asked({**CENSUS, "patience": 8.0})
            assert done["result"]["value"] == 6.0
            assert done["result"]["missing"]["south"].startswith("refused: later")

    run(scenario())


@pytest.mark.slow
def test_what_is_answered_twice_or_too_late_is_dropped(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            linked = await world.near(north=counting(1, 2, 3), south=Steward(never))
            task = await world.post({**CENSUS, "rounds": 2, "patience": 5.0})
            done = await world.over(task)
            assert done["result"]["value"] == 12.0
            conversation = linked["south"].conversation
            assert conversation.allowed("anything") == 0
            conversation.heard("anything", {"kind": "contribution", "id": "anything"})

    run(scenario())


def test_a_task_that_is_cancelled_ends_at_once_and_its_sites_are_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            north = Steward(never)
            await world.near(north=north)
            task = await world.post(CENSUS)
            await until(lambda: north.asks)
            somebody = Somebody("ana", Role.REQUESTOR)
            with pytest.raises(NotAllowed):
                await world.service.cancel(task, somebody)
            await world.service.cancel(task, Somebody("the operator", Role.OPERATOR))
            assert (await world.over(task))["status"] == "cancelled"
            await until(lambda: north.closed == [task])
            await until(lambda: world.federation.progress(task) is None)

    run(scenario())


def test_a_site_that_was_away_when_a_task_ended_is_told_when_it_comes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            linked = await world.near(north=counting(1, 2, 3), south=counting(1, 1, 1))
            linked["south"].leave()
            world.links.forget("south")
            done = await world.asked(CENSUS)
            late = counting(1, 1, 1)
            Near(world.links, "south", late)
            await until(lambda: late.closed == [done["task_id"]])
            assert late.asks == []

    run(scenario())


@pytest.mark.slow
def test_nobody_is_waited_for_beyond_the_task_s_own_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            await world.near(north=counting(1, 2, 3), south=Steward(never))
            soon = (datetime.now(UTC) + timedelta(seconds=2.5)).isoformat()
            done = await world.asked({**CENSUS, "expires_at": soon})
            assert done["result"]["missing"] == {"south": "had not answered when the task's time was over"}
            soon = (datetime.now(UTC) + timedelta(seconds=2.5)).isoformat()
            several = await world.asked({**CENSUS, "expires_at": soon, "rounds": 3})
            assert (several["status"], several["phase"]) == ("expired", 1)

    run(scenario())


@pytest.mark.parametrize("noise", ["site", "coordinator"])
def test_a_killed_coordinator_goes_on_from_the_last_phase(tmp_path: Path, noise: str) -> None:
    document = {**CENSUS, "rounds": 3, "noise": noise, "size": 64}
    numbers = [1] * 64

    async def scenario() -> None:
        first = await Gathering(tmp_path / "home").open()
        answered: dict[str, list[int]] = {"north": [], "south": []}

        def site(name: str, *, deaf_in: int | None) -> Steward:
            def answer(ask: dict[str, Any]) -> Any:
                if ask["ask"]["phase"] == deaf_in:
                    return never(ask)
                answered[name].append(ask["ask"]["phase"])
                return contribution(ask, {"numbers": numbers})

            return Steward(answer)

        north, south = site("north", deaf_in=None), site("south", deaf_in=1)
        await first.near(north=north, south=south)
        task = await first.post(document)
        await until(lambda: [ask["ask"]["phase"] for ask in south.asks] == [0, 1] and answered["north"] == [0, 1])
        stored = first.database.read(lambda c: c.execute(sa.select(TASK).where(TASK.c.id == task)).one())
        assert stored.phase == 1
        assert (b"total" in stored.snapshot) is (noise == "site")  # else it is sealed
        assert (first.home.keys.of(task) is None) is (noise == "site")
        await first.close(politely=False)

        second = await Gathering(tmp_path / "home").open()
        await asyncio.sleep(0.3)  # the sites are waited for: they were linked until just now
        again = {name: site(name, deaf_in=None) for name in ("north", "south")}
        for name, steward in again.items():
            Near(second.links, name, steward)
        done = await second.over(task)
        assert (done["status"], done["result"]["value"]) == ("done", 3 * 2 * 64)
        assert [ask["ask"]["phase"] for ask in again["north"].asks] == [1, 2]
        assert again["north"].asks[0]["ask"] == north.asks[1]["ask"]
        assert second.home.keys.of(task) is None
        kept = second.database.read(lambda c: c.execute(sa.select(TASK).where(TASK.c.id == task)).one())
        assert kept.snapshot is None
        assert len(second.database.read(lambda c: c.execute(sa.select(RELEASE)).all())) == 3
        second.closing.step()
        assert (await second.over(task))["status"] == "done"
        await second.close()

    run(scenario())


def test_sites_are_waited_for_however_often_a_coordinator_dies_before_they_are_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        first = await Gathering(tmp_path / "home").open()
        await first.near(north=counting(1, 2, 3), south=Steward(never))
        task = await first.post(CENSUS)
        await first.close(politely=False)

        second = await Gathering(tmp_path / "home").open()
        await until(lambda: not any(site.linked for site in second.federation.store.sites()))
        await second.close(politely=False)

        third = await Gathering(tmp_path / "home").open()
        await asyncio.sleep(0.3)  # longer than it takes to give up a site that nobody waits for
        for name in ("north", "south"):
            Near(third.links, name, counting(1, 2, 3))
        done = await third.over(task)
        assert (done["status"], done["result"]["value"]) == ("done", 12)
        await third.close()

    run(scenario())


@pytest.mark.slow
def test_what_a_phase_gave_is_told_nobody_before_it_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A phase that could not be stored is concluded again, with other noise: seen twice it would be averaged out."""
    seen: list[tuple[int, int]] = []

    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            await world.near(north=counting(1, 2, 3))
            real, full = FederationStore.conclude, [True]

            def conclude(store: FederationStore, task: Any, phase: int, ended: Any) -> None:
                told = world.federation.progress(task.id)
                assert told is not None
                seen.append((phase, told["phase"]))
                if phase == 1 and full and full.pop():
                    raise StoreUnavailable("the disk is full")
                real(store, task, phase, ended)

            monkeypatch.setattr(FederationStore, "conclude", conclude)
            assert (await world.asked({**CENSUS, "rounds": 3}))["result"]["value"] == 18.0

    run(scenario())
    assert seen == [(0, 0), (1, 1), (1, 1), (2, 2)]


@pytest.mark.parametrize("noise", ["site", "coordinator"])
def test_a_note_that_comes_too_late_does_not_replace_what_the_end_of_a_phase_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noise: str
) -> None:
    told: list[list[int]] = []

    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            await world.near(north=counting(1, 2, 3))
            real = FederationStore.conclude

            def conclude(store: FederationStore, task: Any, phase: int, ended: Any) -> None:
                before = world.federation.progress(task.id)
                assert before is not None
                real(store, task, phase, ended)
                store.tell(task.id, before)
                after = store.progress(task.id)
                assert after is not None
                told.append([each["phase"] for each in after["seconds"]["phases"]])

            monkeypatch.setattr(FederationStore, "conclude", conclude)
            assert (await world.asked({**CENSUS, "rounds": 3, "noise": noise}))["status"] == "done"
            await until(lambda: len(told) == 3)  # it is done as soon as that is stored, before it was looked at here

    run(scenario())
    assert told == [[0], [0, 1], [0, 1, 2]]


def test_a_coordinator_that_died_before_a_key_was_gone_destroys_it_and_then_says_done(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            await world.near(north=counting(1, 2, 3))
            finish = world.federation.store.finish
            world.federation.store.finish = lambda *_: (_ for _ in ()).throw(asyncio.CancelledError)  # type: ignore[method-assign]
            task = await world.post({**CENSUS, "noise": "coordinator"})
            await until(lambda: world.home.keys.of(task) is None)
            assert (await world.service.task(task))[0]["status"] == "open"
            world.federation.store.finish = finish  # type: ignore[method-assign]
            assert (await world.over(task))["result"]["value"] == 6.0

    run(scenario())


def test_a_task_whose_end_cannot_be_computed_fails_without_a_word_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from thebes.testing.census.aggregator import CensusAggregator

    def broken(_: CensusAggregator) -> None:
        raise ValueError("secret 4711")

    monkeypatch.setattr(CensusAggregator, "conclude", broken)

    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            north = counting(1, 2, 3)
            await world.near(north=north)
            done = await world.asked(CENSUS)
            assert (done["status"], done["result"]) == ("failed", None)
            await until(lambda: north.closed == [done["task_id"]])

    run(scenario())
    assert "cannot go on: ValueError at" in caplog.text
    assert "4711" not in caplog.text


# --- what may be put up ---------------------------------------------------------------------------------


def test_a_document_that_no_site_can_answer_is_refused_naming_the_field(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            other = {"genomes": {"schema": {**PATIENTS, "columns": {"sex": PATIENTS["columns"]["sex"]}}}}
            await world.near(north=counting(1), south=Steward(never, datasets=other))
            CertificateAuthority(world.home.folder, world.clock).issue("late", tmp_path / "late")
            for document, field, said in (
                (
                    {**CENSUS, "dataset": "else"},
                    "dataset",
                    "names 'else', which no site here has; there are genomes, patients",
                ),
                (
                    {**CENSUS, "sites": ["south"]},
                    "dataset",
                    "names 'patients', which the site south does not have; there is genomes",
                ),
                ({**CENSUS, "sites": ["nobody"]}, "sites", "'nobody', which is not a site of this coordinator"),
                ({**CENSUS, "sites": ["norht"]}, "sites", "not a site of this coordinator; did you mean north?"),
                ({**CENSUS, "sites": ["late"]}, "sites", "has never been linked"),
                ({**CENSUS, "sites": ["local"]}, "sites", "has never been linked"),
                ({**CENSUS, "min_sites": 2}, "min_sites", "must not be more than the 1 sites"),
                ({**CENSUS, "column": "height"}, "column", "does not offer; there are "),
                ({**CENSUS, "dataset": "genomes"}, "column", "does not offer; there are "),
                ({**CENSUS, "expires_at": "2020-01-01T00:00:00+00:00"}, "expires_at", "has passed"),
            ):
                with pytest.raises(InvalidDocument) as refused:
                    await world.service.post(document, Somebody("ana", Role.REQUESTOR))
                assert refused.value.argument == field
                assert said in refused.value.message
                examined = await world.service.examined(document)
                assert examined["problems"][0]["field"] == field
            price = {"epsilon": 1.0, "delta": 0.0, "unit": "person"}
            in_all = {"sites": 1, "epsilon": 1.0, "delta": 0.0}
            assert (await world.service.quote(CENSUS))["price"] == {**price, "in_all": in_all}
            assert (await world.service.examined(CENSUS))["price"]["unit"] == "person"
            assert await world.service.tasks() == []

    run(scenario())


def test_sites_whose_schema_does_not_fit_are_left_out_and_named_where_all_are_asked(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            narrow = {"patients": {"schema": {**PATIENTS, "columns": {"sex": PATIENTS["columns"]["sex"]}}}}
            await world.near(north=counting(1, 2, 3), south=Steward(never, datasets=narrow))
            done = await world.asked(CENSUS)
            assert done["sites"] == ["north"]
            told = (await world.service.progress(done["task_id"]))["sites"]
            assert "its schema does not fit: column" in told["left_out"]["south"]

    run(scenario())


@pytest.mark.slow
def test_somebody_with_limits_asks_only_what_was_granted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            await world.near(north=counting(1, 2, 3), south=counting(10, 20, 30))
            accounts = world.service.accounts
            accounts.add("ana", "a long password", Role.REQUESTOR)
            ana = Somebody("ana", Role.REQUESTOR)
            assert (await world.over(await world.post(CENSUS, ana)))["result"]["value"] == 66.0
            accounts.capabilities.grant("ana", ["north"], ["census"])
            accounts.capabilities.grant("ana", ["north"], ["census"])
            assert len(accounts.capabilities.of("ana")) == 1
            for document in (CENSUS, {**CENSUS, "sites": ["south"]}, {**CENSUS, "sites": ["north", "south"]}):
                with pytest.raises(NotAllowed, match="may not ask the site south for 'census'"):
                    await world.post(document, ana)
            done = await world.over(await world.post({**CENSUS, "sites": ["north"]}, ana))
            assert done["result"]["value"] == 6.0
            accounts.capabilities.grant("ana", ["*"], ["*"])
            assert (await world.over(await world.post(CENSUS, ana)))["result"]["value"] == 66.0
            accounts.capabilities.clear("ana")
            accounts.capabilities.grant("ana", ["south"], ["train"])
            with pytest.raises(NotAllowed, match="north, south for 'census'"):
                await world.post(CENSUS, ana)
            with pytest.raises(NotAllowed, match="only requestors"):
                await world.post(CENSUS, Somebody("eve", Role.AUDITOR))

    run(scenario())


def test_people_cannot_answer_what_institutions_are_asked(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            await world.near(north=Steward(never))
            task = await world.post(CENSUS)
            for _ in range(2):
                with pytest.raises(TaskClosed, match="institutions answer this task"):
                    await world.service.contributions.ask(task, "me")
                with pytest.raises(TaskClosed):
                    await world.service.contributions.withdraw(task, "0" * 32)
                with pytest.raises(TaskClosed):
                    await world.service.contributions.largest_submission(task)
            with pytest.raises(Conflict):
                await world.service.end(task, Somebody("the operator", Role.OPERATOR))
            world.closing.step()
            (summary,) = await world.service.tasks()
            assert (summary["status"], summary["contributions"], summary["sites"]) == ("open", 0, ["north"])

    run(scenario())


def test_what_a_site_describes_is_shown_without_counts_and_what_is_no_schema_is_left_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            told = {
                "patients": {"schema": PATIENTS, "public": True, "rows": 12345},
                "broken": {"schema": {"unit": "person", "columns": {"age": {"type": "imaginary"}}}},
                "Bad Name": {"schema": PATIENTS},
                "none": None,
            }
            linked = await world.near(north=Steward(never, datasets=told))
            (site,) = await world.service.sites()
            assert site["datasets"] == {"patients": {"schema": PATIENTS, "public": True}}
            assert (site["name"], site["state"]) == ("north", "connected")
            linked["north"].leave()
            await until(lambda: world.service.inquiries.sites()[0]["state"] == "away")
            assert world.service.inquiries.sites()[0]["last_seen"] is not None
            Near(world.links, "north", Steward(never, describes=False))
            await until(lambda: world.service.inquiries.sites()[0]["state"] == "connected")

    run(scenario())


def test_the_state_of_a_site_says_what_its_certificate_and_its_link_say(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            authority = CertificateAuthority(world.home.folder, world.clock)
            authority.issue("never", tmp_path / "never")
            authority.issue("gone", tmp_path / "gone")
            authority.revoke("gone")
            assert {site["name"]: site["state"] for site in await world.service.sites()} == {
                "never": "never",
                "gone": "revoked",
            }
            authority.issue("gone", tmp_path / "gone")
            assert {site["state"] for site in await world.service.sites()} == {"never"}

    run(scenario())


def test_a_stop_is_clean_while_tasks_run_and_nothing_is_lost(tmp_path: Path) -> None:
    async def scenario() -> None:
        first = await Gathering(tmp_path / "home").open()
        await first.near(north=Steward(never))
        tasks = [await first.post({**CENSUS, "name": str(n)}) for n in range(5)]
        await asyncio.sleep(0.2)
        await first.close()
        second = await Gathering(tmp_path / "home").open()
        await asyncio.sleep(0.2)
        Near(second.links, "north", counting(1, 2, 3))
        assert [(await second.over(task))["result"]["value"] for task in tasks] == [6.0] * 5
        await second.close()

    run(scenario())


@pytest.mark.slow
def test_many_tasks_run_side_by_side(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            sites = {f"s{n}": counting(n, 0, 0) for n in range(5)}
            await world.near(**sites)
            tasks = [await world.post({**CENSUS, "name": str(n), "rounds": 2}) for n in range(20)]
            done = [await world.over(task) for task in tasks]
            assert {each["result"]["value"] for each in done} == {20.0}
            await until(lambda: all(len(site.closed) == 20 for site in sites.values()))
            await until(lambda: world.database.read(lambda c: c.execute(sa.select(FAREWELL)).all()) == [])
            progress = world.database.read(lambda c: c.execute(sa.select(RUN.c.progress)).scalars().all())
            assert {tuple(json.loads(told)["answered"]) for told in progress} == {tuple(sites)}

    run(scenario())


# --- one of several processes ---------------------------------------------------------------------------


@pytest.mark.slow
def test_one_process_speaks_with_the_sites_and_another_takes_its_place(tmp_path: Path) -> None:
    """With SQLite there is one process; here each believes it is one of several."""

    async def scenario() -> None:
        first, second = (Gathering(tmp_path / "home", among=True) for _ in range(2))
        await first.open()
        await until(lambda: first.federation.seated)
        await second.open(0)  # it has a port for sites, and goes before one that has none
        await until(lambda: second.federation.seated and not first.federation.seated)
        third = Gathering(tmp_path / "home", among=True)
        await third.open(0)
        await asyncio.sleep(1.0)
        assert not third.federation.seated
        await second.near(north=counting(1, 2, 3))
        task = await first.post(CENSUS)  # put up at a process that does not speak with sites
        assert (await first.over(task))["result"]["value"] == 6.0
        assert first.service.inquiries.sites()[0]["state"] == "connected"
        assert (await first.service.progress(task))["sites"]["answered"] == ["north"]
        await second.close(politely=False)
        await until(lambda: third.federation.seated)
        await third.close()
        await until(lambda: first.federation.seated)
        await first.close()

    run(scenario())


def test_a_process_that_lost_its_place_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            taken = asyncio.Event()

            async def late(ask: dict[str, Any]) -> dict[str, Any] | None:
                if len(north.asks) > 1:
                    return await never(ask)
                await taken.wait()
                return contribution(ask, {"numbers": [1, 2, 3]})

            north = Steward(late)
            await world.near(north=north)
            task = await world.post(CENSUS)
            await until(lambda: north.asks)
            other = Federation(world.home, world.database, world.clock)
            assert other.store.hold(task) is not None
            taken.set()
            await until(lambda: len(north.asks) == 2)  # what it computed is thrown away, and it has begun anew
            assert (await world.service.task(task))[0]["status"] == "open"
            await world.service.cancel(task, Somebody("the operator", Role.OPERATOR))

    run(scenario())


# --- small things ---------------------------------------------------------------------------------------


def test_the_newest_conversation_of_a_site_counts_and_an_older_one_s_end_changes_nothing() -> None:
    async def scenario() -> None:
        links = Links()
        old = Near(links, "north", never)
        asking = asyncio.create_task(old.conversation.ask(Word.PING, {}))
        await asyncio.sleep(0)
        new = Near(links, "north", never)
        with pytest.raises(LinkLost):
            await asking
        old.leave()
        assert links.of("north") is new.conversation
        assert await links.back("south", 100) is None
        new.leave()
        began = asyncio.get_running_loop().time()
        assert await links.back("north", 0.2) is None
        assert asyncio.get_running_loop().time() - began < 50

    run(scenario())


@pytest.mark.parametrize(
    "slot",
    [Slot("integer", 0, 2**52, length=1000), Slot("number", length=1000), Slot("number", length=1000, packed=True)],
)
def test_no_honest_contribution_is_longer_than_what_is_read(slot: Slot) -> None:
    worst = np.full((1, 1000), 2**52 if slot.kind == "integer" else -1.2345678901234567e-300)
    payload = next(iter(Contributions("phase-0", 1, {"x": worst}).payloads({"x": slot})))
    assert len(write_envelope({"kind": "contribution", "id": "a", "payload": payload})) <= longest({"x": slot})
    assert len(json.dumps(payload)) <= longest({"x": slot})
