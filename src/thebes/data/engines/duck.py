"""DuckDB over a source: in place where it can, else over a copy of the columns that a question needs.

What must stay true: nothing but the source's own files is opened once the connection stands, nothing is downloaded or
loaded, and memory is bounded; what does not fit goes to a folder of its own, which is gone afterwards. What DuckDB says
of an error may show a row and is never repeated.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import narwhals.stable.v2 as nw
import pandas as pd
from numpy.typing import NDArray

from thebes.data.connectors.connector import Connector, Joining, SourceUnavailable
from thebes.data.connectors.scanned_source import ScannedSource, connection, held, quoted, text
from thebes.data.engines import frames
from thebes.data.engines.duck_columns import NATIVE, fitting, numbered_sql, small_sql, typed_sql
from thebes.data.engines.engine import Divided, KeptRows
from thebes.data.engines.kept_table import KeptTable
from thebes.data.engines.scratch import Scratch
from thebes.data.filter import RowFilter
from thebes.data.schema import Schema

MEMORY = "128MB"
TENSOR_MEMORY = "1GB"  #: where rows hold pictures, of which many are looked at together
MOST_THREADS = 4
MOST_FEW, _FEW_VALUES = 20_000, 200_000  #: rows that are added up outside DuckDB, and values that they have together
_LONGEST = 200  # bytes of a text of theirs
_RAW_AT_ONCE = 16  # pictures in rows
_ROW_BYTES = 100  # of memory for each row that is sorted at once
_PERSON_BYTES, _TIME_BYTES = 1_000, 200  # of memory for each person whose latest times are looked for, and each time


class DuckSession:
    """One DuckDB connection in memory with a folder for what does not fit there, for one engine, or for two that are
    joined. Once it is `shut`, nothing outside is reached but the sources' own files."""

    def __init__(self, scratch: Path, *, memory: str = MEMORY, threads: int | None = None) -> None:
        self._scratch = Scratch(scratch)
        self._tables = 0
        try:
            self.connection = connection(
                memory_limit=memory,
                threads=str(threads or max(1, min(MOST_THREADS, os.cpu_count() or 1))),
                temp_directory=str(self._scratch.folder),
            )
            ((limit,),) = self.connection.execute("SELECT current_setting('memory_limit')").fetchall()
        except duckdb.Error:
            self._scratch.close()
            raise
        self.memory = _bytes(limit)
        self.sortable = max(100_000, self.memory // _ROW_BYTES)  #: rows at once
        self.most_few = MOST_FEW

    def table(self, what: str) -> str:
        """A name that no table has yet."""
        self._tables += 1
        return f"{what}_{self._tables}"

    def shut(self, *connectors: Connector) -> None:
        paths = [path for each in connectors if isinstance(each, ScannedSource) for path in each.paths]
        allowed = ", ".join(text(str(path)) for path in paths)
        self.connection.execute(f"SET allowed_paths = [{allowed}]")
        self.connection.execute("SET enable_external_access = false")
        self.connection.execute("SET lock_configuration = true")

    def close(self) -> None:
        self.connection.close()
        self._scratch.close()


class DuckEngine:
    """One connector behind one DuckDB connection. Used by one thread at a time. Whoever gives it a `session` shuts and
    closes that."""

    def __init__(
        self,
        schema: Schema,
        connector: Connector,
        *,
        scratch: Path,
        memory: str = MEMORY,
        threads: int | None = None,
        session: DuckSession | None = None,
    ) -> None:
        self._schema = schema
        self._connector = connector
        self._held = connector.columns()
        fitting(schema, self._held)
        if isinstance(connector, Joining):
            connector.joins_within(schema)
        self._copied: tuple[object, str] | None = None
        self._own: DuckSession | None = None
        self._asides: list[KeptTable] = []
        self._counted: tuple[object, ...] | None = None  # the files in which people's rows were counted
        self._few: tuple[object, Mapping[str, NDArray[Any]]] | None = None
        self._many: object = None  # what was found to be no few rows
        try:
            if session is None:
                session = self._own = DuckSession(scratch, memory=memory, threads=threads)
            self.session, self._connection = session, session.connection
            self._from = connector.attach(self._connection) if isinstance(connector, ScannedSource) else None
            self._native = self._described() if self._from is not None else {}
            if self._own is not None:
                self._own.shut(connector)
        except (duckdb.Error, SourceUnavailable) as error:
            if self._own is not None:
                self._own.close()
            if isinstance(error, duckdb.Error):
                raise self._unavailable(error) from None
            raise

    def rows(self, columns: Sequence[str], where: RowFilter | None) -> nw.LazyFrame[Any]:
        return self.lazy(self.statement(columns, where))

    def statement(self, columns: Sequence[str], where: RowFilter | None = None) -> str:
        """Return the SELECT that gives these rows."""
        if self._from is not None and not self._worked_out:
            source, made = self._from, [self._typed(name) for name in columns]
        else:
            source, made = self._copy(columns, where), [quoted(name) for name in columns]
        return f"SELECT {', '.join(made)} FROM {source}"

    def few(self, columns: Sequence[str], where: RowFilter | None) -> Mapping[str, NDArray[Any]] | None:
        asked = (tuple(columns), where if self._from is None else None)
        if self._few is not None and self._few[0] == asked:
            return self._few[1]
        about = (*asked, self._files())
        if self._many == about:
            return None
        if self._from is not None:  # also of rows that are worked out: it is one look
            source = f"(SELECT {', '.join(map(self._typed, columns))} FROM {self._from})"
        else:
            source = self._copy(columns, where)
        found = self.few_of(self._schema, columns, source)
        if found is None:
            self._many = about
            return None
        self._few = asked, found
        return found

    def few_of(self, schema: Schema, columns: Sequence[str], source: str) -> Mapping[str, NDArray[Any]] | None:
        """Return these columns of a table, where it has few rows and no long text."""
        texts = [quoted(name) for name in columns if schema.columns[name].type == "string"]
        long = " OR ".join(f"coalesce(strlen({name}), 0) > {_LONGEST}" for name in texts) or "false"
        cut = [
            f"CASE WHEN strlen({name}) <= {_LONGEST} THEN {name} END AS {name}" if name in texts else name
            for name in map(quoted, columns)
        ]
        most = min(self.session.most_few, _FEW_VALUES // len(columns))
        found: dict[str, NDArray[Any]] = self.run(
            f"SELECT {', '.join(cut)}, {long} AS _long FROM {source} LIMIT {most + 1}"
        ).fetchnumpy()
        long_ones = found.pop("_long")
        return None if len(long_ones) > most or long_ones.any() else found

    def numbered(self, frame: nw.LazyFrame[Any], names: Collection[str]) -> nw.LazyFrame[Any]:
        return self.lazy(numbered_sql(self._schema, statement_of(frame), names))

    def divided(self, frame: nw.LazyFrame[Any], owner: str, time: str | None, most: int) -> Divided:
        self._counted = self._files()
        self._let_go()
        asked, whose = f"({statement_of(frame)}) AS _asked", f"_asked.{quoted(owner)}"
        held = f"SELECT {whose} AS _whose, count(*) AS _held FROM {asked} GROUP BY ALL"
        told = (
            f"count(*), count(*) FILTER (_held > {most}), sum(_held), coalesce(sum(_held) FILTER (_held > {most}), 0)"
        )
        ((people, crowded, rows, theirs),) = self.run(f"SELECT {told} FROM ({held})").fetchall()
        if not crowded:
            return Divided(frame, None, 0, int(rows or 0))
        aside = self._aside([self.lazy(f"SELECT _whose FROM ({held}) WHERE _held > {most}")])
        few = f"SELECT _asked.* FROM {asked} ANTI JOIN {aside} ON _whose = {whose}"
        many = f"SELECT _asked.* FROM {asked} SEMI JOIN {aside} ON _whose = {whose}"
        if time is not None:
            late = f"_asked.{quoted(time)}"
            back_to = f"CASE WHEN count({late}) >= {most} THEN list_last(max({late}, {most})) END"
            parts = crowded * (_PERSON_BYTES + _TIME_BYTES * most) // self.session.memory + 1
            limits = self._aside(  # some people after the others: of each so many times are held at once
                self.lazy(
                    f"SELECT {whose} AS _whose, {back_to} AS _back_to FROM ({many}) AS _asked "
                    f"WHERE hash({whose}) % {parts} = {n} GROUP BY ALL"
                )
                for n in range(parts)
            )
            tied = f"_whose = {whose} AND (_back_to IS NULL OR {late} >= _back_to)"
            many = f"SELECT _asked.* FROM {asked} JOIN {limits} ON {tied}"
        counting = int(rows - theirs + crowded * most)
        return Divided(self.lazy(few) if people > crowded else None, self.lazy(many), int(theirs), counting)

    def placed(self, frame: nw.LazyFrame[Any], by: Sequence[str], order: Sequence[str], name: str) -> nw.LazyFrame[Any]:
        window = f"PARTITION BY {', '.join(map(quoted, by))}"
        window += f" ORDER BY {', '.join(map(quoted, order))}" if order else ""
        return self.lazy(f"SELECT *, row_number() OVER ({window}) AS {quoted(name)} FROM ({statement_of(frame)})")

    def collected(self, frame: nw.LazyFrame[Any]) -> pd.DataFrame:
        try:
            found: pd.DataFrame = frame.to_native().df()
        except duckdb.Error as error:
            raise self._unavailable(error) from None
        self._unchanged()
        return found

    def parts(self, rows: int) -> int:
        return max(1, -(-rows // self.session.sortable))

    def computed(self, frame: nw.LazyFrame[Any]) -> KeptTable:
        return self.kept([frame])

    def kept(self, frames: Iterable[nw.LazyFrame[Any]]) -> KeptTable:
        name = self.session.table("kept")
        try:
            for n, frame in enumerate(frames):
                relation = frame.to_native()
                relation.insert_into(name) if n else relation.create(name)
        except duckdb.Error as error:
            raise self._unavailable(error) from None
        self._unchanged()
        return KeptTable(self, name)

    def run(self, statement: str) -> Any:
        """For a kept table of this engine."""
        try:
            return self._connection.execute(statement)
        except duckdb.Error as error:
            raise self._unavailable(error) from None

    def holds(self, name: str) -> bool:
        return self._held[name] in ("bytes", "array")

    def raw(self, name: str, kept: KeptRows, key: str) -> Iterator[tuple[str, Any]]:
        assert isinstance(kept, KeptTable)  # noqa: S101
        # Not kept with the rows: those are sorted, and pictures are much larger than anything that is sorted.
        small = small_sql(quoted(name), self._held[name])
        told = f"SELECT {self._typed(name)}, {small} AS _raw FROM {self._from}"
        found = self._connection.cursor()  # the rows below are read while others are
        try:
            found.execute(
                f"SELECT * FROM ({told}) SEMI JOIN (SELECT {quoted(key)} AS {quoted(name)} FROM {kept.name}) "
                f"USING ({quoted(name)})"
            )
            while some := found.fetchmany(_RAW_AT_ONCE):
                yield from some
        except duckdb.Error as error:
            raise self._unavailable(error) from None
        finally:
            found.close()
        self._unchanged()

    def forget(self) -> None:
        self._counted = self._few = None
        self._let_go()
        if self._copied is not None:
            self.run(f"DROP TABLE {self._copied[1]}")
            self._copied = None

    def _aside(self, frames: Iterable[nw.LazyFrame[Any]]) -> str:
        """Keep what is known of people with too many rows until that is asked anew; return the table."""
        self._asides.append(self.kept(frames))
        return self._asides[-1].name

    def _let_go(self) -> None:
        while self._asides:
            self._asides.pop().close()

    def close(self) -> None:
        if self._own is not None:
            self._own.close()
        self._connector.close()

    # --- the connection ---------------------------------------------------------------------------------

    def _described(self) -> dict[str, str]:
        described = self._connection.execute(f"DESCRIBE SELECT * FROM {self._from}").fetchall()
        return {name: kind for name, kind, *_ in described}

    def lazy(self, statement: str) -> nw.LazyFrame[Any]:
        """Return what a statement gives, once it is asked for."""
        try:
            lazy: nw.LazyFrame[Any] = nw.from_native(self._connection.sql(statement))
        except duckdb.Error as error:
            raise self._unavailable(error) from None
        return lazy

    @property
    def _worked_out(self) -> bool:
        return isinstance(self._connector, ScannedSource) and self._connector.computed

    def _files(self) -> tuple[object, ...]:
        """Tell the source's own files as they lie there now; nothing of one that is gone."""
        found: list[object] = []
        for path in self._connector.paths if isinstance(self._connector, ScannedSource) else ():
            facts = path.stat() if path.exists() else None
            found.append(facts and (facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size))
        return tuple(found)

    def _unchanged(self) -> None:
        """Refuse what was read of files that are no longer those in which people's rows were counted: somebody with few
        rows then may have many now, and all of them would count."""
        if self._counted is not None and self._counted != self._files():
            raise SourceUnavailable("the rows changed while they were read; ask again when their file is written whole")

    def _typed(self, name: str) -> str:
        declared, native = self._schema.columns[name].type, self._native[name]
        holds = self._held[name]
        return f"{typed_sql(quoted(name), declared, holds, native)} AS {quoted(name)}"

    def _unavailable(self, error: duckdb.Error) -> SourceUnavailable:
        if isinstance(error, duckdb.OutOfMemoryException):
            return SourceUnavailable("the question needs more memory, or room for what does not fit, than it may use")
        if isinstance(self._connector, ScannedSource):
            return self._connector.unavailable()
        return SourceUnavailable("the rows that the source gave cannot be read")

    # --- sources that DuckDB cannot read in place -------------------------------------------------------

    def _copy(self, columns: Sequence[str], where: RowFilter | None) -> str:
        """A table of these columns; the last one is held for the same question asked again."""
        asked = (tuple(columns), where)
        if self._copied is not None and self._copied[0] == asked:
            return self._copied[1]
        self.forget()
        name = self.session.table("copied")
        if self._from is not None:  # in one look, so that all that is asked sees the same rows
            self.run(f"CREATE TABLE {name} AS SELECT {', '.join(map(self._typed, columns))} FROM {self._from}")
        else:
            made = ", ".join(f"{quoted(c)} {NATIVE[self._schema.columns[c].type]}" for c in columns)
            self.run(f"CREATE TABLE {name} ({made})")
            for batch in self._connector.batches(columns, where):
                self._take(name, columns, batch)
        self._copied = (asked, name)
        return name

    def _take(self, table: str, columns: Sequence[str], batch: Any) -> None:
        """Type some rows and add them."""
        if isinstance(batch, Mapping):
            batch = pd.DataFrame({name: self._series(name, batch[name]) for name in columns})
        if not len(batch.columns) or not len(batch):
            return
        try:
            self._connection.register("thebes_batch", batch)
            described = self._connection.execute("DESCRIBE SELECT * FROM thebes_batch").fetchall()
            native = {name: kind for name, kind, *_ in described}
            made = ", ".join(
                typed_sql(
                    quoted(name),
                    self._schema.columns[name].type,
                    "text" if self._held[name] == "text" else held(native[name]),
                    native[name],
                )
                for name in columns
            )
            self._connection.execute(f"INSERT INTO {table} SELECT {made} FROM thebes_batch")
            self._connection.unregister("thebes_batch")
        except duckdb.Error as error:
            raise self._unavailable(error) from None

    def _series(self, name: str, values: Sequence[object]) -> pd.Series[Any]:
        if self._held[name] == "text":
            return pd.Series([_written(value) for value in values], dtype="str")
        return frames.typed(pd.Series(list(values), dtype=object), self._schema.columns[name].type)


def _written(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value)
    return frames.text(value) or None


def statement_of(frame: nw.LazyFrame[Any]) -> str:
    """Return what a frame asks, as a statement that another one can hold."""
    found: str = frame.to_native().sql_query()
    return found


def _bytes(written: str) -> int:
    """A size as DuckDB writes it: 152.5 MiB."""
    number, unit = written.split()
    return int(float(number) * 1024 ** ("bytes", "KiB", "MiB", "GiB", "TiB").index(unit))
