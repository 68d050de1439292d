"""A made-up person's data in a store, put there through the same two doors as a collector's."""

from __future__ import annotations

import secrets
from typing import Any, Protocol

from thebes.simulation.population import DECLARATIONS, Belongings, population

#: what the collector `profile` declares
TABLES = DECLARATIONS["profile"]


class Filled(Protocol):
    """The place where a collector's data go: a person's home, a store, or the REST interface of one."""

    def register(self, app: str, tables: Any, /) -> object: ...
    def insert(self, app: str, table: str, rows: Any, /) -> object: ...


class StoreOwner(Filled, Protocol):
    def store(self) -> list[dict[str, Any]]: ...


def give(home: Filled, belongings: Belongings) -> None:
    """Register every collector and insert its rows."""
    for app, sent in belongings.items():
        home.register(app, {"tables": sent["tables"]})
        for table, rows in sent["rows"].items():
            home.insert(app, table, rows)


def fill(person: StoreOwner, *, seed: int | None = None) -> None:
    """Make the owner of a home somebody made up; collectors that are there already are left as they are."""
    there = {str(collector["name"]) for collector in person.store()}
    somebody = population(1, secrets.randbits(62) if seed is None else seed)[0]
    give(person, {app: sent for app, sent in somebody.items() if app not in there})
