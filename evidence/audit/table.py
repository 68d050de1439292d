"""The rows of all mechanisms and of every kind as one table with one error probability, on as many processes as there
are cores."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from itertools import repeat

from evidence.audit import (
    broken,
    central,
    drawn,
    growing,
    guessing,
    learning,
    local,
    made_up,
    mixing,
    share_transcripts,
    splitting,
    synthesis,
    validating,
)
from thebes.tasks import registry
from thebes.tasks.audit.case import Audited, Case
from thebes.testing.audit import LEVEL, Finding, examine


@lru_cache(maxsize=1)
def cases() -> tuple[Case, ...]:
    """Every row, the honest ones first."""
    failing = (validating, growing, synthesis, guessing, made_up, mixing, share_transcripts, splitting)
    made: list[Case] = [case for room in (central, local, learning, *failing, drawn) for case in room.cases()]
    made += broken.cases()
    made += [case for room in failing for case in room.broken()]
    made += [case for type_ in registry.types() for case in registry.audit(type_)]
    return tuple(sorted([*made, *drawn.halved(made)], key=lambda case: case.positive_control))


def everything(*, effort: float = 1.0) -> list[Finding]:
    """Attack every case, in the table's order. Draws come from the operating system, so processes never share any."""
    kinds = list(registry.packages().values())
    spawn = multiprocessing.get_context("spawn")
    # A plain pool would start processes for ever that cannot learn of a kind; this one says so.
    with ProcessPoolExecutor(os.cpu_count(), mp_context=spawn, initializer=_know, initargs=(kinds,)) as pool:
        return list(pool.map(_examined, range(len(cases())), repeat(effort)))


def _know(kinds: list[str]) -> None:
    """Give a new process the kinds of the one that started it."""
    for package in kinds:
        registry.register(package)


def _examined(index: int, effort: float) -> Finding:
    return examine(cases()[index], level=LEVEL / sum(isinstance(case, Audited) for case in cases()), effort=effort)
