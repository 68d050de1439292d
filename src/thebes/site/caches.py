"""A site's caches of released answers, one for each data set: HOME/cache/NAME.db."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from time import time

from thebes.curator.cache.planner import Planner
from thebes.curator.cache.store import Store
from thebes.curator.cache.synopses import synopsis_of
from thebes.data.growing.blocking import USER
from thebes.site.dataset import DataSet
from thebes.site.home import Home

FOLDER = "cache"


def path_of(home: Home, name: str) -> Path:
    """Where a data set's cache lies."""
    return home.folder / FOLDER / f"{name}.db"


class Caches:
    """Those of one home, each kept open until its declaration changes. `clock` is seconds since 1970."""

    def __init__(self, home: Home, *, clock: Callable[[], float] = time) -> None:
        self._home, self._clock, self._lock = home, clock, threading.Lock()
        self._open: dict[str, tuple[DataSet, Planner]] = {}

    def __call__(self, dataset: DataSet) -> Planner | None:
        """The planner of a data set; None where nothing is used again. Rows of a user's block may still change after
        an answer, so none is given again there."""
        if dataset.cache.kind == "none" or (dataset.blocks is not None and dataset.blocks.by.kind == USER):
            return None
        with self._lock:
            known = self._open.get(dataset.name)
            if known is None or known[0] is not dataset:
                if known is not None:
                    known[1].store.close()
                known = self._open[dataset.name] = dataset, self._made(dataset)
            return known[1]

    def close(self) -> None:
        with self._lock:
            for _, planner in self._open.values():
                planner.store.close()
            self._open.clear()

    def _made(self, dataset: DataSet) -> Planner:
        budget, cache = dataset.budget, dataset.cache
        return Planner(
            dataset.schema,
            Store(path_of(self._home, dataset.name), clock=self._clock),
            filter=budget.filter,
            fresh_for=cache.fresh_for,
            synopsis=synopsis_of(cache.kind, dataset.schema, cache.more, filter=budget.filter, delta=budget.delta),
        )
