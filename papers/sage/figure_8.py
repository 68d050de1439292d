"""Sage, figure 8: how long a model waits until it is out, by how many come in an hour."""

from __future__ import annotations

from collections.abc import Sequence

from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row
from papers.sage import PAPER

RATES, QUICK_RATES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7), (0.1, 0.4, 0.7)
ROWS, LEAST, MOST = 16_000, 8_000, 800_000  #: of an hour of taxi rides; that a model needs
SHOWN = ("query composition", "streaming composition", "block, aggressive", "block, conserve")
NOTES = (
    "An hour brings 16,000 rows, as in the paper's taxi panel, in a block with epsilon 1. A model needs 8,000 to "
    "800,000 rows at epsilon 1 by a power law (the chance of more than x falls like 1/x); the paper does not print its "
    "own. Only the ratio of both counts, so a second panel for Criteo would be the same.",
    "At epsilon e a model needs .91 + .09 / e times as many rows, about what our validators need. Nothing is trained; "
    "who gets what is decided by the code that people run.",
    "Models that are not out when a run ends count with what they have waited, so bars of overloaded strategies are "
    "too low. Query composition noises every block and is given the root of their number, the least it could suffer.",
)


def find(quick: bool, seeds: Sequence[int]) -> Found:
    from papers.sage.workload import Load, run

    rates, hours = (QUICK_RATES, 24 * 7) if quick else (RATES, 24 * 14)
    rows = [
        Row.over(
            [run(Load(ROWS, rate, LEAST, MOST, hours), strategy, seed).hours for seed in seeds],
            series=strategy,
            at=rate,
            epsilon=1.0,
        )
        for strategy in SHOWN
        for rate in rates
    ]
    more = (
        "In the paper conserving budget is never worse and up to four times faster than taking all that is offered. "
        "Here it is much faster while few models wait. Where many wait, an even share of a block does not pay for the "
        "attempts that doubling makes, so that conserving within even shares starves; the same attempts ordered by DPF "
        "or DPack do not (sage-workload).",
    )
    return Found(rows=rows, data="none: pipelines and hours that are counted", notes=(*NOTES, *more))


EXPERIMENT = Experiment(
    name="sage-8",
    paper=PAPER,
    place="figure 8",
    shows="Which ways of composing and of spending release models soon as more of them come.",
    measure="mean hours until a model is released",
    across="models an hour",
    find=find,
    unit="row",
    seeds=5,
    better="less",
    headline=Headline(at=(0.1, 0.4, 0.7), drawn=("*",), differs=3),
)
