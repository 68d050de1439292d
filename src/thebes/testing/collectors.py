"""For authors of collectors: a home without a process, and one run of a collector into it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thebes.collectors.declaration import Collector, checked
from thebes.collectors.options import read_options
from thebes.collectors.run import run
from thebes.collectors.session import Outcome
from thebes.data.store import Store
from thebes.data.store.delivery import Overtaken
from thebes.privacy.faults import Mistake
from thebes.wire.refusals import Conflict, NotFound


class HomeOnDisk:
    """A person's store behind the three things a collector says to it, with the errors that travel over HTTP."""

    def __init__(self, folder: str | Path) -> None:
        self.store = Store.open(folder, key=bytes(32))

    def register(self, app: str, tables: Mapping[str, Any]) -> int:
        return self.store.register(app, tables)

    def deliver(self, app: str, delivery: Mapping[str, Any]) -> dict[str, int]:
        try:
            return self.store.deliver(app, delivery)
        except Overtaken as error:
            raise Conflict(str(error)) from None

    def progress(self, app: str) -> dict[str, Any]:
        try:
            return self.store.progress(app)
        except Mistake as error:
            raise NotFound(error.message) from None

    def collect(self, collector: Collector, *arguments: str, app: str | None = None) -> Outcome:
        """One run, with options as they stand on a command line: `home.collect(Steps(), "--file", "steps.csv")`."""
        options = read_options(checked(collector).options, arguments)
        return run(collector, self, app=app or collector.name, options=options)

    def rows(self, app: str, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table in the order of insertion."""
        return list(self.store.export()["collectors"][app]["tables"][table]["rows"])

    def close(self) -> None:
        self.store.close()
