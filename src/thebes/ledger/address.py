"""From an address to a store. Each kind of store is imported only when an address asks for it."""

from __future__ import annotations

from pathlib import Path

from thebes.ledger.store import LedgerStore
from thebes.privacy.faults import Mistake

_FORMS = "memory://, sqlite:///FILE or postgresql://..."


def open_store(where: str, *, create: bool = True) -> LedgerStore:
    """The store at an address; a Mistake when the address cannot be one, or nothing is there and `create` is False."""
    if where == "memory://":
        from thebes.ledger.memory import MemoryStore

        return MemoryStore()
    if where.startswith("sqlite:///"):
        name = where.removeprefix("sqlite:///")
        if not name or "?" in name or name == ":memory:":
            raise Mistake("ledger", "needs a file after sqlite:///; for a ledger in memory say memory://")
        from thebes.ledger.sqlite import SqliteStore

        return SqliteStore(Path(name), create=create)
    if where.startswith(("postgresql://", "postgresql+psycopg://", "postgres://")):
        from thebes.ledger.postgres import PostgresStore

        return PostgresStore(where, create=create)
    raise Mistake("ledger", f"must be an address: {_FORMS}")
