"""Sources that DuckDB reads where they lie: how they are described and read without an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from thebes.data.connectors.connector import Held, SourceUnavailable
from thebes.data.filter import RowFilter
from thebes.privacy.faults import Mistake

_ROWS = 2048  # of one vector, DuckDB's own unit
_VECTORS = 32
_INTEGERS = {f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")} | {
    "INTEGER",
    "UINTEGER",
}
_GLOB = frozenset("*?[]{}")  # what DuckDB would read as a pattern

_SAFE = ("autoinstall_known_extensions", "autoload_known_extensions", "allow_community_extensions")


def connection(**settings: str) -> Any:
    """DuckDB in memory, which downloads and loads nothing and reads no variable of Python by its name."""
    import duckdb

    off = dict.fromkeys((*_SAFE, "python_enable_replacements"), "false")
    opened = duckdb.connect(config={**off, **settings})
    opened.execute("SET TimeZone = 'UTC'")
    # The least and the largest number of a file leave NaN out, and DuckDB takes them for those of the column: it then
    # leaves out what asks for NaN.
    opened.execute("SET disabled_optimizers = 'statistics_propagation'")
    return opened


def held(written: str) -> Held:
    """Return what a column of this DuckDB type holds."""
    kind = written.upper()
    if kind.endswith("]"):  # INTEGER[], DOUBLE[][], FLOAT[3]
        return "array" if held(kind[: kind.rindex("[")]) in ("integer", "float", "array") else "other"
    if kind in _INTEGERS:
        return "integer"
    if kind in ("FLOAT", "DOUBLE") or kind.startswith("DECIMAL"):
        return "float"
    if kind == "BOOLEAN":
        return "boolean"
    if kind == "BLOB":
        return "bytes"
    if kind in ("VARCHAR", "UUID") or kind.startswith("ENUM"):
        return "string"
    return "timestamp" if kind == "DATE" or kind.startswith("TIMESTAMP") else "other"


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


def plain_path(path: Path, field: str = "source.path") -> str:
    """A file's name for DuckDB, which reads some signs in it as a pattern."""
    if _GLOB & set(str(path)) or "\0" in str(path):
        raise Mistake(field, "may not contain any of * ? [ ] { } below the data set's folder; rename the file")
    return text(str(path))


class ScannedSource(ABC):
    """The part that such connectors share. `paths` are the only files that an engine may open for them."""

    paths: tuple[Path, ...] = ()
    what = "the file"  #: in messages
    computed = False  #: known once it is attached: rows are worked out when asked for, so perhaps not the same twice

    @abstractmethod
    def attach(self, opened: Any) -> str:
        """Make the source readable through this connection; gives what stands after FROM."""

    def columns(self) -> Mapping[str, Held]:
        """Every column and what it holds."""
        described = self._run(lambda c: c.execute(f"DESCRIBE SELECT * FROM {self.attach(c)}").fetchall())
        return {name: held(kind) for name, kind, *_ in described}

    def batches(self, columns: Sequence[str], where: RowFilter | None = None) -> Iterator[Any]:
        """The rows as data frames."""
        import duckdb

        with connection() as opened:
            try:
                named = ", ".join(quoted(name) for name in columns)
                opened.execute(f"SELECT {named} FROM {self.attach(opened)}")
                while len(chunk := opened.fetch_df_chunk(_VECTORS)):
                    yield chunk
            except duckdb.Error:
                raise self.unavailable() from None

    def close(self) -> None:  # noqa: B027 (nothing is held open between two questions)
        pass

    def unavailable(self) -> SourceUnavailable:
        """Make the error of a source that cannot be read. What DuckDB said may show a row, so it is not repeated."""
        return SourceUnavailable(f"{self.what} cannot be read: it is gone, in use, or not what the data set says")

    def _run(self, asked: Any) -> Any:
        import duckdb

        with connection() as opened:
            try:
                return asked(opened)
            except duckdb.Error:
                raise self.unavailable() from None
