"""LEAP, figure 5.3: how long a count takes, by how many sites answer it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import thebes
from papers.experiment import Experiment, Headline
from papers.leap import PAPER
from papers.outcome import Found, Row

SITES, QUICK_SITES = (1, 5, 10, 15), (1, 2)
EACH = 10_000  #: records of a site
TIMES, QUICK_TIMES = 4, 4  #: as often as in the paper
COUNT: dict[str, Any] = {"type": "query", "statistic": "count", "epsilon": 1.0}


def find(quick: bool, seeds: Sequence[int]) -> Found:
    from papers.leap.deployment import DATASET, Deployment
    from papers.leap.moles import SCHEMA, moles

    held, counts = moles(), QUICK_SITES if quick else SITES
    each = held.first(EACH)
    names = [f"site-{number + 1}" for number in range(max(counts))]
    rows: list[Row] = []
    everywhere = dict.fromkeys(names, each)
    with TemporaryDirectory(prefix="thebes-") as folder, Deployment(Path(folder), everywhere, SCHEMA) as there:
        there.ask(COUNT, names)  # the first answer loads what the others find in memory
        for number in counts:
            asked = [there.ask(COUNT, names[:number]) for _ in range(QUICK_TIMES if quick else TIMES)]
            central = [_central(DATASET, SCHEMA, dict.fromkeys(names[:number], each)) for _ in asked]
            once = sum(central) / len(central)
            rows.append(
                Row.over(
                    [1000 * run.seconds for run in asked], series="sites", at=number, ceiling=1000 * once, epsilon=1.0
                )
            )
    notes = (
        "Not private stands for the same count in one process over as many rows, without a coordinator between.",
        "In the paper sites lie on four continents and read their rows through REDCap; here all processes share one "
        "machine, rows lie in Parquet files, and the network is its loopback. So what grows with the sites here is "
        "what one machine must do for all of them, and no distance is in it.",
        "The paper's bars have no numbers, so none are printed here. It counts exactly; here every site adds noise.",
    )
    return Found(rows=rows, data=f"{held}, {EACH:,} of them at every site", made_up=held.made_up, notes=notes)


def _central(dataset: str, schema: dict[str, Any], rows: dict[str, Any]) -> float:
    """Seconds to count in this process."""
    import pandas as pd

    whole = pd.concat(rows.values(), ignore_index=True)
    began = time.perf_counter()
    thebes.simulate({**COUNT, "dataset": dataset}, {"all": whole}, schema=schema, seed=0)
    return time.perf_counter() - began


EXPERIMENT = Experiment(
    name="leap-5-3",
    paper=PAPER,
    place="figure 5.3",
    shows="How long a count over sites takes, all of which are asked at once.",
    measure="milliseconds until whoever asked has the count",
    across="sites",
    find=find,
    unit="row",
    seeds=1,
    quick_seeds=1,
    headline=Headline(drawn=("*",), differs=1),
)
