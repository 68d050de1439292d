"""Sources of rows: what is refused, in words that name files and columns and never a value of a row."""

from __future__ import annotations

import csv
import json
import logging
import math
import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import duckdb
import pandas as pd
import psycopg
import pyarrow.parquet
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.mariadb import running_mariadb
from tests.support.memory_and_time import made_up, measured
from tests.support.ports import free_ports
from tests.support.postgres import new_database
from tests.support.s3_store import running_store
from thebes.data.connectors.connector import HandWrittenConnector, Held, LeftOut, SourceUnavailable, secret_of
from thebes.data.connectors.registry import open_connector
from thebes.data.connectors.scanned_source import ScannedSource, connection
from thebes.data.engines.duck import DuckEngine
from thebes.data.engines.source import frame_table, table_of
from thebes.data.engines.table import EngineTable
from thebes.data.filter import read_filter
from thebes.data.schema import schema_of
from thebes.data.table import Axis, Factor, Sums, Term
from thebes.privacy.faults import Mistake
from thebes.privacy.stability import LARGEST_TOTAL

SECRET = "Jane-Roe-4711"  # a value of a row: it must never be seen in a message
SCHEMA = schema_of(
    {
        "unit": "person",
        "columns": {"age": {"type": "integer", "low": 0, "high": 120}, "sex": {"type": "string", "values": ["f", "m"]}},
    }
)
COUNT = Sums((Term(),), axes=(Axis("sex", ("f", "m")),))


def count(table: EngineTable, wanted: Sums = COUNT) -> list[list[int]]:
    try:
        return table.sums(wanted).tolist()
    finally:
        table.close()


def written(folder: Path, text: str | bytes, name: str = "rows.csv") -> dict[str, Any]:
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return {"kind": "csv", "path": name}


# --- descriptions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ({}, "source.kind"),
        ({"kind": "excel"}, "source.kind"),
        ({"kind": ["csv"]}, "source.kind"),
        ({"kind": "csv"}, "source.path"),
        ({"kind": "csv", "path": 3}, "source.path"),
        ({"kind": "csv", "path": "x.csv", "delimiter": ", "}, "source.delimiter"),
        ({"kind": "csv", "path": "x.csv", "pasword": "x"}, "source.pasword"),
        ({"kind": "sqlite", "path": "x.db"}, "source.table"),
        ({"kind": "postgresql", "database": "d", "user": "u", "table": "t", "password": "x"}, "source.password"),
        ({"kind": "sql", "url": "nothing", "table": "t"}, "source.url"),
        ({"kind": "sql", "url": "mysql+pymysql://u:secret@host/d", "table": "t"}, "source.url"),
    ],
)
def test_a_description_is_refused_by_its_field(source: dict[str, Any], field: str, tmp_path: Path) -> None:
    with pytest.raises(Mistake) as refused:
        open_connector(source, folder=tmp_path)
    assert refused.value.argument == field
    assert "secret" not in str(refused.value)


def test_a_field_that_no_such_source_has_is_refused_with_those_that_it_has(tmp_path: Path) -> None:
    known = {"kind": "sqlite", "path": "x.db", "table": "t"}
    with pytest.raises(Mistake, match="is not a field of such a source, which has files, kind, path, table"):
        open_connector({**known, "zone": "t"}, folder=tmp_path)
    with pytest.raises(Mistake, match="did you mean table"):
        open_connector({**known, "tabel": "t"}, folder=tmp_path)


@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb", "sqlite"])
def test_a_file_that_is_not_there_is_said_to_be_missing(kind: str, tmp_path: Path) -> None:
    table = {"table": "rows"} if kind in ("duckdb", "sqlite") else {}
    with pytest.raises(SourceUnavailable, match="there is no file gone"):
        open_connector({"kind": kind, "path": "gone", **table}, folder=tmp_path)


@pytest.mark.parametrize("kind", ["parquet", "duckdb", "sqlite"])
def test_a_file_of_another_kind_is_refused_without_what_it_holds(kind: str, tmp_path: Path) -> None:
    (tmp_path / "rows").write_text(SECRET * 1000)
    table = {"table": "rows"} if kind in ("duckdb", "sqlite") else {}
    with pytest.raises(SourceUnavailable) as refused:
        table_of(SCHEMA, {"kind": kind, "path": "rows", **table}, folder=tmp_path)
    assert SECRET not in str(refused.value)
    assert "rows" in str(refused.value)


@pytest.mark.parametrize("few", [True, False])
def test_nan_is_missing_also_in_a_file_whose_statistics_leave_it_out(few: bool, tmp_path: Path) -> None:
    """Arrow's do; DuckDB then took nothing for NaN, and a row with it for one at the upper bound."""
    pyarrow.parquet.write_table(pyarrow.table({"age": [30.0, math.nan, 50.0, math.nan]}), tmp_path / "rows.parquet")
    schema = schema_of({"unit": "event", "columns": {"age": {"type": "float", "low": 0, "high": 120}}})
    table = table_of(schema, {"kind": "parquet", "path": "rows.parquet"}, folder=tmp_path)
    if not few:
        table.engine.session.most_few = -1
    assert table.sums(Sums((Term(), Term((Factor("age", 1, 1),))), bits=3)).tolist() == [[2, 5]]
    assert sorted(n for batch in table.batches(["age"]) for n in batch.numbers.ravel().tolist()) == [30.0, 50.0]
    table.close()


def test_a_delta_table_is_read_at_the_version_that_is_named_or_as_it_is_opened(tmp_path: Path) -> None:
    def write(*ages: int) -> None:
        write_deltalake(tmp_path / "t", pd.DataFrame({"age": ages, "sex": ["f"] * len(ages)}), mode="append")

    write(1, 2)
    source = {"kind": "delta", "path": "t"}
    table = table_of(SCHEMA, source, folder=tmp_path)
    write(3)
    assert table.sums(COUNT).tolist() == [[2], [0]]
    table.forget()
    assert count(table) == [[2], [0]]
    DeltaTable(tmp_path / "t").delete("age < 3")
    assert count(table_of(SCHEMA, source, folder=tmp_path)) == [[1], [0]]
    for version, rows in ((0, 2), (1, 3), (2, 1)):
        assert count(table_of(SCHEMA, {**source, "version": version}, folder=tmp_path)) == [[rows], [0]]
    with pytest.raises(SourceUnavailable, match=r"source\.version: the Delta table t cannot be read at version 9"):
        table_of(SCHEMA, {**source, "version": 9}, folder=tmp_path)
    with pytest.raises(Mistake, match=r"source\.version"):
        table_of(SCHEMA, {**source, "version": 10**30}, folder=tmp_path)


def test_a_delta_table_that_is_none_is_refused_without_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(SourceUnavailable, match="there is no Delta table plain"):
        table_of(SCHEMA, {"kind": "delta", "path": "plain"}, folder=tmp_path)
    write_deltalake(tmp_path / "t", pd.DataFrame({"age": [1], "sex": ["f"]}))
    for broken in ("_delta_log/00000000000000000000.json", "part-*.parquet"):
        (path,) = (tmp_path / "t").glob(broken)
        path.write_text(SECRET * 100)
        with pytest.raises(SourceUnavailable) as refused:
            count(table_of(SCHEMA, {"kind": "delta", "path": "t"}, folder=tmp_path))
        assert SECRET not in str(refused.value)
        shutil.rmtree(tmp_path / "t")
        write_deltalake(tmp_path / "t", pd.DataFrame({"age": [1], "sex": ["f"]}))


def test_a_delta_table_with_rows_struck_out_beside_its_files_is_refused_in_words(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pd.DataFrame({"age": [1], "sex": ["f"]}))
    log = tmp_path / "t" / "_delta_log" / "00000000000000000000.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
            line["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(SourceUnavailable, match="deletion vectors"):
        table_of(SCHEMA, {"kind": "delta", "path": "t"}, folder=tmp_path)


LAKE = {"kind": "delta", "path": "s3://hospital/lake/visits"}


@pytest.mark.parametrize(
    ("described", "why"),
    [
        ({"path": "s3://hospital"}, "must name a bucket and a folder"),
        ({"path": "s3://"}, "must name a bucket and a folder"),
        ({"path": "s3://hospital/.."}, "must name a bucket and a folder"),
        ({"path": "s3://hospital/visits?version=1"}, "must name a bucket and a folder"),
        ({"path": "s3://hospital/visits#one"}, "must name a bucket and a folder"),
        ({"path": "s3://me@hospital/visits"}, "must name a bucket and a folder"),
        ({"path": "visits", "endpoint": "https://s3.example.org"}, "let path begin with s3://"),
        ({"endpoint": "http://s3.example.org"}, "must begin with https://"),
        ({"endpoint": "https://name:word@s3.example.org"}, "must not hold a name, a password"),
        ({"endpoint": "s3.example.org"}, r"must be an address such as https://s3\.example\.org"),
        ({"region": "us east"}, r"source\.region"),
    ],
)
def test_a_store_that_is_described_wrongly_is_refused(
    described: dict[str, str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with pytest.raises(Mistake, match=why) as refused:
        open_connector({**LAKE, **described}, folder=tmp_path)
    assert SECRET not in str(refused.value)


def test_a_store_is_asked_with_keys_of_the_environment_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    with pytest.raises(SourceUnavailable, match="the environment has no AWS_SECRET_ACCESS_KEY"):
        open_connector(LAKE, folder=tmp_path)


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
def test_another_store_than_the_declared_one_is_never_asked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv(name, "https://other.example.org")
    with pytest.raises(SourceUnavailable, match=f"take {name} out of the environment"):
        open_connector({**LAKE, "endpoint": "https://s3.example.org"}, folder=tmp_path)


def test_a_store_that_does_not_answer_is_told_of_without_its_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    (port,) = free_ports(1)
    with pytest.raises(SourceUnavailable, match="Delta table visits cannot be read: its store does not answer") as told:
        table_of(SCHEMA, {**LAKE, "endpoint": f"http://127.0.0.1:{port}"}, folder=tmp_path)
    assert SECRET not in str(told.value)


@pytest.mark.heavy  # the store's packages are large; what is refused of one is tried above, and Delta's versions too
def test_a_delta_table_in_a_store_is_read_as_one_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with running_store("hospital") as endpoint:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_ports(1)[0]}")
        with pytest.raises(SourceUnavailable, match=r"a proxy would be asked for it; put 127\.0\.0\.1 into NO_PROXY"):
            table_of(SCHEMA, {**LAKE, "endpoint": endpoint}, folder=tmp_path)
        monkeypatch.setenv("NO_PROXY", "localhost, 127.0.0.1")
        source, rows = {**LAKE, "endpoint": endpoint}, pd.DataFrame({"age": [1, 2, 200], "sex": ["f", "m", "f"]})
        options = {"aws_endpoint": endpoint, "aws_allow_http": "true", "aws_region": "us-east-1"}
        with pytest.raises(SourceUnavailable, match="there is no Delta table visits where the data set says"):
            table_of(SCHEMA, source, folder=tmp_path)
        for place, how in ((LAKE["path"], options), (str(tmp_path / "visits"), None)):
            for _ in range(2):
                write_deltalake(place, rows, mode="append", storage_options=how)
        here = {"kind": "delta", "path": "visits"}
        for version in (0, 1):
            told = [table_of(SCHEMA, {**each, "version": version}, folder=tmp_path) for each in (source, here)]
            assert count(told[0]) == count(told[1]) == [[2 * version + 2], [version + 1]]
        opened = table_of(SCHEMA, source, folder=tmp_path)
        assert count(opened) == [[4], [2]]
        with pytest.raises(SourceUnavailable, match="cannot be read at version 9"):
            table_of(SCHEMA, {**source, "version": 9}, folder=tmp_path)
    opened.forget()
    with pytest.raises(SourceUnavailable) as gone:
        opened.sums(COUNT)
    assert SECRET not in str(gone.value)


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "sql"])
def test_a_table_that_is_not_there_is_named(kind: str, tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "rows.duckdb")).close()
    sqlite3.connect(tmp_path / "rows.sqlite").execute("CREATE TABLE other (x)").connection.close()
    place = {"url": f"sqlite:///{tmp_path}/rows.sqlite"} if kind == "sql" else {"path": f"rows.{kind}"}
    with pytest.raises((Mistake, SourceUnavailable), match=r"visits|no table|rows\.duckdb"):
        table_of(SCHEMA, {"kind": kind, **place, "table": "visits"}, folder=tmp_path)


def test_a_declared_column_that_is_absent_is_named(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="no column age, sex, which the schema declares"):
        table_of(SCHEMA, written(tmp_path, "Age,gender\n3,f\n"), folder=tmp_path)
    with pytest.raises(Mistake, match="no column 'sex'"):
        frame_table(SCHEMA, pd.DataFrame({"age": [3]}))


def test_a_column_of_another_type_is_named(tmp_path: Path) -> None:
    pd.DataFrame({"age": ["three"], "sex": ["f"]}).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(Mistake, match="the schema says integer, the source holds string") as refused:
        table_of(SCHEMA, {"kind": "parquet", "path": "rows.parquet"}, folder=tmp_path)
    assert refused.value.argument == "columns.age.type"
    with pytest.raises(Mistake, match="the schema says integer"):
        frame_table(SCHEMA, pd.DataFrame({"age": ["three"], "sex": ["f"]}))


# --- CSV ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["", "age,,sex\n", "age,sex,sex\n", "age,sex,AGE\n"])
def test_a_header_without_a_name_for_every_column_is_refused(header: str, tmp_path: Path) -> None:
    with pytest.raises(Mistake, match=r"rows\.csv"):
        table_of(SCHEMA, written(tmp_path, header), folder=tmp_path)


def test_what_is_wrong_with_one_line_costs_that_line_only(tmp_path: Path) -> None:
    lines = [b"age,sex", b"30,f", b"three,f", b"31", b"32,f,more", b"\xff\xfe,f", b"33,m", b'34,"f"', b",f", b"35, f "]
    source = written(tmp_path, b"\n".join(lines))
    assert count(table_of(SCHEMA, source, folder=tmp_path)) == [[4], [1]]
    ages = Sums((Term(),), axes=(Axis("sex", ("f", "m")), Axis("age", edges=(0, 120))))
    assert count(table_of(SCHEMA, source, folder=tmp_path), ages) == [[2], [1]]


def records(source: dict[str, Any], folder: Path, *more: str) -> tuple[int, Sequence[LeftOut]]:
    found = open_connector(source, folder=folder)
    assert isinstance(found, HandWrittenConnector)
    return found.records(["age", "sex", *more])


def test_every_line_of_a_file_is_accounted_for(tmp_path: Path) -> None:
    """Each is a row that can be read, or is counted by the reason why it is none."""
    lines = [b"age,sex,note", *[b"%d,f,x" % n for n in range(100)]]
    lines += [b"1,M\xfcller,x", b"1,f", b"1,f,x,y", b"1,f,\xff", b'1,"f"g,x', b"\xff\xfe,\xff,x", b"2", b"3,m,z"]
    rows, lost = records(written(tmp_path, b"\n".join(lines)), tmp_path)
    assert rows == 101
    assert {each.reason: (each.records, each.first) for each in lost} == {
        "a value that is not text in UTF-8": (3, 102),
        "too few fields": (2, 103),
        "too many fields": (1, 104),
        "a quote that does not close its field, or something after it": (1, 106),
    }
    assert rows + sum(each.records for each in lost) == len(lines) - 1


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("broken", "others"),
    [
        ('2,"open', ['4,"f"', "5,m"]),
        ('2,"t2,x', ['90,5",x', "5,m"]),
        ('90,5",x', ['2,"t2,x', "5,m"]),
        ("2,f\r", ["5,m"]),
        ("2,f\rx", ["5,m", '6,"m"']),
        ('"', ['"', "5,m"]),
    ],
)
def test_a_broken_line_changes_nothing_of_any_other(broken: str, others: list[str], tmp_path: Path) -> None:
    """A quote that somebody left open once made a hundred thousand rows into one, or kept a file from answering."""
    lines = ["1,f"] * 50 + others + ["3,m"] * 50
    without = read_of(written(tmp_path, "\n".join(["age,sex", *lines]), "without.csv"), tmp_path)
    for place in (0, 30, 51, len(lines)):
        there = [*lines[:place], broken, *lines[place:]]
        found = read_of(written(tmp_path, "\n".join(["age,sex", *there])), tmp_path)
        assert without - found == Counter()
        assert sum((found - without).values()) <= 1


DIRTY = st.text(alphabet='1f,"\r x;\u00fc', max_size=8)


@pytest.mark.slow
@examples(20)
@given(
    lines=st.lists(DIRTY, min_size=1, max_size=8), place=st.integers(0, 7), end=st.sampled_from(["\n", "\r\n", "\r"])
)
def test_one_line_less_is_at_most_its_own_rows_less(lines: list[str], place: int, end: str) -> None:
    """A line with a lone carriage return is two, each read by itself."""
    with tempfile.TemporaryDirectory() as name:
        folder, one = Path(name), lines[place % len(lines)]
        source = written(folder, end.join(["age,sex", *lines]) + end)
        whole = read_of(source, folder)
        assert sum(whole.values()) == records(source, folder)[0]
        fewer = [line for number, line in enumerate(lines) if number != place % len(lines)]
        less = read_of(written(folder, end.join(["age,sex", *fewer]) + end, "less.csv"), folder)
        assert less - whole == Counter()
        assert sum((whole - less).values()) <= 1 + one.count("\r")


def read_of(source: dict[str, Any], folder: Path) -> Counter[Any]:
    """The rows as DuckDB reads them."""
    found = open_connector(source, folder=folder)
    assert isinstance(found, ScannedSource)
    with connection() as opened:
        return Counter(opened.execute(f"SELECT * FROM {found.attach(opened)}").fetchall())


def test_a_csv_file_may_be_compressed_and_may_begin_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    import gzip

    text = '\ufeffage;sex;note\n30;f;"two;lines"\nNA;m;x\n'.encode()
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(text))
    source = {"kind": "csv", "path": "rows.csv.gz", "delimiter": ";", "missing": ["NA"]}
    assert count(table_of(SCHEMA, source, folder=tmp_path)) == [[1], [1]]
    (tmp_path / "plain.csv").write_bytes(text)
    assert count(table_of(SCHEMA, {**source, "path": "plain.csv"}, folder=tmp_path)) == [[1], [1]]


def test_a_csv_file_may_have_decimal_commas_in_named_columns(tmp_path: Path) -> None:
    """Nothing is guessed: what was not written by that rule is missing, and other columns stay as they are."""
    schema = schema_of(
        {
            "unit": "person",
            "columns": {
                "weight": {"type": "float", "low": 0, "high": 2048},
                "code": {"type": "string", "values": ["1,5", "1.5", "x"]},
            },
        }
    )
    fields = ["80,5", "1.234,5", "1.024", " 7 ", "+,5", "1e1", "", "1.5", "1.23,4", "8,5 kg", "1,2,3", "nonsense"]
    lines = [f"{field};{('1,5', '1.5', 'x')[place % 3]}" for place, field in enumerate(fields)]
    source = written(tmp_path, "\n".join(["weight;code", *lines, "NA;x"]) + "\n")
    source |= {"delimiter": ";", "missing": ["NA"], "decimal_comma": ["weight"]}
    table = table_of(schema, source, folder=tmp_path)
    read = sorted(number for batch in table.batches(["weight"]) for number in batch.numbers[:, 0].tolist())
    assert read == [0.5, 7, 10, 80.5, 1024, 1234.5]
    assert count(table, Sums((Term(),), axes=(Axis("code", ("1,5", "1.5", "x")),))) == [[4], [4], [5]]
    light = Sums((Term(),), where=read_filter("weight < 80.6", schema))
    assert count(table_of(schema, source, folder=tmp_path), light) == [[4]]
    without = table_of(schema, {**source, "decimal_comma": []}, folder=tmp_path)
    assert 80.5 not in [number for batch in without.batches(["weight"]) for number in batch.numbers[:, 0].tolist()]
    without.close()
    with pytest.raises(Mistake) as refused:
        table_of(schema, {**source, "decimal_comma": ["height"]}, folder=tmp_path)
    assert refused.value.argument == "source.decimal_comma"


def test_names_in_a_header_cannot_be_read_as_sql(tmp_path: Path) -> None:
    name = "a') ; DROP TABLE x; --\"'"
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["age", "sex", name], [30, "f", "x"]])
    assert count(table_of(SCHEMA, {"kind": "csv", "path": "rows.csv"}, folder=tmp_path)) == [[1], [0]]


def test_a_file_whose_name_is_a_pattern_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="rename the file"):
        table_of(SCHEMA, written(tmp_path, "age,sex\n", "rows[1].csv"), folder=tmp_path)


# --- what an engine may reach ---------------------------------------------------------------------------


def test_nothing_but_the_source_can_be_read_or_written(tmp_path: Path) -> None:
    written(tmp_path, "age,sex\n1,f\n", "other.csv")
    table = table_of(SCHEMA, written(tmp_path, "age,sex\n30,f\n"), folder=tmp_path)
    for statement in (
        f"SELECT * FROM read_csv('{tmp_path}/other.csv')",
        f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
        f"ATTACH '{tmp_path}/new.duckdb'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '10GB'",
    ):
        with pytest.raises(SourceUnavailable):
            table.engine.run(statement)
    assert count(table) == [[1], [0]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.csv", "rows.csv", "scratch"]
    assert list((tmp_path / "scratch").iterdir()) == []
    assert (tmp_path / "scratch").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_database_file_is_opened_to_be_read_only(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{kind}"
    with duckdb.connect(str(path)) if kind == "duckdb" else sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE rows (age BIGINT, sex TEXT)")
        connection.execute("INSERT INTO rows VALUES (30, 'f')")
    before = path.read_bytes()
    path.chmod(0o400)
    table = table_of(SCHEMA, {"kind": kind, "path": path.name, "table": "rows"}, folder=tmp_path)
    if kind == "duckdb":
        write, statement = table.engine.run, "INSERT INTO thebes_source.main.rows VALUES (1, 'm')"
    else:
        write, statement = table.engine._connector._opened.execute, "INSERT INTO rows VALUES (1, 'm')"
    with pytest.raises((SourceUnavailable, sqlite3.OperationalError)):
        write(statement)
    assert count(table) == [[1], [0]]
    assert path.read_bytes() == before


def test_a_question_that_needs_too_much_memory_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        made = "SELECT (i % 100)::BIGINT AS age, 'f' AS sex, 'somebody with a long name ' || i AS who"
        connection.execute(f"COPY ({made} FROM range(400000) r(i)) TO '{tmp_path}/rows.parquet'")
    body = SCHEMA.as_json() | {"max_rows_per_unit": 2}
    body["columns"]["who"] = {"type": "string", "key": True}
    source = {"kind": "parquet", "path": "rows.parquet"}
    table = table_of(schema_of(body), source, folder=tmp_path, memory="1MB")
    with pytest.raises(SourceUnavailable, match="memory"):
        count(table, Sums((Term((Factor("age", 1, 1),)),)))
    assert list((tmp_path / "scratch").iterdir()) == []


# --- SQLite ---------------------------------------------------------------------------------------------


def test_what_sqlite_holds_besides_the_type_of_a_column_is_missing(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "rows.db")
    connection.execute("CREATE TABLE rows (age INTEGER, sex TEXT)")
    odd = [(30, "f"), ("three", "f"), (2.5, "f"), (b"\xff", "f"), (None, "f"), (10**15, b"f"), (1e30, "m")]
    connection.executemany("INSERT INTO rows VALUES (?, ?)", odd)
    connection.execute("INSERT INTO rows VALUES (31, CAST(x'fffe' AS TEXT))")
    connection.commit()
    source = {"kind": "sqlite", "path": "rows.db", "table": "rows"}
    ages = Sums((Term(),), axes=(Axis("sex", ("f", "m")), Axis("age", edges=(0, 120))))
    assert count(table_of(SCHEMA, source, folder=tmp_path), ages) == [[1], [1]]
    missing = Sums((Term(),), axes=COUNT.axes, where=read_filter("age IS NULL", SCHEMA))
    assert count(table_of(SCHEMA, source, folder=tmp_path), missing) == [[4], [0]]


# --- connectors that give what they were given ------------------------------------------------------------


class Given:
    """A connector of rows that some server told."""

    def __init__(self, rows: list[tuple[object, object]], held: Held) -> None:
        self._rows = rows
        self._held = held

    def columns(self) -> dict[str, Held]:
        return {"age": "text" if self._held == "text" else "integer", "sex": self._held}

    def batches(self, columns: Sequence[str], where: object = None) -> Iterator[dict[str, list[object]]]:
        told = {"age": [age for age, _ in self._rows], "sex": [sex for _, sex in self._rows]}
        yield {name: told[name] for name in columns}

    def unavailable(self) -> Exception:
        return SourceUnavailable("it is away")

    def close(self) -> None:
        pass


STRANGE: dict[str, object] = {
    "half a character": "\ud800",
    "a zero": "a\x00b",
    "nothing": "",
    "many digits": 10**5000,
    "a list": [1],
    "a table": {"a": 1},
    "bytes": b"\xff",
    "a truth": True,
    "an object": object(),
    "no number": math.nan,
    "infinity": math.inf,
}


@pytest.mark.few(7)
@pytest.mark.parametrize("held", ["text", "string"])
@pytest.mark.parametrize("strange", STRANGE.values(), ids=list(STRANGE))
def test_one_strange_value_never_makes_a_question_fail(held: Held, strange: object, tmp_path: Path) -> None:
    rows = [(30, "f"), (31, strange), (strange, "m"), (40, "m")]
    engine = DuckEngine(SCHEMA, Given(rows, held), scratch=tmp_path / "scratch")
    ages = Sums((Term(),), axes=(Axis("sex", ("f", "m")), Axis("age", edges=(0, 120))))
    # a number above every bound counts as the highest; a text of so many digits is none
    beyond = strange == math.inf or (strange == 10**5000 and held != "text")
    assert count(EngineTable(SCHEMA, engine), ages) == [[1], [1 + beyond]]


# --- secrets --------------------------------------------------------------------------------------------


def test_a_secret_comes_from_the_environment_or_a_file_that_only_its_owner_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def secret(variable: str | None, file: str | None) -> str | None:
        return secret_of(variable, file, field="password", folder=tmp_path)

    monkeypatch.setenv("READER_PASSWORD", SECRET)
    assert secret("READER_PASSWORD", None) == SECRET
    with pytest.raises(SourceUnavailable, match="the environment has no OTHER"):
        secret("OTHER", None)
    (tmp_path / "password").write_text(SECRET + "\n")
    (tmp_path / "password").chmod(0o600)
    assert secret(None, "password") == SECRET
    (tmp_path / "password").chmod(0o640)
    with pytest.raises(Mistake, match="chmod 600"):
        secret(None, "password")
    with pytest.raises(SourceUnavailable, match="cannot read gone"):
        secret(None, "gone")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(Mistake, match="chmod 600"):
        secret(None, "pipe")
    assert secret(None, None) is None


# --- PostgreSQL -----------------------------------------------------------------------------------------


def postgres(table: str = "rows") -> tuple[str, dict[str, Any]]:
    url = new_database()
    parts = urlparse(url)
    (host,) = parse_qs(parts.query)["host"]
    source = {"kind": "postgresql", "host": host, "user": "thebes", "database": parts.path[1:], "table": table}
    return url, source


@pytest.mark.postgres
def test_no_value_of_a_postgresql_column_breaks_an_answer(tmp_path: Path) -> None:
    import psycopg

    url, source = postgres()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TYPE sexes AS ENUM ('f', 'm')")
        kinds = "age numeric, sex sexes, seen timestamptz, born date, paid float4"
        connection.execute(f"CREATE TABLE rows ({kinds}, dose numeric)")
        rows = [
            ("30", "f", "2026-01-31T00:00:00+02:00", "1990-01-01", "1.5"),
            ("1e400", "f", "infinity", "-infinity", "inf"),
            ("NaN", "m", "-infinity", "infinity", "nan"),
            ("2.5", "m", "4713-01-01 BC", "4713-01-01 BC", "-inf"),
            ("1e-400", "m", "294276-01-01", "5874897-01-01", "1e-40"),
            (None, None, None, None, None),
        ]
        connection.cursor().executemany("INSERT INTO rows VALUES (%s::numeric, %s::sexes, %s, %s, %s)", rows)
        connection.execute("UPDATE rows SET dose = age")
    columns = {
        **SCHEMA.as_json()["columns"],
        "seen": {"type": "timestamp"},
        "born": {"type": "timestamp"},
        "paid": {"type": "float", "low": 0, "high": 2},
        "dose": {"type": "float", "low": 0, "high": 120},
    }
    schema = schema_of({"unit": "person", "columns": columns})
    table = table_of(schema, source, folder=tmp_path)
    assert table.sums(COUNT).tolist() == [[2], [3]]
    one = Sums((Term((Factor("paid", 1, 1),)), Term()), bits=2)
    assert table.sums(one).tolist() == [[3 + 4 + 0 + 0, 4]]
    ages = Sums((Term(),), axes=(Axis("age", edges=(0, 50, 120)),))
    assert table.sums(ages).tolist() == [[2], [1]]
    born = Sums((Term(),), where=read_filter("born < '2030-01-01' OR born IS NULL", schema))
    assert table.sums(born).tolist() == [[6]]  # dates that no timestamp reaches are missing
    for text, right in (
        ("seen < '2026-01-30T22:00:01Z' AND born IS NOT NULL", 2),
        ("sex = 'f' AND age > 3", 2),
        ("dose > 0.5", 3),
    ):
        assert table.sums(Sums((Term(),), where=read_filter(text, schema))).tolist() == [[right]], text
    table.close()


@pytest.mark.postgres
def test_a_condition_is_answered_by_postgresql_before_its_rows_travel(tmp_path: Path) -> None:
    import psycopg

    url, source = postgres()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE rows (age int, sex text)")
        connection.execute("INSERT INTO rows SELECT i % 100, chr(97 + i % 26) FROM generate_series(1, 10000) i")
    connector = open_connector(source, folder=tmp_path)
    columns = {"age": {"type": "integer", "low": 0, "high": 120}, "sex": {"type": "string", "values": ["e", "it's"]}}
    schema = schema_of({"unit": "person", "columns": columns})
    for text in ("age = 30 AND sex = 'e'", "sex IN ('e', 'it''s') AND NOT age <> 30"):
        found = connector.batches(["age", "sex"], read_filter(text, schema))
        assert 0 < sum(batch.num_rows for batch in found) < 40
    kept = connector.batches(["age"], read_filter("sex > 'f' OR age IS NULL", SCHEMA))
    assert sum(batch.num_rows for batch in kept) == 10_000


@pytest.mark.postgres
def test_postgresql_is_asked_read_only_and_a_password_is_never_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import psycopg

    url, source = postgres()
    monkeypatch.setenv("READER_PASSWORD", SECRET)
    caplog.set_level(logging.DEBUG)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE log (x int)")
        connection.execute("CREATE TABLE rows (age int, sex text)")
        connection.execute("INSERT INTO rows VALUES (30, 'f')")
        connection.execute(
            "CREATE FUNCTION writes(x int) RETURNS int LANGUAGE plpgsql AS "
            "$$ BEGIN INSERT INTO log VALUES (x); RETURN x; END $$"
        )
        connection.execute("CREATE VIEW sly AS SELECT writes(age) AS age, sex FROM rows")
    with_password = {**source, "password_env": "READER_PASSWORD"}
    assert count(table_of(SCHEMA, with_password, folder=tmp_path)) == [[1], [0]]
    sly = table_of(SCHEMA, {**with_password, "table": "sly"}, folder=tmp_path)
    with pytest.raises(SourceUnavailable) as refused:
        count(sly, Sums((Term(),), axes=(Axis("age", edges=(0, 120)),)))
    said = str(refused.value)
    for change in ({"port": 1}, {"user": "nobody"}, {"database": "nothing"}, {"host": "/nowhere"}):
        with pytest.raises(SourceUnavailable) as refused:
            table_of(SCHEMA, {**with_password, **change, "connect_seconds": 2}, folder=tmp_path)
        said += str(refused.value)
    with pytest.raises(Mistake, match=r"there is no table or view public\.visits"):
        table_of(SCHEMA, {**with_password, "table": "visits"}, folder=tmp_path)
    assert SECRET not in said + caplog.text
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM log").fetchone() == (0,)


# --- what is asked --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "argument"),
    [
        (Sums(()), "terms"),
        (Sums((Term((Factor("sex", 1, 0),)),)), "terms"),
        (Sums((Term((Factor("age", 3, 0),)),)), "terms"),
        (Sums((Term((Factor("age", 1, 2),)),)), "terms"),
        (Sums((Term((Factor("age", 1, 1),) * 4),), bits=16), "bits"),
        (Sums((Term((Factor("age", 2, 1),)),), bits=26), "bits"),
        (Sums((Term(),), axes=(Axis("age"),)), "axes"),
        (Sums((Term(),), axes=(Axis("age", edges=(0, 100)),)), "axes"),
        (Sums((Term(),), axes=(Axis("age", edges=(0, 50, 50, 120)),)), "axes"),
        (Sums((Term(),), axes=(Axis("sex", tuple(map(str, range(1001)))),) * 2), "axes"),
        (Sums((Term(),), axes=(Axis("who", ("x",)),)), "column"),
        (Sums((Term((Factor("height", 1, 1),)),)), "column"),
    ],
)
def test_a_sum_that_cannot_be_exact_is_refused(wanted: Sums, argument: str) -> None:
    table = frame_table(SCHEMA, pd.DataFrame({"age": [3], "sex": ["f"]}))
    with pytest.raises(Mistake) as refused:
        table.sums(wanted)
    assert refused.value.argument == argument


def test_totals_beyond_the_largest_are_the_largest() -> None:
    bits, rows = 17, 5000
    frame = pd.DataFrame({"age": [120] * rows, "sex": ["f"] * rows})
    wanted = Sums((Term((Factor("age", 1, 1),) * 3),), bits=bits)
    exact = frame_table(SCHEMA, frame).sums(wanted)[0, 0]
    assert exact == min(rows << (3 * bits), LARGEST_TOTAL)
    assert rows << (3 * bits) > LARGEST_TOTAL
    assert frame_table(SCHEMA, frame[:3]).sums(wanted)[0, 0] == 3 << (3 * bits)


def test_what_a_killed_process_left_is_removed_by_the_next_and_nothing_that_is_in_use(tmp_path: Path) -> None:
    source = written(tmp_path, "age,sex\n30,f\n")
    in_use = table_of(SCHEMA, source, folder=tmp_path)
    (held,) = (tmp_path / "scratch").iterdir()
    left = tmp_path / "scratch" / "engine-left"
    left.mkdir()
    (left / "rows.tmp").write_text(SECRET)
    (tmp_path / "scratch" / "engine-link").symlink_to(tmp_path)
    table_of(SCHEMA, source, folder=tmp_path).close()
    assert sorted(path.name for path in (tmp_path / "scratch").iterdir()) == sorted([held.name, "engine-link"])
    assert count(in_use) == [[1], [0]]
    assert not held.exists()
    assert (tmp_path / "rows.csv").exists()


# --- memory ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    made_up(folder, 2_000_000)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "most"),
    [("mean", 1), *(pytest.param(*each, marks=pytest.mark.heavy) for each in [("mean", None), ("rows", 1000)])],
)
def test_two_million_rows_fit_into_little_memory(question: str, most: int | None, many: Path) -> None:
    """Check what `make bench` measures for ten million, on fewer rows: beyond its limit DuckDB keeps rows on disk."""
    assert measured(many, question, most=most)["peak MB"] < 400
    assert list((many / "scratch").iterdir()) == []


# --- MariaDB --------------------------------------------------------------------------------------------


@pytest.mark.mariadb
def test_mariadb_answers_an_account_that_may_only_read_and_no_password_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = running_mariadb()
    database = server.new_database()
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE `rows` (age INT, sex VARCHAR(9)) COLLATE utf8mb4_general_ci")
        cursor.execute("INSERT INTO `rows` VALUES (30, 'f'), (40, 'F'), (50, 'm'), (NULL, NULL)")
        cursor.execute(f"CREATE USER 'reader'@'localhost' IDENTIFIED BY '{SECRET}'")
        cursor.execute(f"GRANT SELECT ON {database}.* TO 'reader'@'localhost'")
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("READER_PASSWORD", SECRET)
    source = {"kind": "sql", "url": server.url(database, "reader"), "table": "rows", "password_env": "READER_PASSWORD"}
    table = table_of(SCHEMA, source, folder=tmp_path)
    assert table.sums(Sums((Term(),), where=read_filter("sex = 'f'", SCHEMA))).tolist() == [[1]], "F is another text"
    assert table.sums(Sums((Term(),), where=read_filter("age > 35", SCHEMA))).tolist() == [[2]]
    table.close()
    monkeypatch.setenv("READER_PASSWORD", SECRET + "x")
    with pytest.raises(SourceUnavailable, match="it does not let this user read") as refused:
        table_of(SCHEMA, source, folder=tmp_path)
    assert SECRET not in str(refused.value) + caplog.text


# --- views that a steward declares where the rows lie -------------------------------------------------------------

JOINED = """
CREATE TABLE person (id INTEGER, sex VARCHAR(1));
CREATE TABLE visit (person_id INTEGER, age INTEGER);
INSERT INTO person VALUES (1, 'f'), (2, 'm'), (3, 'f');
INSERT INTO visit VALUES (1, 40), (1, 41), (2, 50);
CREATE VIEW visits AS SELECT person.id AS who, age, sex FROM visit JOIN person ON person.id = visit.person_id;
"""


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_a_view_in_a_database_is_a_data_set_like_a_table(tmp_path: Path, kind: str) -> None:
    told: dict[str, Any] = {"kind": kind, "table": "visits", "path": f"rows.{kind}"}
    if kind == "sqlite":
        with sqlite3.connect(tmp_path / told["path"]) as file:
            file.executescript(JOINED)
        file.close()
    elif kind == "duckdb":
        with duckdb.connect(tmp_path / told["path"]) as opened:
            opened.execute(JOINED)
    else:
        url = new_database()
        with psycopg.connect(url, autocommit=True) as server:
            server.execute(JOINED)
        place = urlparse(url)
        told = {"kind": kind, "table": "visits", "database": place.path.strip("/"), "user": str(place.username)}
        told["host"] = parse_qs(place.query)["host"][0]
    who = {"type": "integer", "key": True}
    schema = schema_of({**SCHEMA.as_json(), "columns": {**SCHEMA.as_json()["columns"], "who": who}})
    assert count(table_of(schema, told, folder=tmp_path)) == [[1], [1]]  # of each person one row, as declared
