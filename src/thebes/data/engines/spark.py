"""Spark, where the rows have outgrown one machine: the same expressions, computed where Spark keeps the rows.

What must stay true: sessions run in UTC; what Spark says of an error may show a row and is never repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import narwhals.stable.v2 as nw
import pandas as pd
from pydantic import Field, model_validator

from thebes.data.connectors.connector import Held, Source, SourceUnavailable, path_of, read_source
from thebes.data.engines.duck_columns import fitting
from thebes.data.engines.engine import MARK, Divided
from thebes.data.engines.tensor_rows import check_reachable
from thebes.data.filter import ENDS, EXACT, RowFilter
from thebes.data.growing.row_condition import Chosen
from thebes.data.growing.source import GrowingSource
from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake

_NATIVE = {
    "integer": "BIGINT", "float": "DOUBLE", "boolean": "BOOLEAN", "string": "STRING", "timestamp": "TIMESTAMP_NTZ"
}  # fmt: skip
_DAYS = (2**63 - 1) // (86_400 * 10**6)  #: before and after 1970, as many as microseconds reach
Found = TypeVar("Found")


class SparkSource(Source):
    """A `table` of Spark's catalogue, or files of a `format` at a `path` (an address such as s3a://... stays as it
    is). `master` and `settings` are those of a session; without them the machine's own configuration decides."""

    kind: Literal["spark"]
    table: str | None = Field(default=None, min_length=1, max_length=400)
    path: str | None = Field(default=None, min_length=1, max_length=4096)
    format: Literal["parquet", "orc", "delta"] = "parquet"
    master: str | None = Field(default=None, min_length=1, max_length=400)
    settings: dict[str, str] = Field(default={}, max_length=100)

    @model_validator(mode="after")
    def _one(self) -> SparkSource:
        if (self.table is None) is (self.path is None):
            raise ValueError("has either a table or a path")
        return self


class SparkEngine:
    """One Spark data frame. The session is whoever's it was before, and stays."""

    def __init__(self, schema: Schema, frame: Any) -> None:
        check_reachable(schema, self, None)
        self._schema = schema
        self._frame = frame
        self._native = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        fitting(schema, {name: _held(kind) for name, kind in self._native.items()})
        frame.sparkSession.conf.set("spark.sql.session.timeZone", "UTC")

    def rows(self, columns: Sequence[str], where: RowFilter | None) -> nw.LazyFrame[Any]:
        return _lazy(self._frame.selectExpr(*(f"{self._typed(name)} AS {_quoted(name)}" for name in columns)))

    def few(self, columns: Sequence[str], where: RowFilter | None) -> None:
        return None

    def numbered(self, frame: nw.LazyFrame[Any], names: Collection[str]) -> nw.LazyFrame[Any]:
        numbers = (f"{self._number(name)} AS {_quoted(MARK + name)}" for name in names)
        return _lazy(frame.to_native().selectExpr("*", *numbers))

    def divided(self, frame: nw.LazyFrame[Any], owner: str, time: str | None, most: int) -> Divided:
        """Leave rows out before they travel: a limited rank is also taken of the rows that lie in one place. Who has
        few is not looked for, because that would be a job of its own; how many rows stay with Spark does not matter."""
        native, whose = frame.to_native(), _quoted(owner)
        if time is None:
            return Divided(None, _lazy(native.repartition(whose)), 0, 0)  # by person once, for all that follows
        rank = f"rank() OVER (PARTITION BY {whose} ORDER BY {_quoted(time)} DESC NULLS LAST) AS _rank"
        return Divided(None, _lazy(native.selectExpr("*", rank).where(f"_rank <= {most}").drop("_rank")), 0, 0)

    def placed(self, frame: nw.LazyFrame[Any], by: Sequence[str], order: Sequence[str], name: str) -> nw.LazyFrame[Any]:
        named, sorted_by = ", ".join(map(_quoted, by)), ", ".join(map(_quoted, order or by))
        place = f"CAST(row_number() OVER (PARTITION BY {named} ORDER BY {sorted_by}) AS BIGINT) AS {_quoted(name)}"
        return _lazy(frame.to_native().selectExpr("*", place))

    def collected(self, frame: nw.LazyFrame[Any]) -> pd.DataFrame:
        # By way of Arrow alone: what Spark makes of it itself fails at a year that its nanoseconds do not reach, and
        # makes floats of whole numbers beside a missing one.
        native = frame.to_native()
        found: pd.DataFrame = _asked(lambda: native.toArrow().to_pandas(integer_object_nulls=True))
        return found

    def parts(self, rows: int) -> int:
        return 1

    def computed(self, frame: nw.LazyFrame[Any]) -> Persisted:
        return Persisted(self, frame.to_native())

    def kept(self, frames: Iterable[nw.LazyFrame[Any]]) -> Persisted:
        (frame,) = frames  # `parts` is one
        return self.computed(frame)

    def people(self, key: str, most: int) -> tuple[int, int]:
        """Count the persons, and the rows if at most so many of each count."""
        each = self._frame.groupBy(_quoted(key)).count()
        asked = each.selectExpr("count(*)", f"coalesce(sum(least(count, {int(most)})), 0)")
        (people, rows), *_ = _asked(asked.collect)
        return int(people), int(rows)

    def forget(self) -> None:
        """Nothing is held between two questions."""

    def close(self) -> None:
        """The session belongs to whoever made it."""

    def _typed(self, name: str) -> str:
        column, declared, native = _quoted(name), self._schema.columns[name].type, self._native[name]
        holds = _held(native)
        if declared == "integer":
            if holds == "integer":
                return f"CAST({column} AS BIGINT)"
            number, whole = f"CAST({column} AS DOUBLE)", f"round({column})"
            low, high = f"({ENDS[0] + 1}L - 1L)", f"{ENDS[1]}L"
            if native.startswith("decimal"):  # of any length it still says which whole number was meant
                return (
                    f"CASE WHEN {number} <> rint({number}) THEN NULL WHEN {whole} > {high} THEN {high} "
                    f"WHEN {whole} < {low} THEN {low} ELSE try_cast({whole} AS BIGINT) END"
                )
            return (
                f"CASE WHEN isnan({number}) THEN NULL WHEN {number} >= {EXACT}.0D THEN {high} "
                f"WHEN {number} <= -{EXACT}.0D THEN {low} "
                f"WHEN {number} <> rint({number}) THEN NULL ELSE CAST({number} AS BIGINT) END"
            )
        if declared == "float":
            return f"CASE WHEN NOT isnan(CAST({column} AS DOUBLE)) THEN CAST({column} AS DOUBLE) END"
        if declared == "boolean":
            return column if holds == "boolean" else f"CASE {column} WHEN 0 THEN false WHEN 1 THEN true END"
        if declared == "string":
            return f"CAST({column} AS STRING)" if holds == "integer" else f"try_validate_utf8({column})"
        if native == "date":
            return f"CASE WHEN abs(unix_date({column})) <= {_DAYS} THEN CAST({column} AS TIMESTAMP_NTZ) END"
        if holds == "string":  # a text of an hour alone would be of the day on which it is read
            read = f"CAST(try_cast({column} AS TIMESTAMP) AS TIMESTAMP_NTZ)"
            return f"CASE WHEN {column} RLIKE '^ *[0-9]{{4}}-[0-9]{{1,2}}-[0-9]' THEN {read} END"
        return f"CAST({column} AS TIMESTAMP_NTZ)"

    def _number(self, name: str) -> str:
        column = self._schema.columns[name]
        if column.type == "string" or column.key:
            return f"CAST(conv(substr(md5(CAST({_quoted(name)} AS STRING)), 1, 15), 16, 10) AS BIGINT)"
        if column.type == "timestamp":
            return f"unix_micros(CAST({_quoted(name)} AS TIMESTAMP))"
        return f"CAST({_quoted(name)} AS BIGINT)"


class Persisted:
    """Rows that Spark keeps where it computed them; to this process they come one of Spark's partitions at a time."""

    def __init__(self, engine: SparkEngine, native: Any) -> None:
        self._engine = engine
        self._native = _asked(native.persist)

    @property
    def frame(self) -> nw.LazyFrame[Any]:
        """All of its rows."""
        return _lazy(self._native)

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return int(_asked(self._native.count))

    def chunks(self, rows: int) -> Iterator[pd.DataFrame]:
        left = pd.DataFrame()
        for part in range(_asked(self._native.rdd.getNumPartitions)):
            found = self._engine.collected(_lazy(self._native.where(f"spark_partition_id() = {part}")))
            found = pd.concat([left, found], ignore_index=True) if len(left) else found
            whole = len(found) - len(found) % rows
            for start in range(0, whole, rows):
                yield found.iloc[start : start + rows].reset_index(drop=True)
            left = found.iloc[whole:]
        if len(left):
            yield left.reset_index(drop=True)

    def close(self) -> None:
        _asked(self._native.unpersist)


def spark_engine(schema: Schema, source: Mapping[str, Any], *, folder: Path) -> SparkEngine:
    """The engine of `{"kind": "spark", "path": ...}` or `{"kind": "spark", "table": ...}`."""
    read = read_source(SparkSource, source)

    def opened() -> Any:
        session = _session(read.master, read.settings)
        if read.table is not None:
            return session.table(read.table)
        assert read.path is not None  # noqa: S101
        path = read.path if "://" in read.path else str(path_of(read.path, folder))
        return session.read.format(read.format).load(path)

    return SparkEngine(schema, _asked(opened))


def grown_engine(schema: Schema, source: GrowingSource, paths: Sequence[Path], chosen: Chosen) -> SparkEngine:
    """The engine of some rows of a growing data set, in its files."""

    def opened() -> Any:
        session = _session(source.master, source.settings)
        if not paths:
            typed = (f"CAST(NULL AS {_NATIVE[c.type]}) AS {_quoted(n)}" for n, c in schema.columns.items())
            return session.sql(f"SELECT {', '.join(typed)} WHERE false")
        named = (re.sub(r"([\\{}\[\]*?])", r"\\\1", f"file://{path.resolve()}") for path in paths)
        frame = session.read.option("recursiveFileLookup", "true").parquet(
            *named
        )  # what folders are called is no column
        return frame.where(chosen.sql(_quoted)).selectExpr(*(_quoted(name) for name in schema.columns))

    return SparkEngine(schema, _asked(opened))


def _lazy(native: Any) -> nw.LazyFrame[Any]:
    lazy: nw.LazyFrame[Any] = nw.from_native(native)
    return lazy


def _session(master: str | None, settings: Mapping[str, str]) -> Any:
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        raise SourceUnavailable("source.kind: Spark is not installed; install thebes with its part 'spark'") from None
    other = SparkContext._active_spark_context  # of the process; of a session it is told to its own thread alone
    if other is not None and master not in (None, other.master):
        # It would be given as it is, and the rows be looked for where they are not.
        raise SourceUnavailable(
            "source.master: this process works with Spark at another master already; name that one for every data set"
        )
    builder = SparkSession.builder.appName("thebes")
    for name, value in {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC", **settings}.items():
        builder = builder.config(name, value)
    return (builder.master(master) if master is not None else builder).getOrCreate()


def _asked(asked: Callable[[], Found]) -> Found:
    try:
        return asked()
    except (Mistake, SourceUnavailable):
        raise
    except Exception as error:
        raise SourceUnavailable(f"Spark could not read the rows: {type(error).__name__}") from None


def _held(native: str) -> Held:
    kind = native.split("(")[0]
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return "integer"
    if kind in ("float", "double", "decimal"):
        return "float"
    if kind in ("date", "timestamp", "timestamp_ntz"):
        return "timestamp"
    if kind in ("string", "varchar", "char"):
        return "string"
    return "boolean" if kind == "boolean" else "other"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
