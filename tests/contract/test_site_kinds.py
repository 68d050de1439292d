"""Every kind that institutions answer passes the same suite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from thebes.tasks import registry
from thebes.testing.site_kinds import CHECKS, SiteSample

RNG = np.random.default_rng(11)

SCHEMA: dict[str, Any] = {
    "unit": "person",
    "max_rows_per_unit": 2,
    "columns": {
        "patient": {"type": "string", "key": True},
        "age": {"type": "float", "low": 18, "high": 90},
        "weight": {"type": "float", "low": 30, "high": 200},
        "visits": {"type": "integer", "low": -3, "high": 12},
        "sex": {"type": "string", "values": ["female", "male"]},
        "ill": {"type": "boolean"},
    },
}


def rows(count: int) -> pd.DataFrame:
    age = RNG.normal(50, 15, count)
    return pd.DataFrame(
        {
            "patient": [f"p{place // 2}" for place in range(count)],
            "age": age,
            "weight": 50 + 0.4 * age + RNG.normal(0, 8, count),
            "visits": RNG.integers(-3, 13, count),
            "sex": RNG.choice(["female", "male"], count),
            "ill": RNG.random(count) < 0.3,
        }
    )


SITES = {site: rows(count) for site, count in (("aachen", 120), ("bonn", 80), ("cologne", 41))}


def query(statistic: str, *, schema: dict[str, Any] | None = None, **more: Any) -> SiteSample:
    budget = {} if more.get("privacy") == "none" else {"epsilon": 1.5}
    document = {"type": "query", "dataset": "patients", "statistic": statistic, **budget, **more}
    name = "-".join(str(part) for part in ("query", statistic, *more.values()))
    return SiteSample(name, document, SITES, {**SCHEMA, **(schema or {})})


QUESTIONS: dict[str, dict[str, Any]] = {
    "count": {"where": "age >= 40 AND sex = 'female'"},
    "sum": {"column": "visits"},
    "mean": {"column": "age", "by": ["sex", "ill"]},
    "variance": {"column": "weight", "by": "sex"},
    "histogram": {"column": "age", "bins": [30, 45.5, 60]},
    "quantile": {"column": "age", "quantile": 0.25, "bins": 32},
    "correlation": {"columns": ["age", "weight"]},
}


def train(**more: Any) -> SiteSample:
    document = {
        "type": "train", "dataset": "patients", "model": "LogisticRegression", "inputs": ["age", "visits"],
        "output": "sex", "rounds": 3, "epsilon": 1.5, "delta": 1e-5, **more,
    }  # fmt: skip
    return SiteSample("-".join(["train", *(f"{k}={v}" for k, v in more.items())]), document, SITES, SCHEMA)


def algorithm(name: str, **more: Any) -> SiteSample:
    features = {"burden": {"multiply": ["visits", {"divide": ["weight", 100]}]}, "man": {"is": ["sex", "male"]}}
    gradient = {
        "map": {"gradient": {"model": "LinearRegression", "inputs": ["age", "burden", "man"], "output": "weight"}},
        "reduce": "mean", "update": {"rule": "adam", "learning_rate": 0.2}, "stop": {"rounds": 2},
    }  # fmt: skip
    blocks = {} if "map" in more else gradient
    document = {
        "type": "algorithm", "dataset": "patients", "features": features, "epsilon": 1.5, "delta": 1e-5,
        **blocks, **more,
    }  # fmt: skip
    return SiteSample(f"algorithm-{name}", document, SITES, SCHEMA)


DAY = np.arange(2400) // 600
KM = RNG.uniform(0, 10, len(DAY))
RIDES = pd.DataFrame(
    {
        "at": pd.Timestamp("2026-01-01") + pd.to_timedelta(DAY, unit="D"),
        "km": KM,
        "minutes": np.clip(5 + 4 * KM + RNG.normal(0, 2, len(KM)), 0, 60),
        "kind": RNG.choice(["day", "night"], len(KM)),
    }
)
GROWING: dict[str, Any] = {
    "unit": "event",
    "time": "at",
    "columns": {
        "at": {"type": "timestamp"},
        "km": {"type": "float", "low": 0, "high": 10},
        "minutes": {"type": "float", "low": 0, "high": 60},
        "kind": {"type": "string", "values": ["day", "night"]},
    },
}


def pipeline(model: str, **more: Any) -> SiteSample:
    """One site has the stream. Every block has what the document asks for, and its size."""
    document = {"type": "pipeline", "stream": "rides", "sites": ["aachen"], "model": model, "epsilon": 2.0, **more}
    return SiteSample(f"pipeline-{model}", document, {"aachen": RIDES}, GROWING)


SAMPLES = [
    pipeline(
        "LinearRegression", inputs=["km"], output="minutes", target={"mse": 150.0}, largest={"mse": 400.0}, delta=1e-6
    ),
    pipeline("GroupMeans", inputs=["kind"], output="minutes", target={"absolute_error": 1e-3}),  # beyond reach
    algorithm("adam"),
    algorithm("newton", update={"rule": "newton"}, noise="coordinator"),
    algorithm("newton-at-sites", update={"rule": "newton"}, loss_share=0.2),
    algorithm("mean", map={"statistic": {"column": "burden", "by": ["sex"]}}, reduce="mean"),
    algorithm("histogram", map={"statistic": {"column": "burden", "bins": 5}}, reduce="histogram", noise="coordinator"),
    train(),
    train(noise="coordinator", loss_share=0.2),
    train(local_steps=2, loss_share=0.1, momentum=0.5),
    train(batch=0.3, model="LinearRegression", inputs=["age", "sex"], output="weight"),
    train(batch=0.5, noise="coordinator", reduce="sum"),
    *(query(statistic, **fields) for statistic, fields in QUESTIONS.items()),
    *(query(statistic, **fields, noise="coordinator") for statistic, fields in QUESTIONS.items()),
    query("count", by="sex", delta=0.1),
    query("quantile", column="weight", quantile=0.5, delta=1e-5, bins=64),
    query("sum", column="visits", by="sex", accuracy={"alpha": 200.0, "beta": 0.05}, max_epsilon=2.0),
    query("mean", column="age", privacy="none", schema={"public": True}),
    query("correlation", columns=["age", "visits"], privacy="none", schema={"public": True}),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__.removeprefix("check_"))
def test_every_kind(check, sample) -> None:
    check(sample)


def test_every_kind_of_the_house_is_in_this_suite() -> None:
    assert {sample.document["type"] for sample in SAMPLES} >= set(registry.site_types())
