"""Opening a file of SQLite that only its owner may read, and that forgets what is deleted."""

from __future__ import annotations

import sqlite3
from pathlib import Path


def opened(path: Path, tables: str, *, patience: float = 5.0, foreign_keys: bool = False) -> sqlite3.Connection:
    """With these tables, made where they are not there yet. What is written is on disk before a transaction ends; who
    finds it locked waits for `patience` seconds. For whoever guards it against several threads."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=patience)
    keys = ("foreign_keys=ON",) if foreign_keys else ()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", *keys, "secure_delete=ON"):
        db.execute(f"PRAGMA {pragma}")
    path.chmod(0o600)
    db.executescript(tables)
    return db
