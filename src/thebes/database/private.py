"""Opening a file of SQLite that only its owner may read, and that forgets what is deleted."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from thebes.database import version_mark
from thebes.database.transaction import whole


def opened(
    path: Path,
    tables: str,
    *,
    later: Sequence[tuple[str, str, str]] = (),
    patience: float = 5.0,
    foreign_keys: bool = False,
) -> sqlite3.Connection:
    """With these tables, made where they are not there yet; a `NewerTables` if a newer Thebes wrote it. What is written
    is on disk before a transaction ends; who finds it locked waits for `patience` seconds. For whoever guards it
    against several threads. `later` are columns (table, name, declaration) that a table has now and had not when it was
    first made: an older file gets them, as its last ones."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=patience)
    try:
        version_mark.check(db.execute, path.name)
        keys = ("foreign_keys=ON",) if foreign_keys else ()
        for pragma in ("journal_mode=WAL", "synchronous=FULL", *keys, "secure_delete=ON"):
            db.execute(f"PRAGMA {pragma}")
        path.chmod(0o600)
        db.executescript(tables)
        if any(_lacks(db, table, name) for table, name, _ in later):
            whole(db, lambda: _add(db, later))
        version_mark.mark(db.execute)
    except BaseException:
        db.close()
        raise
    return db


def _add(db: sqlite3.Connection, later: Sequence[tuple[str, str, str]]) -> None:
    for table, name, declaration in later:
        if _lacks(db, table, name):  # nobody else added it meanwhile
            db.execute(f"ALTER TABLE {table} ADD COLUMN {name} {declaration}")


def _lacks(db: sqlite3.Connection, table: str, column: str) -> bool:
    return column not in {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
