"""Sample documents of integrated tasks."""

from __future__ import annotations

from typing import Any

from thebes.tasks.integrated.kind import MODELS, REGRESSIONS
from thebes.tasks.samples import INPUTS, Sample, people


def samples() -> list[Sample]:
    """One of every model."""
    return [_sample(model) for model in MODELS]


def _sample(model: str) -> Sample:
    output = "z" if model in REGRESSIONS else "y"
    bound: dict[str, Any] = {"type": "set", "values": [0, 1]}
    if output == "z":
        bound = {"type": "range", "low": -10, "high": 10}
    document = {
        "type": "integrated",
        "epsilon": 8.0,
        "delta": 1e-5,
        "featurizer": f"SELECT x0, x1, {output} FROM profile.example",  # noqa: S608
        "model": model,
        "inputs": ["x0", "x1"],
        "output": output,
        "bounds": {**INPUTS, output: bound},
    }
    return Sample(f"integrated-{model}", document, people())
