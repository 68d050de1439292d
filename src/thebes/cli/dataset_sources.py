"""The place where the rows of a data set lie, as `thebes dataset create --source` is told it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thebes.privacy.faults import Mistake

if TYPE_CHECKING:
    from thebes.data.connectors.connector import LeftOut
    from thebes.site.dataset import DataSet

MOST_BROKEN = 0.01  #: of a source's records that may be no rows before somebody has to say that this is meant

_SUFFIXES = {".csv": "csv", ".gz": "csv", ".parquet": "parquet"}
_FILES = {".sqlite": "sqlite", ".sqlite3": "sqlite", ".db": "sqlite", ".duckdb": "duckdb"}


def source_of(text: str) -> dict[str, Any]:
    """A source as its connector reads it."""
    from urllib.parse import urlsplit

    where, _, table = text.partition("#")
    if "://" in where:
        if not table:
            raise Mistake("--source", "needs the table after the address: postgresql://user@host/database#table")
        parts = urlsplit(where)
        if parts.password:
            raise Mistake("--source", "must not hold a password; describe it in a .toml with password_env")
        if parts.scheme in ("postgresql", "postgres") and parts.username:
            found: dict[str, Any] = {"kind": "postgresql", "database": parts.path.strip("/"), "user": parts.username}
            told = {"host": parts.hostname, "port": parts.port, "table": table}
            return {**found, **{name: value for name, value in told.items() if value is not None}}
        return {"kind": "sql", "url": where, "table": table}
    path = Path(where).expanduser().resolve()
    if path.suffix == ".toml":
        return _described(path)
    if path.suffix in _FILES:
        if not table:
            raise Mistake("--source", f"needs the table after the file: {where}#table")
        return {"kind": _FILES[path.suffix], "path": str(path), "table": table}
    if path.suffix not in _SUFFIXES:
        raise Mistake("--source", "must end in .csv, .parquet, .sqlite, .duckdb or .toml, or be a URL#TABLE")
    return {"kind": _SUFFIXES[path.suffix], "path": str(path)}


def _described(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        body = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Mistake("--source", f"cannot read {path}: {str(error)[:200]}") from None
    source = body.get("source", body)
    if not isinstance(source, dict):
        raise Mistake("--source", f"{path} must describe one source")
    for name, value in source.items():  # from the file's own folder, because it is not kept
        if name in ("path", "password_file", "token_file", "sslrootcert", "ca_file", "files") and isinstance(
            value, str
        ):
            source[name] = str(path.parent / value)
    return source


def reached(
    dataset: DataSet, place: Any, *, check: bool, skip_bad_lines: bool = False
) -> tuple[Sequence[LeftOut], dict[str, Any] | None]:
    """Open the source once: that it is there, has the columns, and what of it is no row. Its figures only where they
    are asked for."""
    from thebes.data.engines.source import table_of
    from thebes.site.steward.data_check import left_out, looked_at
    from thebes.site.steward.ways_of_writing import ways_of_writing

    rows, lost = left_out(dataset.schema, dataset.source, folder=place.datasets)
    broken = sum(each.records for each in lost)
    if broken > MOST_BROKEN * (rows + broken) and not skip_bad_lines:
        raise Mistake(
            "--skip-bad-lines",
            f"is needed to go on, because more than {MOST_BROKEN:.0%} would be left out: {lines_left_out(lost)}"
            + (f"; or {told}" if (told := _encoding_told(lost, dataset.source)) else ""),
        )
    where = {"folder": place.datasets, "scratch": place.folder / "scratch"}
    table = table_of(dataset.schema, dataset.source, **where)
    try:
        figures = looked_at(table) if check else None
    finally:
        table.close()
    if figures is not None:
        missing = [name for name, counts in figures["columns"].items() if counts.get("missing")]
        figures["ways"] = ways_of_writing(dataset.schema, dataset.source, missing, **where)
    return lost, figures


def _encoding_told(lost: Sequence[LeftOut], source: Mapping[str, Any]) -> str:
    """Say what to declare where lines of a file are in another encoding than its source says; else nothing."""
    from thebes.data.connectors.csv import encoding_remedy, not_text

    encoding = str(source.get("encoding", "utf-8"))
    return encoding_remedy(encoding) if any(each.reason == not_text(encoding) for each in lost) else ""


def lines_left_out(lost: Sequence[LeftOut]) -> str:
    """Lines that are no rows, by reason: for whoever keeps them."""
    pieces = [f"{each.records:,} with {each.reason} (the first is line {each.first})" for each in lost]
    many = f"{sum(each.records for each in lost):,} lines"
    return f"{many} cannot be read as rows and stay out of every answer: {', '.join(pieces)}"
