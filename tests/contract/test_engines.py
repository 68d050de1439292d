"""The duties of every engine, whatever holds the rows: one suite over data frames, files, databases and Spark."""

from __future__ import annotations

import atexit
import csv
import json
import math
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import duckdb
import pandas as pd
import pyarrow.parquet
import pytest
from deltalake import write_deltalake

from tests.support.mariadb import running_mariadb
from tests.support.postgres import new_database
from thebes.data.connectors.connector import SourceUnavailable
from thebes.data.engines.source import frame_table, table_of
from thebes.data.engines.table import EngineTable
from thebes.data.growing.reader import GrownTable
from thebes.data.growing.row_condition import Chosen, Users
from thebes.data.growing.source import GrowingSource
from thebes.data.schema import Schema, schema_of
from thebes.data.table import Axis, Factor, Sums, Term
from thebes.testing import engine_oracle, engines
from thebes.testing.engine_oracle import Row
from thebes.testing.engines import CHECKS, LATEST, SCHEMA, TYPES, Open

SQL_TYPES = {
    "integer": "BIGINT",
    "float": "DOUBLE PRECISION",
    "string": "TEXT",
    "boolean": "BOOLEAN",
    "timestamp": "TIMESTAMP",
}
DECLARED = ", ".join(f'"{name}" {SQL_TYPES[kind]}' for name, kind in TYPES.items())
HOLES = ", ".join("?" for _ in TYPES)


def values(rows: list[Row]) -> list[list[Any]]:
    return [[row.get(name) for name in TYPES] for row in rows]


def in_frame(schema: Schema, rows: list[Row], folder: Path) -> EngineTable:
    return frame_table(schema, pd.DataFrame(values(rows), columns=list(TYPES), dtype=object))


def in_csv(schema: Schema, rows: list[Row], folder: Path) -> EngineTable:
    with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(TYPES)
        writer.writerows(values(rows))
    return table_of(schema, {"kind": "csv", "path": "rows.csv", "delimiter": ";"}, folder=folder)


def in_parquet(schema: Schema, rows: list[Row], folder: Path) -> EngineTable:
    with duckdb.connect() as connection:
        fill(connection, rows)
        for part in (0, 1):  # a block each
            where = f"rowid % 2 = {part}"
            connection.execute(f"COPY (SELECT * FROM rows WHERE {where}) TO '{folder}/part-{part}.parquet'")
    return table_of(schema, {"kind": "parquet", "path": "part-*.parquet"}, folder=folder)


def grown(schema: Schema, rows: list[Row], folder: Path, **more: Any) -> GrownTable:
    """The files of two ingests, with a number of each row's own."""
    with duckdb.connect() as connection:
        fill(connection, rows)
        for part in (0, 1):
            own = f"CAST(md5_number_lower(CAST(rowid AS VARCHAR)) & {2**63 - 1} AS BIGINT) AS _row"
            said = f"SELECT *, {own} FROM rows WHERE rowid % 2 = {part}"
            place = folder / "any [home]" / f"{part}" / f"_block=2045{part}"  # as an ingest puts them
            place.mkdir(parents=True)
            connection.execute(f"COPY ({said}) TO '{place}/data_0.parquet' (FORMAT parquet)")
    paths = sorted(folder.rglob("*.parquet")) if rows else []
    return GrownTable(schema, paths, scratch=folder / "scratch", **more)


def grown_by_spark(schema: Schema, rows: list[Row], folder: Path) -> GrownTable:
    spark()
    return grown(schema, rows, folder, source=GrowingSource(kind="growing", engine="spark"))


def in_delta(schema: Schema, rows: list[Row], folder: Path) -> EngineTable:
    """Two commits."""
    with duckdb.connect() as connection:
        fill(connection, rows)
        ordered = connection.sql("SELECT * FROM rows ORDER BY rowid").to_arrow_table()
    half = len(rows) // 2
    write_deltalake(folder / "rows", ordered.slice(0, half))
    write_deltalake(folder / "rows", ordered.slice(half), mode="append")
    return table_of(schema, {"kind": "delta", "path": "rows"}, folder=folder)


def in_duckdb(schema: Schema, rows: list[Row], folder: Path) -> EngineTable:
    (folder / "rows.duckdb").unlink(missing_ok=True)
    with duckdb.connect(str(folder / "rows.duckdb")) as connection:
        fill(connection, rows)
    return table_of(schema, {"kind": "duckdb", "path": "rows.duckdb", "table": "rows"}, folder=folder)


def fill(connection: duckdb.DuckDBPyConnection, rows: list[Row]) -> None:
    connection.execute(f"CREATE TABLE rows ({DECLARED})")
    if rows:
        connection.executemany(f"INSERT INTO rows VALUES ({HOLES})", values(rows))


def in_parts(schema: Schema, rows: list[Row], folder: Path) -> EngineTable:
    table = in_parquet(schema, rows, folder)
    engine: Any = table.engine
    engine.session.sortable = 30  # of rows, so that they are sorted some at a time
    return _many(table)


def many_in_csv(schema: Schema, rows: list[Row], folder: Path) -> EngineTable:
    return _many(in_csv(schema, rows, folder))


def many_in_parquet(schema: Schema, rows: list[Row], folder: Path) -> EngineTable:
    """As Arrow writes it, whose statistics of a column leave NaN out."""
    with duckdb.connect() as connection:
        fill(connection, rows)
        pyarrow.parquet.write_table(connection.sql("SELECT * FROM rows").to_arrow_table(), folder / "rows.parquet")
    return _many(table_of(schema, {"kind": "parquet", "path": "rows.parquet"}, folder=folder))


def _many(table: EngineTable) -> EngineTable:
    """Let DuckDB add the rows up, as it does where they are not few."""
    engine: Any = table.engine
    engine.session.most_few = -1
    return table


def in_sqlite(schema: Schema, rows: list[Row], folder: Path) -> EngineTable:
    write_sqlite(rows, folder)
    return table_of(schema, {"kind": "sqlite", "path": "rows.db", "table": "rows"}, folder=folder)


def in_any_database(schema: Schema, rows: list[Row], folder: Path) -> EngineTable:
    write_sqlite(rows, folder)
    return table_of(schema, {"kind": "sql", "url": f"sqlite:///{folder}/rows.db", "table": "rows"}, folder=folder)


@cache
def installed_lines() -> str:
    """Build the wheel of somebody else's connector, and unpack it as an installer does."""
    place = Path(tempfile.mkdtemp(prefix="thebes-lines-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(build, cwd=Path(__file__).parent / "lines", check=True, capture_output=True)
    (wheel,) = place.glob("*.whl")
    shutil.unpack_archive(wheel, place / "installed", "zip")
    sys.path.append(str(place / "installed"))
    return str(place)


def in_lines_of_another_package(schema: Schema, rows: list[Row], folder: Path) -> EngineTable:
    installed_lines()
    with (folder / "rows.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(dict(zip(TYPES, row, strict=True)), default=str) + "\n" for row in values(rows))
    source = {"kind": "lines", "path": "rows.jsonl", "columns": list(TYPES)}
    return table_of(schema, source, folder=folder)


def write_sqlite(rows: list[Row], folder: Path) -> None:
    (folder / "rows.db").unlink(missing_ok=True)
    connection = sqlite3.connect(folder / "rows.db")
    connection.execute(f"CREATE TABLE rows ({DECLARED})")
    written = [[v.isoformat(" ") if hasattr(v, "isoformat") else v for v in row] for row in values(rows)]
    connection.executemany(f"INSERT INTO rows VALUES ({HOLES})", written)
    connection.commit()
    connection.close()


# A table of its own for every example, and one database for all: making one takes longer than the example.
@cache
def postgres_database() -> str:
    return new_database()


@cache
def mariadb_database() -> str:
    return running_mariadb().new_database()


def in_postgres(schema: Schema, rows: list[Row], folder: Path) -> EngineTable:
    import psycopg

    url, table = postgres_database(), f"rows_{secrets.token_hex(6)}"
    with psycopg.connect(url) as connection:
        connection.execute(f"CREATE TABLE {table} ({DECLARED})")
        connection.cursor().executemany(f"INSERT INTO {table} VALUES ({HOLES.replace('?', '%s')})", values(rows))
    parts = urlparse(url)
    (host,) = parse_qs(parts.query)["host"]
    source = {"kind": "postgresql", "host": host, "user": "thebes", "database": parts.path[1:], "table": table}
    return table_of(schema, source, folder=folder)


def in_mariadb(schema: Schema, rows: list[Row], folder: Path) -> EngineTable:
    server, database, table = running_mariadb(), mariadb_database(), f"rows_{secrets.token_hex(6)}"
    kinds = {**SQL_TYPES, "float": "DOUBLE", "timestamp": "DATETIME(6)"}
    declared = ", ".join(f"`{name}` {kinds[kind]}" for name, kind in TYPES.items())
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table} ({declared})")
        plain = [[_finite(value) for value in row] for row in values(rows)]
        cursor.executemany(f"INSERT INTO {table} VALUES ({HOLES.replace('?', '%s')})", plain)
    return table_of(schema, {"kind": "sql", "url": server.url(database), "table": table}, folder=folder)


def _finite(value: Any) -> Any:
    """A value as MariaDB can hold it, which knows no NaN and no infinity."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else math.copysign(1.7e308, value)


def spark() -> Any:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def in_spark(schema: Schema, rows: list[Row], folder: Path) -> EngineTable:
    from pyspark.sql import types

    native = {
        "integer": types.LongType(),
        "float": types.DoubleType(),
        "string": types.StringType(),
        "boolean": types.BooleanType(),
        "timestamp": types.TimestampNTZType(),
    }
    shape = types.StructType([types.StructField(name, native[kind]) for name, kind in TYPES.items()])
    return frame_table(schema, spark().createDataFrame(values(rows), shape))


PLACES: list[Any] = [
    in_frame,
    in_csv,
    in_parquet,
    in_delta,
    in_duckdb,
    in_parts,
    many_in_csv,
    many_in_parquet,
    in_sqlite,
    in_any_database,
    in_lines_of_another_package,
    grown,
    pytest.param(in_postgres, marks=pytest.mark.postgres),
    pytest.param(in_mariadb, marks=pytest.mark.mariadb),
    pytest.param(in_spark, marks=pytest.mark.heavy),
    pytest.param(grown_by_spark, marks=pytest.mark.heavy),
]


@pytest.fixture(params=PLACES)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    if request.param in (in_spark, grown_by_spark):
        pytest.importorskip("pyspark", reason="Spark is not installed")
    count = iter(range(1_000_000))

    def open_rows(schema: Schema, rows: list[Row]) -> EngineTable:
        folder = tmp_path / str(next(count))
        folder.mkdir()
        found: EngineTable = request.param(schema, rows, folder)
        return found

    return open_rows


@pytest.mark.few(2)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_engine_gives_what_plain_python_gives(check: Callable[[Open], None], opened: Open) -> None:
    check(opened)


@pytest.mark.slow
def test_every_engine_gives_the_rows_of_a_data_frame_in_the_same_order(opened: Open, tmp_path: Path) -> None:
    engines.check_same_order(opened, lambda schema, rows: in_frame(schema, rows, tmp_path))


@pytest.mark.few(1)
@pytest.mark.parametrize("opened", [place for place in PLACES if place not in (in_csv, many_in_csv)], indirect=True)
def test_a_line_break_stays_in_its_value(opened: Open) -> None:
    """In CSV, where a record is one line, there is none."""
    crowd = [{**row, "who": ("two\nlines", "two", "lines")[n % 3]} for n, row in enumerate(engines.rows_of(30))]
    table = opened(SCHEMA, crowd)
    for wanted in list(engines.questions())[::3]:
        assert table.sums(wanted).tolist() == engine_oracle.sums(crowd, table.schema, wanted)
    table.close()


def test_the_suite_notices_an_engine_that_lets_one_row_too_many_through(tmp_path: Path) -> None:
    def generous(schema: Schema, rows: list[Row]) -> EngineTable:
        more = schema.max_rows_per_unit + (schema.unit == "person")
        return in_frame(schema.model_copy(update={"max_rows_per_unit": more}), rows, tmp_path)

    with pytest.raises(AssertionError):
        engines.check_clipping(generous)


def test_the_suite_notices_an_engine_for_which_nan_is_a_number(tmp_path: Path) -> None:
    def lenient(schema: Schema, rows: list[Row]) -> EngineTable:
        seen = [{**row, "weight": 1e9 if row["weight"] != row["weight"] else row["weight"]} for row in rows]
        return in_frame(schema, seen, tmp_path)

    assert any(isinstance(row["weight"], float) and math.isnan(row["weight"]) for row in engines.rows_of(240))
    with pytest.raises(AssertionError):
        engines.check_sums(lenient)


def of_users(engine: str, folder: Path, places: tuple[int, ...]) -> GrownTable:
    """Some blocks of ten users: user n has n % 4 + 1 rows, whose values are n."""
    columns = {"id": {"type": "integer", "key": True}, "x": {"type": "float", "low": 0, "high": 3000}}
    schema = schema_of({"unit": "person", "max_rows_per_unit": 3, "columns": columns})
    with duckdb.connect() as connection:
        rows = (
            "SELECT n AS id, CAST(n AS DOUBLE) AS x, n * 2654435761 AS _row FROM range(1, 2501) t(n), range(n % 4 + 1)"
        )
        connection.execute(f"COPY ({rows}) TO '{folder}/data_0.parquet' (FORMAT parquet)")
    return GrownTable(
        schema,
        [folder / "data_0.parquet"],
        scratch=folder / "scratch",
        chosen=Chosen(Users("id", 10, places)),
        source=GrowingSource.model_validate({"kind": "growing", "engine": engine}),
    )


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.heavy)])
@pytest.mark.parametrize("places", [(), (0,), (0, 1, 5, 6, 7, 9), tuple(range(0, 250, 2))])
def test_rows_of_some_users_are_the_same_by_every_engine(engine: str, places: tuple[int, ...], tmp_path: Path) -> None:
    if engine == "spark":
        pytest.importorskip("pyspark", reason="Spark is not installed")
        spark()
    table = of_users(engine, tmp_path, places)
    wanted = [user for user in range(1, 2501) if (user - 1) // 10 in places]
    found = sorted(value for part in table.arrays(["x"]) for value in part[:, 0].tolist())
    assert found == sorted(float(user) for user in wanted for _ in range(min(3, user % 4 + 1)))
    assert table.people(3) == (len(wanted), len(found))
    parts = [{v for a in table.part(which, test=0.3).arrays(["x"]) for v in a[:, 0]} for which in ("train", "test")]
    assert parts[0] | parts[1] == set(found)
    assert not parts[0] & parts[1]
    assert parts[1] == {float(user) for user in wanted if user * 2654435761 % 2**32 < round(0.3 * 2**32)}
    table.close()


@pytest.mark.parametrize("asked", ["sums", "batches"])
def test_rows_that_change_between_two_looks_are_refused(asked: str, tmp_path: Path) -> None:
    """Somebody had one row when rows were counted, and a thousand when they were added up."""
    row = next(row for row in engines.rows_of(50) if row["who"] and row["age"] is not None)
    table: Any = many_in_csv(SCHEMA, [row], tmp_path)
    divided = table.engine.divided

    def meanwhile(*arguments: Any) -> Any:
        found = divided(*arguments)
        in_csv(SCHEMA, [row] * 1000, tmp_path).close()
        return found

    table.engine.divided = meanwhile
    with pytest.raises(SourceUnavailable, match="changed while they were read"):
        table.sums(Sums((Term(),))) if asked == "sums" else list(table.batches(["age"]))
    table.forget()
    table.engine.divided = divided
    assert int(table.sums(Sums((Term(),)))[0, 0]) == 2
    table.close()


def crowd(days: int = 6) -> list[Row]:
    """Rows of forty people, one of them with a hundred times as many as the others, on few days, so that many tie."""
    whose = [f"p{n % 40}" for n in range(200)] + ["p0"] * 500
    moments = [None, *(datetime(2026, 2, 1 + day) for day in range(days))]
    made = engines.rows_of(len(whose), seed=17)
    return [
        {**row, "who": who, "seen": moments[n * 7 % len(moments)]}
        for n, (row, who) in enumerate(zip(made, whose, strict=True))
    ]


@pytest.mark.few(2, slow=12)
@pytest.mark.parametrize("most", [1, 4, 5, 400])
@pytest.mark.parametrize("schema", [LATEST, SCHEMA], ids=["latest", "drawn"])
def test_few_and_many_rows_together_are_cut_as_plain_python_cuts_them(schema: Schema, most: int, opened: Open) -> None:
    cut = schema.model_copy(update={"max_rows_per_unit": most})
    table = opened(cut, crowd())
    for wanted in list(engines.questions())[::2]:
        assert table.sums(wanted).tolist() == engine_oracle.sums(crowd(), cut, wanted)
    table.close()


@pytest.mark.parametrize("key", ["whose", "held", "back_to", "asked", "few", "people"])
@pytest.mark.parametrize("where", [in_frame, in_csv])
def test_no_name_of_a_column_is_taken_for_one_of_the_engines_own(where: Any, key: str, tmp_path: Path) -> None:
    """Else a question would fail exactly where somebody has too many rows, and tell it."""
    named = {"who": key, "seen": "_".join(["when", key]), "age": "limits" if key == "asked" else f"{key}_2"}
    body = {**engines.BODY, "time": named["seen"]}
    columns = {named.get(name, name): column for name, column in engines.BODY["columns"].items()}
    schema = schema_of({**body, "columns": columns})
    rows = crowd()
    plain = in_frame(LATEST, rows, tmp_path)
    renamed = pd.DataFrame(values(rows), columns=[named.get(name, name) for name in TYPES], dtype=object)
    if where is in_csv:
        renamed.to_csv(tmp_path / "rows.csv", index=False)
        table = table_of(schema, {"kind": "csv", "path": "rows.csv"}, folder=tmp_path)
    else:
        table = frame_table(schema, renamed)
    for asked, same in ((named["age"], "age"), ("weight", "weight")):
        terms = [(Term(), Term((Factor(name, 1, 1),))) for name in (asked, same)]
        assert table.sums(Sums(terms[0])).tolist() == plain.sums(Sums(terms[1])).tolist()
    table.close()


@pytest.mark.parametrize("name", ["v", "drawn"])
def test_a_view_that_says_something_else_each_time_counts_nobody_with_more_rows(tmp_path: Path, name: str) -> None:
    """Nor a table with a column that does: who has few rows at one look would have them all at the next."""
    columns = {"id": {"type": "integer", "key": True}, "x": {"type": "float", "low": 0, "high": 1}}
    schema = schema_of({"unit": "person", "max_rows_per_unit": 2, "columns": columns})
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as opened:
        opened.execute("CREATE TABLE t AS SELECT 7 AS id, 0.5 AS x FROM range(100)")
        opened.execute("CREATE VIEW v AS SELECT * FROM t WHERE random() < 0.03")
        now = "CASE WHEN (epoch_ms(now()) // 7) % 2 = 0 THEN 0.5 END"
        opened.execute(f"CREATE TABLE drawn (id INTEGER, x DOUBLE GENERATED ALWAYS AS ({now}) VIRTUAL)")
        opened.execute("INSERT INTO drawn SELECT 7 FROM range(100)")
    table = table_of(schema, {"kind": "duckdb", "path": "rows.duckdb", "table": name}, folder=tmp_path)
    table.engine.session.most_few = -1  # as if they were too many for this process
    for _ in range(40):
        assert int(table.sums(Sums((Term(),), axes=(Axis("x", edges=(0.0, 1.0)),))).sum()) <= 2
        table.forget()
    table.close()


@pytest.mark.parametrize("where", [in_frame, in_duckdb])
def test_keys_beyond_64_bits_are_nobody(where: Any, tmp_path: Path) -> None:
    """Several people would become one, and one of them less would bring another one's row up."""
    columns = {"id": {"type": "integer", "key": True}, "x": {"type": "float", "low": 0, "high": 1}}
    schema = schema_of({"unit": "person", "max_rows_per_unit": 1, "columns": columns})
    keys = [1, 2**63 - 1, 2**63 + 1, 2**63 + 2, 2**64]
    if where is in_frame:
        table = frame_table(schema, pd.DataFrame({"id": pd.Series(keys, dtype=object), "x": [0.5] * 5}))
    else:
        with duckdb.connect(str(tmp_path / "rows.duckdb")) as opened:
            opened.execute("CREATE TABLE t (id HUGEINT, x DOUBLE)")
            opened.executemany("INSERT INTO t VALUES (?, 0.5)", [[key] for key in keys])
        table = table_of(schema, {"kind": "duckdb", "path": "rows.duckdb", "table": "t"}, folder=tmp_path)
    assert int(table.sums(Sums((Term(),)))[0, 0]) == 1
    table.close()
