"""A site's planner behind its desk: what is charged where, what a rule counts, crashes, growing sets, and the pages."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from queue import Queue
from threading import Event
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from tests.support.command import exit_status
from tests.support.site_home import AGES, ask, site_home
from thebes.curator.cache import store
from thebes.curator.cache.answer import Answered, AnswerSource
from thebes.curator.cache.planner import BOUGHT
from thebes.curator.cache.purchase import Purchase
from thebes.curator.cache.released_answers import key_of
from thebes.curator.cache.requirement import Wanted
from thebes.curator.cache.store import CacheStore
from thebes.curator.cache.synopsis import Pay, SynopsisPart, View, ViewRows
from thebes.curator.questions.plans import Plan
from thebes.curator.questions.question import question_of
from thebes.data.schema import schema_of
from thebes.database import private_files
from thebes.ledger import Ledger, NoKeeper
from thebes.privacy.events import LaplaceEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.randomness import Randomness, seeded_for_simulation
from thebes.site import caches
from thebes.site.algorithm_process import Office, serve
from thebes.site.budget.budget import SiteBudget
from thebes.site.budget.policy import PolicyRule
from thebes.site.dataset import Cache, DataSets, read
from thebes.site.home import SiteHome
from thebes.site.requests.planned_question import Planning
from thebes.site.requests.response_store import ResponseStore, SiteRequest
from thebes.site.steward.rest import guarded, one_time
from thebes.tasks import registry
from thebes.web.site.pages import put_on
from thebes.wire import frames
from thebes.wire.access import Access
from thebes.wire.link import MOST_BYTES, read_envelope, write_envelope

sys.path.insert(0, str(Path(__file__).parent))

COUNT = {"type": "query", "sites": "all", "dataset": "patients", "statistic": "count", "epsilon": 0.5}
RULE = '[[allow]]\nrequestors = ["ana"]\ndatasets = ["patients"]\nkinds = ["query"]\nepsilon = 1\n'


@pytest.fixture
def home(tmp_path: Path) -> SiteHome:
    return site_home(tmp_path / "site")


@pytest.fixture
def office(home: SiteHome) -> Iterator[Office]:
    made = Office(home, "north")
    yield made
    made.ledger.close()
    made.caches.close()


def spent(office: Office, place: str = "epsilon") -> Decimal:
    return Decimal(office.ledger.block("patients").meters[place].spent).scaleb(-12)


def held(office: Office) -> int:
    return sum(meter.reserved for meter in office.ledger.block("patients").meters.values())


def counted(office: Office) -> float:
    """Return what the rule for everybody has left."""
    rule: PolicyRule = office.policy().rules[0]
    return float(office.budget._left(rule, office.ledger.block("patients")).epsilon)


# --- exact reuse ------------------------------------------------------------------------------------------


def test_the_same_question_in_another_task_costs_nothing_and_makes_no_claim(office: Office) -> None:
    first = office.answer(ask(COUNT))
    again = office.answer(ask(COUNT, task="t2", requestor="bob"))
    assert (first["source"], first["cost"]) == ("mechanism", {"epsilon": 0.5, "delta": 0.0})
    assert (again["source"], again["cost"]) == ("cache", {"epsilon": 0.0, "delta": 0.0})
    assert first["payload"] == again["payload"]
    assert first["payload"]["made_epsilon"] == 0.5
    assert [claim.key for claim in office.ledger.claims()] == ["task t1"]
    assert (spent(office), held(office)) == (Decimal("0.5"), 0)
    office.ledger.verify()


SEVERAL = {
    "type": "query",
    "sites": "all",
    "dataset": "patients",
    "statistics": {
        "n": {"statistic": "count"},
        "a": {"statistic": "mean", "column": "age"},
        "m": {"statistic": "quantile", "column": "age", "quantile": 0.5},
    },
    "epsilon": 0.2,
}


def test_several_statistics_that_are_asked_together_again_cost_nothing(office: Office) -> None:
    first, again = office.answer(ask(SEVERAL)), office.answer(ask(SEVERAL, task="t2", requestor="bob"))
    assert (first["source"], first["cost"]["epsilon"]) == ("mechanism", 0.2)
    assert (again["source"], again["cost"]["epsilon"]) == ("cache", 0.0)
    assert first["payload"].keys() == again["payload"].keys()
    assert all(np.array_equal(field, again["payload"][name]) for name, field in first["payload"].items())
    called = {**SEVERAL, "statistics": {f"z_{name}": one for name, one in SEVERAL["statistics"].items()}}
    assert office.answer(ask({**called, "where": "age < 1000"}, task="t3"))["source"] == "mechanism"
    assert office.answer(ask(called, task="t4"))["source"] == "cache"  # in the same order, under other names
    assert spent(office) == Decimal("0.4")
    office.ledger.verify()


@pytest.mark.parametrize(
    "other",
    [
        {"epsilon": 0.3},
        {"statistics": {**SEVERAL["statistics"], "n": {"statistic": "count", "weight": 3}}},
        {"statistics": {name: SEVERAL["statistics"][name] for name in ("n", "a")}},
        {"where": "age > 30"},
    ],
    ids=["more exact", "other weights", "fewer", "other rows"],
)
def test_several_statistics_that_are_not_measured_alike_are_another_question(
    office: Office, other: dict[str, Any]
) -> None:
    office.answer(ask(SEVERAL))
    assert office.answer(ask({**SEVERAL, **other}, task="t2"))["source"] == "mechanism"
    assert spent(office) == Decimal("0.2") + Decimal(str(other.get("epsilon", 0.2)))


BLOCKS = {"type": "algorithm", "sites": "all", "dataset": "patients", "epsilon": 0.5}
OLD = {"old": {"square": {"divide": ["age", 10]}}}


@pytest.mark.parametrize("algorithm_first", [False, True])
@pytest.mark.parametrize(
    ("statistic", "fields"), [("mean", {}), ("sum", {}), ("histogram", {"bins": 4}), ("mean", {"features": OLD})]
)
def test_the_same_number_asked_as_a_query_and_as_blocks_is_paid_once(
    office: Office, statistic: str, fields: dict[str, Any], algorithm_first: bool
) -> None:
    features = {"features": fields["features"]} if "features" in fields else {}
    column = {"column": "old" if features else "age", **{n: v for n, v in fields.items() if n != "features"}}
    written = [
        {**COUNT, "statistic": statistic, **column, **features},
        {**BLOCKS, "map": {"statistic": column}, "reduce": statistic, **features},
    ]
    one, other = reversed(written) if algorithm_first else written
    first, again = office.answer(ask(one)), office.answer(ask(other, task="t2", requestor="bob"))
    assert (first["source"], first["cost"]) == ("mechanism", {"epsilon": 0.5, "delta": 0.0})
    assert (again["source"], again["cost"]) == ("cache", {"epsilon": 0.0, "delta": 0.0})
    assert first["payload"] == again["payload"]
    assert (spent(office), held(office)) == (Decimal("0.5"), 0)
    told = office.desk.quote({**ask(other, task=""), "kind": "quote"})
    assert told["cost"] == [0.0, 0.0]
    assert {request.kind for request in office.outbox.requests()} == {"query"}


def test_a_request_that_was_kept_as_blocks_is_still_explained_to_its_steward(office: Office) -> None:
    written = {**BLOCKS, "map": {"statistic": {"column": "age"}}, "reduce": "mean"}
    office.outbox.begin(SiteRequest("old", "0" * 64, "ana", "patients", "algorithm", "site", written))
    (told,) = office.answer({"kind": "requests", "id": "own-1"})["body"]
    assert "It asks the mean of age" in told["explanation"]


def test_a_column_that_is_made_otherwise_is_another_question(office: Office) -> None:
    mean = {**COUNT, "statistic": "mean", "column": "old", "epsilon": 0.1}
    made = [
        {"old": {"square": {"divide": ["age", 10]}}},
        {"old": {"square": {"divide": ["age", 11]}}},
        {"old": {"square": {"divide": ["age", 10]}}, "young": {"abs": "age"}},  # one more, that nobody asks
    ]
    told = [office.answer(ask({**mean, "features": each}, task=f"t{n}")) for n, each in enumerate(made)]
    assert [each["source"] for each in told] == ["mechanism", "mechanism", "cache"]
    assert office.answer(ask({**mean, "column": "age"}, task="t9"))["source"] == "mechanism"
    questions = [question_of(text) for text, _ in office.caches.known(office.datasets.get("patients")).store.asked()]
    assert questions[0].features.expressions == made[0]
    assert questions[0].plan(schema_of(AGES)).features == questions[0].features


def test_documents_of_one_digest_are_one_question_however_their_features_are_written(office: Office) -> None:
    pair = {**COUNT, "statistic": "correlation", "columns": ["old", "far"], "epsilon": 0.1}
    old, far = {"clamp": ["age", 0, 50]}, {"square": {"divide": ["age", 10]}}
    written = [{"old": old, "far": far}, {"old": {"clamp": ["age", 0.0, 50.0]}, "far": far}, {"far": far, "old": old}]
    assert len({registry.check({**pair, "features": each}).digest for each in written}) == 1
    told = [office.answer(ask({**pair, "features": each}, task=f"t{n}")) for n, each in enumerate(written)]
    assert [each["source"] for each in told] == ["mechanism", "cache", "cache"]


def test_a_made_column_of_a_column_that_was_declared_otherwise_is_another_question() -> None:
    mean = {**COUNT, "statistic": "mean", "column": "old", "features": OLD}
    document: Any = registry.check(mean)
    wider = {**AGES, "columns": {"age": {"type": "integer", "low": 0, "high": 120}}}
    keys = [key_of(document.plan(schema_of(schema)), schema_of(schema)) for schema in (AGES, wider, AGES)]
    assert (keys[0] == keys[2], keys[0] == keys[1]) == (True, False)


class Fed:
    """The site's end of a pipe, fed by a test."""

    def __init__(self) -> None:
        self.heard: Queue[bytes] = Queue()
        self.said: Queue[dict[str, Any]] = Queue()
        self._number = 0

    def put(self, message: dict[str, Any]) -> None:
        self._number += 1
        self.heard.put(write_envelope({**message, "id": str(self._number)}))

    def receive_bytes(self) -> bytes | None:
        return self.heard.get() or None

    def send(self, message: dict[str, Any]) -> None:
        self.said.put(read_envelope(write_envelope(message)))

    def send_blocks(self, blocks: Sequence[frames.Block]) -> None:
        self.said.put(read_envelope(b"".join(blocks)))


@pytest.mark.parametrize("bins", [4, 80])  # few numbers are text, many an array
def test_an_answer_is_written_once_and_sent_as_it_is_kept(
    office: Office, monkeypatch: pytest.MonkeyPatch, bins: int
) -> None:
    written: list[Any] = []
    real = frames.split
    monkeypatch.setattr(frames, "split", lambda message: written.append(message) or real(message))
    pipe: Any = Fed()
    question = {**COUNT, "statistic": "histogram", "column": "age", "bins": bins}
    for _ in range(2):
        pipe.put(ask(question))
    pipe.heard.put(b"")
    serve(office, pipe)
    first, again = (pipe.said.get(timeout=60) for _ in range(2))
    answers = [one for one in written if one["kind"] == "contribution"]
    assert len(answers) == 1
    assert {first.pop("id"), again.pop("id")} == {"1", "2"}
    kept = office.outbox.answer("t1", "phase-0")
    assert kept is not None
    assert kept.body is not None
    for told in (first, again):
        assert frames.write(frames.split(told)) == kept.body


def test_who_asks_what_was_released_waits_for_no_rows_that_others_have_read(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.answer(ask(COUNT))
    opened, read_, real = Event(), Event(), Planning.totals

    def slow(self: Any, plan: Plan, blocks: View | None = None) -> Any:
        opened.set()
        assert read_.wait(60)
        return real(self, plan, blocks)

    monkeypatch.setattr(Planning, "totals", slow)
    pipe: Any = Fed()
    with ThreadPoolExecutor(1) as elsewhere:
        served = elsewhere.submit(serve, office, pipe)
        other = {**COUNT, "where": "age > 30"}
        try:
            pipe.put(ask(other, task="t2"))
            assert opened.wait(60)
            pipe.put(ask(other, task="t3"))  # is not answered yet: it waits, and is not paid twice
            pipe.put(ask(COUNT, task="t4", requestor="bob"))
            pipe.put({**ask(COUNT, task=""), "kind": "quote"})
            first, second = (pipe.said.get(timeout=30) for _ in range(2))
        finally:
            read_.set()
            pipe.heard.put(b"")
        last = [pipe.said.get(timeout=60) for _ in range(2)]
        served.result(timeout=60)
    assert (first["id"], first["source"], first["cost"]["epsilon"]) == ("3", "cache", 0.0)
    assert (second["id"], second["source"], second["cost"]) == ("4", "cache", [0.0, 0.0])
    last.sort(key=lambda told: told["id"])  # two are worked on side by side
    assert [(one["id"], one["source"]) for one in last] == [("1", "mechanism"), ("2", "cache")]
    assert (spent(office), held(office)) == (Decimal(1), 0)
    assert office.outbox.request("t4").state == "open"  # type: ignore[union-attr]
    assert office.answer(ask(COUNT, task="t4", requestor="bob"))["payload"] == first["payload"], "kept as it was sent"
    assert len([e for e in office.audit.latest(99) if e.event == "answer"]) == 5
    office.ledger.verify()


def test_a_kind_that_is_never_answered_from_before_waits_for_its_rows_alone(office: Office) -> None:
    assert office.recalls(ask(COUNT))
    assert office.recalls({"kind": "quote"})
    train = {"type": "train", "model": "LogisticRegression"}
    for other in (ask(train), ask({"type": "unheard-of"}), {"kind": "ask"}, {"kind": "ask", "document": 3}):
        assert not office.recalls(other)
    assert not office.recalls({"kind": "closed"})


def test_a_task_that_no_rule_allows_is_told_nothing_that_was_released(home: SiteHome) -> None:
    private_files.write(home.policy, RULE)
    office = Office(home, "north")
    office.answer(ask(COUNT))
    assert office.again(ask(COUNT, task="t9")) is not None
    for refused in (
        ask(COUNT, task="t2", requestor="eve"),
        ask({**COUNT, "dataset": "others"}, task="t3"),
        ask({**COUNT, "sites": ["south"]}, task="t4"),
        ask(COUNT, task="t1", requestor="bob"),
    ):
        assert office.again(refused) is None
    assert {e.facts["task"] for e in office.audit.latest(99)} == {"t1", "t9"}, "nothing is changed"


def test_whoever_has_nothing_left_is_still_told_what_others_were(home: SiteHome) -> None:
    private_files.write(home.policy, RULE)
    office = Office(home, "north")
    for task, where in enumerate(("age > 20", "age > 30")):
        assert office.answer(ask({**COUNT, "where": where}, task=f"t{task}"))["kind"] == "contribution"
    assert office.answer(ask({**COUNT, "where": "age > 40"}, task="t3"))["code"] == "budget"
    assert office.answer(ask({**COUNT, "where": "20 < age"}, task="t4"))["source"] == "cache"


def test_without_a_cache_every_question_pays(tmp_path: Path) -> None:
    home = site_home(tmp_path / "site")
    path = home.datasets / "patients.toml"
    path.write_text(path.read_text() + '\n[cache]\nkind = "none"\n')
    office = Office(home, "north")
    for task in ("t1", "t2"):
        assert office.answer(ask(COUNT, task=task))["source"] == "mechanism"
    assert spent(office) == 1
    assert not (home.folder / "cache").exists()


def test_exact_totals_for_a_coordinator_are_not_kept(office: Office) -> None:
    document = {**COUNT, "noise": "coordinator"}
    for task in ("t1", "t2"):
        answer = office.answer(ask(document, task=task, schema=schema_of(AGES)))
        assert (answer["kind"], answer["source"]) == ("contribution", "mechanism")
    assert spent(office) == 1
    planner = office.caches(office.datasets.get("patients"))  # type: ignore[arg-type]
    assert planner is not None
    assert planner.store.days() == []


@pytest.mark.parametrize("filter", ["zcdp", "renyi"])
def test_a_block_that_counts_otherwise_is_charged_what_the_noise_costs(tmp_path: Path, filter: str) -> None:
    office = Office(site_home(tmp_path / "site", delta=1e-6, filter=filter), "north")
    answer = office.answer(ask({**COUNT, "delta": 1e-7}))
    assert answer["cost"] == {"epsilon": 0.5, "delta": 0.0}, "Laplace noise needs no delta"
    assert office.answer(ask({**COUNT, "delta": 1e-7}, task="t2"))["source"] == "cache"
    (claim,) = office.ledger.claims()
    assert claim.state == "closed"
    assert held(office) == 0
    office.ledger.verify()


def test_a_declaration_is_read_as_it_was_written(tmp_path: Path) -> None:
    home = site_home(tmp_path / "site")
    path = home.datasets / "patients.toml"
    path.write_text(path.read_text() + '\n[cache]\nkind = "pmw"\nfresh_for = "12h"\nbins = {age = 10}\n')
    made = read(path, "patients")
    assert made.cache == Cache("pmw", 43_200.0, {"bins": {"age": 10}})
    DataSets(home).keep(made)
    assert read(path, "patients").cache == made.cache


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ('kind = "lru"', "cache"),
        ('fresh_for = "soon"', "cache.fresh_for"),
        ("fresh_for = 3", "cache.fresh_for"),
        ("visits = 3", "cache.visits"),
        ("own_share = 1.5", "cache.own_share"),
        ('own_share = "all"', "cache.own_share"),
        ('kind = "pmw"\nbins = {height = 3}', "cache"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused_by_its_field(tmp_path: Path, said: str, field: str) -> None:
    path = site_home(tmp_path / "site").datasets / "patients.toml"
    path.write_text(f"{path.read_text()}\n[cache]\n{said}\n")
    with pytest.raises(Mistake, match=f"patients.toml: {field}"):
        read(path, "patients")


# --- crashes ----------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends here."""


def test_a_crash_between_charge_and_noise_is_paid_once(
    home: SiteHome, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Additive, "add", dies)
        with pytest.raises(Killed):
            office.answer(ask(COUNT))
    assert spent(office) == Decimal("0.5")
    again = Office(home, "north").answer(ask(COUNT))
    assert (again["source"], again["cost"]["epsilon"]) == ("mechanism", 0.5)
    assert spent(office) == Decimal("0.5")


def test_a_crash_after_the_answer_was_kept_gives_it_again_as_it_was(
    home: SiteHome, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[bytes] = []

    def dies(self: ResponseStore, task: str, answer: Any, *, rule: int) -> None:
        told.append(answer.body)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(ResponseStore, "keep", dies)
        with pytest.raises(Killed):
            office.answer(ask(COUNT))
    other = Office(home, "north")
    assert other.answer(ask(COUNT, task="t2"))["source"] == "cache"
    again = other.answer(ask(COUNT))
    assert (again["source"], again["cost"]["epsilon"]) == ("mechanism", 0.5), "what it cost is told with it"
    assert frames.read(told[0], most_bytes=MOST_BYTES).message(arrays=True)["payload"] == again["payload"]
    assert (spent(office), held(office)) == (Decimal("0.5"), 0)


def test_a_charge_that_a_crash_left_behind_is_told_where_another_s_answer_serves(
    home: SiteHome, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Additive, "add", dies)
        with pytest.raises(Killed):
            office.answer(ask(COUNT))
    other = Office(home, "north")
    other.answer(ask(COUNT, task="t2"))
    again = other.answer(ask(COUNT))
    assert (again["source"], again["cost"]["epsilon"]) == ("cache", 0.5)
    assert spent(office) == 1, "both were charged, and both say so"


# --- a synopsis -------------------------------------------------------------------------------------------


#: two events that cost the same
ALIKE = (Purchase.pure("0.05"), Purchase(LaplaceEvent(20.0), Decimal("0.05")))


class Checked:
    """Buys a number once, then pays a third of what it may for every answer that it gives."""

    def __init__(self) -> None:
        self.known: float | None = None
        self.changes = False

    def covers(self, plan: Plan) -> bool:
        return True

    def preparation(self, view: View) -> Sequence[Purchase]:
        return () if self.known is not None else (Purchase.pure("0.25"),)

    def prepare(self, rows: ViewRows, pay: Pay, randomness: Randomness) -> None:
        pay(Purchase.pure("0.25"))
        self.known, self.changes = 100.0, True

    def most(self, plan: Plan, wanted: Wanted, view: View) -> Sequence[Purchase]:
        return (Purchase.pure("0.1"), Purchase.pure("0.2"), *ALIKE)

    def answer(self, plan: Plan, wanted: Wanted, rows: ViewRows, pay: Pay, randomness: Randomness) -> Answered:
        for purchase in ALIKE if plan.where is not None else (Purchase.pure("0.1"),):
            pay(purchase)
        return Answered(np.full(plan.size, self.known or 0.0), None, (50.0, 0.01), AnswerSource.SYNOPSIS)

    def heard(self, plan: Plan, answered: Answered, view: View) -> None:
        """It learns nothing."""

    def changed(self) -> dict[str, SynopsisPart]:
        changes, self.changes = self.changes, False
        return {"all": SynopsisPart({"known": self.known})} if changes else {}

    def restore(self, pieces: Any) -> None:
        self.known = pieces["all"].public["known"] if "all" in pieces else None


@pytest.fixture
def guessing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "synopsis_of", lambda kind, *_, **__: Checked())


@pytest.mark.parametrize("filter", ["basic", "zcdp", "renyi"])
@pytest.mark.usefixtures("guessing")
def test_the_most_is_set_aside_what_was_paid_is_charged_and_the_rest_given_back(tmp_path: Path, filter: str) -> None:
    home = site_home(tmp_path / "site", delta=0 if filter == "basic" else 1e-6, filter=filter)
    office = Office(home, "north")
    before = counted(office)
    answer = office.answer(ask(COUNT))
    assert (answer["source"], answer["cost"]["epsilon"]) == ("synopsis", 0.1)
    assert (answer["payload"]["width"], answer["payload"]["made_epsilon"]) == (50.0, 0.0)
    own, asked = sorted(office.ledger.claims(), key=lambda claim: (claim.key or "").startswith("task"))
    assert (own.key or "").startswith(BOUGHT)
    assert (own.spender, asked.spender) == ("thebes", "ana")
    assert held(office) == 0
    assert counted(office) == pytest.approx(before - 0.1), "the synopsis is nobody's who asked"
    assert counted(Office(home, "north")) == pytest.approx(before - 0.1), "nor is it after a restart"
    if filter == "basic":
        assert spent(office) == Decimal("0.35")
    office.ledger.verify()


@pytest.mark.usefixtures("guessing")
def test_two_events_that_cost_the_same_are_both_charged(office: Office) -> None:
    answer = office.answer(ask({**COUNT, "where": "age > 30"}))
    assert (answer["source"], answer["cost"]["epsilon"]) == ("synopsis", 0.1)
    assert spent(office) == Decimal("0.35")


class Wavering(Checked):
    """Dies over its first charge, and takes another way when it is asked again."""

    def __init__(self, deaths: list[str]) -> None:
        super().__init__()
        self.deaths = deaths

    def answer(self, plan: Plan, wanted: Wanted, rows: ViewRows, pay: Pay, randomness: Randomness) -> Answered:
        if self.deaths:
            pay(Purchase.pure(self.deaths.pop()))
            raise Killed
        pay(ALIKE[0])
        return Answered(np.full(plan.size, self.known or 0.0), None, (50.0, 0.01), AnswerSource.SYNOPSIS)


@pytest.mark.parametrize("filter", ["basic", "zcdp", "renyi"])
def test_what_every_attempt_paid_counts_under_the_rule_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filter: str
) -> None:
    """A process dies between paying an opening and storing its answer; who tries again goes another way."""
    deaths = ["0.2", "0.1"]
    monkeypatch.setattr(caches, "synopsis_of", lambda kind, *_, **__: Wavering(deaths))
    home = site_home(tmp_path / "site", delta=0 if filter == "basic" else 1e-6, filter=filter)
    before, paid = counted(Office(home, "north")), 0.35
    for _ in range(2):
        with pytest.raises(Killed):
            Office(home, "north").answer(ask(COUNT))
    office = Office(home, "north")
    answer = office.answer(ask(COUNT))
    assert answer["source"] == "synopsis"
    told = answer["cost"]["epsilon"]
    assert told == pytest.approx(paid) if filter == "basic" else told >= paid
    assert counted(office) == counted(Office(home, "north")) == pytest.approx(before - told)
    assert held(office) == 0
    office.ledger.verify()


def test_a_rule_that_allows_no_other_attempt_beside_what_one_has_bought_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With losses counted in rho, what is left of a claim may buy more than what it was said to cost at most."""
    deaths = ["0.1"]
    monkeypatch.setattr(caches, "synopsis_of", lambda kind, *_, **__: Wavering(deaths))
    home = site_home(tmp_path / "site", delta=1e-6, filter="zcdp")
    private_files.write(home.policy, RULE.replace("epsilon = 1", "epsilon = 0.5\ndelta = 1e-6"))
    with pytest.raises(Killed):
        Office(home, "north").answer(ask(COUNT))
    office = Office(home, "north")
    assert office.answer(ask(COUNT))["code"] == "budget"
    assert counted(office) == pytest.approx(0.1)


def test_a_crash_after_an_answer_was_kept_leaves_nothing_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "synopsis_of", lambda kind, *_, **__: Checked())
    home = site_home(tmp_path / "site")

    def dies(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(SiteBudget, "settle", dies)
        with pytest.raises(Killed):
            Office(home, "north").answer(ask(COUNT))
    office = Office(home, "north")
    assert held(office) > 0
    assert office.answer(ask(COUNT))["cost"]["epsilon"] == pytest.approx(0.1)
    assert held(office) == 0
    assert counted(office) == counted(Office(home, "north")) == pytest.approx(1000 - 0.1)


@pytest.mark.usefixtures("guessing")
@pytest.mark.parametrize(("share", "bought"), [("0.0249", False), ("0.025", True)])
def test_what_a_data_set_buys_for_itself_is_no_more_than_its_steward_allows(
    tmp_path: Path, guessing: None, share: str, bought: bool
) -> None:
    home = site_home(tmp_path / "site")
    path = home.datasets / "patients.toml"
    path.write_text(path.read_text() + f'\n[cache]\nkind = "pmw"\nown_share = {share}\n')
    office = Office(home, "north")
    answer = office.answer(ask({**COUNT, "epsilon": 1.0}))
    own = [claim for claim in office.ledger.claims() if (claim.key or "").startswith(BOUGHT)]
    assert (answer["source"], len(own)) == (("synopsis", 1) if bought else ("mechanism", 0))
    (told,) = office.answer({"kind": "datasets"})["body"]
    needs = {} if bought else {"needs": 0.025}
    expected = {"share": float(share), "spent": 0.025 if bought else 0.0, "short": not bought, **needs}
    assert told["cache"]["own"] == expected
    assert read(path, "patients").as_toml().count("own_share") == 1
    said = "so it is not bought" if not bought else "2.5 % of the budget was spent so far; up to 2.5 % may be"
    assert said in savings(office)


@pytest.mark.parametrize(("epsilon", "bought"), [("0.7", True), ("0.8", False)])
def test_what_a_synopsis_is_made_of_is_bought_only_where_enough_is_left_for_the_question_beside_it(
    tmp_path: Path, guessing: None, epsilon: str, bought: bool
) -> None:
    home = site_home(tmp_path / "site", epsilon=1)
    path = home.datasets / "patients.toml"
    path.write_text(path.read_text() + '\n[cache]\nkind = "pmw"\nown_share = 0.5\n')
    office = Office(home, "north")
    answer = office.answer(ask({**COUNT, "epsilon": float(epsilon)}))
    assert (answer["kind"], answer["source"]) == ("contribution", "synopsis" if bought else "mechanism")
    own = [claim for claim in office.ledger.claims() if (claim.key or "").startswith(BOUGHT)]
    assert len(own) == bought


def test_all_that_a_data_set_bought_for_itself_counts_and_a_crash_does_not_count_twice(
    tmp_path: Path, guessing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = site_home(tmp_path / "site")
    path = home.datasets / "patients.toml"
    path.write_text(path.read_text() + '\n[cache]\nkind = "pmw"\nown_share = 0.03\n')
    office = Office(home, "north")
    with monkeypatch.context() as patch:
        patch.setattr(Checked, "changed", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            office.answer(ask({**COUNT, "epsilon": 1.0}))
    office = Office(home, "north")
    assert office.answer(ask({**COUNT, "epsilon": 1.0}))["source"] == "synopsis", "under the charge of before"
    planner = office.caches(office.datasets.get("patients"))  # type: ignore[arg-type]
    assert planner is not None
    planner.store._db.execute("DELETE FROM piece")  # what was bought is lost
    again = office.answer(ask({**COUNT, "epsilon": 1.0, "where": "age > 50"}, task="t2"))
    assert again["source"] == "mechanism", "a second one would be .05"
    own = [claim for claim in office.ledger.claims() if (claim.key or "").startswith(BOUGHT)]
    assert len(own) == 1


def test_a_synopsis_that_the_rule_does_not_allow_leaves_the_answer_to_the_mechanism(home: SiteHome) -> None:
    private_files.write(home.policy, RULE.replace("epsilon = 1", "epsilon = 0.25"))
    office = Office(home, "north")
    answer = office.answer(ask({**COUNT, "epsilon": 0.25}))
    assert (answer["source"], answer["cost"]["epsilon"]) == ("mechanism", 0.25)


def test_with_a_guess_everything_that_is_told_was_charged_and_nothing_else(tmp_path: Path) -> None:
    """A real synopsis of few cells that trusts itself early, asked again and again."""
    home = site_home(tmp_path / "site", rows=5000, epsilon=100)
    path = home.datasets / "patients.toml"
    path.write_text(f'{path.read_text()}\n[cache]\nkind = "pmw"\nvisits = 2\ntrust = 0\nbins = {{age = 20}}\n')
    office, sources, told = Office(home, "north"), set(), Decimal(0)
    chance, dice = seeded_for_simulation(3), random.Random(1)
    office.contributing._randomness = lambda: chance
    by_accuracy = {**COUNT, "accuracy": {"alpha": 150, "beta": 0.01}, "epsilon": 2.0}
    for number in range(40):
        low = dice.randrange(19) * 5
        document = {**by_accuracy, "where": f"age >= {low} AND age < {low + 5 * dice.randint(1, 4)}"}
        answer = office.answer(ask(document, task=f"t{number}", payload={"width": 150.0, "beta": 0.01}))
        sources.add(answer["source"])
        told += Decimal(str(answer["cost"]["epsilon"]))
    assert sources >= {"mechanism", "synopsis"}
    (own,) = [claim for claim in office.ledger.claims() if (claim.key or "").startswith(BOUGHT)]
    assert float(spent(office) - own.loss.epsilon) == pytest.approx(float(told))  # type: ignore[union-attr]
    assert held(office) == 0
    assert counted(office) == counted(Office(home, "north")) == pytest.approx(1000 - float(told))
    office.ledger.verify()


# --- growing sets -----------------------------------------------------------------------------------------


def test_over_blocks_an_answer_is_given_again_until_there_is_another_block(tmp_path: Path) -> None:
    from test_site_streams import QUERY, grown, rides

    home = SiteHome(tmp_path / "site")
    grown(home, cache="exact")
    office = Office(home, "north")
    dataset = office.datasets.get("taxi")
    assert dataset is not None
    stream = office.streams(dataset)
    first = office.answer(ask(QUERY))
    again = office.answer(ask(QUERY, task="t2"))
    assert (again["source"], again["covers"]) == ("cache", first["covers"])
    stream.retire(["taxi/2026-01-01"])
    again = office.answer(ask(QUERY, task="t3"))
    assert (again["source"], again["covers"]["blocks"]) == ("cache", 3), "of what is spent, too, for nothing"
    stream.ingest(rides(["2026-01-04"] * 10))
    more = office.answer(ask(QUERY, task="t4"))
    assert (more["source"], more["covers"]["blocks"]) == ("mechanism", 3), "the retired one cannot pay"
    assert office.answer(ask(QUERY, task="t5"))["source"] == "cache"
    assert office.answer(ask(QUERY, task="t1"))["payload"] == first["payload"]
    office.ledger.verify()


def test_over_blocks_a_guess_takes_the_sizes_that_are_bought_anyway(tmp_path: Path) -> None:
    from test_site_streams import QUERY, grown

    home = SiteHome(tmp_path / "site")
    grown(home, cache="pmw")
    office = Office(home, "north")
    office.answer(ask(QUERY))
    dataset = office.datasets.get("taxi")
    assert dataset is not None
    bought = {block.name: block.size for block in office.streams(dataset).blocks()}
    planner = office.caches.looking(dataset)
    assert planner is not None
    assert planner.store.pieces()["state"].public["sizes"] == bought
    assert sorted(claim.purpose for claim in office.ledger.claims() if claim.spender == "thebes") == ["sizes of blocks"]
    office.ledger.verify()


def test_answers_about_blocks_that_are_asked_together_no_more_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from test_site_streams import QUERY, grown, rides

    monkeypatch.setattr(store, "PAID_SECONDS", -1.0)
    home = SiteHome(tmp_path / "site")
    grown(home, cache="exact")
    office = Office(home, "north")
    dataset = office.datasets.get("taxi")
    assert dataset is not None
    stream, planner = office.streams(dataset), office.caches(dataset)
    assert planner is not None

    def known() -> list[int]:
        rows = planner.store._db.execute("SELECT blocks FROM place JOIN answer USING (view) ORDER BY number")
        return [len(json.loads(blocks)) for (blocks,) in rows]

    question = {**QUERY, "epsilon": 0.2}
    first = office.answer(ask(question))
    stream.retire(["taxi/2026-01-01"])
    office.answer(ask({**QUERY, "epsilon": 0.4}, task="t2"))
    assert known() == [3, 2], "all there are, and all that can pay"
    stream.ingest(rides(["2026-01-04"] * 10))
    stream.retire(["taxi/2026-01-02"])
    office.answer(ask({**QUERY, "epsilon": 0.6}, task="t3"))
    assert known() == [2, 2], "of the first nobody can be asked again; the other was the newest until now"
    assert office.answer(ask(question))["payload"] == first["payload"], "but who was answered has the same answer"
    office.ledger.verify()


def test_budgets_that_are_separate_share_no_answers(tmp_path: Path) -> None:
    from test_site_streams import QUERY, grown

    home = SiteHome(tmp_path / "site")
    grown(home, cache="exact", separate_by="developer", accept_separate_ledgers=True)
    office = Office(home, "north")
    sources = [office.answer(ask(QUERY, task=f"t{n}", requestor=who))["source"] for n, who in enumerate(("ana", "bob"))]
    assert sources == ["mechanism", "mechanism"]
    assert office.answer(ask(QUERY, task="t9", requestor="bob"))["source"] == "cache"


class Piecewise(Checked):
    """Buys something about every block, and never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.bought: set[str] = set()

    def preparation(self, view: View) -> Sequence[Purchase]:
        return [Purchase.pure("0.25")] if set(view) - self.bought else []

    def prepare(self, rows: ViewRows, pay: Pay, randomness: Randomness) -> None:
        pay(Purchase.pure("0.25"))
        self.bought |= set(rows.view)
        self.changes = True

    def most(self, plan: Plan, wanted: Wanted, view: View) -> Any:
        return None

    def changed(self) -> dict[str, SynopsisPart]:
        changes, self.changes = self.changes, False
        return {"all": SynopsisPart({"bought": sorted(self.bought)})} if changes else {}

    def restore(self, pieces: Any) -> None:
        self.bought = set(pieces["all"].public["bought"]) if "all" in pieces else set()


def test_what_a_synopsis_is_made_of_is_paid_once_by_every_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from test_site_streams import QUERY, grown, rides

    monkeypatch.setattr(caches, "synopsis_of", lambda kind, *_, **__: Piecewise())
    home = SiteHome(tmp_path / "site")
    grown(home, cache="exact")
    office = Office(home, "north")
    dataset = office.datasets.get("taxi")
    assert dataset is not None
    assert office.answer(ask(QUERY))["source"] == "mechanism"
    office.streams(dataset).ingest(rides(["2026-01-04"] * 10))
    assert office.answer(ask(QUERY, task="t2"))["source"] == "mechanism"
    own = [claim.blocks for claim in office.ledger.claims() if (claim.key or "").startswith(BOUGHT)]
    assert [len(blocks) for blocks in own] == [3, 1]
    assert len({block for blocks in own for block in blocks}) == 4
    office.streams(dataset).retire({block for blocks in own for block in blocks})
    assert office.answer(ask({**QUERY, "epsilon": 2}, task="t3"))["code"] == "budget", "nobody is left to pay"
    office.ledger.verify()


# --- a steward ---------------------------------------------------------------------------------------------

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def go(*arguments: object) -> tuple[int, str, str]:
        return exit_status(*arguments), *capsys.readouterr()

    monkeypatch.delenv("THEBES_HOME", raising=False)
    return go


def test_a_steward_asks_through_ledger_and_cache_as_everybody(home: SiteHome, run: Run) -> None:
    question = ("dataset", "query", "patients", "--home", home.folder, "--statistic", "count", "--where", "age > 30")
    status, out, _ = run(*question, "--epsilon", 0.5, "--json")
    first = json.loads(out)
    assert (status, first["cost"], first["source"]) == (0, {"epsilon": 0.5, "delta": 0.0}, "mechanism")
    assert first["interval"]["low"] <= first["value"] <= first["interval"]["high"]
    office = Office(home, "north")
    asked = office.answer(ask({**COUNT, "where": "age > 30"}))
    assert asked["source"] == "cache", "whoever asks the same gets the steward's answer"
    assert asked["payload"]["totals"] == [first["value"]]
    status, out, _ = run(*question, "--epsilon", 0.25)
    assert "It cost epsilon 0. It came from the cache." in out
    _, out, _ = run("dataset", "show", "patients", "--home", home.folder, "--forecast")
    assert "Of 3 answers 2 came from what was released before (exact)" in out
    assert "count where age > 30: now epsilon 0, from the cache" in out
    assert "nothing says yet that it would pay" in out
    assert spent(office) == Decimal("0.5")


def test_a_steward_asks_by_accuracy_and_is_told_the_price_first(home: SiteHome, run: Run) -> None:
    question = ("dataset", "query", "patients", "--home", home.folder, "--statistic", "count", "--alpha", 20)
    _, out, _ = run(*question, "--quote", "--json")
    quoted = json.loads(out)
    assert quoted["source"] == "mechanism"
    _, out, _ = run(*question, "--json")
    assert json.loads(out)["cost"] == {"epsilon": quoted["epsilon"], "delta": 0.0}
    _, out, _ = run(*question, "--quote", "--json")
    assert json.loads(out)["epsilon"] == 0
    status, _, err = run(*question, "--epsilon", 1)
    assert (status, "--epsilon" in err) == (2, True)


def test_a_steward_s_odds_without_an_accuracy_are_refused_before_anything_is_paid(home: SiteHome, run: Run) -> None:
    question = ("dataset", "query", "patients", "--home", home.folder, "--statistic", "count", "--epsilon", "0.5")
    for more in ("--beta", "--max-epsilon"):
        status, _, err = run(*question, more, "0.1")
        assert (status, f"{more}: goes with --alpha" in err) == (2, True)
    with Ledger(home.ledger, keeper=NoKeeper()) as ledger:
        assert not ledger.claims()


def test_where_rho_is_counted_a_steward_s_accuracy_is_bought_with_gaussian_noise(tmp_path: Path, run: Run) -> None:
    home = site_home(tmp_path / "site", delta=1e-6)
    question: tuple[object, ...] = ("dataset", "query", "patients", "--home", home.folder)
    question += ("--statistic", "count", "--alpha", 20, "--delta", 1e-7, "--json")
    quoted = json.loads(run(*question, "--quote")[1])
    made = json.loads(run(*question)[1])
    assert made["cost"] == {"epsilon": quoted["epsilon"], "delta": 1e-7}
    assert made["certificate"]["parameters"]["noise"]["local"]["kind"] == "gaussian"
    assert made["accuracy"]["reached"] <= 20


def test_a_steward_s_question_that_nothing_is_left_for_is_refused(tmp_path: Path, run: Run) -> None:
    home = site_home(tmp_path / "site", epsilon=0.2)
    status, _, err = run(
        "dataset", "query", "patients", "--home", home.folder, "--statistic", "count", "--epsilon", 0.5
    )
    assert (status, "patients" in err) == (1, True)


def test_a_steward_s_question_about_a_set_that_grows_is_paid_by_its_blocks(tmp_path: Path, run: Run) -> None:
    from test_site_streams import grown

    home = SiteHome(tmp_path / "site")
    grown(home, cache="exact")
    question = ("dataset", "query", "taxi", "--home", home.folder, "--statistic", "count", "--epsilon", 1, "--json")
    first, again = (json.loads(run(*question)[1]) for _ in range(2))
    assert (first["source"], again["source"]) == ("mechanism", "cache")
    assert first["value"] == again["value"]
    with Ledger(home.ledger, keeper=NoKeeper()) as ledger:
        assert [claim.spender for claim in ledger.claims() if claim.spender != "thebes"] == ["steward"]


def test_a_set_is_declared_with_a_kind_of_cache(tmp_path: Path, run: Run) -> None:
    (tmp_path / "schema.toml").write_text('unit = "event"\n[columns.age]\ntype = "integer"\nlow = 0\nhigh = 9\n')
    (tmp_path / "rows.csv").write_text("age\n1\n")
    create: tuple[object, ...] = (
        "dataset",
        "create",
        "ages",
        "--home",
        tmp_path / "site",
        "--schema",
        tmp_path / "schema.toml",
    )
    create += ("--source", tmp_path / "rows.csv", "--epsilon", "1", "--cache")
    status, _, err = run(*create, "sharp")
    assert (status, "cache: must be one of none, exact, smart, pmw" in err) == (2, True)
    assert run(*create, "pmw")[0] == 0
    assert read(tmp_path / "site" / "datasets" / "ages.toml", "ages").cache.kind == "pmw"


# --- pages -------------------------------------------------------------------------------------------------


class _Linked:
    """A link, as far as the pages see it: an office in this process."""

    name, state, reason = "north", "connected", ""

    def __init__(self, office: Office) -> None:
        self.algorithm, self._office = self, office

    async def ask(self, kind: str, **more: Any) -> Any:
        return json.loads(json.dumps(self._office.answer({"kind": kind, **more})["body"]))


def browser(office: Office) -> TestClient:
    access = Access(lambda: "the-token")
    api: Any = guarded(_Linked(office), access, port=8765, confined=True, pages=put_on)  # type: ignore[arg-type]
    client = TestClient(api, base_url="http://127.0.0.1:8765", follow_redirects=False)
    client.get(one_time(8765, access).removeprefix("http://127.0.0.1:8765"))
    return client


def savings(office: Office) -> str:
    page: str = browser(office).get("/savings").text
    return page


def test_looking_waits_for_no_answer(office: Office) -> None:
    office.answer(ask(COUNT))
    planner = office.caches(office.datasets.get("patients"))  # type: ignore[arg-type]
    assert planner is not None
    with planner.store.alone(), ThreadPoolExecutor(1) as elsewhere:  # as while rows are read for a long answer
        told = elsewhere.submit(office.answer, {"kind": "datasets"}).result(timeout=60)["body"]
    assert told[0]["cache"]["answers"] == 1
    assert told[0]["cache"]["next"][0]["source"] == "cache"


def test_the_page_of_savings_shows_what_was_saved_and_what_is_free_now(office: Office) -> None:
    for number, where in enumerate(["age > 30", "age > 40", "age > 30", "age > 30"]):
        office.answer(ask({**COUNT, "where": where}, task=f"t{number}"))
    client = browser(office)
    page = client.get("/savings").text
    if folder := os.environ.get("THEBES_SCREENSHOTS"):
        Path(folder, "savings.html").write_text(page)
    assert "50 %" in page
    assert "of 4 answers came from what was released before" in page
    assert "All of them cost epsilon 1; each by itself would have cost 2." in page
    assert "count where age &gt; 30" in page
    assert "an answer before" in page
    assert 'href="/savings#saved-patients"' in client.get("/datasets").text
    assert "nothing: it was answered before" in client.get("/requests").text


def test_a_copy_that_may_spend_again_has_no_opening_that_may_have_been_closed_since(home: SiteHome, run: Run) -> None:
    store = CacheStore(caches.path_of(home, "patients"))
    store.bought("it", {"check": SynopsisPart({"open": True}, secret={"noisy_threshold": 7})})
    with Ledger(home.ledger, keeper=NoKeeper()) as ledger:
        ledger.freeze()
    before = store.generation
    assert run("ledger", "thaw", "--home", home.folder)[0] == 0
    (piece,) = store.pieces().values()
    assert (piece.public, piece.secret) == ({"open": True}, {})
    assert store.generation > before, "who has it in memory reads it anew"
    store.close()


# --- real processes ----------------------------------------------------------------------------------------

_DIES = """
import os, signal, sys
from thebes.cli import main
from thebes.privacy.mechanisms.additive import Additive
Additive.add = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main.main()
"""


@pytest.mark.slow
def test_killed_between_charge_and_answer_nothing_was_released_and_nothing_is_forgotten(home: SiteHome) -> None:
    question = ["dataset", "query", "patients", "--home", str(home.folder), "--statistic", "count", "--epsilon", "0.5"]
    given = {**os.environ, "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
    killed = subprocess.run([sys.executable, "-c", _DIES, *question], env=given, capture_output=True, check=False)
    assert (killed.returncode, killed.stdout) == (-9, b"")
    both = [
        subprocess.Popen([sys.executable, "-m", "thebes", *question, "--json"], env=given, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [json.loads(each.communicate(timeout=120)[0]) for each in both]
    assert sorted(one["source"] for one in said) == ["cache", "mechanism"], "two at once pay once"
    assert said[0]["value"] == said[1]["value"]
    with Ledger(home.ledger, keeper=NoKeeper()) as ledger:
        ledger.verify()
        assert Decimal(ledger.block("patients").meters["epsilon"].spent).scaleb(-12) == 1, "the killed one, and one"
