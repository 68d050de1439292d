"""The cells that are measured, on as many processes as there are cores."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Collection, Iterator, Sequence

from evidence.bars.asked import everything
from evidence.bars.measured import EPSILONS, BarCell, measured
from evidence.bars.results import written_with

#: a statistic in one way, a law, so many rows, an epsilon, so many draws
Job = tuple[str, str, int, float, int]


def jobs(names: set[str], way: str, draws: int) -> Iterator[Job]:
    """List the cells of these statistics, of ways that begin so."""
    for each in everything():
        if each.statistic in names and each.way.startswith(way):
            for law in each.laws:
                for n in each.rows:
                    for epsilon in EPSILONS:
                        yield each.name, law, n, epsilon, draws


def without(wanted: Collection[Job], known: Collection[BarCell]) -> list[Job]:
    """Leave out the cells that are known by at least as many draws."""
    drawn = {(f"{cell.statistic}, {cell.way}", cell.law, cell.n, cell.epsilon): cell.draws for cell in known}
    return [job for job in wanted if drawn.get(job[:4], 0) < job[4]]


def run(wanted: Sequence[Job]) -> Iterator[BarCell]:
    """Measure them, the quickest first, and keep each at once, so that a run that was cut short goes on with
    `--resume`; seeds are fixed, so that what comes out does not depend on who measures which."""
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for cell in pool.imap_unordered(measure, sorted(wanted, key=lambda job: job[2] * job[4])):
            written_with([cell])
            yield cell


def measure(job: Job) -> BarCell:
    """Measure one of them."""
    name, law, n, epsilon, draws = job
    (barred,) = (each for each in everything() if each.name == name)
    return measured(barred, law, n, epsilon, draws)
