"""The store of a person's home as collectors fill it and its owner looks at it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thebes.data.store import Store
from thebes.data.store.delivery import Overtaken
from thebes.wire.refusals import Conflict


class HomeStore:
    """The part of a home that its store answers alone."""

    _store: Store

    def store(self) -> list[dict[str, Any]]:
        """Collectors, tables, columns, row counts."""
        return self._store.describe()

    def register(self, app: str, tables: Mapping[str, Any]) -> int:
        """Declare the tables a collector fills; the version of its schema."""
        return self._store.register(app, tables)

    def insert(self, app: str, table: str, rows: list[dict[str, Any]]) -> int:
        """Add rows; nothing is stored where one of them does not fit."""
        return self._store.insert(app, table, rows)

    def deliver(self, app: str, delivery: Mapping[str, Any]) -> dict[str, int]:
        """Take one part of what a run of a collector delivers; rows and state are stored as one with the last."""
        try:
            return self._store.deliver(app, delivery)
        except Overtaken as error:
            raise Conflict(str(error)) from None

    def progress(self, app: str) -> dict[str, Any]:
        """Tell how far a collector has come: its own state, and the number of its last delivery."""
        return self._store.progress(app)

    def newest(self, app: str, table: str, count: int = 20) -> list[dict[str, Any]]:
        """The latest rows of a table."""
        return self._store.newest(app, table, count)

    def glance(self, app: str, table: str) -> list[dict[str, Any]]:
        """Each column of a table at a glance: how many values, and a few bars that show their shape."""
        return self._store.glance(app, table)

    def remove(self, app: str, *, keep_data: bool) -> None:
        """Take a collector away; `keep_data` says whether its rows stay."""
        self._store.remove(app, keep_data=keep_data)
