"""The cells that are measured, on as many processes as there are cores."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence

from evidence.bars.asked import everything
from evidence.bars.measured import EPSILONS, BarCell, measured

MANY = 100_000  #: rows, which take a while to read
#: a statistic in one way, a law, so many rows, an epsilon, so many draws
Job = tuple[str, str, int, float, int]


def jobs(names: set[str], way: str, draws: int) -> Iterator[Job]:
    """List the cells of these statistics, of ways that begin so; of 100,000 rows a quarter of the draws."""
    for each in everything():
        if each.statistic in names and each.way.startswith(way):
            for law in each.laws:
                for n in each.rows:
                    for epsilon in EPSILONS:
                        yield each.name, law, n, epsilon, draws if n < MANY else max(1, draws // 4)


def run(wanted: Sequence[Job]) -> list[BarCell]:
    """Measure them; seeds are fixed, so that what comes out does not depend on who measures which."""
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        return pool.map(measure, wanted, chunksize=1)


def measure(job: Job) -> BarCell:
    """Measure one of them."""
    name, law, n, epsilon, draws = job
    (barred,) = (each for each in everything() if each.name == name)
    return measured(barred, law, n, epsilon, draws)
