"""A requestor's SQL while it runs: `f` and a featurizer, read and run over a store in its sandbox; `1` to `9` and SQL
of so many columns that reaches the sandbox though nobody read it; `w` and the condition of a query, over the same rows
in memory and in DuckDB, which must agree.

What must stay true: a table that may not be read is not, whatever the SQL says.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache

import duckdb
import narwhals.stable.v2 as nw
import pandas as pd

from evidence.fuzz.kept import OPEN, folder
from evidence.fuzz.targets.queries import SCHEMA
from thebes.data.connectors.registry import open_connector
from thebes.data.engines.arithmetic import holds
from thebes.data.engines.duck import DuckEngine
from thebes.data.engines.engine import Engine
from thebes.data.engines.frames import FrameEngine
from thebes.data.featurizer import Featurizer
from thebes.data.filter import leaves, read_filter
from thebes.data.sandbox.process import Failed
from thebes.data.store import Store
from thebes.data.store.view import StoreView
from thebes.privacy.faults import Mistake

SECRET = "the-word-nobody-may-read"
READABLE = {"profile.demographics": ["id", "age", "name", "born"], "health.walk": ["id", "day", "steps"]}
MOST_ROWS = 50
_TYPES = {"id": "integer", "age": "float", "name": "string", "born": "timestamp", "day": "timestamp", "steps": "float"}


class _Looking:
    """A view that is opened anew once its process had to be killed."""

    def __init__(self) -> None:
        self._store = OPEN.enter_context(Store.open(folder() / "home", key=b"k" * 32))
        for full, columns in READABLE.items():
            collector, _, table = full.partition(".")
            declared = {table: {"columns": {c: {"type": _TYPES[c]} for c in columns}}}
            if collector == "profile":
                declared["secrets"] = {"columns": {"word": {"type": "string"}}}
            self._store.register(collector, {"tables": declared})
            self._store.insert(collector, table, [{c: _value(c, n) for c in columns} for n in range(40)])
        self._store.insert("profile", "secrets", [{"word": SECRET}])
        self._views = OPEN.enter_context(ExitStack())
        self._view: StoreView | None = None

    @property
    def view(self) -> StoreView:
        if self._view is None or self._view.sandbox._lost:
            self._views.close()
            self._view = self._views.enter_context(self._store.view())
        return self._view


def _value(column: str, number: int) -> object:
    if _TYPES[column] == "timestamp":
        return f"2026-0{1 + number % 9}-1{number % 10} 12:00:00"
    if column == "name":
        return f"name {number % 7}"
    return None if number % 11 == 5 else number / 4 if _TYPES[column] == "float" else number


@cache
def _looking() -> _Looking:
    return _Looking()


@cache
def _engines() -> dict[str, Engine]:
    rows = pd.DataFrame(
        {
            "age": [None if n % 9 == 4 else n for n in range(80)],
            "weight": [None if n % 7 == 3 else n * 1.5 for n in range(80)],
            "sex": ["female" if n % 2 else "male" for n in range(80)],
            "smoker": [None if n % 5 == 2 else n % 3 == 0 for n in range(80)],
            "admitted": [f"2026-01-{1 + n % 28:02d}T09:30:00" for n in range(80)],
            "n": list(range(80)),
        },
        dtype=object,
    )
    place = folder()
    with duckdb.connect(str(place / "rows.duckdb")) as there:
        native = "age BIGINT, weight DOUBLE, sex TEXT, smoker BOOLEAN, admitted TIMESTAMP, n BIGINT"
        there.execute(f"CREATE TABLE rows ({native})")
        there.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", rows.values.tolist())
    connector = open_connector({"kind": "duckdb", "path": "rows.duckdb", "table": "rows"}, folder=place)
    duck = DuckEngine(SCHEMA, connector, scratch=place / "scratch", threads=1, memory="64MiB")
    OPEN.callback(duck.close)
    return {"memory": FrameEngine(SCHEMA, rows), "DuckDB": duck}


def one(data: bytes) -> None:
    door, text = data[:1], data[1:].decode("utf-8", errors="surrogateescape")  # JSON can hold half a character, too
    if door == b"w":
        _selected(text)
    elif door == b"f":
        _seen(text, _looking().view.preview(text, most_rows=MOST_ROWS))
    elif door.isdigit() and door != b"0":
        outputs, text = tuple(f"c{place}" for place in range(int(door))), data[1:].decode("utf-8", errors="replace")
        found = _looking().view.sandbox.run(Featurizer(text, {}, outputs, False), READABLE, most_rows=MOST_ROWS)
        if isinstance(found, Failed):
            raise Mistake("featurizer", found.reason)
        _seen(text, found)
    else:
        raise Mistake("data", "begins with no letter that is known here")


def _seen(text: str, rows: object) -> None:
    assert SECRET not in str(rows) or SECRET in text, "a table was read that may not be"


def _selected(text: str) -> None:
    found = read_filter(text, SCHEMA)
    columns = sorted({"sex", *(leaf.column for leaf in leaves(found.condition))})
    told = {}
    for name, engine in _engines().items():
        frame = engine.rows(columns, None).filter(holds(found.condition, "sex"))
        told[name] = sorted(map(str, engine.collected(frame.select(nw.col("sex"))).values.tolist()))
    assert told["memory"] == told["DuckDB"], "two engines select other rows"
