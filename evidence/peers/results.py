"""The measured results, as JSON beside the code; each peer's part stands until it is run again."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evidence.peers.environments import HERE

KEPT = HERE / "results.json"


def kept(path: Path = KEPT) -> dict[str, Any]:
    """By peer; empty where nothing was run yet."""
    if not path.is_file():
        return {}
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return told


def written_with(name: str, found: dict[str, Any], path: Path = KEPT, only: str = "") -> None:
    """Keep what was found of a peer, or of one of its works, in the place of what was known of it."""
    import numpy as np

    import thebes

    made_by = {"thebes": thebes.__version__, "python": platform.python_version(), "numpy": np.__version__}
    day = datetime.now(UTC).date().isoformat()
    before = kept(path)
    if only and name in before:  # the other works of this peer stay as they were
        done = {work["name"]: work for work in [*before[name]["works"], *found["works"]]}
        found = {**before[name], "works": list(done.values())}
    everything = {
        **before,
        name: {"day": day, "cores": os.cpu_count(), "made_by": made_by, **found},
    }
    text = json.dumps(dict(sorted(everything.items())), indent=1, default=float)
    path.write_text(text + "\n", encoding="utf-8")
