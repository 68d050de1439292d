"""The smallest model that was accepted, as a home keeps it."""

from __future__ import annotations

from typing import Any

BUNDLE: dict[str, Any] = {
    "model": {"kind": "StatisticsModel", "column": "hour", "numbers": {"0": 0.5, "1": 0.25}},
    "features": [],
    "inputs": ["hour"],
    "output": "took",
    "validation": [{"metric": "absolute_error", "target": 0.1, "bound": 0.08}],
    "confidence": 0.95,
    "certificate": {"epsilon": 1.0, "delta": 0.0, "text": "So much."},
    "lineage": {"stream": "rides", "blocks": ["rides/2026-01-01"], "developer": "ana", "attempts": 1},
    "published_at": "2026-01-02T00:00:00+00:00",
}
