"""The engine of two data sets that are joined on whose a row is.

Of each at most its declared number of a person's rows is joined: the latest where its schema names a time, and
otherwise those that come first by a hash of who it is and what the row says. What must stay true: which rows of a
person these are follows from that person's rows alone, so that one person more or less changes no row of another.
Rows that are not told apart by it are alike in every column that is asked for, so either says the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import pandas as pd
from numpy.typing import NDArray

from thebes.data.connectors.connector import Connector
from thebes.data.connectors.scanned_source import quoted
from thebes.data.engines.duck import DuckEngine, DuckSession, statement_of
from thebes.data.engines.duck_columns import numbered_sql
from thebes.data.engines.engine import Divided
from thebes.data.engines.kept_table import KeptTable
from thebes.data.filter import RowFilter
from thebes.data.join import Join
from thebes.data.schema import Schema


class JoinedEngine:
    """The joined rows of two connectors, in one DuckDB connection. Used by one thread at a time."""

    def __init__(self, join: Join, connectors: Sequence[Connector], *, scratch: Path) -> None:
        self._join, self._connectors = join, connectors
        self._session = DuckSession(scratch)
        self._made: tuple[tuple[str, ...], str] | None = None
        try:
            self._sides = [
                DuckEngine(schema, connector, scratch=scratch, session=self._session)
                for schema, connector in zip(join.schemas, connectors, strict=True)
            ]
            self._session.shut(*connectors)
        except BaseException:
            self._session.close()
            raise

    def rows(self, columns: Sequence[str], where: RowFilter | None) -> nw.LazyFrame[Any]:
        made = ", ".join(quoted(name) for name in columns)
        return self._sides[0].lazy(f"SELECT {made} FROM {self._joined(tuple(columns))}")

    def few(self, columns: Sequence[str], where: RowFilter | None) -> Mapping[str, NDArray[Any]] | None:
        return self._sides[0].few_of(self._join.schema, columns, self._joined(tuple(columns)))

    def numbered(self, frame: nw.LazyFrame[Any], names: Collection[str]) -> nw.LazyFrame[Any]:
        return self._sides[0].lazy(numbered_sql(self._join.schema, statement_of(frame), names))

    def divided(self, frame: nw.LazyFrame[Any], owner: str, time: str | None, most: int) -> Divided:
        return self._sides[0].divided(frame, owner, time, most)

    def placed(self, frame: nw.LazyFrame[Any], by: Sequence[str], order: Sequence[str], name: str) -> nw.LazyFrame[Any]:
        return self._sides[0].placed(frame, by, order, name)

    def collected(self, frame: nw.LazyFrame[Any]) -> pd.DataFrame:
        return self._sides[0].collected(frame)

    def parts(self, rows: int) -> int:
        return self._sides[0].parts(rows)

    def computed(self, frame: nw.LazyFrame[Any]) -> KeptTable:
        return self._sides[0].computed(frame)

    def kept(self, frames: Iterable[nw.LazyFrame[Any]]) -> KeptTable:
        return self._sides[0].kept(frames)

    def forget(self) -> None:
        if self._made is not None:
            self._sides[0].run(f"DROP TABLE {self._made[1]}")
            self._made = None
        for side in self._sides:
            side.forget()

    def close(self) -> None:
        self._session.close()
        for connector in self._connectors:
            connector.close()

    def _joined(self, columns: tuple[str, ...]) -> str:
        """A table of the joined rows with these columns; the last one is held for the same question asked again."""
        if self._made is not None and self._made[0] == columns:
            return self._made[1]
        self.forget()
        key, places = self._join.schema.key, self._join.columns
        sides = []
        for number, (side, schema) in enumerate(zip(self._sides, self._join.schemas, strict=True)):
            own = [places[name][1] for name in columns if name != key and places[name][0] == number]
            sides.append(f"({_cut(side, schema, own)}) AS s{number}")
        assert key is not None  # noqa: S101
        shown = [
            f"s0.{quoted(self._join.schemas[0].key or '')} AS {quoted(name)}"
            if name == key
            else f"s{places[name][0]}.{quoted(places[name][1])} AS {quoted(name)}"
            for name in columns
        ]
        on = " = ".join(f"s{n}.{quoted(schema.key or '')}" for n, schema in enumerate(self._join.schemas))
        name = self._session.table("joined")
        self._sides[0].run(f"CREATE TABLE {name} AS SELECT {', '.join(shown)} FROM {sides[0]} JOIN {sides[1]} ON {on}")
        self._made = columns, name
        return name


def _cut(side: DuckEngine, schema: Schema, columns: Sequence[str]) -> str:
    """The SELECT of at most the declared number of rows of each person, with the key and these columns."""
    key = quoted(schema.key or "")
    timed = [] if schema.time is None else [schema.time]
    read = list(dict.fromkeys([schema.key or "", *columns, *timed]))
    told = ", ".join(f"coalesce(CAST({quoted(name)} AS VARCHAR), '')" for name in read)
    late = [f"{quoted(name)} DESC NULLS LAST" for name in timed]
    order = ", ".join([*late, f"md5(concat_ws('|', {told}))", *(quoted(name) for name in read)])
    numbered = f"row_number() OVER (PARTITION BY {key} ORDER BY {order})"
    inner = f"SELECT *, {numbered} AS _place FROM ({side.statement(read)}) WHERE {key} IS NOT NULL"
    return f"SELECT * FROM ({inner}) WHERE _place <= {schema.max_rows_per_unit}"
