"""Sample documents of draw-and-discard tasks."""

from __future__ import annotations

from typing import Any

from thebes.tasks.samples import INPUTS, NETWORK, TOWN, Sample, people


def samples() -> list[Sample]:
    """One of every mechanism and family."""
    each = {"mechanism": "laplace", "epsilon": None, "epsilon_per_weight": 1.1}
    rates = {"learning_rate": [0.1, 0.01], "keep": 0.01, "decay": 100.0}
    several = {"family": "multinomial", "output": "town", "inputs": ["x0", "y"]}
    network = {"family": None, **NETWORK, "inputs": ["x0", "x1"], "output": "z", "instances": 3}
    return [
        _sample("privunit", crosses="pairwise", max_participations=2, outliers="quarantine"),
        _sample("laplace", **each, crosses=[["town", "x0"]]),
        _sample("l1", mechanism="laplace-l1", **rates, diagnostics=0.1),
        _sample("gaussian", mechanism="gaussian", delta=1e-6, **several),
        _sample("linear", family="linear", output="z", reduce="sum", average="predictions", start=[0.1, 0, 0, 0]),
        _sample("network", **network),
    ]


def _sample(name: str, **more: Any) -> Sample:
    document = {
        "type": "draw-discard",
        "epsilon": 8.0,
        "min_count": 20,
        "featurizer": "SELECT town, age, x0, x1, y, z FROM profile.example",
        "family": "logistic",
        "inputs": ["town", "x0", "x1"],
        "output": "y",
        "bounds": {
            **TOWN,
            **INPUTS,
            "y": {"type": "set", "values": [0, 1]},
            "z": {"type": "range", "low": -10.0, "high": 10.0},
        },
        "instances": 5,
        **more,
    }
    kept = {field: value for field, value in document.items() if value is not None}
    return Sample(f"draw-discard-{name}", kept, people(60))  # one ask for each of them
