"""A table or view of a PostgreSQL server, read through ADBC in a read-only transaction.

What the server says of an error may show a row or an address and is never repeated. A password comes from the
environment or from a file that only its owner reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ConfigDict, Field

from thebes.data.connectors.connector import Held, Source, SourceUnavailable, read_source, secret_of
from thebes.data.connectors.pushdown import pushed
from thebes.data.connectors.scanned_source import quoted
from thebes.data.filter import RowFilter, Value
from thebes.privacy.faults import Mistake, ThebesError

_INTEGERS = ("int2", "int4", "int8")
_TEXTS = ("text", "varchar", "bpchar", "name", "uuid", "citext")
_BATCH_BYTES = 4 << 20


class ServerAddress(BaseModel):
    """A server and the way in. `host` may be a folder with the server's socket. Who `user` is should be allowed to read
    and nothing else."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    database: str = Field(min_length=1, max_length=63)
    namespace: str = Field(default="public", min_length=1, max_length=63)
    host: str = Field(default="localhost", min_length=1, max_length=1024)
    port: int = Field(default=5432, ge=1, le=65_535)
    user: str = Field(min_length=1, max_length=63)
    password_env: str | None = Field(default=None, min_length=1, max_length=200)
    password_file: str | None = Field(default=None, min_length=1, max_length=4096)
    sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] | None = None
    sslrootcert: str | None = Field(default=None, min_length=1, max_length=4096)
    #: how long the server may take to let us in, and to answer
    connect_seconds: int = Field(default=10, ge=1, le=600)
    answer_seconds: int = Field(default=600, ge=1, le=86_400)


class PostgresqlSource(ServerAddress, Source):
    """One table or view of a server."""

    kind: Literal["postgresql"]
    table: str = Field(min_length=1, max_length=63)


class PostgresqlServer:
    """The way to a server: each question is one statement in a read-only transaction. `what` is in messages."""

    def __init__(self, address: ServerAddress, folder: Path, what: str) -> None:
        self._server, self._folder, self.what = address, folder, what

    def answers(self, statement: str) -> Iterator[Any]:
        """Give the rows of a statement as Arrow tables."""
        try:
            import adbc_driver_postgresql.dbapi as adbc
            import pyarrow
        except ImportError:
            raise SourceUnavailable(
                "source.kind: PostgreSQL needs more packages; install thebes with its part 'postgres'"
            ) from None
        try:
            with closing(adbc.connect(self._address())) as connection, closing(connection.cursor()) as cursor:
                cursor.execute("SET TRANSACTION READ ONLY")
                cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(_BATCH_BYTES)})
                cursor.execute(statement)
                for batch in cursor.fetch_record_batch():
                    yield pyarrow.Table.from_batches([batch])
        except (GeneratorExit, ThebesError):
            raise
        except Exception as error:
            raise self._unavailable(getattr(error, "sqlstate", None)) from None

    def kinds(self, namespace: str, table: str) -> dict[str, tuple[str, str]]:
        """Return the columns of a table or view, and of each its type and that type's category; nothing where there is
        none."""
        named = f"{_literal(namespace)} AND c.relname = {_literal(table)}"
        statement = (
            "SELECT a.attname::text AS name, coalesce(b.typname, t.typname)::text AS kind, "
            "coalesce(b.typcategory, t.typcategory)::text AS category "
            "FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
            "JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type b ON b.oid = t.typbasetype AND t.typtype = 'd' "
            f"WHERE n.nspname = {named} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
        )
        found = [row for batch in self.answers(statement) for row in batch.to_pylist()]
        return {row["name"]: (row["kind"], row["category"]) for row in found}

    def _address(self) -> str:
        source = self._server
        secret = secret_of(source.password_env, source.password_file, field="password", folder=self._folder)
        options = f"-c default_transaction_read_only=on -c statement_timeout={source.answer_seconds}s"
        parts = {
            "host": source.host,
            "port": str(source.port),
            "user": source.user,
            "password": secret,
            "sslmode": source.sslmode,
            "sslrootcert": str(self._folder / source.sslrootcert) if source.sslrootcert else None,
            "connect_timeout": str(source.connect_seconds),
            "application_name": "thebes",
            "options": f"{options} -c timezone=UTC -c client_encoding=UTF8",
        }
        given = urlencode({name: value for name, value in parts.items() if value is not None}, quote_via=quote)
        return f"postgresql:///{quote(source.database, safe='')}?{given}"

    def _unavailable(self, state: str | None) -> SourceUnavailable:
        known = {
            "28": "it does not let this user in; check the user and the password",
            "42": "this user may not read it, or it was changed since it was opened",
            "57": "it took longer than answer_seconds, or is being shut down",
        }
        why = known.get((state or "")[:2], "no server answers at source.host and source.port, or it broke off")
        code = f" (SQLSTATE {state})" if state and re.fullmatch(r"[0-9A-Z]{5}", state) and state != "00000" else ""
        return SourceUnavailable(f"{self.what} cannot be read: {why}{code}")


class Postgresql:
    """One table. Every question is one statement, hence sees one state of it."""

    def __init__(self, source: PostgresqlSource, folder: Path) -> None:
        self._source = source
        self._server = PostgresqlServer(
            source, folder, f"{source.namespace}.{source.table} in the database {source.database}"
        )
        self._kinds = self._server.kinds(source.namespace, source.table)
        if not self._kinds:
            raise Mistake("source.table", f"there is no table or view {self._server.what}")
        self._held = {name: _held(kind, category) for name, (kind, category) in self._kinds.items()}
        # One numeric beyond every float would break a comparison, and with it the answer for everybody.
        exact = {name for name, (kind, _) in self._kinds.items() if kind == "numeric"}
        self._pushable: dict[str, Held] = {name: "other" if name in exact else h for name, h in self._held.items()}

    def columns(self) -> Mapping[str, Held]:
        return self._held

    def batches(self, columns: Sequence[str], where: RowFilter | None = None) -> Iterator[Any]:
        """Arrow tables of the rows that the server's own conditions leave."""
        wanted = ", ".join(f"{self._read(name)} AS {quoted(name)}" for name in columns)
        asked = pushed(where.condition, self._pushable, self._asked, _value) if where is not None else None
        table = f"{quoted(self._source.namespace)}.{quoted(self._source.table)}"
        yield from self._server.answers(f"SELECT {wanted} FROM {table}" + (f" WHERE {asked}" if asked else ""))

    def close(self) -> None:
        """Nothing is held open between two questions."""

    # --- values -----------------------------------------------------------------------------------------

    def _asked(self, name: str) -> str:
        """A column as a condition compares it: every text as one, so that upper and lower case stay apart."""
        plain = self._held[name] != "string" or self._kinds[name][0] in ("text", "varchar")
        return quoted(name) if plain else f"{quoted(name)}::text"

    def _read(self, name: str) -> str:
        """A column as the driver can hand it over whatever is in it: no single value may break the answer."""
        column, (kind, _) = quoted(name), self._kinds[name]
        if kind == "numeric":
            return _plain_number(column)
        if self._held[name] == "string":
            return f"{column}::text"
        if self._held[name] != "timestamp":
            return column
        return _plain_moment(
            column, f"({column} AT TIME ZONE 'UTC')" if kind == "timestamptz" else f"{column}::timestamp"
        )


def read_safely(column: str, held: Held) -> str:
    """Write a number or a moment as the driver can hand it over whatever is in it, of whichever type it is there."""
    if held == "timestamp":
        return _plain_moment(column, f"{column}::timestamp")
    if held == "float":
        return _plain_number(column)
    exact = f"{column}::numeric"  # of NaN and infinity neither is true
    return f"CASE WHEN abs({exact}) < 9e18 AND {exact} = trunc({exact}) THEN {column}::int8 END"


def _plain_moment(column: str, read: str) -> str:
    """Write a moment; what is none that a timestamp can hold is missing (dates reach further)."""
    return f"CASE WHEN isfinite({column}) AND {column} <= '294276-12-31' THEN {read} END"


def _plain_number(column: str) -> str:
    return (
        f"CASE WHEN {column} IS NULL OR {column} = 'NaN' THEN NULL WHEN {column} >= 1e300 THEN 'inf'::float8 "
        f"WHEN {column} <= -1e300 THEN '-inf'::float8 WHEN abs({column}) < 1e-300 THEN 0 "
        f"ELSE {column}::float8 END"
    )


def _held(kind: str, category: str) -> Held:
    if kind in _INTEGERS:
        return "integer"
    if kind in ("float4", "float8", "numeric"):
        return "float"
    if kind == "bool":
        return "boolean"
    if kind in ("date", "timestamp", "timestamptz"):
        return "timestamp"
    return "string" if kind in _TEXTS or category == "E" else "other"


def _literal(text: str) -> str:
    """A text for the server, in hexadecimal: nothing in it can be read as SQL."""
    return f"convert_from(decode('{text.encode().hex()}', 'hex'), 'UTF8')"


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"'{value}'::int8"
    if isinstance(value, float):
        return f"'{value!r}'::float8"
    return _literal(value) if isinstance(value, str) else f"'{value.isoformat()}'::timestamp"


def open_postgresql(source: Mapping[str, Any], *, folder: Path) -> Postgresql:
    """The connector of `{"kind": "postgresql", "host": ..., "database": ..., "user": ..., "table": ...}`."""
    return Postgresql(read_source(PostgresqlSource, source), folder)
