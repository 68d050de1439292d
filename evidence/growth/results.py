"""The series as they were measured last, each with its day and machine."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import thebes

KEPT = Path(__file__).parent / "results.json"


def kept(path: Path = KEPT) -> dict[str, Any]:
    """By name; empty where nothing was measured yet."""
    if not path.is_file():
        return {}
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return told


def written_with(name: str, found: dict[str, Any], path: Path = KEPT) -> dict[str, Any]:
    """Keep a series in the place of what was known of it; return it as it is kept."""
    made = {"day": datetime.now(UTC).date().isoformat(), "thebes": thebes.__version__, "cores": os.cpu_count()}
    told = {**found, **made}
    everything = kept(path) | {name: told}
    path.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return told
