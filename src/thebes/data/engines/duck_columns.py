"""The SQL that makes of a source's column what the schema says, and of that its portable number."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from thebes.data.connectors.connector import Held
from thebes.data.connectors.scanned_source import quoted
from thebes.data.engines.engine import MARK
from thebes.data.filter import ENDS, EXACT
from thebes.data.pictures.limits import MOST_BYTES
from thebes.data.schema import MOST_ELEMENTS, Schema
from thebes.privacy.faults import Mistake

#: type in the schema -> what a source may hold instead
COULD_BE: Mapping[str, frozenset[str]] = {
    "integer": frozenset(("integer", "float", "text")),
    "float": frozenset(("integer", "float", "text")),
    "boolean": frozenset(("boolean", "integer", "text")),
    "string": frozenset(("string", "integer", "text")),
    "timestamp": frozenset(("timestamp", "string", "text")),
    "image": frozenset(("bytes", "image", "string", "text")),
    "array": frozenset(("array", "string", "text")),
}

NATIVE = {
    "integer": "BIGINT",
    "float": "DOUBLE",
    "boolean": "BOOLEAN",
    "string": "VARCHAR",
    "timestamp": "TIMESTAMP",
    "image": "VARCHAR",
    "array": "VARCHAR",
}

_TRUE, _FALSE = "('true', 't', 'yes', 'y', '1')", "('false', 'f', 'no', 'n', '0')"


def fitting(schema: Schema, found: Mapping[str, Held]) -> None:
    """Refuse a source that lacks a declared column, or holds something else in it."""
    absent = [name for name in schema.columns if name not in found]
    if absent:
        listed = ", ".join(absent[:10]) + (" and more" if len(absent) > 10 else "")
        raise Mistake("columns", f"the source has no column {listed}, which the schema declares")
    for name, column in schema.columns.items():
        if found[name] not in COULD_BE[column.type]:
            raise Mistake(f"columns.{name}.type", f"the schema says {column.type}, the source holds {found[name]}")


def typed_sql(column: str, declared: str, holds: Held, native: str = "") -> str:
    """A column as every engine holds it; what is not of its type is missing."""
    if declared == "integer":
        if holds == "integer" and native.upper() in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT"):
            return f"CAST({column} AS BIGINT)"
        near, whole = f"TRY_CAST({column} AS DOUBLE)", f"TRY_CAST({column} AS HUGEINT)"
        low, high = ENDS
        if native.upper() in ("FLOAT", "DOUBLE"):  # as in data frames: it no longer says which whole number was meant
            far = f"WHEN {column} >= {EXACT} THEN {high} WHEN {column} <= -{EXACT} THEN {low}"
            whole = f"WHEN {column} = floor({column}) THEN CAST({column} AS BIGINT)"
            return f"CASE WHEN isnan({column}) THEN NULL {far} {whole} END"
        return (
            f"CASE WHEN {near} IS NULL OR isnan({near}) THEN NULL WHEN {near} > 1e30 THEN {high} "
            f"WHEN {near} < -1e30 THEN {low} WHEN {near} <> floor({near}) THEN NULL "
            f"WHEN {whole} > {high} THEN {high} WHEN {whole} < {low} THEN {low} ELSE CAST({whole} AS BIGINT) END"
        )
    if declared == "float":
        number = f"TRY_CAST({column} AS DOUBLE)"
        return f"CASE WHEN isfinite({number}) OR isinf({number}) THEN {number} END"
    if declared == "boolean":
        if holds == "boolean":
            return column
        if holds == "integer":
            return f"CASE {column} WHEN 0 THEN false WHEN 1 THEN true END"
        said = f"lower(trim({column}))"
        return f"CASE WHEN {said} IN {_TRUE} THEN true WHEN {said} IN {_FALSE} THEN false END"
    if declared == "string":
        return f"CAST({column} AS VARCHAR)"
    if declared in ("image", "array"):
        return tensor_key_sql(column, holds)
    if native.upper() in ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"):
        return _finite(f"TRY_CAST({column} AS TIMESTAMP)")
    return _finite(f"CAST(TRY_CAST({column} AS TIMESTAMPTZ) AS TIMESTAMP)")


def tensor_key_sql(column: str, holds: Held) -> str:
    """Write what stands for a picture or an array until it is read: its path, or the digest of what lies in the row.
    A row without one has an empty key and counts as any other."""
    if holds == "bytes":
        column = f"sha256({column})"
    elif holds == "array":
        column = f"sha256(CAST({column} AS VARCHAR))"
    return f"coalesce(CAST({column} AS VARCHAR), '')"


def small_sql(column: str, holds: Held) -> str:
    """Write what lies in a row of a picture or array; nothing where it has more than any that counts."""
    most = f"octet_length({column}) <= {MOST_BYTES}" if holds == "bytes" else f"len({column}) <= {MOST_ELEMENTS}"
    return f"CASE WHEN {most} THEN {column} END"


def _finite(moment: str) -> str:
    return f"CASE WHEN isfinite({moment}) THEN {moment} END"


def number_sql(column: str, declared: str) -> str:
    """A typed column's portable number."""
    if declared in ("string", "image", "array"):
        return f"CAST('0x' || substr(md5({column}), 1, 15) AS BIGINT)"
    if declared == "timestamp":
        return f"epoch_us({column})"
    return f"CAST({column} AS BIGINT)"


def portable_sql(schema: Schema, name: str) -> str:
    """The portable number of a column that is typed as the schema says."""
    column = schema.columns[name]
    if column.key:
        return number_sql(f"CAST({quoted(name)} AS VARCHAR)", "string")
    return number_sql(quoted(name), column.type)


def numbered_sql(schema: Schema, statement: str, names: Collection[str]) -> str:
    """Return a statement's rows with the portable numbers of these columns."""
    numbers = "".join(f", {portable_sql(schema, name)} AS {quoted(MARK + name)}" for name in names)
    return f"SELECT *{numbers} FROM ({statement})"
