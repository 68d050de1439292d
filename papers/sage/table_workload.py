"""Sage's workload with successors beside it: even shares, DPF and DPack, by how long models wait and how many end."""

from __future__ import annotations

from collections.abc import Sequence

from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row
from papers.sage import PAPER
from papers.sage.figure_8 import LEAST, MOST, NOTES, ROWS

RATES, QUICK_RATES = (0.1, 0.3, 0.5, 0.7, 1.0), (0.1, 0.7)
HOURS, OUT = "mean hours until released", "share of the models released"


def find(quick: bool, seeds: Sequence[int]) -> Found:
    from papers.sage.workload import STRATEGIES, Load, run

    rates, hours = (QUICK_RATES, 24 * 7) if quick else (RATES, 24 * 14)
    rows: list[Row] = []
    for strategy in STRATEGIES:
        for rate in rates:
            found = [run(Load(ROWS, rate, LEAST, MOST, hours), strategy, seed) for seed in seeds]
            where = {"series": strategy, "at": rate, "epsilon": max(one.most_paid for one in found)}
            rows.append(Row.over([one.hours for one in found], panel=HOURS, **where))
            rows.append(Row.over([one.released / one.models for one in found], panel=OUT, **where))
    rows.sort(key=lambda row: row.panel)
    more = ("Epsilon is the most that any block paid; a block stands for 1 and no strategy can spend more.",)
    return Found(rows=rows, data="none: pipelines and hours that are counted", notes=(*NOTES, *more))


EXPERIMENT = Experiment(
    name="sage-workload",
    paper=PAPER,
    place="figure 8, with DPF and DPack beside it",
    shows="Attempts that conserve budget release models soonest where a scheduler orders them.",
    measure="what becomes of models that wait for data and budget",
    across="models an hour",
    find=find,
    unit="row",
    seeds=5,
    better={"hours": "less", "share": "more"},
    headline=Headline(panels=(HOURS,), at=(0.1, 0.3, 0.7, 1.0), drawn=("*",), differs=2),
)
