"""The version mark of a small database: the file itself tells which Thebes wrote it.

What must stay true: what a newer one wrote is left alone, byte for byte. A table or a column more is made where it is
missing, which needs no new number; a change that an older Thebes would stumble over does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thebes.privacy.faults import Refusal

NEWEST = 1  #: of all of them together; 0 is what was written before there were numbers, and needs no change


class NewerTables(Refusal):
    """A file of this home was written by a newer Thebes, which alone opens it."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name} was written by a newer version of Thebes; install that one, this one leaves it alone")


def check(execute: Callable[[str], Any], name: str) -> None:
    """Refuse a file that a newer Thebes wrote, before anything of it is changed. `execute` asks the database."""
    if _of(execute) > NEWEST:
        raise NewerTables(name)


def mark(execute: Callable[[str], Any]) -> None:
    """Say that its tables are those of this version."""
    if _of(execute) != NEWEST:
        execute(f"PRAGMA user_version = {NEWEST}")


def _of(execute: Callable[[str], Any]) -> int:
    return int(execute("PRAGMA user_version").fetchone()[0])
