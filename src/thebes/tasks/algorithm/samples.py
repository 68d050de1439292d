"""Sample documents of tasks composed of blocks."""

from __future__ import annotations

from typing import Any

from thebes.tasks.samples import SiteSample, of_hospitals


def samples() -> list[SiteSample]:
    """One of every rule by which a model moves, and one of every way to a statistic."""
    counted = {"statistic": {"column": "burden", "bins": 5}}
    return [
        _sample("adam"),
        _sample("newton", update={"rule": "newton"}, noise="coordinator"),
        _sample("newton-at-sites", update={"rule": "newton"}, loss_share=0.2),
        _sample("mean", map={"statistic": {"column": "burden", "by": ["sex"]}}, reduce="mean"),
        _sample("histogram", map=counted, reduce="histogram", noise="coordinator"),
    ]


def _sample(name: str, **more: Any) -> SiteSample:
    features = {"burden": {"multiply": ["visits", {"divide": ["weight", 100]}]}, "man": {"is": ["sex", "male"]}}
    learned = {"model": "LinearRegression", "inputs": ["age", "burden", "man"], "output": "weight"}
    steps = {
        "map": {"gradient": learned},
        "reduce": "mean",
        "update": {"rule": "adam", "learning_rate": 0.2},
        "stop": {"rounds": 2},
    }
    blocks = {} if "map" in more else steps
    document = {"type": "algorithm", "features": features, "delta": 1e-5, **blocks, **more}
    return of_hospitals(f"algorithm-{name}", document)
