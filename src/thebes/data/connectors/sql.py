"""A table or view of any database that SQLAlchemy speaks to, read by plain SELECTs.

The address names driver, server and database; the password stands elsewhere. Whoever keeps the data gives an account
that may read and nothing else: not every such database can be told to refuse writing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from pydantic import Field

from thebes.data.connectors.connector import Columns, Held, Source, SourceUnavailable, read_source, secret_of
from thebes.data.filter import ENDS, Among, Compared, Condition, Either, Every, Present, RowFilter
from thebes.privacy.faults import Mistake

_ROWS = 10_000  # at a time


class SqlSource(Source):
    """`url` as SQLAlchemy writes it, without a password."""

    kind: Literal["sql"]
    url: str = Field(min_length=1, max_length=4096)
    table: str = Field(min_length=1, max_length=200)
    namespace: str | None = Field(default=None, min_length=1, max_length=200)
    password_env: str | None = Field(default=None, min_length=1, max_length=200)
    password_file: str | None = Field(default=None, min_length=1, max_length=4096)


class Sql:
    """One table behind SQLAlchemy's Core."""

    def __init__(self, source: SqlSource, folder: Path) -> None:
        try:
            url = sa.make_url(source.url)
        except (sa.exc.ArgumentError, ValueError):
            raise Mistake("source.url", "must be an address such as mysql+pymysql://reader@host/database") from None
        if url.password is not None:
            raise Mistake("source.url", "must not hold a password; name password_env or password_file instead")
        secret = secret_of(source.password_env, source.password_file, field="password", folder=folder)
        self._where = f"{source.table} through {url.get_backend_name()}"
        try:
            self._engine = sa.create_engine(
                url.set(password=secret) if secret is not None else url, hide_parameters=True, poolclass=sa.NullPool
            )
            described = sa.inspect(self._engine).get_columns(source.table, schema=source.namespace)
        except sa.exc.NoSuchTableError:
            raise Mistake("source.table", f"there is no table or view {self._where}") from None
        except ImportError:
            raise SourceUnavailable("source.url: the driver that it names is not installed") from None
        except Exception:
            raise self._unavailable() from None
        if not described:
            raise Mistake("source.table", f"there is no table or view {self._where}")
        columns = [sa.Column(column["name"], column["type"]) for column in described]
        self._table = sa.Table(source.table, sa.MetaData(), *columns, schema=source.namespace)
        self._held = {column["name"]: _held(column["type"]) for column in described}

    def columns(self) -> Mapping[str, Held]:
        return self._held

    def batches(self, columns: Sequence[str], where: RowFilter | None = None) -> Iterator[Columns]:
        """Rows as the driver gives them, of those that the database's own conditions leave."""
        # As the driver hands values over: reading them as their types say would fail at the first that is not so.
        plain = [sa.type_coerce(self._table.c[name], sa.types.NullType()) for name in columns]
        statement = sa.select(*plain).select_from(self._table)
        asked = self._pushed(where.condition) if where is not None else None
        statement = statement.where(asked) if asked is not None else statement
        try:
            with self._engine.connect() as connection:
                rows = connection.execution_options(yield_per=_ROWS).execute(statement)
                for part in rows.partitions():
                    yield dict(zip(columns, zip(*part, strict=True), strict=True))
        except GeneratorExit:
            raise
        except Exception:
            raise self._unavailable() from None

    def close(self) -> None:
        self._engine.dispose()

    def _unavailable(self) -> SourceUnavailable:
        return SourceUnavailable(f"{self._where} cannot be read: no server answers, or it does not let this user read")

    def _pushed(self, condition: Condition) -> sa.ColumnElement[bool] | None:
        """Return the part of a condition that any database answers for no fewer rows than the engine (see `pushdown`):
        whole numbers compared."""
        if isinstance(condition, (Every, Either)):
            parts = [self._pushed(part) for part in condition.parts]
            known = [part for part in parts if part is not None]
            if isinstance(condition, Either):
                return sa.or_(sa.false(), *known) if len(known) == len(parts) else None
            return sa.and_(*known) if known else None
        column = self._table.c[condition.column]
        if isinstance(condition, Present):
            return column.is_not(None) if condition.there else None
        values = condition.values if isinstance(condition, Among) else (condition.value,)
        whole = all(isinstance(v, int) and not isinstance(v, bool) and ENDS[0] < v < ENDS[1] for v in values)
        if self._held[condition.column] != "integer" or not whole:
            return None
        if isinstance(condition, Among):
            return column.in_(condition.values) if condition.inside else column.not_in(condition.values)
        return _compared(column, condition)


def _compared(column: sa.ColumnElement[Any], condition: Compared) -> sa.ColumnElement[bool]:
    written = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}
    found: sa.ColumnElement[bool] = getattr(column, written[condition.operator])(condition.value)
    return found


def _held(kind: sa.types.TypeEngine[Any]) -> Held:
    held: list[tuple[type[sa.types.TypeEngine[Any]], Held]] = [
        (sa.Boolean, "boolean"),
        (sa.Integer, "integer"),
        (sa.Numeric, "float"),
        (sa.Float, "float"),
        (sa.Enum, "string"),
        (sa.String, "string"),
        (sa.Uuid, "string"),
        (sa.Date, "timestamp"),
        (sa.DateTime, "timestamp"),
        (sa.types.NullType, "text"),
    ]
    return next((name for family, name in held if isinstance(kind, family)), "other")


def open_sql(source: Mapping[str, Any], *, folder: Path) -> Sql:
    """The connector of `{"kind": "sql", "url": ..., "table": ...}`."""
    return Sql(read_source(SqlSource, source), folder)
