"""Made-up visits to a hospital's emergency room, day after day: how long somebody waits hangs together with the hour
and with how many came before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Columns = Mapping[str, NDArray[Any]]

DATASET = "visits"
DAYS, EACH = 32, 400
#: as a steward declares it; nothing of it was read off the visits
SCHEMA: dict[str, Any] = {
    "unit": "event",
    "time": "at",
    "columns": {
        "at": {"type": "timestamp"},
        "before": {"type": "integer", "low": 0, "high": 60, "description": "who waited already"},
        "urgent": {"type": "boolean", "values": [False, True]},
        "minutes": {"type": "float", "low": 0, "high": 240, "description": "until a doctor came"},
    },
}


def visits(seed: int, days: int = DAYS) -> dict[str, NDArray[Any]]:
    """The visits of so many days: the same for the same seed."""
    random = np.random.default_rng((seed, 77))
    count = days * EACH
    day = np.repeat(np.arange(days), EACH)
    at = np.datetime64("2026-01-01") + day * np.timedelta64(1, "D") + random.integers(0, 86_400, count).astype("m8[s]")
    before = np.clip(random.poisson(14, count), 0, 60)
    urgent = random.random(count) < 0.25
    minutes = np.clip(15 + 5 * before - 40 * urgent + random.normal(0, 12, count), 0, 240).round(1)
    return {"at": at, "before": before, "urgent": urgent, "minutes": minutes}


def frame(columns: Columns) -> pd.DataFrame:
    """As they come in."""
    return pd.DataFrame(dict(columns))
