"""Twenty thousand overlapping counts: where a guess at the rows pays, and against what it does not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row
from papers.smartcache import PAPER

QUERIES, QUICK_QUERIES = 20_000, 400
POINTS = (100, 200, 400, 800, 2000, 4000, 8000, 12_000, 16_000, 20_000)


def find(quick: bool, seeds: Sequence[int]) -> Found:
    from papers.smartcache.asking import EXACT, GAUSSIAN, PMW, SMART
    from papers.smartcache.overlapping import POOL, long_trail
    from papers.smartcache.tables import about, table

    queries = QUICK_QUERIES if quick else QUERIES
    names = ("avocado",) if quick else ("avocado", "bank")
    rows: list[Row] = []
    for name in names:
        for strategy in (EXACT, PMW, SMART, GAUSSIAN, PMW.in_rho(), SMART.in_rho()):
            trails = [long_trail(name, strategy, queries, seed) for seed in seeds]
            for at in (at for at in POINTS if at <= queries):
                paid = [one.paid[at - 1] for one in trails]
                where = {"series": strategy.name, "at": float(at), "panel": name}
                rows.append(Row.over(paid, epsilon=float(np.mean(paid)), **where))
            missed = [one.missed for one in trails]
            rows.append(Row.over(missed, series=strategy.name, panel=f"{name}, share off by more than allowed"))
    told = [table(name) for name in names]
    notes = (
        f"Counts by any values of four or five columns, drawn from {POOL:,}; nearly all overlap, so what was released "
        "about some says much about others. Accuracy as in figure 10.1.",
        "Epsilons add up, but for Gaussian noise (read at delta 1e-6). An opening of a sparse vector is known to be "
        "epsilon-DP only, which is dear in rho: there a synopsis has to be right hundreds of times for each opening.",
    )
    return Found(rows=rows, data="; ".join(map(about, told)), made_up=any(one.made_up for one in told), notes=notes)


EXPERIMENT = Experiment(
    name="smartcache-long",
    paper=PAPER,
    place="beyond: 20,000 overlapping counts (Turbo)",
    shows="Over thousands of overlapping questions a checked guess costs a fraction of reusing exact answers.",
    measure="epsilon that one row has paid",
    across="questions asked",
    find=find,
    unit="row",
    seeds=1,
    quick_seeds=1,
    better="less",
    blind=0.3,
    headline=Headline(drawn=("avocado", "bank"), differs=1),
)
