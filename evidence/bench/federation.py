"""A coordinator and sites as processes on this machine, over their sockets: what asking sites costs beside computing.

The same rows are at the first n of 15 sites; `overhead` is the whole time of a training of 50 steps over that of the
same private steps over the same rows in one process, measured in the same run. Compute is the slowest site's, and all
sites share this machine's cores. Goals: at most 1.5, under 10 ms of coordination for each round and site with a small
model, a count over 15 sites within 2.5 times one over a single site in the same run, for 1.2 ms of computing by the
coordinator for each site more. The count is one that every site released before. Whoever asks waits for the answer and
does not ask again meanwhile. How fast the link carries a large model is `link`'s.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd

import thebes
from papers.leap.deployment import DATASET, Deployment
from papers.leap.figure_5_2 import document
from papers.leap.moles import SCHEMA, moles

SITES = (1, 5, 10, 15)
STEPS = 50
COUNTS = 20
TRAIN = {**document(STEPS), "local_steps": 1}
COUNT = {"type": "query", "statistic": "count", "epsilon": 0.1}


def run(sites: tuple[int, ...] = SITES) -> dict[str, Any]:
    """Ratios, and milliseconds, by the number of sites."""
    held = moles()
    parts = {f"site-{place + 1}": part for place, part in enumerate(held.shared_out(max(sites)))}
    measured: dict[str, Any] = {"rows": str(held)}
    first: tuple[float, float] | None = None
    with tempfile.TemporaryDirectory() as folder, Deployment(Path(folder), parts, SCHEMA) as there:
        for warming in ({**TRAIN, "rounds": 2}, COUNT):  # loads what the others find in memory
            there.ask(warming, list(parts))
        for number in sites:
            names = list(parts)[:number]
            rows = pd.concat([parts[name] for name in names], ignore_index=True)
            central = min(_central(rows) for _ in range(2))
            train = min((there.ask(TRAIN, names) for _ in range(2)), key=lambda asked: asked.seconds)
            before = there.computed()
            counts = [1000 * there.ask(COUNT, names).seconds for _ in range(COUNTS)]
            worked = {who: 1000 * (after - before[who]) / COUNTS for who, after in there.computed().items()}
            first = first or (statistics.median(counts), worked["coordinator"])
            spent = train.phases["transfer"] + train.phases["aggregation"]
            measured[f"{number} sites"] = {
                "overhead": train.seconds / central,
                "in one process, seconds": central,
                **{f"{phase}, seconds": seconds for phase, seconds in train.phases.items()},
                "whole, seconds": train.seconds,
                "coordination, milliseconds for a round and site": 1000 * spent / (STEPS * number),
                "count, milliseconds": statistics.median(counts),
                "count, ratio to one site": statistics.median(counts) / first[0],
                "count, milliseconds of the coordinator's computing": worked["coordinator"],
                "count, milliseconds of a site's computing": worked["site"] / number,
                **(_for_each(worked["coordinator"] - first[1], number - sites[0]) if number > sites[0] else {}),
            }
    return measured


def _for_each(more: float, sites: int) -> dict[str, float]:
    return {"count, milliseconds of the coordinator's computing for each site more": more / sites}


def _central(rows: pd.DataFrame) -> float:
    began = time.perf_counter()
    thebes.simulate({**TRAIN, "dataset": DATASET}, {"all": rows}, schema=SCHEMA)
    return time.perf_counter() - began
