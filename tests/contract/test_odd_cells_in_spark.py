"""A cell that is odd to Spark is none, or what it says, as it is to the other engines, and ends no question.

DuckDB, pandas and Spark read one Parquet file, in which odd cells lie beside plain ones, each in a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.contract.test_engines import spark
from thebes.data.connectors.connector import SourceUnavailable
from thebes.data.engines.source import frame_table, table_of
from thebes.data.engines.table import EngineTable
from thebes.data.filter import read_filter
from thebes.data.given_rows import given_frame
from thebes.data.schema import Schema, schema_of
from thebes.data.table import Axis, Factor, Sums, Term
from thebes.privacy.faults import Mistake

pytestmark = pytest.mark.heavy

MANY = 60
DECIMALS = pa.decimal128(38, 0)
LATER, MORE, OTHER = "x > '2031-01-01'", "x >= 500", "x >= 'b'"


@dataclass(frozen=True)
class Family:
    """Cells that Arrow holds in one type, for a column of `kind`: plain ones, and those that are odd beside them."""

    kind: str
    held: pa.DataType
    plain: tuple[Any, ...]
    odd: tuple[Any, ...]
    where: str

    @property
    def schema(self) -> Schema:
        """Persons with two rows, of which one counts: the later one, where the cells are moments."""
        more: dict[str, Any] = {"low": 0, "high": 1000}
        if self.kind in ("string", "timestamp"):
            more = {"values": ["a", "b"] if self.kind == "string" else ["2026-02-01"]}
        time = {"time": "x"} if self.kind == "timestamp" else {}
        columns = {
            "who": {"type": "integer", "key": True},
            "x": {"type": self.kind, **({} if self.kind == "boolean" else more)},
        }
        return schema_of({"unit": "person", "max_rows_per_unit": 1, **time, "columns": columns})

    def write(self, place: Path) -> None:
        """Every second row of a person has an odd cell."""
        cells = [self.plain[n % len(self.plain)] for n in range(MANY)] + list(self.odd)
        pq.write_table(pa.table({"who": [n % MANY for n in range(len(cells))], "x": self._array(cells)}), place)

    def _array(self, cells: list[Any]) -> pa.Array:
        if pa.types.is_temporal(self.held):
            return pa.array(cells, pa.int32() if pa.types.is_date(self.held) else pa.int64()).cast(self.held)
        if any(isinstance(cell, bytes) for cell in cells):
            told = pa.array([cell.encode() if isinstance(cell, str) else cell for cell in cells], pa.binary())
            return pa.Array.from_buffers(pa.string(), len(told), told.buffers())
        return pa.array(cells, self.held)


DAY = 86_400 * 10**6
FAMILIES = {
    "days": Family("timestamp", pa.date32(), (20485, 0), (2**31 - 1, 1 - 2**31, 300_000 * 365, -800_000, None), LATER),
    "moments": Family(
        "timestamp", pa.timestamp("us"), (20485 * DAY, 0), (2**63 - 2, 2 - 2**63, 10**17, -(10**17), None), LATER
    ),
    "texts of moments": Family(
        "timestamp",
        pa.string(),
        ("2026-02-01", "9999-12-31T23:59:59.5+02:00", "2026-02-01 00:00:00Z"),
        (
            *("now", "today", "infinity", "0044-03-15 BC", "2020-01-01T00:00:00.123456789Z", "", "12:30", "T12:30"),
            *("999999-01-01", "99999999-01-01", "2020-02-30", "2026-02-01T25:00:00", "x" * 100_000, None),
        ),
        LATER,
    ),
    "whole numbers": Family("integer", pa.int64(), (1, 500), (2**63 - 1, -(2**63), None), MORE),
    "floats": Family(
        "integer",
        pa.float64(),
        (1.0, 500.0),
        (2.0**53, -(2.0**60), np.inf, -np.inf, np.nan, 0.5, 1e300, -0.0, None),
        MORE,
    ),
    "short floats": Family("integer", pa.float32(), (1.0, 500.0), (np.float32(1e38), np.nan, 0.5), MORE),
    "unsigned": Family("integer", pa.uint64(), (1, 500), (2**64 - 1, 2**63, 2**60 + 1), MORE),
    "decimals": Family(
        "integer",
        DECIMALS,
        (Decimal(1), Decimal(500)),
        (Decimal(10**37), Decimal(-(10**37)), Decimal(2**60 + 1), Decimal(2**63), Decimal(-(2**63)), None),
        MORE,
    ),
    "fractions": Family(
        "integer",
        pa.decimal128(38, 18),
        (Decimal(1), Decimal(500)),
        (Decimal("0.5"), Decimal(10**19), Decimal("500.000000000000000001"), Decimal("-0.000000000000000001")),
        MORE,
    ),
    "numbers": Family("float", pa.float64(), (1.5, 500.0), (np.inf, -np.inf, np.nan, 1e308, -0.0, 5e-324, None), MORE),
    "numbers of decimals": Family("float", DECIMALS, (Decimal(1), Decimal(500)), (Decimal(10**37), None), MORE),
    "flags": Family("boolean", pa.int64(), (0, 1), (2, -1, 2**63 - 1, None), "x"),
    "texts": Family("string", pa.string(), ("a", "b"), ("\0", "x" * 100_000, "\ud7ff\U0010ffff", "", "A", None), OTHER),
    "bytes for texts": Family("string", pa.string(), ("a", "b"), (b"\xff\xfe", b"a\x80", b"\xed\xa0\x80"), OTHER),
}


def questions(family: Family) -> Iterator[Sums]:
    schema = family.schema
    column = schema.columns["x"]
    yield Sums((Term(),))
    yield Sums((Term(),), where=read_filter(family.where, schema))
    if column.values is not None:
        yield Sums((Term(),), axes=(Axis("x", column.values, missing=True),))
    if column.ranged:
        factors = (Term((Factor("x", 1, 1),)), Term((Factor("x", 2, 2),)))
        yield Sums((Term(), *factors), axes=(Axis("x", edges=(0.0, 2.0, 500.0, 1000.0)),))


def opened(engine: str, schema: Schema, folder: Path) -> EngineTable:
    if engine == "pandas":
        return frame_table(schema, given_frame(pq.read_table(folder / "rows.parquet")))
    if engine == "spark":
        pytest.importorskip("pyspark", reason="Spark is not installed")
        spark()
    source = {"kind": "spark" if engine == "spark" else "parquet", "path": "rows.parquet"}
    return table_of(schema, source, folder=folder, scratch=folder / "scratch")


def answers(engine: str, family: Family, folder: Path) -> list[Any]:
    table = opened(engine, family.schema, folder)
    try:
        return [table.sums(asked).tolist() for asked in questions(family)] + [table.misfits(["x"])["x"]]
    finally:
        table.close()


@pytest.mark.parametrize("name", FAMILIES)
def test_odd_cells_are_to_spark_what_they_are_to_other_engines(name: str, tmp_path: Path) -> None:
    FAMILIES[name].write(tmp_path / "rows.parquet")
    # DuckDB reads no file with a text that is none in UTF-8; to pandas a decimal is as long as a float at most.
    others = {"bytes for texts": ["pandas"], "decimals": ["duckdb"]}.get(name, ["pandas", "duckdb"])
    found = answers("spark", FAMILIES[name], tmp_path)
    for other in others:
        assert found == answers(other, FAMILIES[name], tmp_path), other


KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "whole": (pa.int64(), [*(2**55 + n for n in range(MANY)), 2**63 - 1, -(2**63), None]),
    "floats": (pa.float64(), [*map(float, range(MANY)), 2.0**60, 2.0**60 + 256, np.nan, np.inf, 0.5, None]),
    "unsigned": (pa.uint64(), [*(2**55 + n for n in range(MANY)), 2**63, 2**63 + 1, 2**64 - 1]),
    "decimals": (DECIMALS, [*(Decimal(2**55 + n) for n in range(MANY)), Decimal(10**37), Decimal(2**63), None]),
}


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
@pytest.mark.parametrize("name", KEYS)
def test_long_keys_stay_apart_and_those_beyond_64_bits_are_nobody(name: str, engine: str, tmp_path: Path) -> None:
    held, keys = KEYS[name]
    columns = {"who": {"type": "integer", "key": True}, "x": {"type": "float", "low": 0, "high": 1}}
    schema = schema_of({"unit": "person", "max_rows_per_unit": 1, "columns": columns})
    pq.write_table(pa.table({"who": pa.array(keys, held), "x": [0.5] * len(keys)}), tmp_path / "rows.parquet")
    table = opened(engine, schema, tmp_path)
    assert int(table.sums(Sums((Term(),)))[0, 0]) == MANY
    table.close()


def test_files_that_hold_a_column_in_two_types_are_never_read_as_one(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed")
    spark()
    schema = schema_of({"unit": "event", "columns": {"a": {"type": "integer"}}})

    def rows(plain: pa.Array, other: pa.Array) -> int:
        folder = tmp_path / str(other.type)
        folder.mkdir()
        pq.write_table(pa.table({"a": plain}), folder / "a.parquet")
        pq.write_table(pa.table({"a": other, "more": other}), folder / "m.parquet")
        table = table_of(schema, {"kind": "spark", "path": folder.name}, folder=tmp_path)
        where = read_filter("a IS NOT NULL", schema)  # without one nothing is read but how many rows there are
        return int(table.sums(Sums((Term(),), where=where))[0, 0])

    plain = pa.array([1, 2], pa.int64())
    assert rows(plain, pa.array([1, None], pa.int64())) == 3
    for other in (pa.array([1.0, None]), pa.array(["1"])):
        with pytest.raises((Mistake, SourceUnavailable)):
            rows(plain, other)
