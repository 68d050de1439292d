"""The record of which rows there are: HOME/growing/NAME/manifest.db, and the files that it names.

What must stay true: an ingest is there whole or not at all, and once; no row comes into a block that is sealed; what
the manifest does not name is nobody's and is swept away.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from thebes.data.growing.block_record import BlockRecord, BlockStage, Period
from thebes.data.growing.block_rule import ATTRIBUTE, USER, BlockBy
from thebes.database.private import opened
from thebes.privacy.faults import Mistake, Refusal

T = TypeVar("T")
MOST_BLOCKS = 100_000  #: of one data set
_TABLES = """
CREATE TABLE IF NOT EXISTS stream (one INTEGER PRIMARY KEY CHECK (one = 1), by TEXT NOT NULL, secret TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS block (
    number INTEGER PRIMARY KEY, place INTEGER NOT NULL, copy INTEGER NOT NULL, state TEXT NOT NULL,
    purchase TEXT, size INTEGER, UNIQUE (place, copy));
CREATE INDEX IF NOT EXISTS of_purchase ON block (purchase);
CREATE TABLE IF NOT EXISTS ingest (
    number INTEGER PRIMARY KEY, folder TEXT NOT NULL UNIQUE, digest TEXT NOT NULL, key TEXT UNIQUE,
    rows INTEGER NOT NULL, at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS part (
    file TEXT PRIMARY KEY, block INTEGER REFERENCES block (number), rows INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS of_block ON part (block);
CREATE TABLE IF NOT EXISTS gone (file TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS joined (file TEXT PRIMARY KEY, block INTEGER, until REAL NOT NULL);
CREATE TABLE IF NOT EXISTS period (
    name TEXT PRIMARY KEY, number INTEGER NOT NULL UNIQUE, users INTEGER, rows INTEGER, purchase TEXT);
"""


_LATER = (("period", "purchase", "TEXT"),)  #: columns that the first manifests had not
_STATES = {state.value: state for state in BlockStage}


def came_back(path: Path) -> None:
    """A manifest was restored from a copy. What was being bought when that was made may have been drawn since: it gets
    another name, under which no charge is found, so that it is paid anew."""
    anew = secrets.token_hex(8)
    with closing(opened(path, _TABLES, later=_LATER, patience=30)) as db:
        db.execute("UPDATE block SET purchase = purchase || ? WHERE size IS NULL", (anew,))
        db.execute("UPDATE period SET purchase = ? || number WHERE users IS NULL", (anew,))


class Manifest:
    """One data set's; safe for several threads and processes."""

    def __init__(self, path: Path, by: BlockBy) -> None:
        self.by, self._lock = by, threading.RLock()
        self._db = opened(path, _TABLES, later=_LATER, patience=30, foreign_keys=True)
        self._write(self._begin)
        ((held, self.secret),) = self._db.execute("SELECT by, secret FROM stream").fetchall()
        before, now = held.split("\n"), _cut(by).split("\n")
        if before[0] != now[0] or not (_goes_on(before, now) if len(before) > 1 else not by.apart):
            self.close()
            said = before[0] + (f" and {before[1]}" if len(before) > 1 and before[1] else "")
            raise Refusal(
                f"this data set was cut into blocks by {said} before; that cannot be changed, nor which values come "
                "first, because rows would be charged to other blocks"
            )
        if before != now:
            self._write(lambda: self._db.execute("UPDATE stream SET by = ?", (_cut(by),)))

    def close(self) -> None:
        with self._lock:
            self._db.close()

    # --- what is there ------------------------------------------------------------------------------------

    def blocks(self) -> list[BlockRecord]:
        """All blocks, by their place."""
        sql = "SELECT number, place, copy, state, purchase, size FROM block ORDER BY place, copy"
        return [BlockRecord(n, p, c, _STATES[s], b, z) for n, p, c, s, b, z in self._read(sql)]

    def ingest_of(self, *, digest: str, key: str | None) -> int | None:
        """Return how many rows an ingest under this key brought; None where there was none.

        An ingest is known by the name its steward gave it and by nothing else. Were it known by its content, one row
        more or less would decide whether all the others count once or twice. Under a key that was used before nothing
        is kept, whatever the rows are, so that their content only decides what the steward is told.
        """
        found = self._read("SELECT rows, digest FROM ingest WHERE key = ?", (key,)) if key is not None else []
        if found and found[0][1] != digest:
            raise Mistake("key", "was used before for other rows; nothing was kept. Give new rows a key of their own")
        return found[0][0] if found else None

    def folders(self) -> set[str]:
        """The folder of every ingest."""
        return {folder for (folder,) in self._read("SELECT folder FROM ingest")}

    def files(self, blocks: Iterable[int] | None = None) -> list[str]:
        """The files with the rows of these blocks, or of all."""
        if blocks is None:
            return [file for (file,) in self._read("SELECT file FROM part ORDER BY file")]
        return self._of(blocks, "SELECT file FROM part WHERE block IN (SELECT value FROM json_each(?)) ORDER BY file")

    def true_rows(self, blocks: Iterable[int]) -> dict[int, int]:
        """Count the rows that each of these blocks really has: never to be told."""
        wanted = list(blocks)
        sql = "SELECT block, sum(rows) FROM part WHERE block IN (SELECT value FROM json_each(?)) GROUP BY block"
        return {**dict.fromkeys(wanted, 0), **dict(self._read(sql, (_listed(wanted),)))}

    # --- rows come in -------------------------------------------------------------------------------------

    def admit(
        self,
        *,
        folder: str,
        digest: str,
        key: str | None,
        at: str,
        rows: int,
        parts: Mapping[int | None, Sequence[tuple[str, int]]],
    ) -> bool:
        """Name the files of an ingest, by the place of their rows, all at once; False where it is here already."""

        def work() -> bool:
            if self.ingest_of(digest=digest, key=key) is not None:
                return False
            self._db.execute(
                "INSERT INTO ingest (folder, digest, key, rows, at) VALUES (?, ?, ?, ?, ?)",
                (folder, digest, key, rows, at),
            )
            homes = self._homes(sorted(place for place in parts if place is not None))
            for place, files in parts.items():
                block = None if place is None else homes[place]
                self._db.executemany("INSERT INTO part VALUES (?, ?, ?)", [(f, block, count) for f, count in files])
            return True

        return self._write(work)

    def _homes(self, places: list[int]) -> dict[int, int]:
        """The block that rows of each place go to, made where there is none."""
        if self.by.kind == USER or not (places or self.by.kind == ATTRIBUTE):
            return {}
        # Whether or not rows came: which blocks there are is public.
        by = self.by
        places = list(by.places(0, len(by.values))) if by.kind == ATTRIBUTE else self._between(places)
        latest = {kept.place: kept for kept in self.blocks()}
        first = [place for place in places if place not in latest]
        if by.kind == ATTRIBUTE:
            again = [kept for kept in latest.values() if kept.state is not BlockStage.OPEN]
        else:
            standing = {kept.place % by.many for kept in latest.values() if kept.state is BlockStage.OPEN}
            newest = sorted(latest)[-by.many :]  # of each context
            again = [] if first else [latest[place] for place in newest if place % by.many not in standing]
        if len(latest) + len(first) > MOST_BLOCKS:
            raise Mistake("rows", f"would make more than {MOST_BLOCKS} blocks; are their times right?")
        made = [(place, 1, BlockStage.OPEN) for place in first] + [
            (kept.place, kept.copy + 1, BlockStage.OPEN) for kept in again
        ]
        self._db.executemany("INSERT INTO block (place, copy, state) VALUES (?, ?, ?)", made)
        opened = {kept.place: kept.number for kept in self.blocks() if kept.state is BlockStage.OPEN}
        oldest = {place % by.many: number for place, number in reversed(opened.items())}  # by place
        return {place: opened[place] if place in opened else oldest[place % by.many] for place in places}

    def _between(self, places: list[int]) -> list[int]:
        """Every window from the first to the last, so that whether one in between has rows is not seen; nor whose."""
        known = self._read("SELECT min(place), max(place) FROM block")[0]
        windows = [end // self.by.many for end in (*places, *known) if end is not None]
        between = self.by.places(min(windows), max(windows) + 1)
        if len(between) > MOST_BLOCKS:
            raise Mistake("rows", f"would make more than {MOST_BLOCKS} blocks; are their times right?")
        return list(between)

    def begin_with(self, places: Iterable[int]) -> None:
        """Blocks that are there from the start, because what they are named by is public."""
        rows = [(place, BlockStage.OPEN) for place in places]
        sql = "INSERT OR IGNORE INTO block (place, copy, state) VALUES (?, 1, ?)"
        self._write(lambda: self._db.executemany(sql, rows))

    # --- a block's life -----------------------------------------------------------------------------------

    def seal(self, numbers: Iterable[int]) -> None:
        """No more rows; the blocks that are closed now buy their sizes together."""
        sql = (
            "UPDATE block SET state = ?, purchase = ? "
            "WHERE number IN (SELECT value FROM json_each(?)) AND state = 'open'"
        )
        values = (BlockStage.SEALED, secrets.token_hex(8), _listed(numbers))
        self._write(lambda: self._db.execute(sql, values))

    def unsized(self) -> dict[str, list[BlockRecord]]:
        """Blocks whose size is not bought yet, by purchase."""
        found: dict[str, list[BlockRecord]] = {}
        for kept in self.blocks():
            if kept.purchase is not None and kept.size is None:
                found.setdefault(kept.purchase, []).append(kept)
        return found

    def keep_sizes(self, sizes: Mapping[int, int]) -> None:
        """Write noisy sizes down; one that is there already stays."""
        rows = [(size, number) for number, size in sizes.items()]
        sql = "UPDATE block SET size = ? WHERE number = ? AND size IS NULL"
        self._write(lambda: self._db.executemany(sql, rows))

    def move(self, numbers: Iterable[int], state: BlockStage) -> None:
        """Into another state."""
        values = (state, _listed(numbers))
        sql = "UPDATE block SET state = ? WHERE number IN (SELECT value FROM json_each(?))"
        self._write(lambda: self._db.execute(sql, values))

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget the rows of these blocks; their files are gone from now on."""
        wanted = _listed(numbers)
        inside = "block IN (SELECT value FROM json_each(?))"

        def work() -> None:
            for table in ("part", "joined"):
                self._db.execute(f"INSERT OR IGNORE INTO gone SELECT file FROM {table} WHERE {inside}", (wanted,))
                self._db.execute(f"DELETE FROM {table} WHERE {inside}", (wanted,))
            sql = "UPDATE block SET state = ? WHERE number IN (SELECT value FROM json_each(?))"
            self._db.execute(sql, (BlockStage.DROPPED, wanted))

        self._write(work)

    def replace(self, files: Sequence[str], folder: str, made: Sequence[tuple[str, int]], at: str) -> bool:
        """Name other files instead of these: the same rows without some that are dropped, which lie nowhere else from
        now on. False, and nothing changes, where one of them was joined meanwhile."""
        old = _listed_texts(files)

        def work() -> bool:
            if not self._named(files):
                return False
            self._db.execute("INSERT OR IGNORE INTO gone SELECT value FROM json_each(?)", (old,))
            self._db.execute("INSERT OR IGNORE INTO gone SELECT file FROM joined WHERE block IS NULL")
            self._db.execute("DELETE FROM joined WHERE block IS NULL")
            self._instead(old, folder, [(file, None, rows) for file, rows in made], at)
            return True

        return self._write(work)

    def scattered(self, *, many: int, small: int) -> dict[int | None, list[str]]:
        """Of each block that has so many small files: these. A file is small with fewer than so many rows."""
        found: dict[int | None, list[str]] = {}
        sql = "SELECT block, file FROM part WHERE rows < ? ORDER BY file"
        for block, file in self._read(sql, (small,)):
            found.setdefault(block, []).append(file)
        return {block: files for block, files in found.items() if len(files) >= many}

    def join(self, files: Sequence[str], folder: str, made: tuple[str, int], *, at: str, until: float) -> bool:
        """Name one file instead of these, with the same rows. Who reads these may go on until then. False, and nothing
        changes, where one of them is not named any more."""
        old = _listed_texts(files)

        def work() -> bool:
            inside = "file IN (SELECT value FROM json_each(?))"
            held = self._read(f"SELECT block, sum(rows), count(*) FROM part WHERE {inside} GROUP BY block", (old,))
            file, rows = made
            if [(total, count) for _, total, count in held] != [(rows, len(files))]:
                return False
            ((block, _, _),) = held
            sql = "INSERT INTO joined SELECT value, ?, ? FROM json_each(?)"
            self._db.execute(sql, (block, until, old))
            self._instead(old, folder, [(file, block, rows)], at)
            return True

        return self._write(work)

    def let_go(self, now: float) -> None:
        """Files that were joined so long ago that nobody reads them any more are gone."""

        def work() -> None:
            self._db.execute("INSERT OR IGNORE INTO gone SELECT file FROM joined WHERE until <= ?", (now,))
            self._db.execute("DELETE FROM joined WHERE until <= ?", (now,))

        if self._read("SELECT 1 FROM joined WHERE until <= ? LIMIT 1", (now,)):
            self._write(work)

    def gone(self) -> list[str]:
        """Files that nobody needs any more and that may still lie there."""
        return [file for (file,) in self._read("SELECT file FROM gone")]

    def forget(self, files: Iterable[str]) -> None:
        """They are deleted."""
        sql = "DELETE FROM gone WHERE file IN (SELECT value FROM json_each(?))"
        self._write(lambda: self._db.execute(sql, (_listed_texts(files),)))

    # --- users, counted now and then ----------------------------------------------------------------------

    def periods(self) -> list[Period]:
        """In the order in which they were named."""
        sql = "SELECT name, number, users, rows, purchase FROM period ORDER BY number"
        return [Period(*row) for row in self._read(sql)]

    def name_period(self, name: str, *, most: int) -> Period:
        """A period by its name, new or as it was named before."""

        def work() -> Period:
            named = self.periods()
            for period in named:
                if period.name == name:
                    return period
            if len(named) >= most:
                raise Refusal(f"{most} periods were counted, and nothing is set aside for another")
            made = Period(name, len(named), None, None, secrets.token_hex(8))
            sql = "INSERT INTO period (name, number, purchase) VALUES (?, ?, ?)"
            self._db.execute(sql, (made.name, made.number, made.purchase))
            return made

        return self._write(work)

    def keep_counts(self, name: str, users: int, rows: int) -> None:
        """Write noisy counts down; those that are there already stay."""
        sql = "UPDATE period SET users = ?, rows = ? WHERE name = ? AND users IS NULL"
        self._write(lambda: self._db.execute(sql, (users, rows, name)))

    # --- inside -------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        sql = "INSERT OR IGNORE INTO stream VALUES (1, ?, ?)"
        self._db.execute(sql, (_cut(self.by), secrets.token_hex(16)))

    def _named(self, files: Sequence[str]) -> bool:
        sql = "SELECT count(*) FROM part WHERE file IN (SELECT value FROM json_each(?))"
        return bool(self._read(sql, (_listed_texts(files),))[0][0] == len(files))

    def _instead(self, old: str, folder: str, made: Sequence[tuple[str, int | None, int]], at: str) -> None:
        self._db.execute("DELETE FROM part WHERE file IN (SELECT value FROM json_each(?))", (old,))
        self._db.executemany("INSERT INTO part VALUES (?, ?, ?)", made)
        sql = "INSERT INTO ingest (folder, digest, key, rows, at) VALUES (?, ?, NULL, 0, ?)"
        self._db.execute(sql, (folder, folder, at))

    def _of(self, blocks: Iterable[int], sql: str) -> list[str]:
        return [file for (file,) in self._read(sql, (_listed(blocks),))]

    def _read(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(sql, values).fetchall()

    def _write(self, work: Callable[[], T]) -> T:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                result = work()
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
            return result


def _cut(by: BlockBy) -> str:
    """Write down what decides the places of rows: how they are cut, by which contexts, and the order of declared
    values."""
    if not (by.apart or by.values):
        return str(by)
    apart = f"{by.apart} ({', '.join(by.names)})" if by.apart else ""
    return "\n".join([str(by), apart, *map(json.dumps, by.values)])


def _goes_on(before: Sequence[str], now: Sequence[str]) -> bool:
    """Return whether contexts are the same, and there are at most more values than before."""
    return before[1:] == now[1 : len(before)]


def _listed(numbers: Iterable[int]) -> str:
    return json.dumps([int(number) for number in numbers])


def _listed_texts(texts: Iterable[str]) -> str:
    return json.dumps(list(texts))
