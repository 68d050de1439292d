"""A site's caches of released answers, one for each data set: HOME/cache/NAME.db."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from thebes.curator.cache.forecast import Forecast, forecast
from thebes.curator.cache.planner import Planner
from thebes.curator.cache.store import CacheStore
from thebes.curator.cache.synopsis import Sizes, Synopsis, View
from thebes.curator.cache.synopsis_kinds import SYNOPSES, synopsis_of
from thebes.data.growing.block_rule import USER
from thebes.privacy.faults import Mistake
from thebes.site.dataset import DataSet
from thebes.site.home import SiteHome

if TYPE_CHECKING:
    from thebes.curator.streams.stream import Stream

FOLDER = "cache"
_ALIKE = ("columns", "bins")  #: parameters that every kind of synopsis has


def path_of(home: SiteHome, name: str) -> Path:
    """Return where a data set's cache lies."""
    return home.folder / FOLDER / f"{name}.db"


def came_back(folder: Path) -> None:
    """A home was restored from a copy: in that an opening of a sparse vector may be open that was closed since, and
    what was just being bought may have been drawn. The one is ended, the other paid anew."""
    for path in sorted((folder / FOLDER).glob("*.db")):
        store = CacheStore(path)
        with store.alone():
            store.came_back()
        store.close()


class Caches:
    """Those of one home, each used until its declaration changes. `streams` knows what was bought of blocks of
    data sets that grow; `clock` is seconds since 1970."""

    def __init__(
        self, home: SiteHome, *, streams: Callable[[DataSet], Stream] | None = None, clock: Callable[[], float] = time
    ) -> None:
        self._home, self._streams, self._clock, self._lock = home, streams, clock, threading.Lock()
        self._open: dict[tuple[str, bool], tuple[DataSet, Planner]] = {}
        self._former: list[Planner] = []

    def __call__(self, dataset: DataSet, *, reading: bool = False) -> Planner | None:
        """The planner of a data set; None where nothing is used again. Rows of a user's block may still change after
        an answer, so none is given again there."""
        if dataset.cache.kind == "none" or (dataset.blocks is not None and dataset.blocks.by.kind == USER):
            return None
        with self._lock:
            known = self._open.get((dataset.name, reading))
            if known is None or known[0] is not dataset:
                if known is not None:
                    self._former.append(known[1])  # somebody may just be answered from it
                known = self._open[dataset.name, reading] = dataset, self._made(dataset, reading)
            return known[1]

    def known(self, dataset: DataSet) -> Planner | None:
        """One to look at, where anything was ever asked: looking makes no file, and waits for no answer."""
        return self(dataset, reading=True) if path_of(self._home, dataset.name).exists() else None

    def looking(self, dataset: DataSet) -> Planner | None:
        """One that says what an answer would cost, as far as is written: it waits for no answer."""
        return self.known(dataset) or self(dataset)

    def forecasts(self, dataset: DataSet) -> dict[str, Forecast | None]:
        """Tell how each kind of synopsis would have done over the questions so far: the declared one by its parameters,
        the others about the same columns. None where too little was asked to tell."""
        planner, cache = self.known(dataset), dataset.cache
        alike = {name: cache.more[name] for name in _ALIKE if name in cache.more}
        if planner is None:
            return dict.fromkeys(SYNOPSES)
        told = {kind: cache.more if kind == cache.kind else alike for kind in SYNOPSES}
        return {kind: self._forecast(dataset, planner, kind, more) for kind, more in told.items()}

    def _forecast(self, dataset: DataSet, planner: Planner, kind: str, more: Mapping[str, Any]) -> Forecast | None:
        budget = dataset.budget

        def made() -> Synopsis:
            synopsis = synopsis_of(kind, dataset.schema, more, filter=budget.filter)
            assert synopsis is not None  # noqa: S101
            return synopsis

        try:
            return forecast(planner.store, dataset.schema, made, filter=budget.filter)
        except Mistake:
            return None  # no synopsis can be made of these columns

    def close(self) -> None:
        with self._lock:
            for planner in (*self._former, *(planner for _, planner in self._open.values())):
                planner.store.close()
            self._former.clear()
            self._open.clear()

    def _sizes(self, dataset: DataSet) -> Sizes | None:
        streams = self._streams
        if dataset.blocks is None or streams is None:
            return None

        def told(blocks: View) -> Mapping[str, float]:
            return streams(dataset).sizes(blocks)

        return told

    def _made(self, dataset: DataSet, reading: bool) -> Planner:
        budget, cache = dataset.budget, dataset.cache
        return Planner(
            dataset.schema,
            CacheStore(path_of(self._home, dataset.name), clock=self._clock, reading=reading),
            filter=budget.filter,
            fresh_for=cache.fresh_for,
            synopsis=synopsis_of(
                cache.kind,
                dataset.schema,
                cache.more,
                filter=budget.filter,
                sizes=self._sizes(dataset),
            ),
            rows=json.dumps(dict(dataset.source), sort_keys=True, default=str),
        )
