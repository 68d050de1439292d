"""Runs of pipelines over a stream: what they cost, how they end, and what is published."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.pipelines import START, Home, Line, Lines
from thebes.curator.pipelines.allowance import Allowance
from thebes.curator.pipelines.attempt_store import AttemptState, RunState
from thebes.curator.pipelines.bundles import Bundles
from thebes.curator.pipelines.data import Data
from thebes.curator.pipelines.pipeline import Pipeline, Trial
from thebes.curator.pipelines.prices import price
from thebes.curator.pipelines.runner import Runner
from thebes.curator.pipelines.time_limit import OutOfTime, finished
from thebes.curator.pipelines.validators import Best, Validation, Verdict
from thebes.curator.pipelines.workspace import Workspace
from thebes.curator.streams.stream import Stream, Terms
from thebes.data.growing import writer
from thebes.data.growing.block_rule import block_by
from thebes.data.schema import schema_of
from thebes.ledger import BudgetExceeded, Ledger, NoKeeper
from thebes.ledger.filter_protocol import EventFilter
from thebes.ledger.filters import FILTERS
from thebes.privacy.accounting.calibration import rho_for
from thebes.privacy.events import ConcentratedEvent
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.losses import Concentrated, Pure
from thebes.privacy.mechanisms.concentrated import noise_of
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness, seeded_for_simulation
from thebes.privacy.stability import Sensitivity
from thebes.testing.transcripts import loss

ADD = Adjacency.ADD_REMOVE_ONE


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.close()


# --- a run ------------------------------------------------------------------------------------------------


def test_a_good_model_is_accepted_and_published_with_its_lineage(home: Home) -> None:
    home.grow(8)
    run = home.run(Lines())
    assert (run.state, run.verdict, run.version) == (RunState.ENDED, Verdict.ACCEPT, 1)
    bundle = home.workspace.bundles.get("lines")
    assert bundle["model"]["slope"] == pytest.approx(0.8, abs=0.1)
    assert bundle["validation"][0]["bound"] <= 0.1
    attempts = home.workspace.attempts.attempts(run.id)
    assert [one.verdict for one in attempts] == ["RETRY"] * (len(attempts) - 1) + ["ACCEPT"]
    assert len(attempts) > 1
    assert bundle["lineage"]["blocks"] == list(attempts[-1].blocks)
    claims = [home.ledger.claim(number) for number in bundle["lineage"]["claims"]]
    assert [claim.blocks for claim in claims] == [one.blocks for one in attempts]
    assert all(claim.state == "closed" and claim.spender == "ana" for claim in claims)


def test_what_was_paid_is_what_the_certificate_says(home: Home) -> None:
    home.grow(8)
    run = home.run(Lines())
    attempts = home.workspace.attempts.attempts(run.id)
    paid: dict[str, Decimal] = {}
    for one in attempts:
        for block in one.blocks:
            paid[block] = paid.get(block, Decimal(0)) + one.epsilon
    spent = home.spent()
    assert all(spent[block] == amount for block, amount in paid.items())
    assert all(amount == 0 for block, amount in spent.items() if block not in paid)
    certificate = home.workspace.bundles.get("lines")["certificate"]
    assert certificate["epsilon"] == float(max(paid.values()))
    assert (certificate["unit"], certificate["delta"], certificate["guarantee"]) == ("event", 0, "pure")
    assert certificate["parameters"]["attempts"] == len(attempts)


@pytest.mark.slow
def test_every_attempt_asks_for_the_rights_to_just_what_it_charges(home: Home) -> None:
    home.grow(8)
    run = home.run(Lines())
    attempts = home.workspace.attempts.attempts(run.id)
    asked = [(one.blocks, one.epsilon, one.delta) for one in attempts]
    assert [one for one in home.asked if len(one[0]) > 1] == [one for one in asked if len(one[0]) > 1]
    assert home.asked[-1] == asked[-1]


def test_without_rights_nothing_is_charged(home: Home) -> None:
    home.grow(2)

    def never(blocks: Any, epsilon: Any, delta: Any) -> None:
        raise Refusal("the policy does not allow this")

    runner = home.runner()
    runner.rights = never
    with pytest.raises(Refusal):
        runner.run(Lines())
    assert set(home.spent().values()) == {0}
    assert home.ledger.claims(spender="ana") == []


def test_a_run_waits_for_data_and_goes_on_where_it_was(home: Home) -> None:
    home.grow(1, rows=60)
    first = home.run(Lines())
    assert (first.state, first.verdict) == (RunState.OPEN, Verdict.RETRY)
    tried = home.workspace.attempts.attempts(first.id)
    home.grow(6)
    second = home.run(Lines())
    assert second.id == first.id
    assert second.verdict == Verdict.ACCEPT
    attempts = home.workspace.attempts.attempts(first.id)
    assert attempts[: len(tried)] == tried
    assert len(attempts) > len(tried)
    etas = [one.validation["metrics"][0]["eta"] for one in attempts if one.validation]
    assert etas == sorted(etas, reverse=True)
    assert sum(etas) < 0.05


def test_only_time_that_is_over_is_trained_on_and_only_within_the_window(home: Home) -> None:
    class Lately(Lines):
        window = "3d"
        least_blocks = 2

    home.grow(10)
    home.now -= timedelta(hours=1)  # the tenth day is not over yet
    run = home.run(Lately())
    for one in home.workspace.attempts.attempts(run.id):
        assert set(one.blocks) <= {"rides/2026-11-08", "rides/2026-11-09"}


@pytest.mark.slow
def test_what_cannot_be_met_comes_to_an_end_within_its_budget(home: Home) -> None:
    class Never(Lines):
        targets = {"mse": 1e-9}  # noqa: RUF012

    home.grow(8)
    run = home.run(Never())
    assert (run.state, run.verdict) == (RunState.OPEN, Verdict.RETRY)
    assert max(home.spent().values()) <= 1
    home.now += timedelta(days=8)
    run = home.run(Never())
    assert run.verdict == Verdict.RETRY  # a new run: the one before timed out
    ended = home.workspace.attempts.runs()[1]
    assert (ended.state, ended.verdict) == (RunState.ENDED, Verdict.TIMEOUT)
    assert home.workspace.bundles.names() == []


def test_waiting_ends_with_the_timeout(home: Home) -> None:
    class Never(Lines):
        targets = {"mse": 1e-9}  # noqa: RUF012
        timeout = "2d"

    home.grow(2)
    looks = []

    def wait() -> None:
        looks.append(home.now)
        home.now += timedelta(hours=12)

    run = home.run(Never(), wait=wait)
    assert run.verdict == Verdict.TIMEOUT
    assert len(looks) <= 4


def test_an_aggressive_run_takes_everything_at_once(home: Home) -> None:
    class Bold(Lines):
        strategy = "aggressive"

    home.grow(8)
    run = home.run(Bold())
    (only,) = home.workspace.attempts.attempts(run.id)
    assert (only.epsilon, len(only.blocks), run.verdict) == (Decimal(1), 8, Verdict.ACCEPT)


def test_a_spent_stream_makes_a_run_wait_and_charges_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path, epsilon="1")
    home.grow(3)
    names = [block.name for block in home.stream.offered()]
    home.stream.reserve(names, epsilon="0.9", purpose="others", spender="bob").consume()
    before = home.spent()
    run = home.run(Lines())
    assert (run.state, run.verdict) == (RunState.OPEN, Verdict.RETRY)
    assert home.spent() == before
    home.grow(4)
    assert home.run(Lines()).verdict == Verdict.ACCEPT
    assert {name: amount for name, amount in home.spent().items() if name in names} == before
    home.close()


def test_a_rule_with_too_little_left_makes_a_run_wait(home: Home) -> None:
    home.grow(4)

    def little(blocks: Any, epsilon: Decimal, delta: Decimal) -> None:
        left = home.ledger.remaining(blocks[0])
        raise BudgetExceeded(blocks[0], left, left, "rule 1 of policy.toml")

    runner = home.runner()
    runner.rights = little
    run = runner.run(Lines())
    assert (run.state, run.verdict) == (RunState.OPEN, Verdict.RETRY)
    assert "rule 1" in run.reason
    assert home.workspace.attempts.attempts(run.id) == []
    assert set(home.spent().values()) == {0}


def test_only_blocks_that_a_rule_still_allows_are_offered(home: Home) -> None:
    home.grow(4)

    def but_the_newest(blocks: Any, epsilon: Decimal, delta: Decimal) -> None:
        for name in blocks:
            if name == "rides/2026-11-04":
                raise BudgetExceeded(name, home.ledger.remaining(name), home.ledger.remaining(name), "rule 1")

    runner = home.runner()
    runner.rights = but_the_newest
    run = runner.run(Lines())
    attempts = home.workspace.attempts.attempts(run.id)
    assert attempts[0].blocks == ("rides/2026-11-03",)
    assert all("rides/2026-11-04" not in one.blocks for one in attempts)


def test_somebody_quicker_makes_an_attempt_go_back(home: Home) -> None:
    home.grow(4)

    def slow(blocks: Any, epsilon: Decimal, delta: Decimal) -> None:
        home.rights(blocks, epsilon, delta)
        if len(home.asked) == 5:  # each of the four was looked at, the newest is about to be reserved
            home.stream.reserve(blocks, epsilon="9.4", purpose="others", spender="bob").consume()

    runner = home.runner()
    runner.rights = slow
    run = runner.run(Lines())
    assert run.state is RunState.OPEN
    assert [one.state for one in home.workspace.attempts.attempts(run.id)] == [AttemptState.GIVEN_BACK]
    assert home.spent()["rides/2026-11-04"] == Decimal("9.4")


def test_other_terms_or_other_code_begin_anew(home: Home) -> None:
    class Hard(Lines):
        targets = {"mse": 1e-9}  # noqa: RUF012

    home.grow(1)
    first = home.run(Hard(), source="a")
    assert home.run(Hard(), source="a").id == first.id
    second = home.run(Hard(), source="b")
    assert second.id != first.id
    assert home.workspace.attempts.run(first.id).state is RunState.ENDED
    assert home.run(Lines(), source="b").id != second.id


def test_a_pipeline_is_run_once_at_a_time(home: Home) -> None:
    home.grow(2)
    with home.workspace.alone("lines"), pytest.raises(Refusal, match="already"):
        home.run(Lines())
    assert home.run(Lines()).state in RunState


# --- parts, steps and budgets -------------------------------------------------------------------------------


@pytest.mark.slow
def test_train_and_test_share_no_row_and_attempts_split_alike(home: Home) -> None:
    seen: dict[str, list[set[float]]] = {"train": [], "test": []}

    class Watching(Lines):
        def train(self, data: Data, budget: Allowance) -> Line:
            seen["train"].append(set(data.columns(("x",))[:, 0].tolist()))
            return super().train(data, budget)

        def validate(self, model: Any, data: Data, budget: Trial) -> Any:
            seen["test"].append(set(data.columns(("x",))[:, 0].tolist()))
            return super().validate(model, data, budget)

    home.grow(4, rows=300)
    home.run(Watching())
    for train, test in zip(seen["train"], seen["test"], strict=True):
        assert not train & test
    assert not set().union(*seen["train"]) & set().union(*seen["test"])
    assert len(seen["test"][-1]) / len(seen["train"][-1]) == pytest.approx(1 / 9, rel=0.5)


def test_steps_are_allowed_what_was_charged(home: Home) -> None:
    handed: list[tuple[float, float, float]] = []

    class Shared(Lines):
        preprocess_share = 0.25

        def preprocess(self, data: Data, budget: Allowance) -> Data:
            handed.append((float(budget.epsilon), 0, 0))
            return data

        def train(self, data: Data, budget: Allowance) -> Line:
            handed[-1] = (handed[-1][0], float(budget.epsilon), 0)
            return super().train(data, budget)

        def validate(self, model: Any, data: Data, budget: Trial) -> Any:
            handed[-1] = (*handed[-1][:2], float(budget.epsilon))
            return super().validate(model, data, budget)

    home.grow(4)
    run = home.run(Shared())
    for one, (before, train, validate) in zip(home.workspace.attempts.attempts(run.id), handed, strict=True):
        assert before == pytest.approx(float(one.epsilon) / 4)
        assert train == validate == pytest.approx(float(one.epsilon) * 3 / 4)


class Half:
    """A feature: half of x, rounded by a released number."""

    needs, makes = ("x",), ("half",)

    def of(self, numbers: Any) -> Any:
        return numbers / 2

    def as_json(self) -> dict[str, Any]:
        return {"kind": "half", "of": "x"}


def test_features_go_with_the_model(home: Home) -> None:
    class Halves(Lines):
        inputs = ("half",)

        def preprocess(self, data: Data, budget: Allowance) -> Data:
            return data.with_features(Half())

        def train(self, data: Data, budget: Allowance) -> Line:
            found = super().train(data, budget)
            return Line(found.slope * 2)

    home.grow(8)
    assert home.run(Halves()).verdict == Verdict.ACCEPT
    bundle = home.workspace.bundles.get("lines")
    assert bundle["features"] == [{"kind": "half", "of": "x"}]
    assert (bundle["inputs"], bundle["output"]) == (["half"], "y")
    data = Data(home.stream.rows([home.stream.blocks()[0].name]), 400).with_features(Half())
    x, half = data.columns(("x", "half")).T
    assert (half == x / 2).all()
    for wrong in (Half(), type("Odd", (Half,), {"needs": ("z",), "makes": ("odd",)})()):
        with pytest.raises(Mistake, match="features"):
            data.with_features(wrong)


@pytest.mark.slow
def test_several_targets_must_all_be_met(home: Home) -> None:
    class Two(Lines):
        targets = {"mse": 0.9, "mae": 1e-9}  # noqa: RUF012

    home.grow(8)
    run = home.run(Two())
    assert run.verdict == Verdict.RETRY
    last = home.workspace.attempts.attempts(run.id)[-1]
    assert last.validation is not None
    assert [(one["metric"], one["verdict"]) for one in last.validation["metrics"]] == [
        ("mse", "ACCEPT"),
        ("mae", "RETRY"),
    ]


@pytest.mark.slow
def test_the_version_before_can_be_the_target(home: Home) -> None:
    class Better(Lines):
        targets = {"mse": "previous"}  # noqa: RUF012
        first = {"mse": 0.2}  # noqa: RUF012
        start_epsilon = 1
        least_blocks = 4

    home.grow(4)
    assert home.run(Better()).version == 1
    reached = home.workspace.bundles.get("lines", 1)["validation"][0]["bound"]
    home.grow(4, rows=16_000)
    run = home.run(Better())
    assert run.terms["targets"] == {"mse": reached}
    assert run.version == 2
    assert home.workspace.bundles.get("lines")["validation"][0]["bound"] <= reached

    class Lost(Lines):
        name = "other"
        targets = {"mse": "previous"}  # noqa: RUF012

    with pytest.raises(Mistake, match="first"):
        home.run(Lost())


def test_a_simulation_says_so_on_its_certificate(tmp_path: Path) -> None:
    home = Home(tmp_path, randomness=seeded_for_simulation(1))
    home.grow(8)
    assert home.run(Lines()).verdict == Verdict.ACCEPT
    assert home.workspace.bundles.get("lines")["certificate"]["simulated"] is True
    home.close()


# --- other filters --------------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("filter", ["zcdp", "renyi"])
def test_streams_of_other_filters_are_charged_the_event(tmp_path: Path, filter: str) -> None:
    home = Home(tmp_path, delta="1e-6", filter=filter)
    home.grow(8)
    run = home.run(Lines())
    assert run.verdict == Verdict.ACCEPT
    certificate = home.workspace.bundles.get("lines")["certificate"]
    assert certificate["parameters"]["filter"] == filter
    assert certificate["epsilon"] <= float(Lines.epsilon)  # whatever losses convert to, attempts add up to no more
    for number in home.workspace.bundles.get("lines")["lineage"]["claims"]:
        assert type(home.ledger.claim(number).loss).__name__ == ("Concentrated" if filter == "zcdp" else "Renyi")

    class Silent(Lines):
        name = "silent"

        def event(self, epsilon: Any, delta: Any) -> Any:
            return None

    before = len(home.ledger.claims())
    with pytest.raises(Mistake, match="event"):
        home.run(Silent())
    assert len(home.ledger.claims()) == before
    assert home.workspace.attempts.runs(pipeline="silent") == []
    home.close()


@pytest.mark.few(1)
@pytest.mark.parametrize("filter", ["either", "zcdp", "renyi"])
def test_a_row_that_is_tested_on_pays_no_more_in_rho_than_one_that_is_trained_on(tmp_path: Path, filter: str) -> None:
    """Gaussian training is tested with Gaussian noise of its rho: the block pays the training's event, and the test's
    noise is less than the pure epsilon of that price would buy."""

    class Smooth(Lines):
        delta = 1e-6
        targets = {"mse": 0.1, "mae": 0.5}  # noqa: RUF012

        def train(self, data: Data, budget: Allowance) -> Line:
            budget.spend()
            return Line(1.0)

        def event(self, epsilon: Any, delta: Any) -> Any:
            return ConcentratedEvent(rho_for(epsilon, delta))

    home = Home(tmp_path, delta="1e-5", filter=filter)
    home.grow(8)
    run = home.run(Smooth())
    attempts = [one for one in home.workspace.attempts.attempts(run.id) if one.state.paid]
    assert attempts
    counting = FILTERS[filter]
    assert isinstance(counting, EventFilter)
    for attempt in attempts:
        assert attempt.claim is not None
        charged = home.ledger.claim(attempt.claim).loss
        event = Smooth().event(attempt.epsilon, attempt.delta)
        assert charged == counting.of_event(event, adjacency=ADD)
        told = (attempt.validation or {})["metrics"]
        paid = sum(Decimal(str(one["rho"])) for one in told)
        assert 0.99 * float(event.rho) < float(paid) <= float(event.rho)
        assert not any("epsilon" in one for one in told)
        tested = counting.of_event(ConcentratedEvent(paid), adjacency=ADD)
        capacity = counting.capacity(Decimal(10), Decimal("1e-5"))
        dear, cheap = counting.price(charged, capacity), counting.price(tested, capacity)
        assert all(cheap[place] <= dear[place] for place in cheap)
        pure = price(Smooth(), attempt.epsilon, attempt.delta, filter).validate[0]
        smooth = noise_of(Concentrated(paid)).noise(Sensitivity(1, 1, 2))
        assert smooth.width(0.99) < 0.6 * noise_of(Pure(pure)).noise(Sensitivity(1, 1, 2)).width(0.99)
    home.close()


# --- budgets apart, and persons -------------------------------------------------------------------------------


def test_with_separate_budgets_each_developer_has_their_own_and_the_certificate_says_so(tmp_path: Path) -> None:
    home = Home(tmp_path, epsilon="1.2", separate="developer")
    home.grow(4)

    class Bold(Lines):
        strategy = "aggressive"

    for developer in ("ana", "bob"):
        runner = home.runner()
        runner.developer = developer
        run = runner.run(Bold())
        assert run.verdict == Verdict.ACCEPT
        attempt = home.workspace.attempts.attempts(run.id)[-1]
        assert (attempt.epsilon, len(attempt.blocks)) == (Decimal(1), 4)
        bundle = home.workspace.bundles.get("lines")
        claim = home.ledger.claim(bundle["lineage"]["claim"])
        assert all(block.endswith(f"@{developer}") for block in claim.blocks)
        assert "for each developer by itself" in bundle["certificate"]["text"]
    home.close()


def test_what_is_told_of_attempts_says_nothing_of_how_many_rows_there_are(home: Home) -> None:
    class Short(Line):
        def predict(self, rows: Any) -> Any:
            return super().predict(rows)[:1]

    class Breaks(Lines):
        name = "breaks"

        def train(self, data: Data, budget: Allowance) -> Line:
            return Short(super().train(data, budget).slope)

    home.grow(8)
    told = [one.as_json() for one in home.workspace.attempts.attempts(home.run(Lines()).id)]
    assert all("seconds" not in one for one in told)
    assert {"number", "epsilon", "delta", "blocks", "claim", "rows", "verdict", "validation"} <= told[0].keys()
    failed = home.run(Breaks())
    assert failed.state is RunState.FAILED
    assert not any(letter.isdigit() for letter in failed.reason), failed.reason


def test_nobody_gets_another_budget_by_naming_somebody_else(tmp_path: Path) -> None:
    home = Home(tmp_path, epsilon="1.2", separate="developer")
    home.grow(4)

    class Sly(Lines):
        context = "bob"

    with pytest.raises(Mistake, match="context"):
        home.run(Sly())
    assert not any("@" in block.name for block in home.ledger.blocks())
    Sly.context = home.runner().developer
    assert home.run(Sly()).verdict == Verdict.ACCEPT
    home.close()


@pytest.mark.slow
def test_a_pipeline_over_persons_trains_and_tests_on_different_ones(tmp_path: Path) -> None:
    schema = schema_of(
        {
            "unit": "person",
            "max_rows_per_unit": 3,
            "columns": {
                "who": {"type": "integer", "key": True},
                "x": {"type": "float", "low": 0.0, "high": 1.0},
                "y": {"type": "float", "low": 0.0, "high": 1.0},
            },
        }
    )
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}", keeper=NoKeeper())
    chance = seeded_for_simulation(3)  # how many people are counted, and so how many blocks there are, is luck
    stream = Stream(
        "visits",
        schema=schema,
        by=block_by("user:100", schema),
        terms=Terms(Decimal(10)),
        ledger=ledger,
        folder=tmp_path / "rows",
        randomness=lambda: chance,
    )
    who = np.repeat(np.arange(1, 1601), 3)
    x = who / 2000  # a person's rows are known by their x
    stream.ingest(pd.DataFrame({"who": who, "x": x, "y": 0.8 * x}))
    stream.count_users("2026-11")
    seen: dict[str, set[float]] = {"train": set(), "test": set()}

    class People(Lines):
        stream = "visits"
        least_blocks = 8
        epsilon = 4

        def train(self, data: Data, budget: Allowance) -> Line:
            seen["train"] |= set(data.columns(("x",))[:, 0].tolist())
            return super().train(data, budget)

        def validate(self, model: Any, data: Data, budget: Trial) -> Any:
            seen["test"] |= set(data.columns(("x",))[:, 0].tolist())
            return super().validate(model, data, budget)

    with closing(Workspace(tmp_path)) as workspace:
        run = Runner(stream, workspace, "ana", lambda blocks, epsilon, delta: None, randomness=chance).run(People())
        assert seen["train"]
        assert seen["test"]
        assert not seen["train"] & seen["test"]
        attempts = workspace.attempts.attempts(run.id)
        assert all(name.startswith("visits/users-") for one in attempts for name in one.blocks)
        assert attempts[0].validation is not None
    stream.close()


# --- bad pipelines --------------------------------------------------------------------------------------------


class Unwell(Lines):
    def train(self, data: Data, budget: Allowance) -> Line:
        x = data.columns(("x",))[0, 0]
        raise ValueError(f"a row says {x}")


class Nan(Lines):
    def train(self, data: Data, budget: Allowance) -> Line:
        return Line(float("nan"))


class Strange(Lines):
    def train(self, data: Data, budget: Allowance) -> Any:
        return object()


class Loses(Lines):
    def preprocess(self, data: Data, budget: Allowance) -> Any:
        return None


class Silent(Lines):
    def validate(self, model: Any, data: Data, budget: Trial) -> list[Validation]:
        return []


class Greedy(Lines):
    def train(self, data: Data, budget: Allowance) -> Line:
        budget.spend()
        return super().train(data, budget)


@pytest.mark.few(1)
@pytest.mark.parametrize("bad", [Unwell, Nan, Strange, Loses, Silent, Greedy], ids=lambda one: one.__name__)
def test_a_pipeline_that_breaks_ends_at_once_and_says_nothing_of_a_row(home: Home, bad: type[Lines]) -> None:
    home.grow(4)
    run = home.run(bad())
    assert (run.state, run.verdict) == (RunState.FAILED, None)
    (only,) = home.workspace.attempts.attempts(run.id)
    assert only.state is AttemptState.FAILED
    assert sum(home.spent().values()) == only.epsilon * len(only.blocks)  # rows were read: it stays paid
    assert home.workspace.bundles.names() == []
    assert run.reason
    if bad is Unwell:
        assert run.reason.startswith("ValueError in line ")
        assert run.reason.endswith("of test_pipelines.py (train)")


def test_blocks_without_rows_end_in_no_model(home: Home) -> None:
    home.grow(3, rows=1)
    run = home.run(Lines())
    assert run.verdict == Verdict.RETRY
    assert run.state is RunState.OPEN


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Not A Name"),
        ("stream", "elsewhere"),
        ("epsilon", 0),
        ("epsilon", float("nan")),
        ("delta", 1.5),
        ("start_epsilon", 2),
        ("targets", {}),
        ("targets", {"mse": float("inf")}),
        ("targets", {"mse": "best"}),
        ("confidence", 1.0),
        ("strategy", "hope"),
        ("timeout", "soon"),
        ("window", "1y"),
        ("train_share", 1.0),
        ("preprocess_share", 1.0),
        ("least_blocks", 0),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_paid(home: Home, field: str, value: Any) -> None:
    home.grow(1)
    pipeline = Lines()
    setattr(pipeline, field, value)
    with pytest.raises(Mistake):
        home.run(pipeline)
    assert set(home.spent().values()) == {0}
    assert home.workspace.attempts.runs() == []


def test_what_no_block_could_ever_pay_is_not_waited_for(tmp_path: Path) -> None:
    for place, (epsilon, delta, filter, asked) in enumerate(
        [("0.2", "0", "basic", 0), ("10", "0", "basic", 1e-6), ("0.2", "1e-6", "zcdp", 0), ("0.2", "1e-6", "renyi", 0)]
    ):
        folder = tmp_path / str(place)
        folder.mkdir()
        home = Home(folder, epsilon=epsilon, delta=delta, filter=filter)
        pipeline = Lines()
        pipeline.delta = asked
        with pytest.raises(Mistake, match="than a block of 'rides' has at all") as refused:
            home.run(pipeline)
        assert refused.value.argument == ("delta" if asked else "epsilon")
        assert home.workspace.attempts.runs() == []
        home.close()


def test_a_class_that_says_too_little_is_refused() -> None:
    class Bare(Pipeline):
        def train(self, data: Data, budget: Allowance) -> Any:
            return None

    with pytest.raises(Mistake, match="name"):
        Bare().check()


# --- the store of models --------------------------------------------------------------------------------------


def test_versions_count_up_and_the_same_origin_is_one_version(tmp_path: Path) -> None:
    bundles = Bundles(tmp_path / "models")
    assert bundles.names() == []
    assert bundles.newest("lines") is None
    assert bundles.publish("lines", {"model": 1}, origin="a/1") == 1
    assert bundles.publish("lines", {"model": 2}, origin="b/1") == 2
    assert bundles.publish("lines", {"model": 3}, origin="a/1") == 1
    assert bundles.get("lines", 1)["model"] == 1
    assert bundles.get("lines")["model"] == 2
    assert bundles.versions("lines") == [1, 2]
    assert bundles.names() == ["lines"]
    with pytest.raises(Mistake):
        bundles.get("lines", 3)
    with pytest.raises(Mistake):
        bundles.get("../lines")
    text = (tmp_path / "models" / "lines" / "1.json").read_text(encoding="utf-8")
    assert json.loads(text)["origin"] == "a/1"
    assert (tmp_path / "models" / "lines" / "1.json").stat().st_mode & 0o077 == 0


def test_what_json_has_not_is_no_model(tmp_path: Path) -> None:
    bundles = Bundles(tmp_path / "models")
    for wrong in (float("nan"), float("inf"), np.float32(1), {1, 2}, b"x"):
        with pytest.raises(Mistake, match="model"):
            bundles.publish("lines", {"model": wrong}, origin="a/1")
    assert bundles.versions("lines") == []


# --- training that does not end -------------------------------------------------------------------------------


class Hung(Lines):
    """Its training has begun, the time of its run passes, and it does not come to an end."""

    timeout = "2d"

    def __init__(self, home: Home) -> None:
        self.home, self.begun, self.left = home, threading.Event(), threading.Event()

    def train(self, data: Data, budget: Allowance) -> Line:
        self.begun.set()
        self.home.now += timedelta(days=2)
        try:
            while True:
                try:
                    time.sleep(0.001)
                except Exception:
                    continue
        finally:
            self.left.set()


def test_training_that_never_ends_is_stopped_with_the_timeout_and_stays_paid(home: Home) -> None:
    home.grow(4)
    hung = Hung(home)
    began = time.monotonic()
    run = home.run(hung)
    assert time.monotonic() - began < 120
    assert hung.begun.is_set()
    assert hung.left.wait(120)  # it was stopped itself, and not only left alone
    assert (run.state, run.verdict, run.version) == (RunState.ENDED, Verdict.TIMEOUT, None)
    (attempt,) = home.workspace.attempts.attempts(run.id)
    assert (attempt.state, attempt.verdict) == (AttemptState.LOST, None)
    assert max(home.spent().values()) == Decimal("0.25")
    assert home.ledger.claim(attempt.claim).state == "closed"
    home.ledger.verify()
    again = home.run(Lines())
    assert again.verdict == Verdict.ACCEPT
    assert home.workspace.bundles.versions("lines") == [1]


def test_work_that_is_stopped_gives_nothing_and_work_that_ends_is_not_stopped() -> None:
    assert finished(lambda: 3, late=lambda: True) == 3
    with pytest.raises(ZeroDivisionError):
        finished(lambda: 1 // 0, late=lambda: False)
    with pytest.raises(OutOfTime):
        finished(lambda: time.sleep(5), late=lambda: True)  # inside a call that nothing interrupts


def test_whoever_waits_and_is_interrupted_stops_the_work() -> None:
    left = threading.Event()

    def work() -> None:
        try:
            while True:
                time.sleep(0.001)
        finally:
            left.set()

    def interrupted() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        finished(work, late=interrupted)
    assert left.wait(120)


# --- a stream that grows --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.slow
def test_a_growing_stream_never_runs_dry(tmp_path: Path) -> None:
    """Forty days, a model a day: were the stream one block, its budget would have been gone after some days."""
    home = Home(tmp_path, epsilon="4", randomness=seeded_for_simulation(7))

    class Daily(Lines):
        window = "10d"
        timeout = "1d"

    accepted = []
    for _ in range(40):
        home.grow(1)
        accepted.append(home.run(Daily()).verdict == Verdict.ACCEPT)
    assert sum(accepted[8:]) >= 24
    assert any(accepted[-4:])
    spent = home.spent()
    assert max(spent.values()) <= Decimal("3.8")
    whole = sum(
        one.epsilon for run in home.workspace.attempts.runs() for one in home.workspace.attempts.attempts(run.id)
    )
    assert whole > 4 * Decimal("3.8")
    home.ledger.verify()
    home.close()


# --- what is told, against what is claimed ---------------------------------------------------------------------


@pytest.mark.parametrize("mine", [0, 1], ids=["with the row first", "without it first"])
def test_all_that_a_run_tells_is_within_what_its_certificate_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mine: int
) -> None:
    """A small answer of a block with a large budget: its noisy size says more than the answer does."""
    monkeypatch.setattr(writer.secrets, "token_hex", lambda size: "7" * 2 * size)  # the same coins for all other rows
    days = pd.date_range(START, periods=200, freq="7min").tz_localize(None)
    others = pd.DataFrame({"at": days, "x": np.linspace(0, 1, 200), "y": np.linspace(0, 1, 200)})
    also = pd.concat([others, others.tail(1).assign(x=1.0, y=1.0)], ignore_index=True)
    told: list[Any] = []

    class Small(Lines):
        epsilon = 0.1
        start_epsilon = 0.1

    def over(rows: pd.DataFrame) -> Callable[[Randomness], None]:
        def run(source: Randomness) -> None:
            folder = tmp_path / str(len(told))
            folder.mkdir()
            home = Home(folder, randomness=source)
            home.stream.ingest(rows)
            home.now += timedelta(days=2)
            ended = home.run(Small())
            attempts = [one.as_json() for one in home.workspace.attempts.attempts(ended.id)]
            told.append((home.runner().certificate(Small(), ended), attempts))
            home.close()

        return run

    pair = [over(also), over(others)]
    through = loss(pair[mine], pair[1 - mine]).epsilon()
    (certificate, attempts), (again, same) = told
    assert [(one["rows"], one["validation"]) for one in attempts] == [(one["rows"], one["validation"]) for one in same]
    assert certificate.as_json() == again.as_json()
    sizes = certificate.parameters["sizes"]["epsilon"]
    assert (certificate.epsilon, sizes) == (0.1, 0.5)
    assert certificate.epsilon < through <= (certificate.epsilon + sizes) * (1 + 1e-9)
    assert certificate.beside_earlier
    assert certificate.text.startswith(
        "For somebody who had seen the earlier releases on which this rests: if one single"
    )
    assert "at epsilon 0.5. Somebody who had not seen these sizes" in certificate.text


def test_a_run_ends_with_reject_once_its_kind_is_shown_to_miss_the_target(home: Home) -> None:
    """The first attempt measures worse than the target; the second shows that no other model would do better."""

    class Coins(Lines):
        name = "coins"
        targets = {"accuracy": 0.9}  # noqa: RUF012
        asked = 0

        def best(self, metric: str, data: Data) -> Best:
            Coins.asked += 1
            tails = np.concatenate(list(data.arrays(("y",))))[:, 0] < 0.5
            return Best(float(min(tails.sum(), (~tails).sum())), len(tails))

    draw = np.random.default_rng(5)
    for _ in range(4):
        days = pd.date_range(home.now, periods=4000, freq="20s").tz_localize(None)
        coins = draw.integers(0, 2, 4000).astype(float)
        home.stream.ingest(pd.DataFrame({"at": days, "x": 0.5, "y": coins}))
        home.now += timedelta(days=1)
    home.now += timedelta(days=1)
    run = home.run(Coins())
    attempts = home.workspace.attempts.attempts(run.id)
    assert (run.verdict, run.reason) == (Verdict.REJECT, "no model of this kind meets the targets")
    assert [one.verdict for one in attempts] == [Verdict.RETRY] * (len(attempts) - 1) + [Verdict.REJECT]
    assert Coins.asked == len(attempts) - 1 >= 1  # the first attempt has its whole budget for ACCEPT
    assert sum(one.epsilon for one in attempts) < 1
    assert home.run(Coins()).id != run.id


def test_a_run_that_waits_says_what_would_help_by_what_was_released(home: Home) -> None:
    class Far(Lines):
        name = "far"
        targets = {"mse": 1e-9}  # noqa: RUF012

    class Near(Lines):
        name = "near"

        def validate(self, model: Any, data: Data, budget: Trial) -> Validation:
            found = super().validate(model, data, budget)
            (one,) = found if isinstance(found, list) else [found]
            return replace(one, value=one.target, verdict=Verdict.RETRY)

    assert "help" not in home.runner().run(Far()).reason  # nothing was tried
    home.grow(2)
    assert home.runner().run(Far()).reason.endswith("more blocks, a larger epsilon, another target or another model")
    assert home.runner().run(Near()).reason.endswith("more blocks, a larger epsilon or a smaller largest")
