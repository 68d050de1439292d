"""All rooms' cases as one table with one error probability, on as many processes as there are cores."""

from __future__ import annotations

import multiprocessing
import os
from functools import lru_cache

from evidence.audit import (
    broken,
    central,
    draw_discard,
    drawn,
    ensemble,
    growing,
    guessing,
    learning,
    local,
    made_up,
    people,
    query,
    sites,
    synthesis,
    validating,
)
from thebes.testing.audit import LEVEL, Audited, Case, Finding, examine


@lru_cache(maxsize=1)
def cases() -> tuple[Case, ...]:
    """Every case of every room."""
    counted = (central, local, learning, ensemble, draw_discard, sites, query, validating)
    honest = (*counted, people, growing, synthesis, guessing, made_up, drawn)
    made = [case for room in honest for case in room.cases()]
    failing = (people, ensemble, draw_discard, sites, query, validating, growing, synthesis, guessing, made_up, drawn)
    return (*made, *broken.cases(), *(case for room in failing for case in room.broken()))


def everything(*, effort: float = 1.0) -> list[Finding]:
    """Attack every case, in the table's order. Draws come from the operating system, so processes never share any."""
    jobs = [(index, effort) for index in range(len(cases()))]
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        return pool.starmap(_examined, jobs, chunksize=1)


def _examined(index: int, effort: float) -> Finding:
    return examine(cases()[index], level=LEVEL / sum(isinstance(case, Audited) for case in cases()), effort=effort)
