"""Ready pipelines and the building blocks of one's own: documents, what they learn, and what they cost."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

from papers.sage.frames import data_of
from tests.support.pipelines import Home
from thebes.curator.pipelines import blocks, ready
from thebes.curator.pipelines.allowance import Allowance
from thebes.curator.pipelines.data import Data
from thebes.curator.pipelines.pipeline import Trial
from thebes.curator.pipelines.ready import GroupMeans, Histogram, of
from thebes.curator.pipelines.validators import Verdict
from thebes.learning.moments import LinearModel
from thebes.learning.network import NetworkModel
from thebes.learning.odds import OddsModel
from thebes.privacy.accounting.report import total
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Concentrated, Renyi
from thebes.privacy.randomness import seeded_for_simulation

SCHEMA: dict[str, Any] = {
    "unit": "event",
    "columns": {
        "way": {"type": "float", "low": 0.0, "high": 10.0},
        "hour": {"type": "integer", "values": [0, 1, 2, 3]},
        "wet": {"type": "string", "values": ["no", "yes"]},
        "took": {"type": "float", "low": 0.0, "high": 1.0},
    },
}
DOCUMENT: dict[str, Any] = {
    "type": "pipeline",
    "stream": "rides",
    "model": "LinearRegression",
    "inputs": ["way", "hour"],
    "output": "took",
    "target": {"mse": 0.01},
    "confidence": 0.95,
    "epsilon": 1.0,
    "delta": 1e-6,
}


def rides(count: int = 6000, seed: int = 0) -> Data:
    draw = np.random.default_rng(seed)
    way, hour = draw.uniform(0, 10, count), draw.integers(0, 4, count)
    took = np.clip(0.05 * way + 0.1 * (hour == 2) + draw.normal(0.1, 0.03, count), 0, 1)
    wet = np.where(draw.random(count) < 1 / (1 + np.exp(-(way - 5))), "yes", "no")
    frame = pd.DataFrame({"way": way, "hour": hour, "wet": wet, "took": took})
    return data_of(SCHEMA, frame, seeded_for_simulation(seed + 1))


def trained(document: dict[str, Any], epsilon: float = 1.0) -> Any:
    return of(document).train(rides(), Allowance(epsilon, 1e-6))


def seen(inputs: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    rows = np.concatenate(list(rides(2000, seed=9).arrays((*inputs, "took", "wet"))))
    return rows[:, : len(inputs)], rows[:, len(inputs) :]


def test_a_document_becomes_a_pipeline_with_a_name() -> None:
    made = of(DOCUMENT)
    assert made.name == "rides-linearregression-took"
    assert (made.stream, made.targets, made.confidence) == ("rides", {"mse": 0.01}, 0.95)
    assert made.limits.epsilon == Decimal("1.0")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"model": "Forest"}, "model"),
        ({"epsilon": None}, "epsilon"),
        ({"inputs": []}, "inputs"),
        ({"inputs": ["way", "way"]}, "inputs"),
        ({"target": {}}, "targets"),
        ({"delta": 0}, "delta"),
        ({"colour": "blue"}, "colour"),
        ({"confidence": 2.0}, "confidence"),
        ({"output": ""}, "output"),
        ({"model": "GroupMeans"}, "target"),
        ({"model": "NeuralNetwork", "steps": 0}, "steps"),
        ({"model": "NeuralNetwork", "rate": "often"}, "rate"),
        ({"model": "NeuralNetwork", "rate": 2.0}, "rate"),
        ({"model": "NeuralNetwork", "layers": 5}, "layers"),
        ({"model": "NeuralNetwork", "clip": -1}, "clip"),
        ({"model": ["LinearRegression"]}, "model"),
        ({"inputs": "way"}, "inputs"),
        ({"inputs": [1]}, "inputs"),
        ({"output": 5}, "output"),
        ({"stream": ["rides"]}, "stream"),
        ({"bins": [1]}, "bins"),
        ({"target": 0.01}, "targets"),
        ({"epsilon": "much"}, "epsilon"),
    ],
)
def test_a_document_that_cannot_work_is_refused_naming_its_field(change: dict[str, Any], field: str) -> None:
    body = {name: value for name, value in (DOCUMENT | change).items() if value is not None}
    with pytest.raises(Mistake) as caught:
        of(body)
    assert caught.value.argument == field


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"inputs": ["miles"]}, "inputs"),
        ({"output": "hour"}, "output"),
        ({"bins": {"way": [11.0]}}, "bins"),
        ({"bins": {"way": ["far"]}}, "bins"),
        ({"bins": {"way": 1}}, "bins"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused_naming_the_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(Mistake) as caught:
        trained(DOCUMENT | change)
    assert caught.value.argument == field


def test_linear_regression_learns_and_is_data() -> None:
    model = trained(DOCUMENT)
    rows, truth = seen(("way", "hour"))
    assert np.mean((model.predict(rows) - truth[:, 0]) ** 2) < 0.005 < np.var(truth[:, 0])
    again = LinearModel.of_json(json.loads(json.dumps(model.as_json())))
    assert np.array_equal(again.predict(rows), model.predict(rows))


def test_logistic_regression_learns_and_is_data() -> None:
    body = DOCUMENT | {"model": "LogisticRegression", "output": "wet", "target": {"accuracy": 0.7}, "steps": 30}
    model = trained(body, epsilon=2.0)
    rows, truth = seen(("way", "hour"))
    assert np.mean((model.predict(rows) > 0.5) == truth[:, 1]) > 0.75
    again = OddsModel.of_json(json.loads(json.dumps(model.as_json())))
    assert np.array_equal(again.predict(rows), model.predict(rows))


WET = DOCUMENT | {"model": "LogisticRegression", "output": "wet", "target": {"accuracy": 0.95}, "steps": 30}


def test_what_no_logistic_regression_reaches_is_rejected_once_it_is_doubted() -> None:
    """Half of the outcomes are coins: the least that any of them misses is shown to be too much."""
    made, model = of(WET), trained(WET, epsilon=2.0)
    for doubted, verdict in (((), Verdict.RETRY), (("accuracy",), Verdict.REJECT)):
        found: Any = made.validate(model, rides(20_000), Trial(4, 0, {"accuracy": 0.95}, 0.05, doubted=doubted))
        assert [one.verdict for one in found] == [verdict]
    reached: Any = made.validate(model, rides(20_000), Trial(4, 0, {"accuracy": 0.7}, 0.05, doubted=("accuracy",)))
    assert [one.verdict for one in reached] == [Verdict.ACCEPT]


def test_a_row_more_adds_one_at_most_to_the_least_that_a_logistic_regression_misses() -> None:
    made = of(WET)
    draw = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "way": draw.integers(0, 3, 60).astype(float),
            "hour": draw.integers(0, 2, 60),
            "wet": np.where(draw.random(60) < 0.4, "yes", "no"),
            "took": 0.0,
        }
    )
    told = [made.best("accuracy", data_of(SCHEMA, frame.head(count), seeded_for_simulation(1))) for count in range(61)]
    for count, best in enumerate(told):
        table = pd.crosstab([frame.way.head(count), frame.hour.head(count)], frame.wet.head(count)) if count else None
        two = table is not None and table.shape[1] == 2
        assert best is not None
        assert (best.total, best.rows) == (table.min(axis=1).sum() if two else 0, count)
    steps = np.diff([best.total for best in told if best is not None])
    assert set(steps) == {0.0, 1.0}
    assert made.best("log_loss", data_of(SCHEMA, frame, seeded_for_simulation(1))) is None


BINNED = DOCUMENT | {"bins": {"way": 5}}
SQUARES = {
    "linear": BINNED,
    "network": BINNED | {"model": "NeuralNetwork", "layers": [4], "steps": 4, "rate": 0.1},
}


@pytest.mark.parametrize("kind", SQUARES)
def test_the_least_squares_of_cells_are_those_of_their_means_and_a_row_moves_them_by_what_it_can_lose(kind) -> None:
    made = of(SQUARES[kind])
    draw = np.random.default_rng(4)
    frame = pd.DataFrame({"way": draw.uniform(0, 10, 60), "hour": draw.integers(0, 2, 60), "took": draw.random(60)})
    frame["wet"] = "no"
    frame.loc[::7, "took"] = 7.0  # counts as the bound
    told = [made.best("mse", data_of(SCHEMA, frame.head(count), seeded_for_simulation(1))) for count in range(61)]
    for count, best in enumerate(told):
        own = frame.head(count).assign(took=frame.took.clip(0, 1), cell=(frame.way // 2).clip(0, 4))
        off = own.took - own.groupby(["cell", "hour"]).took.transform("mean")
        assert best is not None
        assert (float(best.total), best.rows) == (pytest.approx((off**2).sum(), abs=2e-6 * (count + 1)), count)
    steps = [after.total - before.total for before, after in pairwise(told) if before is not None and after is not None]
    assert 0 <= min(steps) <= max(steps) <= 1


def test_nothing_is_known_of_numbers_that_are_not_cut_or_whose_losses_are() -> None:
    assert of(DOCUMENT).best("mse", rides(60)) is None  # how far each ride was tells all rows apart
    assert of(BINNED | {"largest": {"mse": 0.5}}).best("mse", rides(60)) is None
    assert of(BINNED).best("mae", rides(60)) is None


def test_what_no_function_of_the_inputs_reaches_is_rejected_once_it_is_doubted() -> None:
    """A fifth of the range is a wide bin: within it, ways alone are worth a mean square of .0033."""
    made, model = of(BINNED), trained(BINNED, epsilon=2.0)
    for doubted, verdict in (((), Verdict.RETRY), (("mse",), Verdict.REJECT)):
        found: Any = made.validate(model, rides(20_000), Trial(4, 0, {"mse": 0.0005}, 0.05, doubted=doubted))
        assert [one.verdict for one in found] == [verdict]
    reached: Any = made.validate(model, rides(20_000), Trial(4, 0, {"mse": 0.01}, 0.05, doubted=("mse",)))
    assert [one.verdict for one in reached] == [Verdict.ACCEPT]


@pytest.mark.slow
@pytest.mark.parametrize(("output", "target"), [("took", {"mse": 0.01}), ("wet", {"accuracy": 0.7})])
def test_a_network_learns_and_is_data(output: str, target: dict[str, float]) -> None:
    body = DOCUMENT | {"model": "NeuralNetwork", "output": output, "target": target, "layers": [8]}
    model = trained(body | {"steps": 40, "rate": 0.05, "learning_rate": 0.03}, epsilon=4.0)
    rows, truth = seen(("way", "hour"))
    said = model.predict(rows)
    if output == "took":
        assert np.mean((said - truth[:, 0]) ** 2) < 0.7 * np.var(truth[:, 0])
    else:
        assert np.mean((said > 0.5) == truth[:, 1]) > 0.7
    again = NetworkModel.of_json(json.loads(json.dumps(model.as_json())))
    assert np.array_equal(again.predict(rows), said)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["LinearRegression", "LogisticRegression", "NeuralNetwork"])
def test_what_training_releases_costs_no_more_than_was_allowed(model: str) -> None:
    output, target = ("wet", {"accuracy": 0.7}) if model == "LogisticRegression" else ("took", {"mse": 0.01})
    event = of(DOCUMENT | {"model": model, "output": output, "target": target}).event(Decimal("0.5"), Decimal("1e-6"))
    assert event is not None
    paid = total(event, adjacency="add-remove-one", delta=1e-6, unit="event")
    assert 0.4 < float(paid.epsilon) <= 0.5 * (1 + 1e-9)


def test_means_by_group_are_accepted_once_there_are_enough_rows() -> None:
    body = DOCUMENT | {"model": "GroupMeans", "inputs": ["hour"], "target": {"absolute_error": 0.1}}
    made, model = of(body), trained(body)
    truth = {0: 0.35, 1: 0.35, 2: 0.45, 3: 0.35}
    assert model.numbers == pytest.approx({str(hour): mean for hour, mean in truth.items()}, abs=0.03)
    assert model.predict(np.array([[2.0], [9.0]]))[0] == model.numbers["2"]
    enough = made.validate(model, rides(), Trial(1, 0, {"absolute_error": 0.1}, 0.05))
    too_few = made.validate(model, rides(), Trial(1, 0, {"absolute_error": 0.01}, 0.05))
    assert (enough.verdict, too_few.verdict) == (Verdict.ACCEPT, Verdict.RETRY)  # type: ignore[union-attr]
    assert isinstance(made, GroupMeans)


def test_shares_of_values_are_accepted_once_there_are_enough_rows() -> None:
    body = {name: value for name, value in DOCUMENT.items() if name != "output"}
    body |= {"model": "Histogram", "inputs": ["hour"], "target": {"absolute_error": 0.06}}
    made, model = of(body), trained(body)
    assert sum(model.numbers.values()) == pytest.approx(1)
    assert all(abs(share - 0.25) < 0.03 for share in model.numbers.values())
    verdicts = [
        made.validate(model, rides(), Trial(1, 0, {"absolute_error": aim}, 0.05)).verdict  # type: ignore[union-attr]
        for aim in (0.06, 0.001)
    ]
    assert verdicts == [Verdict.ACCEPT, Verdict.RETRY]
    assert isinstance(made, Histogram)


@pytest.mark.slow
def test_a_statistic_s_error_bar_holds_as_often_as_it_says() -> None:
    body = DOCUMENT | {"model": "GroupMeans", "inputs": ["hour"], "target": {"absolute_error": 0.1}}
    made, wrong = of(body), 0
    for seed in range(60):
        data = rides(800, seed)
        model: Any = made.train(data, Allowance(0.2, 0))
        found: Any = made.validate(model, data, Trial(1, 0, {"absolute_error": 0.1}, 0.2))
        off = max(
            abs(mean - truth) for mean, truth in zip(model.numbers.values(), (0.35, 0.35, 0.45, 0.35), strict=True)
        )
        wrong += found.bound is not None and off > found.bound
    assert wrong <= 25  # of 60 at odds of at most .2 each: beyond this less than once in 10^5


@pytest.mark.few(1)
@pytest.mark.parametrize("model", ["GroupMeans", "Histogram"])
def test_rows_that_a_person_has_many_of_are_no_draws_of_their_own(model: str) -> None:
    schema = {
        "unit": "person",
        "max_rows_per_unit": 20,
        "columns": {
            "who": {"type": "integer", "key": True},
            "of": {"type": "integer", "values": [0]},
            "side": {"type": "integer", "values": [0, 1]},
            "took": {"type": "float", "low": 0.0, "high": 1.0},
        },
    }
    inputs = ["of"] if model == "GroupMeans" else ["side"]
    body = DOCUMENT | {"model": model, "inputs": inputs, "target": {"absolute_error": 0.1}}
    made, wrong = of(body), 0
    for seed in range(40):
        side = np.random.default_rng(seed).integers(0, 2, 60).repeat(20)
        frame = pd.DataFrame({"who": np.arange(60).repeat(20) + 1, "of": 0, "side": side, "took": side * 1.0})
        data = data_of(schema, frame, seeded_for_simulation(seed + 1))
        model_of: Any = made.train(data, Allowance(20, 0))
        found: Any = made.validate(model_of, data, Trial(1, 0, {"absolute_error": 0.1}, 0.2))
        off = max(abs(number - 0.5) for number in model_of.numbers.values())
        wrong += off > found.bound
    assert wrong <= 18  # of 40 at odds of at most .2 each: beyond this less than once in 10^3


def test_a_ready_pipeline_runs_over_a_stream_until_it_is_accepted(tmp_path: Any) -> None:
    home = Home(tmp_path, delta="1e-5", filter="zcdp", randomness=seeded_for_simulation(4))
    home.grow(8, rows=3000)
    run = home.run(of(DOCUMENT | {"inputs": ["x"], "output": "y", "target": {"mse": 0.2}}))
    assert run.verdict == "ACCEPT"
    bundle = home.workspace.bundles.get(run.pipeline)
    model = LinearModel.of_json(bundle["model"])
    assert model.predict(np.array([[0.5]]))[0] == pytest.approx(0.4, abs=0.1)
    assert bundle["certificate"]["epsilon"] <= 1
    home.close()


# --- blocks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("filter", ["zcdp", "renyi"])
def test_a_statistic_runs_over_blocks_that_count_in_rho_or_orders(tmp_path: Any, filter: str) -> None:
    home = Home(tmp_path, delta="1e-5", filter=filter, randomness=seeded_for_simulation(4))
    home.grow(2)
    document = {"model": "Histogram", "stream": "rides", "inputs": ["x"], "bins": {"x": 4}, "epsilon": 2}
    run = home.run(ready.of({**document, "target": {"absolute_error": 0.2}}))
    assert run.verdict == "ACCEPT"
    paid = [claim.loss for claim in home.ledger.claims() if (claim.key or "").startswith("pipeline ")]
    assert {type(loss) for loss in paid} == {Concentrated if filter == "zcdp" else Renyi}
    home.ledger.verify()
    with pytest.raises(Mistake, match="delta"):
        home.run(ready.of({**document, "name": "other", "target": {"absolute_error": 0.2}, "delta": 1e-6}))
    home.close()


def test_statistics_spend_their_whole_allowance_and_no_more() -> None:
    budget = Allowance(3, 0)
    data = rides()
    assert blocks.dp_count(data, budget.take(0.2)) == pytest.approx(6000, abs=40)
    assert blocks.dp_mean(data, "way", budget.take(0.2)) == pytest.approx(5, abs=0.2)
    means = blocks.dp_group_by_mean(data, "hour", "took", budget.take(0.2))
    assert means["2"] == pytest.approx(0.45, abs=0.03)
    assert blocks.dp_histogram(data, "hour", budget.take(0.2))["1"] == pytest.approx(1500, abs=120)
    middle = blocks.dp_quantiles(data, "way", [0.25, 0.5], budget)
    assert middle == pytest.approx([2.5, 5.0], abs=0.4)
    assert budget.epsilon == 0
    with pytest.raises(Mistake):
        blocks.dp_count(data, budget)


def test_features_are_made_of_released_numbers() -> None:
    data, budget = rides(), Allowance(4, 0)
    made = data.with_features(
        *blocks.scaling(data, ["way", "took"], budget.take(0.5)),
        *blocks.quantile_bins(data, ["way"], budget, bins=4),
        *blocks.one_hot(data, ["hour"]),
    )
    rows = made.columns(("way_scaled", "way_bin", "hour=2", "hour"))
    assert abs(rows[:, 0].mean()) < 0.2
    assert rows[:, 0].std() == pytest.approx(1, abs=0.2)
    assert np.bincount(rows[:, 1].astype(int)) == pytest.approx([1500] * 4, abs=300)
    assert np.array_equal(rows[:, 2], rows[:, 3] == 2)
    assert json.dumps([one.as_json() for one in made.features])
    assert budget.epsilon == 0


def test_every_ready_model_has_its_place() -> None:
    assert set(ready.MODELS) == {"LinearRegression", "LogisticRegression", "NeuralNetwork", "GroupMeans", "Histogram"}
