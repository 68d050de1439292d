"""Sample documents of pipelines."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from thebes.tasks.samples import SiteSample

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


def samples() -> list[SiteSample]:
    """One that reaches its target, and one whose target is beyond reach."""
    near = {"target": {"mse": 150.0}, "largest": {"mse": 400.0}, "delta": 1e-6}
    return [
        _sample("LinearRegression", inputs=["km"], output="minutes", **near),
        _sample("GroupMeans", inputs=["kind"], output="minutes", target={"absolute_error": 1e-3}),
    ]


def _sample(model: str, **more: Any) -> SiteSample:
    """One site has the stream. Every block has what the document asks for, and its size."""
    document = {"type": "pipeline", "stream": "rides", "sites": ["aachen"], "model": model, "epsilon": 2.0, **more}
    return SiteSample(f"pipeline-{model}", document, {"aachen": _rides()}, GROWING)


@cache
def _rides() -> Any:
    import pandas as pd

    draw = np.random.Generator(np.random.PCG64(12))  # made-up rides, not noise
    day = np.arange(2400) // 600
    km = draw.uniform(0, 10, len(day))
    return pd.DataFrame(
        {
            "at": pd.Timestamp("2026-01-01") + pd.to_timedelta(day, unit="D"),
            "km": km,
            "minutes": np.clip(5 + 4 * km + draw.normal(0, 2, len(km)), 0, 60),
            "kind": draw.choice(["day", "night"], len(km)),
        }
    )
