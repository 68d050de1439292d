"""Questions over 10,000,000 rows in Parquet, each in a process of its own, beside a bare SUM of DuckDB in the same run.

The goals: under 400 MB of memory for every question, the interpreter included, and a mean over rows within ten times
the bare SUM. Where rows are people's, how many each person has is counted first; of more than may count the latest are
chosen, which means sorting them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.support.memory_and_time import made_up, measured

ROWS = 10_000_000

#: what is asked -> the question, and how many rows of one person count (None: every row is a unit of its own)
ASKED = {
    "mean": ("mean", None),
    "variance by group, filtered": ("variance by group", None),
    "histogram of 150 bins": ("histogram", None),
    "mean over people, none with too many rows": ("mean", 1000),
    "mean over people, the latest row of each": ("mean", 1),
    "all rows of people in batches": ("rows", 1000),
}


def run() -> dict[str, dict[str, float]]:
    """Rows per second, ratio to the bare SUM's time, and the most memory, for each question."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made_up(folder, ROWS)
        bare = min((measured(folder, "bare") for _ in range(3)), key=lambda one: one["seconds"])
        found: dict[str, dict[str, float]] = {
            "bare SUM": {"rows/s": round(ROWS / bare["seconds"]), "peak MB": round(bare["peak MB"])}
        }
        for name, (question, most) in ASKED.items():
            one = measured(folder, question, most=most)
            found[name] = {
                "rows/s": round(ROWS / one["seconds"]),
                "times the bare SUM": round(one["seconds"] / bare["seconds"], 1),
                "peak MB": round(one["peak MB"]),
            }
    return found
