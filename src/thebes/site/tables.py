"""The rows of a site's data sets, opened for whoever reads them.

What must stay true: one task sees the same rows in all its phases; no two threads read with one connection.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thebes.data.join import join
from thebes.data.table import Table
from thebes.privacy.faults import Mistake
from thebes.site.dataset import DataSet
from thebes.site.home import SiteHome
from thebes.site.streams import Streams

if TYPE_CHECKING:
    from thebes.data.engines.table import EngineTable
    from thebes.data.growing.reader import GrownTable


class Tables:
    """Opened data sets of one home, for each thread those that it opened itself. What does not fit into memory is put
    into HOME/scratch, which is emptied first: a process that was killed left it behind."""

    def __init__(self, home: SiteHome, streams: Streams | None = None) -> None:
        self._home, self._streams, self._here = home, streams, threading.local()
        self._made: list[ThreadTables] = []
        shutil.rmtree(_scratch(home), ignore_errors=True)

    def __call__(self, dataset: DataSet, task: str) -> Table:
        return self._own.table(dataset, task)

    def grown(self, dataset: DataSet, task: str, blocks: Sequence[str]) -> Table:
        """The rows of some blocks of a growing data set, opened once for a task."""
        return self._own.grown(dataset, task, blocks)

    def unread(self, name: str) -> dict[str, dict[str, int]]:
        """Count the pictures that the last task could not read of a data set: for its steward and for nobody else."""
        found = [told for own in list(self._made) if (told := own.unread(name))]
        return found[-1] if found else {}

    @property
    def _own(self) -> ThreadTables:
        if not hasattr(self._here, "tables"):
            self._here.tables = ThreadTables(self._home, self._streams)
            self._made.append(self._here.tables)
        own: ThreadTables = self._here.tables
        return own


class ThreadTables:
    """Data sets that one thread has opened, each kept until its declaration changes. One task sees the same rows in all
    its phases; the next one those that there are then."""

    def __init__(self, home: SiteHome, streams: Streams | None) -> None:
        self._folder, self._scratch, self._streams = home.datasets, _scratch(home), streams
        self._open: dict[str, tuple[DataSet, EngineTable]] = {}
        self._grown: dict[str, tuple[DataSet, str, dict[tuple[str, ...], GrownTable]]] = {}
        self._readers: dict[str, str] = {}  #: which task each was last opened for

    def table(self, dataset: DataSet, task: str) -> Table:
        known, again = self._open.get(dataset.name), self._readers.get(dataset.name) == task
        if known is not None and known[0] is dataset and (again or not _as_opened(dataset)):
            if not again:
                known[1].forget()
                self._readers[dataset.name] = task
            return known[1]
        if known is not None:
            del self._open[dataset.name]
            known[1].close()
        made = self._made(dataset)
        self._open[dataset.name], self._readers[dataset.name] = (dataset, made), task
        return made

    def unread(self, name: str) -> dict[str, dict[str, int]]:
        """Count the pictures that could not be read of a data set, by column and reason."""
        known = self._open.get(name)
        return {} if known is None else known[1].unread

    def _made(self, dataset: DataSet) -> EngineTable:
        from thebes.data.engines.source import joined_table, table_of

        if not dataset.joined:
            return table_of(dataset.schema, dataset.source, folder=self._folder, scratch=self._scratch)
        one, other = dataset.joined
        joined = join((one.name, one.schema), (other.name, other.schema))
        return joined_table(joined, (one.source, other.source), folder=self._folder, scratch=self._scratch)

    def grown(self, dataset: DataSet, task: str, blocks: Sequence[str]) -> Table:
        """The rows of some blocks of a growing data set, opened once for a task."""
        if self._streams is None:
            raise Mistake("NAME", "does not grow")
        known = self._grown.get(dataset.name)
        if known is None or known[0] is not dataset or known[1] != task:
            for table in () if known is None else known[2].values():
                table.close()
            known = self._grown[dataset.name] = dataset, task, {}
        opened = known[2]
        if tuple(blocks) not in opened:
            opened[tuple(blocks)] = self._streams(dataset).rows(blocks)
        return opened[tuple(blocks)]


def _as_opened(dataset: DataSet) -> bool:
    from thebes.data.connectors.registry import as_opened

    return any(as_opened(each.source) for each in dataset.joined or (dataset,))


def _scratch(home: SiteHome) -> Path:
    return home.folder / "scratch"
