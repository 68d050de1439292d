"""The cost and the errors of 500 counts, histograms and sums: one run, which several figures show."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from papers.outcome import Row
from papers.smartcache.asking import STRATEGIES, Strategy, Trail, ask
from papers.smartcache.questions import ORDERS, workload
from papers.smartcache.tables import table

QUERIES, QUICK_QUERIES = 500, 100
POINTS = (1, 10, 25, 50, 100, 150, 200, 250, 300, 350, 400, 450, 500)
PAID, OFF = "epsilon paid", "mean error"
WORDS = {
    "uniform": "a pool of 200 questions",
    "zipf": "a pool of 200 questions, some asked much more often",
    "fresh": "every question made anew",
}
NOTES = (
    "Every answer shall lie within 5 % of the rows (all of a histogram's bins together), but for one in 1,000; the "
    "error is shown as a share of that. The requestor is taken to know about how many rows there are.",
    "Counts of one or two attributes (40 %), histograms of one (35 %), sums of a number (25 %). A histogram hides one "
    "row that comes or goes; nobody's number of rows is public, so sums of a range that does not begin at 0 cost more.",
    "Strategies are the planner and the synopses that sites use. Epsilons add up, but for Gaussian noise, which is "
    "paid in rho and read at delta 1e-6.",
    "smart with a number: as the thesis has it, every guess on which the parts agree is compared with the width in "
    "which noise lies with that probability; but that costs something each time. smart without one: the defaults, a "
    "sparse vector that is opened only once guesses have proved right often enough to pay for it.",
)


@lru_cache(maxsize=512)
def trail(name: str, order: str, strategy: Strategy, queries: int, seed: int) -> Trail:
    """One strategy's way through one workload."""
    return ask(table(name), workload(table(name), order, queries=queries, seed=seed), strategy, seed)


def rows(name: str, strategies: Sequence[Strategy], quick: bool, seeds: Sequence[int]) -> list[Row]:
    """Tell what was paid and how far answers were off, by questions asked."""
    queries = QUICK_QUERIES if quick else QUERIES
    points = [at for at in POINTS if at <= queries]
    found = []
    for what in (PAID, OFF):
        for order in ORDERS[:1] if quick else ORDERS:
            for strategy in strategies:
                trails = [trail(name, order, strategy, queries, seed) for seed in seeds]
                for at in points:
                    paid = [one.paid[at - 1] for one in trails]
                    off = [float(np.mean(one.errors[:at])) for one in trails]
                    where = {"series": strategy.name, "at": float(at), "panel": f"{what}, {WORDS[order]}"}
                    found.append(Row.over(paid if what == PAID else off, epsilon=float(np.mean(paid)), **where))
    return found


def shown() -> tuple[Strategy, ...]:
    """Those with a curve of their own."""
    return tuple(strategy for strategy in STRATEGIES if strategy.name != "Gaussian")
