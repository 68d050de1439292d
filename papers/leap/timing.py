"""Trainings over processes of their own, by what their time goes into, beside the same steps in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

import thebes
from papers.leap.deployment import DATASET, Deployment
from papers.outcome import Row
from thebes.tasks.release_reader import release_from_json

SECONDS, RATIO, SCORE = "seconds", "times the centralised", "accuracy on held-out rows"
_WARMING = 2  #: rounds of a training that is not measured


def timed(
    document: Mapping[str, Any],
    learned: pd.DataFrame,
    schema: Mapping[str, Any],
    counts: Sequence[int],
    epsilon: float,
    accuracy: Callable[[Any], float],
) -> list[Row]:
    """A panel of seconds by phase, one of the ratio to the centralised time, and one of what was learned. The rows are
    shared out anew for every number of sites."""
    central, best = _central(document, learned, schema, accuracy)
    rows: list[Row] = []
    for number in counts:
        parts = np.array_split(np.arange(len(learned)), number)
        held = {f"site-{place + 1}": learned.iloc[part].reset_index(drop=True) for place, part in enumerate(parts)}
        with TemporaryDirectory(prefix="thebes-") as folder, Deployment(Path(folder), held, schema) as there:
            there.ask({**document, "rounds": _WARMING}, list(held))  # loads what the next one finds in memory
            run = there.ask(document, list(held))
        told = {"whole": run.seconds, **run.phases}
        told["the rest"] = max(0.0, run.seconds - sum(run.phases.values()))
        rows += [
            Row(panel=SECONDS, series=name, at=number, ours=seconds, epsilon=epsilon, ceiling=central)
            for name, seconds in told.items()
        ]
        rows.append(Row(panel=RATIO, series="whole", at=number, ours=run.seconds / central, epsilon=epsilon))
        trained: Any = release_from_json(run.release)
        score = accuracy(trained.model)
        rows.append(Row(panel=SCORE, series="trained", at=number, ours=score, epsilon=epsilon, ceiling=best))
    return rows


def _central(
    document: Mapping[str, Any], learned: pd.DataFrame, schema: Mapping[str, Any], accuracy: Callable[[Any], float]
) -> tuple[float, float]:
    """(seconds, accuracy) of the same private steps over all rows in this process."""
    asked = {**document, "dataset": DATASET}
    thebes.simulate({**asked, "rounds": _WARMING}, {"all": learned}, schema=dict(schema), seed=0)
    began = time.perf_counter()
    release: Any = thebes.simulate(asked, {"all": learned}, schema=dict(schema), seed=0)
    return time.perf_counter() - began, accuracy(release.model)
