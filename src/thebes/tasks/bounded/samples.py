"""Sample documents of bounded tasks."""

from __future__ import annotations

from typing import Any

from thebes.tasks.samples import TOWN, Sample, people


def samples() -> list[Sample]:
    """One of every mechanism."""
    return [
        _sample("split"),
        _sample("split-delta", delta=1e-5),
        _sample("privunit", mechanism="privunit"),
        _sample("privunit-short", mechanism="privunit-short"),
        _sample("checked", mechanism="privunit", quality=True, predicted="town"),
        _sample("checked-range", mechanism="split", delta=1e-5, quality=True, predicted="age"),
        _sample("whichever-errs-least", delta=1e-6),
    ]


def _sample(name: str, **more: Any) -> Sample:
    document = {
        "type": "bounded",
        "epsilon": 3.0,
        "min_sample_size": 50,
        "featurizer": "SELECT town, age, x0 FROM profile.example",
        "bounds": {
            **TOWN,
            "age": {"type": "range", "low": 0.0, "high": 100.0},
            "x0": {"type": "range", "low": -3, "high": 3, "default": 0.0},
        },
        **more,
    }
    return Sample(f"bounded-{name}", document, people())
