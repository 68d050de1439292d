"""A pipeline as a task: its document, what a site answers, and what a coordinator makes of the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thebes
from tests.support.pipelines import RIDES
from tests.support.site_home import ask
from thebes.data.growing.block_rule import block_by
from thebes.data.schema import schema_of
from thebes.database import private_files
from thebes.ledger import Ledger, NoKeeper
from thebes.privacy import randomness
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Unit
from thebes.site.algorithm_process import Office
from thebes.site.dataset import BlockDeclaration, BudgetDeclaration, DataSet, DataSets
from thebes.site.home import SiteHome
from thebes.site.streams import stream_of
from thebes.tasks import registry
from thebes.tasks.contributions import read_payloads
from thebes.tasks.protocols import Ask, Setting, State
from thebes.tasks.release_reader import release_from_json
from thebes.web.coordinator.result import shown
from thebes.wire.refused_sites import BEYOND

RULE = """
[[allow]]
requestors = ["ana"]
datasets = ["taxi"]
kinds = ["pipeline"]
epsilon = 3
delta = 1e-4
"""
DOCUMENT: dict[str, Any] = {
    "type": "pipeline",
    "sites": ["north"],
    "stream": "taxi",
    "model": "LinearRegression",
    "inputs": ["km"],
    "output": "minutes",
    "target": {"mse": 60.0},
    "largest": {"mse": 250.0},
    "epsilon": 2.0,
    "delta": 1e-6,
}
NOON = datetime(2030, 1, 1, tzinfo=UTC)


def rides(days: int, each: int) -> pd.DataFrame:
    draw = np.random.default_rng(5)
    km = draw.uniform(0, 10, days * each)
    at = pd.to_datetime("2026-01-01") + pd.to_timedelta(np.repeat(np.arange(days), each), unit="D")
    return pd.DataFrame({"at": at, "km": km, "minutes": np.clip(5 + 4 * km + draw.normal(0, 2, len(km)), 0, 60)})


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    chance = randomness.seeded_for_simulation(1)  # whether a model is accepted is luck, and no test's
    monkeypatch.setattr("thebes.curator.pipelines.runner.system", lambda: chance)
    home, schema = SiteHome(tmp_path / "site"), schema_of(RIDES)
    dataset = DataSet(
        "taxi",
        schema,
        {"kind": "growing"},
        BudgetDeclaration.of("4", "1e-5", "basic"),
        BlockDeclaration(block_by("time:1d", schema)),
    )
    DataSets(home).keep(dataset)
    with Ledger(home.ledger, keeper=NoKeeper()) as ledger:
        stream = stream_of(home, dataset, ledger)
        stream.ingest(rides(8, 4000))
        stream.close()
    private_files.write(home.policy, RULE)
    made = Office(home, "north")
    yield made
    made.ledger.close()


def asked(office: Office, document: dict[str, Any], task: str = "a" * 32) -> dict[str, Any]:
    return office.desk.ask(ask(document, task=task))


def left(office: Office) -> list[float]:
    return [float(block.remaining.epsilon) for block in office.ledger.blocks() if block.name.startswith("taxi/")]


def heard(document: dict[str, Any], answer: dict[str, Any]) -> Any:
    """The aggregator after a site's answer."""
    checked = registry.check(document)
    setting = Setting(unit=Unit.EVENT, randomness=randomness.system(), sites={"north": schema_of(RIDES)})
    aggregator: Any = registry.aggregator(checked, setting)
    found = aggregator.ask("north")
    assert isinstance(found, Ask)
    layout = aggregator.layout(found.part, found.partition)
    aggregator.accept(read_payloads(layout, found.part, [answer["payload"]], found.partition))
    aggregator.advance(NOON)
    return aggregator


def test_the_document_of_the_contract_is_read_with_its_own_words() -> None:
    checked: Any = registry.check({**DOCUMENT, "sites": ["local"], "confidence": 0.95})
    assert (checked.dataset, checked.sites, checked.strategy) == ("taxi", ("local",), "conserve")
    assert registry.check(checked.as_json()).digest == checked.digest
    told = registry.kind("pipeline").explain(checked)
    assert "LinearRegression of minutes" in told
    assert "mse 60 is shown with confidence 0.95" in told


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"model": "Oracle"}, "model"),
        ({"target": {}}, "target"),
        ({"target": {"happiness": 1.0}}, "target"),
        ({"delta": 0.0}, "delta"),
        ({"sites": ["a", "b"]}, "sites"),
        ({"sites": "all"}, "sites"),
        ({"noise": "coordinator"}, "noise"),
        ({"start_epsilon": 3.0}, "start_epsilon"),
        ({"window": "a while"}, "window"),
        ({"dataset": "taxi"}, "stream"),
        ({"bins": {"minutes": 4}}, "bins"),
        ({"layers": [3]}, "layers"),
    ],
)
def test_a_document_that_cannot_work_is_refused_by_its_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(Mistake) as refused:
        registry.check({**DOCUMENT, **change})
    assert refused.value.argument.startswith(field)


def test_a_model_that_is_good_enough_is_released_kept_and_paid_by_its_blocks(office: Office) -> None:
    before = left(office)
    answer = asked(office, DOCUMENT)
    assert answer["kind"] == "contribution"
    aggregator = heard(DOCUMENT, answer)
    release: Any = release_from_json(aggregator.release().as_json())
    assert (aggregator.state, release.verdict) == (State.DONE, "ACCEPT")
    assert release.certificate.epsilon <= 2.0
    assert release.certificate.delta <= 1e-6
    assert release.certificate.unit == "event"
    assert release.extra["cost"]["epsilon"] == answer["cost"]["epsilon"] > 0
    assert float(release.model.predict({"km": [5.0]})[0]) == pytest.approx(25, abs=8)
    assert release.extra["lineage"]["stream"] == "taxi"
    # Sizes cost a twentieth of 4 each; beside them no block paid more than the document says.
    paid = [a - b for a, b in zip(before, left(office), strict=True)]
    assert max(paid) <= 2.0 + 0.2 + 1e-9
    assert max(paid) >= sum(one["epsilon"] for one in release.attempts[:1])
    again = asked(office, DOCUMENT)
    assert again["payload"] == answer["payload"]
    assert [a - b for a, b in zip(before, left(office), strict=True)] == paid


def test_a_process_that_was_lost_after_its_attempts_finds_their_outcome(office: Office) -> None:
    first = asked(office, DOCUMENT)
    task = "a" * 32
    office.outbox._db.execute("DELETE FROM answer WHERE task = ?", (task,))
    stood = left(office)
    again = asked(office, DOCUMENT)
    assert json.loads(again["payload"]["answer"]) == json.loads(first["payload"]["answer"])
    assert left(office) == stood


def test_a_target_beyond_reach_ends_with_retry_or_reject_and_without_a_model(office: Office) -> None:
    document = {**DOCUMENT, "target": {"mse": 1e-6}}
    release: Any = heard(document, asked(office, document)).release()
    assert release.verdict in ("RETRY", "REJECT")
    assert release.value is None
    assert release.attempts
    with pytest.raises(Mistake, match="none"):
        _ = release.model
    assert release.verdict in str(release)
    assert all(b >= 4 - 2 - 0.2 - 1e-9 for b in left(office))


def test_a_pipeline_that_waits_for_budget_tells_everybody_that_and_its_steward_how_much_is_left(
    tmp_path: Path, office: Office
) -> None:
    private_files.write(SiteHome(tmp_path / "site").policy, RULE.replace("epsilon = 3", "epsilon = 1.3125"))
    document = {**DOCUMENT, "target": {"mse": 1e-6}, "start_epsilon": 1.0, "epsilon": 1.0}
    release: Any = heard(document, asked(office, document)).release()
    assert release.verdict == "RETRY"
    assert release.attempts
    assert release.extra["reason"] == "no more of its blocks can pay under this site's budget and policy"
    assert "rule 1 of policy.toml" in json.dumps(office.answer({"kind": "pipelines", "id": "own-1"})["body"])


def test_what_the_policy_or_the_data_set_does_not_allow_is_refused_for_nothing(office: Office) -> None:
    before = left(office)
    stranger = office.desk.ask(ask(DOCUMENT, requestor="eve", task="b" * 32))
    assert (stranger["kind"], stranger["code"]) == ("refusal", "policy")
    columns = asked(office, {**DOCUMENT, "inputs": ["mood"]}, task="c" * 32)
    assert (columns["kind"], columns["code"]) == ("refusal", "schema")
    dear = asked(office, {**DOCUMENT, "epsilon": 50.0, "start_epsilon": 50.0}, task="d" * 32)
    assert "more at its first attempt than a block" in dear["reason"]
    beyond = asked(office, {**DOCUMENT, "epsilon": 3.5, "start_epsilon": 3.5}, task="e" * 32)
    assert (beyond["kind"], beyond["code"], beyond["reason"]) == ("refusal", "budget", BEYOND)
    assert left(office) == before


def test_the_same_runs_in_simulation_over_rows_of_ones_own() -> None:
    release: Any = thebes.simulate({**DOCUMENT, "epsilon": 4.0}, {"north": rides(8, 4000)}, schema=RIDES, seed=3)
    assert release.verdict == "ACCEPT"
    assert release.certificate.simulated
    assert release.certificate.epsilon <= 4.0
    (shown,) = release.extra["validation"]
    assert (release.quality.metric, release.quality.interval.high) == (shown["metric"], shown["bound"])
    assert (release.quality.guessing, release.quality.verdict, release.quality.warns) == (None, None, False)
    assert "the model was tested: on " in str(release)
    assert float(release.model.predict({"km": [5.0]})[0]) == pytest.approx(25, abs=8)
    with pytest.raises(Mistake, match="schema"):
        thebes.simulate(DOCUMENT, {"north": rides(1, 10)}, schema={**RIDES, "time": None})


def test_the_same_seed_gives_the_same_model_and_the_same_rows_to_test_it_on() -> None:
    rows = {"north": rides(8, 4000)}
    one, again = (thebes.simulate({**DOCUMENT, "epsilon": 4.0}, rows, schema=RIDES, seed=3).as_json() for _ in "12")
    assert (one["value"], one["validation"]) == (again["value"], again["validation"])


def test_an_answer_that_no_site_would_give_is_refused(office: Office) -> None:
    answer = asked(office, DOCUMENT)
    body = json.loads(answer["payload"]["answer"])
    dearer = {**body, "certificate": {**body["certificate"], "epsilon": 2.5}}
    for wrong in ({**body, "verdict": "MAYBE"}, {**body, "bundle": None}, {**body, "rows": [[1, 2]]}, dearer, [], "x"):
        with pytest.raises(Mistake, match=r"payload\.answer"):
            heard(DOCUMENT, {"payload": {"answer": json.dumps(wrong)}})


@pytest.mark.slow
def test_its_page_tells_the_verdict_and_every_attempt_also_without_a_model(office: Office) -> None:
    for target in (60.0, 1e-6):
        document = {**DOCUMENT, "target": {"mse": target}}
        release: Any = heard(document, asked(office, document, task=f"{target:032.10f}".replace(".", "0"))).release()
        told = shown(registry.check(document), json.dumps(release.as_json()))  # type: ignore[arg-type]
        verdict, attempts = told.sections[:2]
        assert verdict.words.startswith(release.verdict)
        assert attempts.table is not None
        assert len(attempts.table.rows) == len(release.attempts)
