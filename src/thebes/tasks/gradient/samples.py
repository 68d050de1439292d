"""Sample documents of gradient tasks."""

from __future__ import annotations

from typing import Any

from thebes.tasks.samples import NETWORK, Sample, people


def samples() -> list[Sample]:
    """One of every mechanism."""
    steps = {"rounds": 3, "rounds_per_owner": 2, "diagnostics": 0.1}
    return [_sample("privunit"), _sample("gaussian", delta=1e-5, mechanism="gaussian", **steps)]


def _sample(name: str, **more: Any) -> Sample:
    document = {
        "type": "gradient",
        "epsilon": 4.0,
        "featurizer": "SELECT x0, x1, z FROM profile.example",
        "inputs": ["x0", "x1"],
        "outputs": ["z"],
        **NETWORK,
        "clip": 1.0,
        **more,
    }
    return Sample(f"gradient-{name}", document, people())
