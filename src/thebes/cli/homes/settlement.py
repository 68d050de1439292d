"""The matters that must be settled in a home that came back from a copy, by whichever means the copy was made.

What must stay true: what the copy has paid for and has not said is never drawn again on that payment, because whoever
lived on may have said it with other noise.
"""

from __future__ import annotations

from pathlib import Path

from thebes.data.growing import manifest
from thebes.site import caches
from thebes.site.home import OUTBOX
from thebes.site.requests import response_store


def settle(home: Path) -> int:
    """Let tasks that were open only say again what was said, and pay anew for what was just being bought. How many
    tasks those are. What it does to a home that lives on costs some budget and gives nothing away."""
    tasks = response_store.came_back(home / OUTBOX) if (home / OUTBOX).exists() else 0
    caches.came_back(home)
    for path in sorted(home.glob("growing/*/manifest.db")):
        manifest.came_back(path)
    return tasks
