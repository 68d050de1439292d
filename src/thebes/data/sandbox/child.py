"""The process in which a stranger's SQL meets a person's rows: forked by `child_server`, or, where the system forks
none, `python -m thebes.data.sandbox.child`.

It hears the key over a pipe, opens the databases read-only, gives up everything else, and answers queries
over one snapshot until its input closes. Of an error it says a class and words that hold no data.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any
from urllib.parse import quote

import apsw

from thebes.confinement.inside import hear, live, say
from thebes.data.sandbox import walls
from thebes.data.sandbox.pipe import HEAD, LARGEST_FRAME, READY, frame

# Positions in thebes.data.rows.FAILURES, which is not imported: it would bring numpy into every child.
MISSING_TABLE, MISSING_COLUMN, WRONG_TYPE, TOO_MUCH, OTHER = range(5)


def serve(source: int, sink: int) -> None:
    """Answers frames from the file descriptor `source` on `sink`."""
    walls.before_opening()
    _write(sink, READY)
    opening = _read(source)
    try:
        connection = apsw.Connection(":memory:", flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
        declared = _attach(connection, opening["key"], opening["databases"])
        taken = walls.taken_names(connection)
    except (apsw.Error, MemoryError):
        _write(sink, {"failed": OTHER, "reason": "the store could not be opened"})
        return
    del opening
    _write(sink, {"declared": declared, "confinement": walls.after_opening(connection)})
    while True:
        question = _read(source)
        _write(sink, _answer(connection, taken, **question))


def _attach(connection: apsw.Connection, key: str, databases: dict[str, str]) -> dict[str, str]:
    """One read transaction over all databases, which begins in each with reading what it declares."""
    connection.pragma("temp_store", 2)
    connection.pragma("cell_size_check", True)
    for name, path in databases.items():
        where = f"file:{quote(path)}?mode=ro&cipher=sqlcipher&kdf_iter=1&hexkey={key}"
        connection.execute("ATTACH ? AS ?", (where, name))
    connection.execute("BEGIN")
    declared = {}
    for name in databases:
        table = '"' + name.replace('"', '""') + '".thebes_schema'
        newest = f"SELECT declaration FROM {table} ORDER BY version DESC LIMIT 1"  # noqa: S608
        declared[name] = str(connection.execute(newest).get)
    return declared


def _answer(
    connection: apsw.Connection,
    taken: frozenset[str],
    *,
    sql: str,
    tables: dict[str, list[str]],
    functions: list[str],
    rows: int,
    width: int,
) -> dict[str, Any]:
    if not walls.begins_a_query(sql):
        return _failed(OTHER, "is not a SELECT")
    walls.before_query()
    end = time.monotonic() + walls.QUERY_SECONDS
    connection.authorizer = walls.authorizer(
        {table.lower(): {c.lower() for c in columns} for table, columns in tables.items()}, frozenset(functions), taken
    )
    connection.set_progress_handler(lambda: time.monotonic() > end, walls.STEPS)
    try:
        return _fetched(connection, sql, rows, width, end)
    except apsw.AuthError:
        return _failed(OTHER, "reads or calls something that a featurizer may not")
    except (apsw.TooBigError, apsw.InterruptError, apsw.NoMemError, apsw.FullError, MemoryError):
        return _failed(TOO_MUCH, "takes too long, or needs too much memory")
    except (apsw.MismatchError, UnicodeDecodeError):
        return _failed(WRONG_TYPE, "gives something that is neither a number nor text")
    except apsw.SQLError as error:
        return _prepared(str(error))
    except Exception:  # the words of what happened may hold data
        return _failed(OTHER, "fails")
    finally:
        connection.set_progress_handler(None)


def _fetched(connection: apsw.Connection, sql: str, rows: int, width: int, end: float) -> dict[str, Any]:
    found: list[list[Any]] = []
    size = 0
    with closing(connection.cursor()) as cursor:
        cursor.exec_trace = _one_reading_statement()
        for row in cursor.execute(sql):
            if len(row) != width:
                return _failed(OTHER, "does not give the columns it says")
            if any(isinstance(value, bytes) for value in row):
                return _failed(WRONG_TYPE, "gives something that is neither a number nor text")
            size += sum(len(value.encode()) if isinstance(value, str) else 8 for value in row)
            if size > walls.MOST_BYTES or time.monotonic() > end:
                return _failed(TOO_MUCH, "gives too much, or takes too long")
            # SQLite turns NaN into NULL already; an infinity is no measurement either.
            found.append([None if isinstance(v, float) and not math.isfinite(v) else v for v in row])
            if len(found) >= rows:
                break
    return {"rows": found}


def _one_reading_statement() -> Callable[[apsw.Cursor, str, object], bool]:
    """Looked at by the engine itself, after its own parser: a second statement, a plan or a write ends the query."""
    seen: list[str] = []

    def look(cursor: apsw.Cursor, statement: str, _: object) -> bool:
        seen.append(statement)
        return len(seen) == 1 and cursor.is_readonly and cursor.is_explain == 0

    return look


def _prepared(message: str) -> dict[str, Any]:
    """Errors of the statement itself. Only those that repeat words of the SQL are passed on."""
    for start, failure in (("no such table", MISSING_TABLE), ("no such column", MISSING_COLUMN)):
        if message.startswith(start):
            return _failed(failure, message)
    if message.startswith(
        (
            "no such function",
            "not authorized to use function",
            "ambiguous column name",
            "misuse of",
            "wrong number of arguments",
        )
    ):
        return _failed(OTHER, message)
    if "too many" in message or "too large" in message or "at most" in message:
        return _failed(TOO_MUCH, "is too large a statement")
    return _failed(OTHER, "fails")


def _failed(failure: int, reason: str) -> dict[str, Any]:
    return {"failed": failure, "reason": reason}


def _read(source: int) -> dict[str, Any]:
    (length,) = HEAD.unpack(hear(source, HEAD.size))
    if length > LARGEST_FRAME:
        raise SystemExit(1)
    return dict(json.loads(hear(source, length)))


def _write(sink: int, message: dict[str, Any]) -> None:
    say(sink, frame(message))


if __name__ == "__main__":
    live(serve)
