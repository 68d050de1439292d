"""The writing of a batch into files: looked at first, then written by the place of its rows, then named in the
manifest.

What must stay true: a batch with anything wrong in it leaves nothing behind; what is killed halfway is swept away by
the next who opens the data set; memory is bounded by `MEMORY`, whatever the batch's size.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb

from thebes import machine
from thebes.data.connectors.scanned_source import connection, quoted, text
from thebes.data.engines.scratch import Scratch
from thebes.data.growing.block_rule import ATTRIBUTE, USER, BlockBy
from thebes.data.growing.incoming_rows import Incoming, incoming, wrong_type
from thebes.data.growing.manifest import Manifest
from thebes.data.growing.row_condition import ROW, Users
from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.randomness import Randomness

MEMORY = "256MB"
_THREADS = 2
SMALL, MANY = 50_000, 32  #: a file with fewer rows is small; so many of one block are joined
READING = timedelta(days=1)  #: longer than anybody reads the files that a table was opened with
_MOST_SYNCED = 100  # files, one by one
_OPEN_FILES = 500  # while one ingest writes to many blocks
_EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)  #: without blocks.since; one row far back would make windows for good
_AT_ONCE = 200_000  # rows that wait in memory to be written by block


@dataclass(frozen=True, slots=True)
class Ingested:
    """The outcome of a batch. `rows` are those that it has, also where it was there already; they are for whoever
    brings them and for nobody else."""

    rows: int
    again: bool  #: the same was brought under its key before, so nothing changed
    left_out: tuple[str, ...] = ()  #: columns that the schema does not declare


class Writer:
    """Takes batches into one data set's folder."""

    def __init__(
        self,
        folder: Path,
        schema: Schema,
        by: BlockBy,
        manifest: Manifest,
        clock: Callable[[], datetime],
        randomness: Callable[[], Randomness],
    ) -> None:
        self._folder, self._schema, self._by, self._manifest = folder / "rows", schema, by, manifest
        self._clock, self._randomness = clock, randomness
        self._scratch = folder / "scratch"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.sweep()

    def take(self, batch: Any, *, key: str | None, now: datetime) -> Ingested:
        """Keep a batch, all of it or nothing. The same again under its key changes nothing; without a key nobody knows
        that it is the same."""
        with self._engine() as opened:
            came = incoming(batch, self._schema, opened)
            before = self._manifest.ingest_of(digest=came.digest, key=key)
            if before is not None:
                return Ingested(before, again=True, left_out=came.left_out)
            came.attach(opened)
            try:
                rows = self._checked(came, opened, now)
                with self._place() as place:
                    parts = self._written(came, opened, place)
                    kept = {at: files for at, files in parts.items() if files}
                    fresh = self._manifest.admit(
                        folder=place.name,
                        digest=came.digest,
                        key=key,
                        at=now.isoformat(timespec="seconds"),
                        rows=rows,
                        parts=kept,
                    )
                    if not fresh:
                        shutil.rmtree(place, ignore_errors=True)
            except duckdb.Error as error:  # what DuckDB says may show a value
                raise _unreadable(error) from None
        return Ingested(rows, again=not fresh, left_out=came.left_out)

    def without(self, files: list[str], users: Users, now: datetime) -> bool:
        """Write these files anew without the rows of these users; False where one of them was joined meanwhile."""
        with self._engine() as opened, self._place() as place:
            wanted = f"SELECT * FROM {self._scan(files)} WHERE NOT ({users.sql(quoted)})"
            made = self._copied(opened, place, wanted)
            done = self._manifest.replace(files, place.name, made, now.isoformat(timespec="seconds"))
            if not done:
                shutil.rmtree(place, ignore_errors=True)
        return done

    def join(self, now: datetime) -> None:
        """Make one file of many small ones, wherever there are many: the same rows. Whoever reads the small ones
        may finish within `READING`."""
        for files in self._manifest.scattered(many=MANY, small=SMALL).values():
            with self._engine() as opened, self._place() as place:
                try:
                    (made,) = self._copied(opened, place, f"SELECT * FROM {self._scan(files)}")
                except duckdb.Error:  # one of them was joined or dropped meanwhile
                    made = ("", -1)
                until, at = (now + READING).timestamp(), now.isoformat(timespec="seconds")
                if not self._manifest.join(files, place.name, made, at=at, until=until):
                    shutil.rmtree(place, ignore_errors=True)

    def sweep(self) -> None:
        """Remove what nobody is writing and the manifest does not name."""
        self._manifest.let_go(self._clock().timestamp())
        known = self._manifest.folders()
        with _door(self._folder):
            for left in self._folder.iterdir():
                if left.name not in known:
                    self._swept(left)
        if gone := self._manifest.gone():
            for file in gone:
                self._unlinked(self._folder / file)
            self._manifest.forget(gone)

    def _unlinked(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == self._folder:
                return
            with contextlib.suppress(OSError):  # there is more in it, or it is removed already
                folder.rmdir()

    def _scan(self, files: list[str]) -> str:
        sources = ", ".join(text(str(self._folder / file)) for file in files)
        return f"read_parquet([{sources}], hive_partitioning=false)"

    def _copied(self, opened: Any, place: Path, rows: str) -> list[tuple[str, int]]:
        opened.execute(f"COPY ({rows}) TO {text(str(place / 'data_0.parquet'))} (FORMAT parquet)")
        made = [(str(path.relative_to(self._folder)), count) for path, count in _counted(opened, place)]
        _synced(place)
        return made

    def _swept(self, left: Path) -> None:
        held = os.open(left, os.O_RDONLY | os.O_CLOEXEC)
        try:
            machine.hold(held, wait=False)
            if left.name not in self._manifest.folders():  # looked again, now that nobody writes it
                shutil.rmtree(left, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(held)

    # --- inside -------------------------------------------------------------------------------------------

    @contextmanager
    def _engine(self) -> Iterator[Any]:
        scratch = Scratch(self._scratch)
        try:
            with connection(memory_limit=MEMORY, threads=str(_THREADS), temp_directory=str(scratch.folder)) as opened:
                opened.execute(f"SET partitioned_write_max_open_files = {_OPEN_FILES}")
                opened.execute(f"SET partitioned_write_flush_threshold = {_AT_ONCE}")
                yield opened
        except RuntimeError as error:
            if "interrupted" in str(error):  # how DuckDB tells of Ctrl-C
                raise KeyboardInterrupt from None
            raise
        finally:
            scratch.close()

    @contextmanager
    def _place(self) -> Iterator[Path]:
        """A folder for one ingest, held while it is written and removed where that fails."""
        with _door(self._folder):
            place = self._folder / secrets.token_hex(8)
            place.mkdir(mode=0o700)
            held = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
            machine.hold(held)
        try:
            yield place
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        finally:
            os.close(held)

    def _checked(self, came: Incoming, opened: Any, now: datetime) -> int:
        """Count the rows of a batch, once each of them is known to be right."""
        typed = came.typed(self._schema)
        wrong = {name: f"count(*) FILTER ({bad})" for name, (_, bad) in typed.items()}
        (found,) = opened.execute(f"SELECT count(*), {', '.join(wrong.values())} FROM {came.relation}").fetchall()
        for name, count in zip(typed, found[1:], strict=True):
            if count:
                first = self._first(came, opened, typed[name][1])
                raise wrong_type(name, first, self._schema.columns[name].type)
        self._placed(came, opened, typed, now)
        return int(found[0])

    def _placed(self, came: Incoming, opened: Any, typed: dict[str, tuple[str, str]], now: datetime) -> None:
        """Every row has a block, and none comes from the future."""
        by, name = self._by, self._by.column
        kept = f"SELECT {', '.join(f'{typed[each][0]} AS {quoted(each)}' for each in by.columns)} FROM {came.relation}"
        place = by.place_sql()
        stray = f"{by.context_sql()} IS NULL" if by.apart else "false"
        ((strays, without, first, last),) = opened.execute(
            f"SELECT count(*) FILTER ({stray}), count(*) FILTER ({place} IS NULL), min({place}), max({place}) "
            f"FROM ({kept})"
        ).fetchall()
        if strays:
            row = self._first(came, opened, stray, kept)
            raise Mistake(f"columns.{by.apart}", f"row {row} has none of the declared values; nothing was kept")
        if without:
            row = self._first(came, opened, f"{place} IS NULL", kept)
            what = {
                ATTRIBUTE: "has none of the declared values",
                USER: "has an id that is not a whole number from 1 on",
            }
            raise Mistake(f"columns.{name}", f"row {row} {what.get(by.kind, 'says no time')}; nothing was kept")
        end = by.places(0, by.window(now) + 2).stop if by.kind not in (ATTRIBUTE, USER) else None
        if end is not None and last is not None and last >= end:
            row = self._first(came, opened, f"{place} >= {end}", kept)
            raise Mistake(f"columns.{name}", f"row {row} lies in the future; nothing was kept")
        if end is None or first is None:
            return
        earliest = by.window(_EARLIEST) if by.first is None else by.first
        begin = by.places(earliest, earliest).start
        if first < begin:
            row = self._first(came, opened, f"{place} < {begin}", kept)
            limit = "blocks.since" if by.first is not None else f"{_EARLIEST.year}; declare blocks.since if it is right"
            raise Mistake(f"columns.{name}", f"row {row} lies before {limit}; nothing was kept")

    def _first(self, came: Incoming, opened: Any, condition: str, rows: str | None = None) -> int:
        """The number of the first row for which a condition is true."""
        columns = ", ".join(quoted(name) for name in (self._by.columns if rows else self._schema.columns))
        numbered = f"SELECT {columns}, row_number() OVER () AS _n FROM ({rows or f'SELECT * FROM {came.relation}'})"
        ((first,),) = opened.execute(f"SELECT min(_n) FROM ({numbered}) WHERE {condition}").fetchall()
        return int(first)

    def _written(self, came: Incoming, opened: Any, place: Path) -> dict[int | None, list[tuple[str, int]]]:
        """The batch as files, by the place of the rows in them."""
        typed = came.typed(self._schema)
        kept = ", ".join(f"{sql} AS {quoted(name)}" for name, (sql, _) in typed.items())
        columns = ", ".join(quoted(name) for name in typed)
        numbered = f"SELECT {columns}, row_number() OVER () AS _n FROM {came.relation}"
        rows = f"SELECT {kept}, _n FROM ({numbered})"
        whole = f"SELECT {columns}, {self._random()} AS {ROW}"
        if self._by.kind == USER:
            target = text(str(place / "data_0.parquet"))
            opened.execute(
                f"COPY ({whole} FROM ({rows}) ORDER BY {quoted(self._by.column)}) TO {target} (FORMAT parquet)"
            )
        else:
            target = text(str(place))
            opened.execute(
                f"COPY ({whole}, {self._by.place_sql()} AS _block FROM ({rows})) TO {target} "
                "(FORMAT parquet, PARTITION_BY (_block), OVERWRITE_OR_IGNORE)"
            )
        parts: dict[int | None, list[tuple[str, int]]] = {}
        for path, count in _counted(opened, place):
            said = path.parent.name.partition("=")[2]
            at = None if self._by.kind == USER else int(said)
            parts.setdefault(at, []).append((str(path.relative_to(self._folder)), count))
        _synced(place)
        return parts

    def _random(self) -> str:
        """A row's own number below 2^63: uniform and independent of all that rows say. It is 63 bits of MD5 over a
        secret and the row's number in its ingest, or over the data set's secret and whose the row is."""
        if self._schema.unit == "person" and self._schema.key is not None:
            said = f"'{self._manifest.secret}' || CAST({quoted(self._schema.key)} AS VARCHAR)"
        else:
            said = f"'{self._randomness().words(2).tobytes().hex()}' || _n"
        return f"CAST(md5_number_lower({said}) & {2**63 - 1} AS BIGINT)"


def _counted(opened: Any, place: Path) -> list[tuple[Path, int]]:
    """Every file below a folder, with its number of rows."""
    paths = sorted(place.rglob("*.parquet"))
    if not paths:
        return []
    listed = ", ".join(text(str(path)) for path in paths)
    counts = dict(opened.execute(f"SELECT file_name, num_rows FROM parquet_file_metadata([{listed}])").fetchall())
    return [(path, int(counts[str(path)])) for path in paths]


def _synced(place: Path) -> None:
    """On disk before anybody is told of it."""
    found = [*place.rglob("*"), place, place.parent]
    for path in found:
        if path.suffix == ".parquet":
            path.chmod(0o600)
    if len(found) > _MOST_SYNCED:  # waiting for each of them takes longer than for all that is not on disk yet
        os.sync()
        return
    for path in found:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _door(folder: Path) -> Iterator[None]:
    """One at a time makes or removes folders here."""
    held = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        machine.hold(held)
        yield
    finally:
        os.close(held)


def _unreadable(error: duckdb.Error) -> Mistake | Refusal:
    if isinstance(error, duckdb.OutOfMemoryException):
        return Refusal("the rows need more memory, or room for what does not fit, than an ingest may use")
    if "disk" in str(error).lower() and "space" in str(error).lower():
        return Refusal("there is not enough room on the disk for these rows; nothing was kept")
    return Mistake("FILE", "cannot be read: it is not what its name says, or it changed meanwhile; nothing was kept")
