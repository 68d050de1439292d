"""Answers that are given again, and guesses that are brought up to date: how many a second, how quickly, how large."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from papers.smartcache.asking import EXACT, Truth
from papers.smartcache.questions import workload
from papers.smartcache.tables import made_up
from thebes.curator.cache.cells import Cells
from thebes.curator.cache.planner import Planner
from thebes.curator.cache.pmw.guess import CellGuess
from thebes.curator.cache.store import CacheStore
from thebes.curator.cache.vectors import Vectors
from thebes.curator.questions.question import Question
from thebes.data.schema import schema_of
from thebes.privacy.randomness import system

GOAL_PER_SECOND, GOAL_MILLISECONDS = 1000, 20.0
QUESTIONS, AGAIN, TURNS = 100, 3000, 15
#: a million cells
WIDE = schema_of(
    {"unit": "event", "columns": {name: {"type": "integer", "low": 0, "high": 9} for name in "abcdef"}},
)
ASKED = {
    "count of one column": Question("count", where="a < 4"),
    "count of three": Question("count", where="a < 4 AND b = 2 AND c > 5"),
    "histogram": Question("histogram", ("d",), bins=10),
    "count of all six": Question("count", where="a < 4 AND b < 4 AND c < 4 AND d < 4 AND e < 4 AND f < 4"),
}


class _Unpaid:
    """A ledger of which nothing is measured here."""

    def pay(self, purchase: Any, number: int) -> None: ...

    def settle(self, paid: Any) -> None: ...


def run() -> dict[str, Any]:
    """Cached answers a second; milliseconds of a guess and of an update over a million cells; bytes of it."""
    return {"cached": _cached(), "million_cells": _cells()}


def _cached() -> dict[str, Any]:
    asked = made_up("avocado", 3000)
    truth = Truth(asked)
    plans = [truth.plan(question) for question in workload(asked, "fresh", queries=QUESTIONS, seed=0)]
    with tempfile.TemporaryDirectory() as folder:
        store = CacheStore(Path(folder) / "cache.db")
        planner = Planner(asked.schema, store)

        def answer(plan: Any) -> Any:
            wanted = EXACT.wanted(plan, asked)
            more: dict[str, Any] = {"reserve": lambda most: _Unpaid(), "randomness": system()}
            return planner.answer(plan, wanted, truth, **more)

        for plan in plans:
            answer(plan)
        started = time.perf_counter()
        for turn in range(AGAIN):
            answer(plans[turn % QUESTIONS])
        rate = AGAIN / (time.perf_counter() - started)
        store.close()
    return {"answers_per_second": round(rate), "goal": GOAL_PER_SECOND, "goal_met": rate >= GOAL_PER_SECOND}


def _cells() -> dict[str, Any]:
    cells = Cells.of(WIDE, missing=False)
    guess = CellGuess.uniform(cells, 20)
    report: dict[str, Any] = {"cells": cells.count, "goal_milliseconds": GOAL_MILLISECONDS}
    report["bytes"] = sum(array.nbytes for array in guess.arrays().values())
    slowest = 0.0
    for name, question in ASKED.items():
        vectors = _vectors(cells, question)
        strengths = np.full(vectors.size, 0.01)
        took = {
            "vectors": _milliseconds(partial(_vectors, cells, question)),
            "guess": _milliseconds(partial(guess.totals, vectors)),
            "update": _milliseconds(partial(guess.tilt, vectors, strengths)),
        }
        slowest = max(slowest, took["update"])
        report[name] = {what: round(each, 2) for what, each in took.items()}
    report["slowest_update"] = round(slowest, 2)
    report["goal_met"] = slowest <= GOAL_MILLISECONDS
    return report


def _vectors(cells: Cells, question: Question) -> Vectors:
    return cells.vectors(question.plan(WIDE, epsilon=1))


def _milliseconds(work: Callable[[], Any]) -> float:
    work()
    taken = []
    for _ in range(TURNS):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return min(taken) * 1e3  # the machine may have other work
