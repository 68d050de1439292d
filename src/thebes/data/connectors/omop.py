"""The rows of a hospital's OMOP CDM (5.3, 5.4), in Parquet files or on a PostgreSQL server: one for each person, or
for each of their visits, conditions, drugs or measurements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from thebes.data.connectors.connector import Connector, Held, Source, SourceUnavailable, path_of, read_source
from thebes.data.connectors.omop_rows import KEY, TABLES, OmopRows
from thebes.data.connectors.parquet import of_one_shape
from thebes.data.connectors.postgresql import PostgresqlServer, ServerAddress, read_safely
from thebes.data.connectors.scanned_source import ScannedSource, plain_path, quoted
from thebes.data.filter import RowFilter
from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake

#: of a type of PostgreSQL, its category: numbers, and dates and times
_CATEGORIES = {"integer": "N", "float": "N", "timestamp": "D"}
_DUCK_TYPES = {"integer": "BIGINT", "float": "DOUBLE", "timestamp": "TIMESTAMP"}


class OmopSource(OmopRows, Source):
    """Either `path`, a folder with a Parquet file or a folder of them for each table, or `server`."""

    kind: Literal["omop"]
    path: str | None = Field(default=None, min_length=1, max_length=4096)
    server: ServerAddress | None = None

    @model_validator(mode="after")
    def _one_place(self) -> OmopSource:
        if (self.path is None) == (self.server is None):
            raise ValueError("needs either path (a folder of Parquet files) or server (a PostgreSQL database)")
        return self


def _of_persons(schema: Schema) -> None:
    """Refuse a schema by which the person is not whose the rows are: a row tells of all tables of a person."""
    if schema.unit != "person" or schema.key != KEY:
        raise Mistake("source.kind", f'needs a schema with unit = "person" whose key is {KEY!r}: a row is a person\'s')


class OmopFiles(ScannedSource):
    """A `Connector` of a folder in which `person.parquet`, or files in `person/`, are the table of persons."""

    def __init__(self, source: OmopSource, path: Path) -> None:
        self._source, self.what = source, path.name
        if not path.is_dir():
            raise SourceUnavailable(f"source.path: there is no folder {path.name} where the data set says")
        self._files = {table: _files(path, table) for table in source.tables}
        self.paths = tuple(file for files in self._files.values() for file in files)

    def attach(self, opened: Any) -> str:
        return f"({self._source.statement(self._relation)})"

    def columns(self) -> Mapping[str, Held]:
        for files in self._files.values():
            self._run(lambda c, files=files: of_one_shape(c, files))
        self._run(lambda c: c.execute(f"DESCRIBE SELECT * FROM {self.attach(c)}"))
        return self._source.columns

    def joins_within(self, schema: Schema) -> None:
        _of_persons(schema)

    def _relation(self, table: str) -> str:
        files = ", ".join(plain_path(path) for path in self._files[table])
        read = ", ".join(f"TRY_CAST({name} AS {_DUCK_TYPES[held]}) AS {name}" for name, held in TABLES[table].items())
        return f"(SELECT {read} FROM read_parquet([{files}], hive_partitioning=false, union_by_name=true))"


def _files(folder: Path, table: str) -> tuple[Path, ...]:
    found = [folder / f"{table}.parquet"] if (folder / f"{table}.parquet").is_file() else []
    found += sorted(path for path in (folder / table).glob("*.parquet") if path.is_file())
    if not found:
        raise SourceUnavailable(f"source.path: {folder.name} has no {table}.parquet, which these rows are read from")
    return tuple(found)


class OmopServer:
    """A `Connector` of a database with the tables of the CDM in one schema (`namespace`)."""

    def __init__(self, source: OmopSource, address: ServerAddress, folder: Path) -> None:
        self._source, self._namespace = source, address.namespace
        self._server = PostgresqlServer(address, folder, f"{address.namespace} in the database {address.database}")
        for table in source.tables:
            self._look_at(table)

    def _look_at(self, table: str) -> None:
        """Refuse a table that lacks a column, or has one of another type, that no value of it could then break."""
        kinds = self._server.kinds(self._namespace, table)
        if not kinds:
            raise SourceUnavailable(f"source.server: {self._server.what} has no table {table}, which these rows need")
        for name, held in TABLES[table].items():
            if name not in kinds:
                raise SourceUnavailable(f"source.server: {table} has no column {name}, which these rows need")
            if kinds[name][1] != _CATEGORIES[held]:
                told = f"{table}.{name} is of the type {kinds[name][0]}, not of the CDM's"
                raise SourceUnavailable(f"source.server: {told}")

    def columns(self) -> Mapping[str, Held]:
        return self._source.columns

    def batches(self, columns: Sequence[str], where: RowFilter | None = None) -> Iterator[Any]:
        wanted = ", ".join(quoted(name) for name in columns or [KEY])
        yield from self._server.answers(f"SELECT {wanted} FROM ({self._statement()}) AS rows")

    def joins_within(self, schema: Schema) -> None:
        _of_persons(schema)

    def close(self) -> None:
        """Nothing is held open between two questions."""

    def _statement(self) -> str:
        return self._source.statement(self._relation)

    def _relation(self, table: str) -> str:
        read = ", ".join(f"{read_safely(name, held)} AS {name}" for name, held in TABLES[table].items())
        return f"(SELECT {read} FROM {quoted(self._namespace)}.{quoted(table)})"


def open_omop(source: Mapping[str, Any], *, folder: Path) -> Connector:
    """Open the connector of `{"kind": "omop", "path": ...}` or `{"kind": "omop", "server": {...}}`."""
    read = read_source(OmopSource, source)
    if read.server is not None:
        return OmopServer(read, read.server, folder)
    assert read.path is not None  # noqa: S101  # one of the two is there
    return OmopFiles(read, path_of(read.path, folder))
