"""Sample documents of basic tasks."""

from __future__ import annotations

from typing import Any

from thebes.tasks.samples import TOWN, Sample, people

AGE = {"age": {"type": "range", "low": 0.0, "high": 120.0}}


def samples() -> list[Sample]:
    """One of every statistic."""
    town = {"featurizer": "SELECT town FROM profile.example"}
    values = {"town": {"type": "set", "values": TOWN["town"]["values"]}}
    return [
        _sample("count", missing="count"),
        *(_sample(aggregator) for aggregator in ("sum", "mean", "median", "variance", "std")),
        _sample("quantile", quantile=0.9, delta=None),
        _sample("correlation", featurizer="SELECT x0, y FROM profile.example", bounds=None),
        _sample("histogram", **town, bounds=None),
        _sample("histogram", "of declared values", **town, bounds=values),
        _sample("histogram", "over a range", bins=10),
        _sample("mean", "with estimated bounds", bounds=None, diagnostics=0.1),
        _sample("mean", "counting who has none", missing="count"),
    ]


def _sample(aggregator: str, name: str = "", **more: Any) -> Sample:
    document = {
        "type": "basic",
        "epsilon": 2.0,
        "delta": 1e-5,
        "min_count": 50,
        "featurizer": "SELECT age FROM profile.demographics",
        "aggregator": aggregator,
        "bounds": AGE,
        **more,
    }
    kept = {field: value for field, value in document.items() if value is not None}
    return Sample("-".join(["basic", aggregator, *name.split()]), kept, people())
