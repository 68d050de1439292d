"""A quote says beforehand of each site what comes of asking: the same word, and nothing charged for a no."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer

from tests.support.federation import CENSUS, Gathering, Steward, refusal
from tests.support.half_kinds import known
from tests.support.site_home import ask, site_home
from thebes.cli import connection, task_runs
from thebes.coordinator.auth.accounts import Role, Somebody
from thebes.coordinator.sites import federation
from thebes.curator.cache.planner import BOUGHT
from thebes.data.growing.block_rule import block_by
from thebes.data.schema import schema_of
from thebes.database import private_files
from thebes.ledger import Ledger, NoKeeper
from thebes.requestor.handle import Handle
from thebes.requestor.refusals import SitesRefused
from thebes.requestor.server import Server
from thebes.site.algorithm_process import Office
from thebes.site.dataset import BlockDeclaration, BudgetDeclaration, Cache, DataSet, DataSets
from thebes.site.home import SiteHome
from thebes.site.streams import stream_of
from thebes.tasks import registry
from thebes.wire.refusals import Unreachable
from thebes.wire.refused_sites import BEYOND, together

ANA, EVE = Somebody("ana", Role.REQUESTOR), Somebody("eve", Role.REQUESTOR)
COUNT = {"type": "query", "sites": "all", "dataset": "patients", "statistic": "count", "patience": 2.0}
RULE = '[[allow]]\nrequestors = ["{who}"]\ndatasets = ["patients"]\nkinds = ["query"]\nepsilon = 1.5\n'


def office_at(folder: Path, *, who: str = "ana", **more: Any) -> Office:
    return Office(site_home(folder, policy=RULE.format(who=who), **more), "north")


def at(office: Office) -> Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]:
    async def answer(message: dict[str, Any]) -> dict[str, Any]:
        return office.answer(message)

    return answer


def head(office: Office) -> int:
    return office.ledger.head().length


def quoted(office: Office, epsilon: float, *, requestor: str = "ana", **more: Any) -> dict[str, Any]:
    document = {**COUNT, **more, "epsilon": epsilon}
    return office.answer({"kind": "quote", "id": "1", "requestor": requestor, "document": document})


class Spoken:
    """A coordinator in this process, as the client of a requestor's library speaks with it."""

    url = "here"

    def __init__(self, quote: dict[str, Any], task: dict[str, Any]) -> None:
        self._quote, self._task = quote, task

    def quote(self, document: Any) -> dict[str, Any]:
        return self._quote

    def task(self, task_id: str, *, wait: float = 0.0) -> dict[str, Any]:
        return self._task


# --- a site ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"delta": "1e-5"}, {"filter": "renyi", "delta": "1e-5"}])
def test_a_site_says_no_to_what_its_rule_has_not_left_and_its_ledger_stays_as_it_is(tmp_path: Path, more: Any) -> None:
    office = office_at(tmp_path / "north", **more)
    before = head(office)
    yes, no = quoted(office, 1.5), quoted(office, 1.9)
    assert (yes["allowed"], yes["left"][0]) == (True, 1.5)
    assert (no["allowed"], no["code"], no["left"][0]) == (False, "budget", 1.5)
    assert no["reason"] == BEYOND
    assert head(office) == before
    assert office.answer(ask({**COUNT, "epsilon": 1.0}))["kind"] == "contribution"
    assert quoted(office, 0.6, where="age < 50")["allowed"] is False
    assert quoted(office, 0.5, where="age < 50")["allowed"] is True
    assert quoted(office, 1.0)["allowed"] is True, "an answer that was released before costs nothing"
    office.ledger.verify()


def test_what_a_rule_has_left_is_told_to_whom_it_names_and_nobody_else(tmp_path: Path) -> None:
    office = office_at(tmp_path / "north", who="*")
    yes, no = quoted(office, 1.0), quoted(office, 1.9)
    assert (yes["allowed"], no["allowed"], no["code"]) == (True, False, "budget")
    assert "left" not in yes
    assert "left" not in no
    assert quoted(office, 1.9)["reason"] == office.answer(ask({**COUNT, "epsilon": 1.9}))["reason"], "as a task is told"


def test_a_quote_knows_the_data_sets_own_budget_a_cap_a_retired_block_and_a_frozen_ledger(tmp_path: Path) -> None:
    office = office_at(tmp_path / "north", epsilon=1.2)
    assert [quoted(office, epsilon)["allowed"] for epsilon in (1.2, 1.3)] == [True, False]
    office.ledger.cap("ana", 0.4)
    before = head(office)
    capped = quoted(office, 0.5)
    assert (capped["allowed"], capped["code"]) == (False, "budget")
    assert (capped["reason"], capped["left"][0]) == (BEYOND, 0.4)
    assert quoted(office, 0.4)["allowed"] is True
    assert head(office) == before, "not even the count that a cap asks for was begun"
    office.ledger.freeze()
    assert quoted(office, 0.1)["code"] == "budget"
    office.ledger.thaw()
    assert quoted(office, 0.1)["allowed"] is True
    office.ledger.retire_block("patients")
    assert quoted(office, 0.1)["reason"] == BEYOND


@pytest.mark.few(4)
@pytest.mark.parametrize("who", ["ana", "*"])
@pytest.mark.parametrize("cache", ["exact", "none"])
@pytest.mark.parametrize("why", ["rule", "block", "cap", "retired"])
def test_no_refusal_says_what_is_left_and_the_stewards_log_does(tmp_path: Path, who: str, cache: str, why: str) -> None:
    """Everybody who may look at a task at its coordinator reads the refusal."""
    home = site_home(tmp_path / "north", policy=RULE.format(who=who), epsilon=1.25 if why == "block" else 10)
    dataset = DataSets(home).get("patients")
    assert dataset is not None
    DataSets(home).keep(replace(dataset, cache=Cache(cache)))
    office = Office(home, "north")
    assert office.answer(ask({**COUNT, "epsilon": 0.625}, task="t0"))["kind"] == "contribution"
    if why == "cap":
        office.ledger.cap("ana", 0.75)
    elif why == "retired":
        office.ledger.retire_block("patients")
    epsilon = 0.9375 if why == "rule" else 0.8125
    asked = {**COUNT, "epsilon": epsilon, "where": "age < 50"}
    came, said = office.answer(ask(asked)), quoted(office, epsilon, where="age < 50")
    for told in (came, said):
        assert (told["code"], told["reason"]) == ("budget", BEYOND)
        assert not {"0.875", "0.625", "0.125"} & set(json.dumps({**told, "left": None}).replace(",", " ").split())
    assert ("left" in said) is (who == "ana")
    (noted,) = [entry.facts["reason"] for entry in office.audit.entries() if entry.event == "refused"]
    (shown,) = [each for each in office.answer({"kind": "requests", "id": "own-1"})["body"] if each["task"] == "t1"]
    assert noted == shown["reason"]
    assert {"rule": "0.875", "block": "0.625", "cap": "0.125", "retired": "retired"}[why] in noted


def test_a_growing_data_set_says_as_little(tmp_path: Path) -> None:
    office = growing_at(tmp_path / "site", filter="basic", cache="none")
    dataset = office.datasets.get("taxi")
    assert dataset is not None
    office.ledger.cap("ana", 0.125)
    question = {**COUNT, "dataset": "taxi", "epsilon": 0.3}
    came, said = office.answer(ask(question, schema=dataset.schema)), quoted(office, **question)
    assert came["reason"] == said["reason"] == BEYOND
    office.ledger.close()


@pytest.mark.parametrize("why", ["rule", "cap", "block"])
def test_a_question_that_is_refused_for_a_budget_makes_its_data_set_buy_nothing(tmp_path: Path, why: str) -> None:
    home = site_home(tmp_path / "north", policy=RULE.format(who="ana"), epsilon=1.2 if why == "block" else 10)
    dataset = DataSets(home).get("patients")
    assert dataset is not None
    DataSets(home).keep(replace(dataset, cache=Cache("pmw")))
    office = Office(home, "north")
    if why == "cap":
        office.ledger.cap("ana", 1.0)
    before = head(office)
    question = {**COUNT, "epsilon": 1.9 if why == "rule" else 1.4}
    assert quoted(office, **question)["allowed"] is False
    assert office.answer(ask(question))["code"] == "budget"
    assert head(office) == before
    assert office.answer({"kind": "closed", "id": "c", "task": "t1"})["charged"] is False
    cheap = {**COUNT, "epsilon": 0.5, "where": "age < 50"}
    assert office.answer(ask(cheap, task="t2"))["kind"] == "contribution"
    assert [claim for claim in office.ledger.claims() if (claim.key or "").startswith(BOUGHT)], "else it proves nothing"
    office.ledger.close()


@pytest.mark.few(1)
@pytest.mark.parametrize("epsilon", [0.3, 1.2, 1.5, 1.6, 4.0])
def test_a_site_answers_what_it_said_it_would_and_refuses_the_rest_under_the_same_code(
    tmp_path: Path, epsilon: float
) -> None:
    for filter in ("basic", "zcdp", "either", "renyi"):
        told = {"filter": filter, "delta": 0.0 if filter == "basic" else "1e-5", "epsilon": 1.4}
        office = office_at(tmp_path / filter, **told)
        for where in ("age < 30", "age < 40", "age < 50"):
            said = quoted(office, epsilon, where=where)
            came = office.answer(ask({**COUNT, "epsilon": epsilon, "where": where}, task=f"t{where[-2:]}"))
            assert said["allowed"] is (came["kind"] == "contribution")
            assert said.get("code") == came.get("code")


RIDES = {
    "unit": "event",
    "time": "at",
    "columns": {
        "at": {"type": "timestamp"},
        "km": {"type": "float", "low": 0, "high": 100},
        "minutes": {"type": "float", "low": 0, "high": 60},
        "zone": {"type": "string", "values": ["eu", "us"]},
    },
}
TAXI = RULE.format(who="ana").replace("patients", "taxi").replace('["query"]', '["query", "train", "pipeline"]')


def growing_at(folder: Path, *, filter: str, cache: str, policy: str = TAXI, **more: Any) -> Office:
    """Three days of rides; a block has epsilon 1.4."""
    home, schema = SiteHome(folder), schema_of(RIDES)
    budget = BudgetDeclaration.of("1.4", "0" if filter == "basic" else "1e-5", filter)
    dataset = DataSet(
        "taxi", schema, {"kind": "growing"}, budget, BlockDeclaration(block_by("time:1d", schema), more), Cache(cache)
    )
    DataSets(home).keep(dataset)
    days = ["2026-01-01"] * 300 + ["2026-01-02"] * 500 + ["2026-01-03"] * 200
    with Ledger(home.ledger, keeper=NoKeeper()) as ledger, closing(stream_of(home, dataset, ledger)) as stream:
        came = {"at": pd.to_datetime(days), "km": 10.0, "minutes": 9.0, "zone": ["eu", "us"] * 500}
        stream.ingest(pd.DataFrame(came))
    private_files.write(home.policy, policy)
    return Office(home, "north")


@pytest.mark.few(1)
@pytest.mark.parametrize("filter", ["basic", "zcdp", "renyi"])
@pytest.mark.parametrize(
    "more",
    [
        {"cache": "none"},
        {"cache": "exact"},
        {"cache": "exact", "separate_by": "developer", "accept_separate_ledgers": True},
        {"cache": "none", "separate_by": "zone", "policy": TAXI + 'contexts = ["us"]\n'},
        {"cache": "none", "separate_by": "zone"},
        {"cache": "none", "policy": TAXI + "delta = 0\n"},
    ],
    ids=["", "cached", "developers", "context", "no-context", "no-delta"],
)
def test_a_site_whose_data_grow_answers_what_it_said_it_would(tmp_path: Path, filter: str, more: Any) -> None:
    office = growing_at(tmp_path / "site", filter=filter, **more)
    dataset = office.datasets.get("taxi")
    assert dataset is not None
    heard = []
    questions: list[dict[str, Any]] = [
        {**COUNT, "dataset": "taxi", "epsilon": epsilon, "where": where, **smooth}
        for where in ("km < 30", "km < 40")
        for epsilon in (1.6, 0.3, 0.3, 0.9)
        for smooth in ({}, {"delta": 1e-7})
    ]
    for number, question in enumerate(questions):
        if number == 12:
            office.ledger.cap("ana", 0.01)
        said = quoted(office, **question)
        came = office.answer(ask(question, task=f"t{number}", schema=dataset.schema))
        assert said.get("allowed", False) is (came["kind"] == "contribution"), (number, question, said, came)
        assert said.get("code") == came.get("code")
        heard.append(came["kind"])
    assert ("contribution" in heard) is (more.get("separate_by") != "zone" or "policy" in more)
    assert "refusal" in heard
    office.ledger.verify()
    office.ledger.close()


def test_a_site_says_it_of_training_too_and_of_attempts_that_it_cannot_know(tmp_path: Path) -> None:
    office = growing_at(tmp_path / "site", filter="zcdp", cache="none")
    training = {"type": "train", "dataset": "taxi", "model": "LinearRegression", "inputs": ["km"], "output": "minutes"}
    schema = schema_of(RIDES)
    for number, epsilon in enumerate((4.0, 1.0)):
        document = {**training, "sites": ["north"], "rounds": 2, "epsilon": epsilon, "delta": 1e-7}
        said = office.answer({"kind": "quote", "id": "1", "requestor": "ana", "document": document})
        came = office.answer(ask(document, task=f"t{number}", schema=schema))
        assert (said["allowed"], said.get("code")) == ((False, "budget") if number == 0 else (True, None))
        assert came["code"] == ("budget" if number == 0 else "document"), "an ask without weights is none"
    pipeline = {"type": "pipeline", "sites": ["north"], "stream": "taxi", "model": "LinearRegression", "inputs": ["km"]}
    pipeline |= {"output": "minutes", "target": {"mse": 60.0}, "largest": {"mse": 250.0}, "epsilon": 1.0, "delta": 1e-6}
    told = office.answer({"kind": "quote", "id": "1", "requestor": "ana", "document": pipeline})
    assert told["kind"] == "quoted"
    assert "allowed" not in told
    office.ledger.close()


# --- a coordinator and a requestor's library --------------------------------------------------------------------


def test_a_quote_says_no_before_and_sites_refused_says_so_after_and_no_ledger_moved(tmp_path: Path) -> None:
    office = office_at(tmp_path / "north")

    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            await world.near(north=at(office))
            before = head(office)
            asked = {**COUNT, "epsilon": 1.9}
            told = await world.service.quote(asked, ANA)
            verdict = told["verdicts"]["north"]
            assert (verdict["allowed"], verdict["reason"], verdict["left"]) == (
                False,
                "budget",
                {"epsilon": 1.5, "delta": 0.0},
            )
            assert told["allowed"] is False
            fine = await world.service.quote({**asked, "epsilon": 1.5}, ANA)
            assert (fine["allowed"], fine["verdicts"]["north"]["allowed"]) == (True, True)
            eve = (await world.service.quote(asked, EVE))["verdicts"]["north"]
            assert (eve["allowed"], eve["reason"]) == (False, "policy")
            assert "left" not in eve
            nobody = (await world.service.quote(asked))["verdicts"]["north"]
            assert (nobody["allowed"], nobody["reason"]) == (None, "")
            assert (await world.service.quote(asked))["allowed"] is None
            for alpha, allowed in ((4.0, True), (1.2, False)):  # 1.9 takes an epsilon of 1.77
                accurate = {
                    **COUNT,
                    "accuracy": {"alpha": alpha, "beta": 0.05},
                    "max_epsilon": 5.0,
                    "where": "age < 40",
                }
                told_of = await world.service.quote(accurate, ANA)
                assert (told_of["price"]["epsilon"] <= 1.5) is allowed
                assert (told_of["allowed"], told_of["verdicts"]["north"]["allowed"]) == (allowed, allowed)
                assert (await world.service.quote(accurate))["allowed"] is None

            task_id, digest = await world.service.post(asked, ANA)
            detail = await world.over(task_id)
            assert head(office) == before
            spoken: Any = Spoken(told, detail)
            quote = Server(spoken).quote(registry.check(asked))
            assert (quote.verdicts["north"].allowed, quote.verdicts["north"].reason) == (False, "budget")
            assert quote.verdicts["north"].left == {"epsilon": 1.5, "delta": 0.0}
            assert quote.allowed is False
            assert "north would refuse: too little of its budget is left (budget); one more answer" in str(quote)
            assert "one more answer may cost at most epsilon 1.5, delta 0" in str(quote)
            assert str(quote).endswith(
                "0 of 1 site would answer (at least 1 is asked for): put up now, nothing would be released"
            )
            with pytest.raises(SitesRefused, match="no site charged anything") as refused:
                Handle(spoken, task_id, digest).wait(timeout=0)
            assert refused.value.sites["north"].reason == "budget"

    asyncio.run(scenario())
    assert office.ledger.remaining("patients").epsilon == Decimal(10)


@pytest.fixture
def census() -> Iterator[None]:
    with known("thebes.testing.census"):
        yield


@pytest.mark.usefixtures("census")
def test_who_is_away_or_busy_or_silent_or_cannot_say_is_not_known_to_allow_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(federation, "_QUOTE_SECONDS", 0.2)

    async def silent(_: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(3600)
        raise AssertionError

    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            answers: dict[str, Any] = {
                "away": {"kind": "quoted", "allowed": True},
                "busy": refusal({"task": None, "ask": {"part": None}}, "busy", "too much waits"),
                "down": refusal({"task": None, "ask": {"part": None}}, "down"),
                "earlier": {"kind": "quoted", "filter": "basic"},
                "lying": {"kind": "quoted", "allowed": "yes"},
                "policy": refusal({"task": None, "ask": {"part": None}}, "policy"),
                "strange": {"kind": "quoted", "allowed": False, "code": "\n", "reason": 7},
                "willing": {"kind": "quoted", "allowed": True, "left": [0.5, 0.0]},
            }
            links = await world.near(**{name: _saying(each) for name, each in answers.items()}, silent=_slow(silent))
            links["away"].leave()
            told = (await world.service.quote(CENSUS, ANA))["verdicts"]
            found = {site: (one["allowed"], one["reason"]) for site, one in told.items()}
            assert found == {
                "away": (None, "gone"),
                "busy": (None, "busy"),
                "down": (None, "down"),
                "earlier": (None, ""),
                "lying": (None, "failed"),
                "policy": (False, "policy"),
                "silent": (None, "late"),
                "strange": (False, "failed"),
                "willing": (True, ""),
            }
            assert told["willing"]["left"] == {"epsilon": 0.5, "delta": 0.0}
            assert all(one["message"] for one in told.values() if one["allowed"] is not True)

    asyncio.run(scenario())


def _saying(told: dict[str, Any]) -> Any:
    return Steward(lambda _: dict(told))


def _slow(answer: Any) -> Any:
    return Steward(answer)


def test_the_command_line_says_it_in_the_same_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left, price = {"epsilon": 1.5, "delta": 0.0}, {"epsilon": 1.9, "delta": 0.0, "unit": "person"}
    no = {"allowed": False, "reason": "budget", "message": "refused: too dear", "left": left}
    verdicts = {"hill": {"allowed": None, "reason": "gone", "message": "is not linked"}, "north": no}
    told = {"price": price, "expires_at": None, "allowed": None, "verdicts": verdicts}
    server = Server(Spoken(told, {}))  # type: ignore[arg-type]
    monkeypatch.setattr(connection, "server_at", lambda *_: nullcontext(server))
    document = tmp_path / "count.json"
    document.write_text(json.dumps({**COUNT, "epsilon": 1.9}))
    task_runs.quote(document, "here", None, None, None)
    assert capsys.readouterr().out.splitlines() == [
        "price   epsilon 1.9, delta 0 for one person",
        "hill is not known to answer: it was not linked (gone); is not linked",
        "north would refuse: too little of its budget is left (budget); refused: too dear; one more answer may cost "
        "at most epsilon 1.5, delta 0",
        "0 of 2 sites would answer, 1 is not known to; whether enough would is not known",
    ]
    task_runs.quote(document, "here", None, None, "-")
    written_down = json.loads(capsys.readouterr().out)
    assert (written_down["allowed"], written_down["verdicts"]["north"]) == (None, no)
    told |= {"allowed": False, "needed": 2}
    for form in (None, "-"):
        with pytest.raises(typer.Exit) as ended:
            task_runs.quote(document, "here", None, None, form)
        assert ended.value.exit_code == 1, "as of `thebes task wait`"
    assert '"needed": 2' in capsys.readouterr().out


def test_a_quote_says_how_many_would_answer_and_how_many_are_needed() -> None:
    no, yes = False, True
    assert together(yes, [yes, no, no], 1) == "1 of 3 sites would answer (at least 1 is asked for)"
    assert (
        together(yes, [yes, yes, None], 2) == "2 of 3 sites would answer, 1 is not known to (at least 2 are asked for)"
    )
    assert together(no, [no], 1).endswith("(at least 1 is asked for): put up now, nothing would be released")
    assert together(None, [None, None], None) == (
        "0 of 2 sites would answer, 2 are not known to; whether enough would is not known"
    )


@pytest.mark.parametrize(
    "odd", [{"allowed": "yes"}, {"verdicts": {"north": {}}}, {"verdicts": {"north": {"allowed": 1}}}]
)
def test_a_quote_that_cannot_be_read_is_nobody_s_yes(odd: Any) -> None:
    told = {"price": {"epsilon": 1.0, "delta": 0.0, "unit": "person"}, "expires_at": None, "allowed": True, **odd}
    with pytest.raises(Unreachable, match="cannot be read"):
        Server(Spoken(told, {})).quote({**COUNT, "epsilon": 1.0})  # type: ignore[arg-type]
