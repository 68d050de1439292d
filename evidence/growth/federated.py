"""The series over sites: a coordinator and 15 sites as processes, by what all of them together compute."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

import thebes
from evidence.bench.federation import COUNT, STEPS, TRAIN
from papers.leap.deployment import DATASET, Deployment
from papers.leap.moles import SCHEMA, moles

MOST = 15
SITES = (1, 5, MOST)
TRAINED = 5
COUNTS = 20


def sites() -> dict[str, Any]:
    """A count over sites, which they answer from what they released before, beside one site."""
    points: list[dict[str, Any]] = []
    with _deployment(MOST) as (there, parts):
        for size in SITES:
            asked = sum(_computed(there, COUNT, parts, size) for _ in range(COUNTS)) / COUNTS
            points.append({"size": size, "seconds": asked, "bare": points[0]["seconds"] if points else asked})
    return {"does": "A count over sites, released before", "beside": "one site", "of": "sites", "points": points}


def training() -> dict[str, Any]:
    """Tiny steps over more and more sites."""
    with _deployment(TRAINED) as (there, parts):
        points = [_trained(there, parts, size) for size in (1, 2, TRAINED)]
    return {
        "does": f"A training of {STEPS} rounds with one tiny step in each",
        "beside": "the same private steps of as many sites in one process, which charges nothing and keeps nothing",
        "of": "sites",
        "points": points,
    }


def _trained(there: Deployment, parts: Mapping[str, pd.DataFrame], size: int) -> dict[str, Any]:
    theirs = {name: parts[name] for name in list(parts)[:size]}
    for rounds in (2, STEPS):  # what is loaded first does not count, as at the sites
        began = time.process_time()
        thebes.simulate({**TRAIN, "rounds": rounds, "dataset": DATASET}, theirs, schema=SCHEMA)
        bare = time.process_time() - began
    return {"size": size, "seconds": _computed(there, TRAIN, parts, size), "bare": bare}


def _computed(there: Deployment, document: Mapping[str, Any], parts: Mapping[str, Any], number: int) -> float:
    before = there.computed()
    there.ask(document, list(parts)[:number])
    return sum(after - before[who] for who, after in there.computed().items())


@contextmanager
def _deployment(most: int) -> Iterator[tuple[Deployment, dict[str, pd.DataFrame]]]:
    """Sites that have answered once."""
    shared = moles().shared_out(MOST)[:most]
    parts = {f"site-{place + 1}": part for place, part in enumerate(shared)}
    with tempfile.TemporaryDirectory() as folder, Deployment(Path(folder), parts, SCHEMA) as there:
        for warming in ({**TRAIN, "rounds": 2}, COUNT):
            there.ask(warming, list(parts))
        yield there, parts
