"""A stranger's SQL before any of it runs: `f` and a featurizer, or `w` and the condition of a query."""

from __future__ import annotations

from thebes.data import featurizer
from thebes.data.filter import read_filter
from thebes.data.sandbox import walls
from thebes.data.schema import schema_of

SCHEMA = schema_of(
    {
        "unit": "event",
        "max_rows_per_unit": 1,
        "columns": {
            "age": {"type": "integer", "low": 0, "high": 120},
            "weight": {"type": "float", "low": 0.0, "high": 300.0},
            "sex": {"type": "string", "values": ["female", "male"]},
            "smoker": {"type": "boolean"},
            "admitted": {"type": "timestamp"},
        },
    }
)


def one(data: bytes) -> None:
    text = data[1:].decode("utf-8", errors="surrogateescape")  # JSON can hold half a character, too
    if data[:1] == b"w":
        read_filter(text, SCHEMA)
        return
    walls.begins_a_query(text)
    read = featurizer.read(text)
    assert read.outputs
    assert all("." in table for table in read.tables)
