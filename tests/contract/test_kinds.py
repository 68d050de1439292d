"""Every kind passes the same suite; the example kind `tally` shows that adding one touches nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from thebes.tasks import registry
from thebes.testing.kinds import CHECKS, Sample

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _tally(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example kind is known here only: other tests ask which kinds Thebes ships."""
    monkeypatch.setitem(registry._folders(), "tally", "tally")


RNG = np.random.default_rng(5)
N = 600
AGE = RNG.integers(18, 90, N).astype(float)
X0, X1 = RNG.normal(size=N), RNG.normal(size=N)
Y = (X0 + 0.5 * RNG.normal(size=N) > 0).astype(int)
TOWN = np.where(RNG.random(N) < 0.7, "Thebes", "Aachen")
PROFILE = {"town": TOWN, "age": AGE, "x0": X0, "x1": X1, "y": Y, "z": 2 * X0 - X1 + 0.1 * RNG.normal(size=N)}
AGE_BOUNDS = {"age": {"type": "range", "low": 0.0, "high": 120.0}}
X_BOUNDS = {c: {"type": "range", "low": -4.0, "high": 4.0} for c in ("x0", "x1")}


def basic(aggregator: str, **more: object) -> Sample:
    document = {
        "type": "basic",
        "epsilon": 2.0,
        "delta": 1e-5,
        "min_count": 50,
        "featurizer": "SELECT age FROM profile.demographics",
        "aggregator": aggregator,
        "bounds": AGE_BOUNDS,
        **more,
    }
    return Sample(f"basic-{aggregator}-{len(more)}", {k: v for k, v in document.items() if v is not None}, PROFILE)


def integrated(model: str, **more: object) -> Sample:
    output = "z" if model == "LinearRegression" else "y"
    bound = {"type": "range", "low": -10, "high": 10} if output == "z" else {"type": "set", "values": [0, 1]}
    document = {
        "type": "integrated",
        "epsilon": 8.0,
        "delta": 1e-5,
        "featurizer": f"SELECT x0, x1, {output} FROM profile.example",
        "model": model,
        "inputs": ["x0", "x1"],
        "output": output,
        "bounds": {**X_BOUNDS, output: bound},
        **more,
    }
    return Sample(f"integrated-{model}-{len(more)}", {k: v for k, v in document.items() if v is not None}, PROFILE)


def bounded(name: str, **more: object) -> Sample:
    document = {
        "type": "bounded",
        "epsilon": 3.0,
        "min_sample_size": 50,
        "featurizer": "SELECT town, age, x0 FROM profile.example",
        "bounds": {
            "town": {"type": "set", "values": ["Aachen", "Thebes"], "default": "Thebes"},
            "age": {"type": "range", "low": 0.0, "high": 100.0},
            "x0": {"type": "range", "low": -3, "high": 3, "default": 0.0},
        },
        **more,
    }
    return Sample(f"bounded-{name}", document, PROFILE)


def gradient(name: str, **more: object) -> Sample:
    import torch

    from thebes.torch import encode

    torch.manual_seed(0)
    model, loss = encode(torch.nn.Linear(2, 1), torch.nn.MSELoss())
    document = {
        "type": "gradient",
        "epsilon": 4.0,
        "featurizer": "SELECT x0, x1, z FROM profile.example",
        "inputs": ["x0", "x1"],
        "outputs": ["z"],
        "model": model,
        "loss": loss,
        "clip": 1.0,
        **more,
    }
    return Sample(f"gradient-{name}", document, PROFILE)


def ensemble(name: str, **more: object) -> Sample:
    document = {
        "type": "ensemble",
        "epsilon": 4.0,
        "min_count": 60,
        "featurizer": "SELECT town, age, x0, x1, y FROM profile.example",
        "label": "y",
        "bounds": {
            "town": {"type": "set", "values": ["Aachen", "Thebes"], "default": "Thebes"},
            "age": {"type": "range", "low": 0.0, "high": 100.0},
            **X_BOUNDS,
            "y": {"type": "set", "values": [0, 1]},
        },
        "partitions": 3,
        **more,
    }
    return Sample(f"ensemble-{name}", document, PROFILE)


FEW = {column: values[:60] for column, values in PROFILE.items()}  # one ask for each of them


def draw_discard(name: str, **more: object) -> Sample:
    document = {
        "type": "draw-discard",
        "epsilon": 8.0,
        "min_count": 20,
        "featurizer": "SELECT town, age, x0, x1, y, z FROM profile.example",
        "family": "logistic",
        "inputs": ["town", "x0", "x1"],
        "output": "y",
        "bounds": {
            "town": {"type": "set", "values": ["Aachen", "Thebes"], "default": "Thebes"},
            **X_BOUNDS,
            "y": {"type": "set", "values": [0, 1]},
            "z": {"type": "range", "low": -10.0, "high": 10.0},
        },
        "instances": 5,
        **more,
    }
    return Sample(f"draw-discard-{name}", {k: v for k, v in document.items() if v is not None}, FEW)


def draw_discard_network() -> Sample:
    made = gradient("for-its-network").document
    return draw_discard(
        "network", family=None, model=made["model"], loss=made["loss"], inputs=["x0", "x1"], output="z", instances=3
    )


SAMPLES = [
    draw_discard("privunit", crosses="pairwise", max_participations=2, outliers="quarantine"),
    draw_discard("laplace", mechanism="laplace", epsilon=None, epsilon_per_weight=1.1, crosses=[["town", "x0"]]),
    draw_discard("l1", mechanism="laplace-l1", learning_rate=[0.1, 0.01], keep=0.01, decay=100.0, diagnostics=0.1),
    draw_discard("gaussian", mechanism="gaussian", delta=1e-6, family="multinomial", output="town", inputs=["x0", "y"]),
    draw_discard("linear", family="linear", output="z", reduce="sum", average="predictions", start=[0.1, 0, 0, 0]),
    draw_discard_network(),
    ensemble("vote", subsets=2, subset_size=2),
    ensemble("given-bins", bins={"age": [30.0, 60.0], "x0": [0.0], "x1": [0.5]}, subsets=3, votes="probability"),
    ensemble("scored", subsets=2, scoring_share=0.3, score="auc"),
    ensemble("odds", method="odds", bins=4, binning_steps=3),
    ensemble("odds-scouted", method="odds", scouting_share=0.2, binning_steps=3),
    ensemble("odds-given", method="odds", feature_subsets=[["town", "age"], ["x0"]], perturbation="subset"),
    gradient("privunit"),
    gradient("gaussian", delta=1e-5, mechanism="gaussian", rounds=3, rounds_per_owner=2, diagnostics=0.1),
    bounded("split"),
    bounded("split-delta", delta=1e-5),
    bounded("privunit", mechanism="privunit"),
    bounded("auto", mechanism="auto", delta=1e-6),
    Sample(
        "tally",
        {"type": "tally", "epsilon": 1.0, "min_count": 20, "featurizer": "SELECT y FROM profile.example"},
        PROFILE,
    ),
    basic("count", missing="count"),
    *(basic(a) for a in ("sum", "mean", "median", "variance", "std")),
    basic("quantile", quantile=0.9, delta=None),
    basic("correlation", featurizer="SELECT x0, y FROM profile.example", bounds=None),
    basic("histogram", featurizer="SELECT town FROM profile.example", bounds=None),
    basic(
        "histogram",
        featurizer="SELECT town FROM profile.example",
        bounds={"town": {"type": "set", "values": ["Aachen", "Thebes"]}},
    ),
    basic("histogram", bins=10),
    basic("mean", bounds=None, diagnostics=0.1),
    basic("mean", missing="count"),
    *(integrated(m) for m in ("GaussianNB", "LinearRegression", "LogisticRegression", "RandomForestClassifier")),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__.removeprefix("check_"))
def test_every_kind(check, sample) -> None:
    check(sample)


def test_every_kind_of_the_house_is_in_this_suite() -> None:
    assert {sample.document["type"] for sample in SAMPLES} >= set(registry.people_types())
