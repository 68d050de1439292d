"""Rows of some blocks of a growing data set, as a table.

What must stay true: exactly the rows of the blocks that were named, and of those only the part that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from thebes.data.connectors.connector import Held, SourceUnavailable
from thebes.data.connectors.scanned_source import ScannedSource, connection, quoted, text
from thebes.data.engines.duck import MEMORY, DuckEngine
from thebes.data.engines.duck_columns import NATIVE
from thebes.data.engines.engine import Engine
from thebes.data.engines.table import EngineTable
from thebes.data.filter import RowFilter
from thebes.data.growing.row_condition import Chosen, Part
from thebes.data.growing.source import IN_PROCESS, GrowingSource
from thebes.data.schema import Column, Schema
from thebes.data.table import Axis, Batch, Misfits, Sums
from thebes.privacy.faults import Mistake

if TYPE_CHECKING:
    from thebes.data.engines.spark import SparkEngine

SHARE = 0.1  #: of rows that are for testing
_VECTOR = 2048  # rows, DuckDB's own unit


class _Files(ScannedSource):
    """The files of an ingest or several, and which of their rows."""

    what = "the data set's files"

    def __init__(self, schema: Schema, paths: Sequence[Path], chosen: Chosen) -> None:
        self.paths = tuple(paths)
        self._schema, self._condition = schema, chosen.sql(quoted)

    def columns(self) -> Mapping[str, Held]:
        return {name: column.type for name, column in self._schema.columns.items()}

    def attach(self, opened: Any) -> str:
        columns = ", ".join(quoted(name) for name in self._schema.columns)
        if not self.paths:
            typed = ", ".join(f"NULL::{NATIVE[c.type]} AS {quoted(n)}" for n, c in self._schema.columns.items())
            return f"(SELECT {typed} WHERE false)"
        listed = ", ".join(text(str(path)) for path in self.paths)
        return f"(SELECT {columns} FROM read_parquet([{listed}], hive_partitioning=false) WHERE {self._condition})"


class GrownTable:
    """A `Table` over exactly these files' rows. `source` says what reads them."""

    def __init__(
        self,
        schema: Schema,
        paths: Sequence[Path],
        *,
        scratch: Path,
        memory: str = MEMORY,
        chosen: Chosen = Chosen(),  # noqa: B008
        source: GrowingSource = IN_PROCESS,
    ) -> None:
        self.schema = schema
        self._paths, self._scratch, self._memory, self._chosen = tuple(paths), scratch, memory, chosen
        self._source = source
        self._table: EngineTable | None = None

    def sums(self, wanted: Sums) -> NDArray[np.int64]:
        """One row of totals for each cell, one column for each term."""
        return self._engine().sums(wanted)

    def batches(self, columns: Sequence[str], where: RowFilter | None = None, *, rows: int = 65_536) -> Iterator[Batch]:
        """The rows that have all of these columns, person after person, in an order that says nothing."""
        return self._engine().batches(columns, where, rows=rows)

    def cells(self, axes: Sequence[Axis], *, rows: int = 16_384) -> Iterator[NDArray[np.int64]]:
        """The cells of every row that counts, one column for each axis, about `rows` rows at a time."""
        return self._engine().cells(axes, rows=rows)

    def misfits(self, columns: Sequence[str], where: RowFilter | None = None) -> dict[str, Misfits]:
        """Of each column, how many of all the rows that meet a condition do not fit what the schema declares of it."""
        return self._engine().misfits(columns, where)

    def occurring(self, column: str, where: RowFilter | None = None, *, most: int, longest: int) -> dict[str, int]:
        """The texts of a column, each with how many units have it; a unit counts with at most `most` of them."""
        return self._engine().occurring(column, where, most=most, longest=longest)

    def declaring(self, column: str, values: Sequence[str]) -> AbstractContextManager[EngineTable]:
        """The same rows where these are the declared values of a column that has none."""
        return self._engine().declaring(column, values)

    def arrays(self, columns: Sequence[str], *, rows: int = 65_536) -> Iterator[NDArray[np.float64]]:
        """The rows that have all of these columns, one column for each, within its bounds (a value's number in its
        declared values where it has those). Of events they come as they lie in the files, quickly; of persons clipped
        like `batches`."""
        names = tuple(columns)
        known = {name: self._number(name) for name in names}
        if self.schema.unit == "person" or self._by_spark or any(sql is None for sql in known.values()):
            for batch in self.batches(names, rows=rows):
                yield batch.numbers
            return
        yield from self._read(names, {name: sql for name, sql in known.items() if sql is not None}, rows)

    def part(self, which: Part, *, test: float = SHARE) -> GrownTable:
        """The rows for training or those for testing: `test` says how many of all are for testing. Every row (every
        person) is in one of the two, by a coin of its own."""
        chosen = self._chosen.of(which, test)
        return GrownTable(
            self.schema, self._paths, scratch=self._scratch, memory=self._memory, chosen=chosen, source=self._source
        )

    def people(self, most: int) -> tuple[int, int]:
        """Count the persons, and the rows if at most so many of each count."""
        if not self._paths:
            return 0, 0
        if self._by_spark:
            return self._spark().people(self.schema.key or "", most)
        key = quoted(self.schema.key or "")
        with connection(memory_limit=self._memory, threads="2") as opened:
            try:
                each = f"SELECT least(count(*), {int(most)}) AS n FROM {self._files().attach(opened)} GROUP BY {key}"
                ((people, rows),) = opened.execute(f"SELECT count(*), coalesce(sum(n), 0) FROM ({each})").fetchall()
            except duckdb.Error:
                raise SourceUnavailable("the data set's files cannot be read: one is gone or broken") from None
        return int(people), int(rows)

    def forget(self) -> None:
        """Nothing changes in blocks that are sealed: there is nothing to read anew."""
        if self._table is not None:
            self._table.forget()

    def close(self) -> None:
        if self._table is not None:
            self._table.close()
            self._table = None

    # --- inside -------------------------------------------------------------------------------------------

    @property
    def _by_spark(self) -> bool:
        return self._source.engine == "spark"

    def _spark(self) -> SparkEngine:
        from thebes.data.engines.spark import grown_engine

        return grown_engine(self.schema, self._source, self._paths, self._chosen)

    def _files(self) -> _Files:
        return _Files(self.schema, self._paths, self._chosen)

    def _engine(self) -> EngineTable:
        if self._table is None:
            engine: Engine = (
                self._spark()
                if self._by_spark
                else DuckEngine(self.schema, self._files(), scratch=self._scratch, memory=self._memory)
            )
            self._table = EngineTable(self.schema, engine)
        return self._table

    def _number(self, name: str) -> str | None:
        """A column as a number in SQL; None where only the engine says how."""
        column = self.schema.column(name)
        sql = quoted(name)
        if column.ranged:
            number, low, high = f"CAST({sql} AS DOUBLE)", repr(column.low), repr(column.high)
            return f"CASE WHEN {number} < {low} THEN {low} WHEN {number} > {high} THEN {high} ELSE {number} END"
        if column.values is None:
            raise Mistake("columns", f"{name!r} has neither bounds nor values and cannot be counted with")
        if column.type in ("string", "integer", "boolean"):
            return f"CAST(enum_code(TRY_CAST(CAST({sql} AS VARCHAR) AS ENUM({_listed(column)}))) AS DOUBLE)"
        return None

    def _read(self, names: Sequence[str], known: Mapping[str, str], rows: int) -> Iterator[NDArray[np.float64]]:
        if not self._paths:
            return
        made = ", ".join(f"{sql} AS c{place}" for place, sql in enumerate(known.values()))
        there = " AND ".join(f"c{place} IS NOT NULL" for place in range(len(known)))
        at = [list(known).index(name) for name in names]
        with connection(memory_limit=self._memory, threads="2") as opened:
            try:
                opened.execute(f"SELECT * FROM (SELECT {made} FROM {self._files().attach(opened)}) WHERE {there}")
                while len(chunk := opened.fetch_df_chunk(max(1, rows // _VECTOR))):
                    numbers = np.empty((len(chunk), len(at)), dtype=np.float64)
                    for place, column in enumerate(at):
                        numbers[:, place] = chunk.iloc[:, column].to_numpy(dtype=np.float64)
                    yield numbers
            except duckdb.Error:
                raise SourceUnavailable("the data set's files cannot be read: one is gone or broken") from None


def _listed(column: Column) -> str:
    written = (str(v).lower() if isinstance(v, bool) else str(v) for v in column.values or ())
    return ", ".join(text(value) for value in written)
