"""Walls around a stranger's SQL: what is taken from a connection and from its process before that SQL is seen. No layer
is enough alone.

One opcode cannot be interrupted, so lengths are limited; lengths do not bound loops, so steps are watched; neither
bounds memory, so the heap is; and whatever all of them miss ends with the process.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping

import apsw

from thebes import machine
from thebes.confinement import measures

QUERY_SECONDS = 1.8  #: after which a query is interrupted
KILL_SECONDS = 2.2  #: after which its process is killed
HEAP_BYTES = 32 * 2**20  #: what SQLite may hold
ADDRESS_BYTES = 96 * 2**20  #: what the process may map beyond what it has when it starts
MOST_BYTES = 2 * 2**20  #: of text and numbers in one answer
STEPS = 1000  #: instructions of SQLite's machine between two looks at the clock

_LIMITS = {
    apsw.SQLITE_LIMIT_LENGTH: 1_000_000,
    apsw.SQLITE_LIMIT_SQL_LENGTH: 100_000,  # bytes: the featurizer's 20,000 characters in any script
    apsw.SQLITE_LIMIT_COLUMN: 250,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 200,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    apsw.SQLITE_LIMIT_VDBE_OP: 25_000,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 20,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    apsw.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_SWITCHES = {
    apsw.SQLITE_DBCONFIG_DEFENSIVE: 1,
    apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_VIEW: 0,
    # An unknown column in double quotes is an error, not a text.
    apsw.SQLITE_DBCONFIG_DQS_DML: 0,
    apsw.SQLITE_DBCONFIG_DQS_DDL: 0,
}
# Atomic and possessive: comments are tried in one way only, or their number would decide how long this takes.
_FIRST = re.compile(r"(?:\s|--[^\n]*\n|/\*(?>.*?\*/))*+(?:SELECT|WITH|VALUES)\b", re.IGNORECASE | re.ASCII | re.DOTALL)
# Beginnings of names that SQLite gives to tables which exist only once they are asked for.
_NEVER = ("sqlite_", "pragma_", "thebes_", "json", "fts", "generate_series")


def begins_a_query(sql: str) -> bool:
    """EXPLAIN and REINDEX pass an authorizer; they do not pass this."""
    return _FIRST.match(sql) is not None


def before_opening() -> None:
    """Limits of the process that opening databases can live with: memory, files written, new processes."""
    apsw.hard_heap_limit(HEAP_BYTES)
    measures.limit(memory=measures.mapped() + ADDRESS_BYTES, writing=0, processes=0, core=0)


def after_opening(connection: apsw.Connection) -> list[str]:
    """Nothing more can be opened: no file, no socket, no database, no extension.

    Returns those of `measures.MEASURES` that only some systems grant and this one did: additional walls, not the wall.
    """
    for limit, value in _LIMITS.items():
        connection.limit(limit, value)
    for switch, on in _SWITCHES.items():
        connection.config(switch, on)
    connection.pragma("query_only", True)
    granted = measures.cut_off()
    measures.limit(files=0)
    return sorted(granted)


def taken_names(connection: apsw.Connection) -> frozenset[str]:
    """Every name that means a table without the query's doing: real ones of any database, and built-in modules."""
    found = {str(row[0]) for row in connection.execute("SELECT name FROM pragma_module_list")}
    for database in connection.db_names():
        schema = '"' + database.replace('"', '""') + '".sqlite_master'
        found |= {str(row[0]) for row in connection.execute(f"SELECT name FROM {schema}")}  # noqa: S608
    return frozenset(name.lower() for name in found)


def before_query() -> None:
    """Processor time for one query more, however long the process has lived."""
    _, most = machine.limits("CPU")
    machine.set_limits("CPU", int(time.process_time() + KILL_SECONDS) + 2, most)


Authorizer = Callable[[int, str | None, str | None, str | None, str | None], int]


def authorizer(tables: Mapping[str, Collection[str]], functions: Collection[str], taken: Collection[str]) -> Authorizer:
    """Allows to read the columns of `tables` ("collector.table") and to call `functions`; all in lower case.

    Where rows are only counted SQLite names no column, and no database for a name without one: such a name passes if it
    can only be one that the query gave to a part of itself, which it cannot where it is one of `taken`.
    """

    def decide(action: int, one: str | None, two: str | None, database: str | None, _: str | None) -> int:
        if action == apsw.SQLITE_SELECT:
            return apsw.SQLITE_OK
        if action == apsw.SQLITE_FUNCTION and (two or "").lower() in functions:
            return apsw.SQLITE_OK
        if action == apsw.SQLITE_READ:
            table, column = (one or "").lower(), (two or "").lower()
            if database is None:
                own = not column and table not in taken and not table.startswith(_NEVER)
                return apsw.SQLITE_OK if own else apsw.SQLITE_DENY
            columns = tables.get(f"{database.lower()}.{table}")
            if columns is not None and (not column or column in columns):
                return apsw.SQLITE_OK
        return apsw.SQLITE_DENY

    return decide
