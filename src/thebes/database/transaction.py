"""One transaction of SQLite: all of some work, or none of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def whole(opened: sqlite3.Connection, work: Callable[[], T]) -> T:
    """Do `work`, and nobody sees half of it; whatever it raises, nothing was changed. The connection must not begin
    transactions by itself (`isolation_level=None`), and nobody else may use it meanwhile."""
    opened.execute("BEGIN IMMEDIATE")
    try:
        result = work()
    except BaseException:
        opened.execute("ROLLBACK")
        raise
    opened.execute("COMMIT")
    return result
