"""Whatever a task releases that predicts finds its inputs by name: another order changes nothing, a lack is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thebes
from thebes.curator.pipelines.ready.statistics import StatisticsModel
from thebes.curator.pipelines.served_model import Served
from thebes.learning.features import Bins, Categories, Features, Range
from thebes.learning.moments import LinearModel
from thebes.learning.odds import OddsModel
from thebes.privacy.faults import Mistake
from thebes.tasks.release_reader import release_from_json

DRAW = np.random.default_rng(7)
N = 800
PEOPLE = {
    "age": DRAW.uniform(0, 100, N),
    "hours": DRAW.uniform(0, 10, N),
    "weight": DRAW.uniform(40, 120, N),
}
PEOPLE["ill"] = (PEOPLE["age"] / 100 - PEOPLE["hours"] / 10 > 0).astype(int)
PEOPLE["dose"] = PEOPLE["age"] / 10 + PEOPLE["hours"]
INPUTS = ("age", "hours", "weight")
RANGES = {
    "age": {"type": "range", "low": 0, "high": 100},
    "hours": {"type": "range", "low": 0, "high": 10},
    "weight": {"type": "range", "low": 40, "high": 120},
}
ILL = {"ill": {"type": "set", "values": [0, 1]}}
ROWS = pd.DataFrame({name: PEOPLE[name][:50] for name in INPUTS})


def _document(kind: str, **more: Any) -> dict[str, Any]:
    featurizer = "SELECT age, hours, weight, ill FROM profile.people"
    same = {"type": kind, "epsilon": 40.0, "featurizer": featurizer, "bounds": {**RANGES, **ILL}, "min_count": 50}
    return {**same, **more}


def _read_back(release: Any) -> Any:
    """The model of a release as it is read from the JSON that somebody kept."""
    return release_from_json(json.loads(json.dumps(release.as_json()))).model  # type: ignore[attr-defined]


def _integrated() -> Any:
    document = _document("integrated", delta=1e-6, model="LogisticRegression", inputs=list(INPUTS), output="ill")
    return _read_back(thebes.simulate(document, PEOPLE, seed=1))


def _written_before() -> Any:
    """A release from before its model knew the names of its columns."""
    document = _document("integrated", model="GaussianNB", inputs=list(INPUTS), output="ill")
    told = json.loads(json.dumps(thebes.simulate(document, PEOPLE, seed=1).as_json()))
    told["value"]["columns"] = len(INPUTS)
    return release_from_json(told).model  # type: ignore[attr-defined]


def _ensemble() -> Any:
    return _read_back(thebes.simulate(_document("ensemble", label="ill", partitions=2), PEOPLE, seed=1))


def _bounded() -> Any:
    release: Any = thebes.simulate(_document("bounded"), PEOPLE, seed=1)
    return release.fit("logistic", output="ill")


def _draw_discard() -> Any:
    document = _document("draw-discard", family="logistic", inputs=list(INPUTS), output="ill", instances=3)
    few = {name: values[:60] for name, values in PEOPLE.items()}
    return _read_back(thebes.simulate(document, few, seed=1))


def _gradient() -> Any:
    torch = pytest.importorskip("torch")
    from thebes.torch import encode

    torch.manual_seed(0)
    model, loss = encode(torch.nn.Linear(3, 2), torch.nn.CrossEntropyLoss())
    document = _document("gradient", inputs=list(INPUTS), outputs=["ill"], model=model, loss=loss)
    return _read_back(thebes.simulate(document, PEOPLE, seed=1))


def _train() -> Any:
    schema = {
        "unit": "person",
        "columns": {
            **{name: {"type": "float", "low": b["low"], "high": b["high"]} for name, b in RANGES.items()},
            "ill": {"type": "integer", "values": [0, 1]},
        },
    }
    document = {
        "type": "train",
        "dataset": "patients",
        "model": "LogisticRegression",
        "inputs": list(INPUTS),
        "output": "ill",
        "rounds": 3,
        "epsilon": 40.0,
        "delta": 1e-6,
    }
    rows = {name: values for name, values in PEOPLE.items() if name != "dose"}
    return _read_back(thebes.simulate(document, {"a": rows}, schema=schema, seed=1))


FEATURES = Features([Range("age", 0, 100), Bins("hours", (0.0, 3.0, 7.0, 10.0)), Range("weight", 40, 120)])


def _linear() -> Any:
    return LinearModel(FEATURES, np.array([1.0, 5.0, 2.0, 0.0, -3.0]), 0.5, -20.0, 20.0)


def _odds() -> Any:
    tables = tuple(np.linspace(-1, 1 + place, piece.cell_count) for place, piece in enumerate(FEATURES.pieces))
    return OddsModel(FEATURES, tables, np.array([1.0, 2.0, 3.0]), 0.1, 5.0)


def _served() -> Any:
    return Served({"model": _linear().as_json(), "output": "dose"})


MODELS: list[Callable[[], Any]] = [
    _integrated,
    _written_before,
    _ensemble,
    _bounded,
    _draw_discard,
    _gradient,
    _train,
    _linear,
    _odds,
    _served,
]


@pytest.mark.filterwarnings("error:X does not have:UserWarning")
@pytest.mark.parametrize("made", MODELS, ids=lambda made: made.__name__.strip("_"))
def test_a_model_finds_its_columns_by_name(made: Callable[[], Any]) -> None:
    model = made()
    turned = ROWS[["weight", "age", "hours"]]
    by_column = {name: turned[name].to_numpy() for name in turned.columns}
    for ask in ("predict", "predict_proba"):
        if not hasattr(model, ask):
            continue
        said = getattr(model, ask)(ROWS)
        if ask == "predict_proba" or not hasattr(model, "predict_proba"):
            assert len(np.unique(said)) > 2  # else the order could not show
        for rows in (turned, by_column):
            assert np.array_equal(getattr(model, ask)(rows), said)
        for lacking in (turned[["weight", "age"]], {"weight": by_column["weight"], "age": by_column["age"]}):
            with pytest.raises(Mistake, match="have no column 'hours'"):
                getattr(model, ask)(lacking)
    if made not in (_linear, _odds):
        assert model.feature_names_in_.tolist() == list(INPUTS)
        assert model.n_features_in_ == len(INPUTS)
    if made not in (_gradient, _served):  # one takes the numbers of its network, the other names only
        assert np.array_equal(model.predict(ROWS.to_numpy()), model.predict(ROWS))


def test_a_statistic_finds_its_column_by_name() -> None:
    model = StatisticsModel("kind", {"a": 1.0, "b": 2.0})
    rows = pd.DataFrame({"other": [5, 6, 7], "kind": ["b", "a", "c"]})
    assert np.array_equal(model.predict(rows), [2.0, 1.0, np.nan], equal_nan=True)
    with pytest.raises(Mistake, match="have no column 'kind'"):
        model.predict(rows[["other"]])
    assert Features([Categories("kind", ("a", "b", "c"))]).batch(rows).ravel().tolist() == [1.0, 0.0, 2.0]
