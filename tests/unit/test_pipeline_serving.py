"""Models of the store, asked: a bundle read back predicts what its model did, in the stream's own columns."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from papers.sage.frames import data_of
from thebes.curator.pipelines import blocks
from thebes.curator.pipelines.allowance import Allowance
from thebes.curator.pipelines.data import Data, Feature
from thebes.curator.pipelines.ready import of
from thebes.curator.pipelines.served_model import MOST_ROWS, Served
from thebes.learning.features import Features, Range
from thebes.learning.moments import LinearModel
from thebes.privacy.faults import Mistake, Refusal
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
    "inputs": ["way", "wet"],
    "output": "took",
    "epsilon": 2.0,
    "delta": 1e-6,
}
ERROR = {"absolute_error": 0.1}


def frame(count: int = 3000, seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    way, hour = draw.uniform(0, 10, count), draw.integers(0, 4, count)
    took = np.clip(0.05 * way + 0.1 * (hour == 2) + draw.normal(0.1, 0.03, count), 0, 1)
    wet = np.where(draw.random(count) < 1 / (1 + np.exp(-(way - 5))), "yes", "no")
    return pd.DataFrame({"way": way, "hour": hour, "wet": wet, "took": took})


def rides(rows: pd.DataFrame) -> Data:
    return data_of(SCHEMA, rows, seeded_for_simulation(1))


def bundle(model: Any, *features: Any, output: str = "took") -> dict[str, Any]:
    """As it is read from the store."""
    body = {"model": model.as_json(), "features": [one.as_json() for one in features], "output": output}
    told: dict[str, Any] = json.loads(json.dumps(body, allow_nan=False))
    return told


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"model": "LinearRegression", "target": {"mse": 0.01}},
        {"model": "LinearRegression", "target": {"mse": 0.01}, "inputs": ["hour", "way"], "bins": {"way": 4}},
        {"model": "LogisticRegression", "target": {"accuracy": 0.7}, "output": "wet", "inputs": ["way"], "steps": 5},
        {"model": "NeuralNetwork", "target": {"mse": 0.01}, "steps": 3, "layers": [4]},
        {"model": "NeuralNetwork", "target": {"accuracy": 0.7}, "output": "wet", "inputs": ["hour"], "steps": 3},
        {"model": "GroupMeans", "target": ERROR, "inputs": ["hour"]},
        {"model": "Histogram", "target": ERROR, "inputs": ["wet"], "output": None},
        {"model": "Histogram", "target": ERROR, "inputs": ["way"], "output": None, "bins": {"way": [2.5, 5.0]}},
    ],
)
def test_a_bundle_predicts_what_its_model_did(change: dict[str, Any]) -> None:
    document = {name: value for name, value in (DOCUMENT | change).items() if value is not None}
    pipeline = of(document)
    model = pipeline.train(rides(frame()), Allowance(2.0, 1e-6))
    served = Served(bundle(model, output=pipeline.output))
    seen = frame(50, seed=5)
    wanted = model.predict(np.concatenate(list(rides(seen).arrays(pipeline.inputs))))
    assert set(served.inputs) == set(pipeline.inputs)
    assert np.isfinite(wanted).all()
    assert len(set(wanted.tolist())) > 1
    assert np.array_equal(served.predict(seen), wanted)  # other columns of a frame are no matter
    own = seen[list(served.inputs)]
    assert np.array_equal(served.predict(own.to_dict("list")), wanted)
    assert served.answer(json.loads(own.to_json(orient="records", double_precision=15))) == pytest.approx(
        wanted.tolist(), abs=1e-9
    )


def test_features_are_made_of_the_streams_own_columns_again() -> None:
    data = rides(frame())
    budget = Allowance(4.0, 1e-6)
    features: tuple[Feature, ...] = (
        *blocks.scaling(data, ["way"], budget.take(0.5)),
        *blocks.quantile_bins(data, ["way"], budget, bins=4),
        *blocks.one_hot(data, ["wet"]),
        blocks.Standardised("way_bin", "bin_scaled", 1.5, 1.0),
    )
    names = ("way_scaled", "wet=yes", "bin_scaled")
    pieces = Features([Range(name, -5.0, 5.0) for name in names])
    model = LinearModel(pieces, np.array([0.3, 0.2, 0.4]), 0.1, -5.0, 5.0)
    served = Served(bundle(model, *features))
    assert sorted(served.inputs) == ["way", "wet"]
    seen = frame(40, seed=7)
    wanted = model.predict(rides(seen).with_features(*features).columns(names))
    assert np.array_equal(served.predict(seen), wanted)
    assert len(set(wanted.tolist())) > 10
    assert all(math.isfinite(each) for each in served.predict([{"way": None, "wet": "unheard of"}]))


def statistic() -> Served:
    return Served({"model": {"kind": "StatisticsModel", "column": "hour", "numbers": {"0": 0.5, "1": 0.25}}})


def test_a_row_of_no_group_has_no_number() -> None:
    rows = [{"hour": hour} for hour in (0, 1, 1.0, 7, None, True, "x", float("inf"))]
    assert statistic().answer(rows) == [0.5, 0.25, 0.25, None, None, None, None, None]
    half = Served({"model": {"kind": "StatisticsModel", "column": "h", "numbers": {"1.0": 2.0, "False": 3.0}}})
    assert half.answer([{"h": 1}, {"h": False}, {"h": 0}]) == [2.0, 3.0, None]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"houre": 1}], "'houre' is not a column of this model, which has hour"),
        ([{"hour": 1}, {}], "row 2 has no 'hour'"),
        ([1], "row 1 must be an object"),
        ([], "must be a list of 1 to"),
        ([{"hour": 1}] * (MOST_ROWS + 1), "must be a list of 1 to"),
        ({"hour": [1]}, "must be a list of 1 to"),
    ],
)
def test_rows_that_do_not_fit_are_refused_naming_the_column(rows: Any, words: str) -> None:
    with pytest.raises(Mistake, match=words):
        statistic().answer(rows)


@pytest.mark.parametrize(
    "rows", [{"hour": "abc"}, {"hour": 1}, {}, {"day": [1]}, "abc", None, pd.DataFrame({"day": [1]})]
)
def test_what_is_no_table_is_refused(rows: Any) -> None:
    with pytest.raises(Mistake):
        statistic().predict(rows)


def test_a_number_that_is_none_is_refused_without_showing_it() -> None:
    model = LinearModel(Features([Range("way", 0.0, 10.0)]), np.array([1.0]), 0.0, 0.0, 1.0)
    for value in ("secret", [1], 10**400):
        with pytest.raises(Mistake, match="must have numbers in 'way'") as caught:
            Served(bundle(model)).predict([{"way": value}])
        assert "secret" not in str(caught.value)


def test_a_developers_own_kind_is_never_executed() -> None:
    for body in (
        {"model": {"kind": "line", "slope": 2}},
        {"model": {"no": "kind"}},
        {"model": [1]},
        {"model": statistic().model.as_json(), "features": [{"kind": "own"}]},
    ):
        with pytest.raises(Refusal, match="download"):
            Served(body)


@pytest.mark.parametrize(
    "body",
    [
        {"model": {"kind": "StatisticsModel", "column": "h", "numbers": {"1": math.nan}}},
        {"model": {"kind": "StatisticsModel", "column": "h", "numbers": [1]}},
        {"model": {"kind": "StatisticsModel", "column": "h", "numbers": {"a": 1.0}, "edges": [2.0, 1.0]}},
        {"model": {"kind": "LinearModel"}},
        {"model": {"kind": "NetworkModel", "features": [], "graph": "x"}},
        {"model": statistic().model.as_json(), "features": [{"kind": "binned", "needs": "a"}]},
        {
            "model": statistic().model.as_json(),
            "features": [{"kind": "binned", "needs": "a", "makes": "b", "cuts": [2, 1]}],
        },
        {
            "model": statistic().model.as_json(),
            "features": [{"kind": "standardised", "needs": "a", "makes": "b", "centre": 0.0, "spread": 0.0}],
        },
    ],
)
def test_a_bundle_that_was_not_written_here_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(Mistake):
        Served(body)
