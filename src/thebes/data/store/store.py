"""The store of one person: who may write into it, what lies in it, and views for featurizers.

Whoever writes holds one lock, over threads and processes; a collector's schema and rows change as one; what was
acknowledged is on disk; nothing on disk is in the clear.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import apsw

from thebes import machine
from thebes.data import keys
from thebes.data.featurizer import read
from thebes.data.rows import Rows
from thebes.data.sandbox.process import Sandbox, Value
from thebes.data.store.collector import CollectorTables
from thebes.data.store.declaration import collector_name, read_declaration
from thebes.data.store.delivery import read_delivery
from thebes.data.store.vault import connect, writing
from thebes.data.store.view import MOST_ROWS, StoreView
from thebes.database import version_mark
from thebes.privacy.faults import Fault, Mistake

MOST_COLLECTORS = 100  #: SQLite attaches at most 125 databases at once

_METADATA = "metadata.db"
_TABLES = """CREATE TABLE IF NOT EXISTS collector (
    name TEXT PRIMARY KEY COLLATE NOCASE,
    file TEXT NOT NULL UNIQUE,
    active INTEGER NOT NULL CHECK (active IN (0, 1)),
    since TEXT NOT NULL
) STRICT"""


class Store:
    """A person's own data, in the folder `store` of their home. Open it with `Store.open`; safe for several threads."""

    def __init__(self, folder: Path, key: bytes, *, home: Path | None) -> None:
        self._folder = folder
        self._key = key
        self._home = home  # set when the key is the home's own, which `destroy` then destroys
        self._turn = threading.RLock()
        self._depth = 0
        self._open: dict[str, CollectorTables] = {}
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            raise Mistake("folder", "must be a folder that can be written to") from None
        try:
            with self._alone_to_open():
                self._metadata = connect(folder / _METADATA, key)
                try:
                    version_mark.check(self._metadata.execute, f"store/{_METADATA}")
                    self._metadata.execute(_TABLES)
                    version_mark.mark(self._metadata.execute)
                    self._tidy()
                except BaseException:
                    self._metadata.close()
                    raise
        except BaseException:
            os.close(self._lock)
            raise

    @classmethod
    def open(cls, folder: str | Path, *, key: bytes | None = None) -> Store:
        """The store in the home `folder`, made if there is none. `key`: 32 bytes; None: the key of the home."""
        home = Path(folder).absolute()  # the featurizers' process has another working folder
        own = home / "store"
        if key is not None:
            return cls(own, key, home=None)
        if keys.kept(home) is None and (own / _METADATA).exists():
            raise Mistake("key", "this store was made with a key that is not in its home")
        return cls(own, keys.key_of(home), home=home)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def register(self, app: str, declaration: Mapping[str, Any]) -> int:
        """Declares the tables of the collector `app`; returns the version of its schema.

        The same declaration again changes nothing. A changed one migrates: new tables and columns, new descriptions,
        tables and columns that hold nothing. A Mistake says what would lose data; then nothing changes.
        """
        name = collector_name(app)
        declared = read_declaration(declaration)
        with self._alone():
            found = self._find(name)
            if found is not None:
                version = self._collector(found).declare(declared)
                with writing(self._metadata):
                    self._metadata.execute("UPDATE collector SET active = 1 WHERE name = ?", (name,))
                return version
            if self._metadata.execute("SELECT count(*) FROM collector").get >= MOST_COLLECTORS:
                raise Mistake("app", f"a store holds at most {MOST_COLLECTORS} collectors; remove one")
            # First the file, then its entry: a file without an entry is cleared away when the store opens.
            file = f"{secrets.token_hex(8)}.db"
            version = self._collector(file).declare(declared)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            with writing(self._metadata):
                self._metadata.execute("INSERT INTO collector VALUES (?, ?, 1, ?)", (name, file, now))
            return version

    def insert(self, app: str, table: str, rows: Sequence[Mapping[str, object]]) -> int:
        """Stores rows of a registered collector and returns how many; they are on disk when it returns.

        A Mistake names the row, from 0, and the column (`rows[3].age`); then none of the rows was stored.
        """
        with self._alone():
            return self._collector(self._of(app, active=True)).insert(table, rows)

    def deliver(self, app: str, delivery: Mapping[str, Any]) -> dict[str, int]:
        """Takes one part of what a run of a collector delivers; see `delivery`. Nothing of a delivery shows before
        its last part is there; with that part all its rows and the collector's state are stored as one."""
        read = read_delivery(delivery)
        with self._alone():
            return self._collector(self._of(app, active=True)).deliver(read)

    def progress(self, app: str) -> dict[str, Any]:
        """Return how far a collector has come: {"number", "release", "state", "at"} of its last accepted delivery."""
        with self._alone():
            return self._collector(self._of(app)).progress().plain()

    def newest(self, app: str, table: str, count: int) -> list[dict[str, object]]:
        """The last `count` rows that were inserted, newest first."""
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 1_000_000:
            raise Mistake("count", "must be between 1 and 1000000")
        with self._alone():
            return self._collector(self._of(app)).newest(table, count)

    def glance(self, app: str, table: str) -> list[dict[str, Any]]:
        """Each column of a table at a glance, from its newest rows; see `glance`. For the owner's eyes only."""
        with self._alone():
            return [column.plain() for column in self._collector(self._of(app)).glance(table)]

    def describe(self) -> list[dict[str, Any]]:
        """Everything that lies here, with row counts. For the owner's eyes only."""
        described = []
        with self._alone():
            for name, file, active, since in self._entries():
                collector = self._collector(file)
                version, declared = collector.schema()
                tables = [
                    {
                        "name": table.name,
                        "description": table.description,
                        "rows": collector.count(table),
                        "columns": [
                            {"name": c.name, "type": c.type, "description": c.description} for c in table.columns
                        ],
                    }
                    for table in declared.tables
                ]
                described.append(
                    {
                        "name": name,
                        "description": declared.description,
                        "release": declared.release,
                        "active": bool(active),
                        "since": since,
                        "version": version,
                        "delivered": collector.progress().at,
                        "tables": tables,
                    }
                )
        return described

    def schemas(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return what the collectors declare, {collector: {table: {"description", "columns"}}}: nothing about the
        rows."""
        with self._alone():
            return {name: self._collector(file).schema()[1].plain() for name, file, _, _ in self._entries()}

    def remove(self, app: str, *, keep_data: bool) -> None:
        """Ends a collector. Its data go too unless `keep_data`; kept data can be read, and added to once it registers
        again. Deleted files are unlinked; what a disk keeps of them is encrypted."""
        if not isinstance(keep_data, bool):
            raise Mistake("keep_data", "must be true or false")
        with self._alone():
            file = self._of(app)
            with writing(self._metadata):
                if keep_data:
                    self._metadata.execute("UPDATE collector SET active = 0 WHERE file = ?", (file,))
                else:
                    self._metadata.execute("DELETE FROM collector WHERE file = ?", (file,))
            if not keep_data:
                self._collector(file).close()
                del self._open[file]
                self._unlink(file)

    @contextmanager
    def view(self, collectors: Iterable[str] | None = None) -> Iterator[StoreView]:
        """The store as it is now, for as long as the block lasts; of all collectors, or those named."""
        wanted = None if collectors is None else {name.lower() for name in collectors}
        sandbox = Sandbox()
        with ExitStack() as stack:
            stack.callback(sandbox.close)
            with self._alone():
                files = {n: f for n, f, _, _ in self._entries() if wanted is None or n.lower() in wanted}
                for file in files.values():
                    self._collector(file)  # an open writer keeps the log's index, which a reader may not make
                declared = sandbox.open({n: self._folder / f for n, f in files.items()}, key=self._key)
            yield StoreView(sandbox, {name: read_declaration(found) for name, found in declared.items()})

    def featurize(self, sql: str, *, most_rows: int = MOST_ROWS) -> Rows:
        """Return what a featurizer gives now; see `StoreView.featurize`."""
        with self.view(_collectors(sql)) as view:
            return view.featurize(sql, most_rows=most_rows)

    def preview(self, sql: str, *, most_rows: int = MOST_ROWS) -> list[dict[str, Value]]:
        """Exactly the rows that `featurize` would read now; see `StoreView.preview`."""
        with self.view(_collectors(sql)) as view:
            return view.preview(sql, most_rows=most_rows)

    def export(self) -> dict[str, Any]:
        """Everything as plain JSON values: every collector, its tables as declared, with all rows in order."""
        collectors = {}
        with self._alone():
            for name, file, active, since in self._entries():
                collector = self._collector(file)
                version, declared = collector.schema()
                plain = declared.plain()
                tables = {t.name: {**plain[t.name], "rows": list(collector.rows(t))} for t in declared.tables}
                collectors[name] = {
                    "description": declared.description,
                    "active": bool(active),
                    "since": since,
                    "version": version,
                    "tables": tables,
                    "state": collector.progress().state,
                }
        return {"collectors": collectors}

    def destroy(self) -> None:
        """Destroys everything: the key first, where it is the home's own, then the files. The store is closed."""
        with self._alone():
            if self._home is not None:
                keys.forget(self._home)
            self._close_databases()
            shutil.rmtree(self._folder, ignore_errors=True)
        self.close()

    def close(self) -> None:
        """Lets go of every file."""
        with self._turn:
            if self._lock >= 0:
                self._close_databases()
                os.close(self._lock)
                self._lock = -1

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else, in this process or another, writes, begins a view or removes files meanwhile."""
        with self._turn:
            if self._lock < 0:
                raise Mistake("store", "is closed")
            if not (self._folder / _METADATA).exists():
                raise Mistake("store", "was destroyed")
            with self._alone_to_open():
                try:
                    yield
                except apsw.FullError:
                    raise Fault("the disk is full; nothing was stored") from None
                except apsw.Error as error:
                    # Its words are left out: they may hold data.
                    kind = type(error).__name__
                    raise Fault(f"a file of the store is damaged or cannot be reached ({kind})") from None

    @contextmanager
    def _alone_to_open(self) -> Iterator[None]:
        with self._turn:
            if self._depth == 0:
                machine.hold(self._lock)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0:
                    machine.let_go(self._lock)

    def _entries(self) -> list[tuple[str, str, int, str]]:
        found = self._metadata.execute("SELECT name, file, active, since FROM collector ORDER BY rowid")
        entries = [(str(n), str(f), int(a), str(s)) for n, f, a, s in found]
        current = {file for _, file, _, _ in entries}
        for file in [file for file in self._open if file not in current]:  # removed by another process
            self._open.pop(file).close()
        return entries

    def _find(self, app: str) -> str | None:
        return next((file for name, file, _, _ in self._entries() if name.lower() == app.lower()), None)

    def _of(self, app: str, *, active: bool = False) -> str:
        for name, file, is_active, _ in self._entries():
            if isinstance(app, str) and name.lower() == app.lower():
                if active and not is_active:
                    raise Mistake("app", "was removed; it must register again before it inserts")
                return file
        raise Mistake("app", "is not a collector of this store; register it first")

    def _collector(self, file: str) -> CollectorTables:
        if file not in self._open:
            self._open[file] = CollectorTables(self._folder / file, self._key)
        return self._open[file]

    def _tidy(self) -> None:
        """Files that a crash left without an entry: half made, or half removed."""
        current = {file for _, file, _, _ in self._entries()} | {_METADATA}
        for path in self._folder.glob("*.db"):
            if path.name not in current:
                self._unlink(path.name)

    def _unlink(self, file: str) -> None:
        for end in ("", "-wal", "-shm"):
            (self._folder / f"{file}{end}").unlink(missing_ok=True)

    def _close_databases(self) -> None:
        for collector in self._open.values():
            collector.close()
        self._open.clear()
        self._metadata.close()


def _collectors(sql: str) -> set[str]:
    return {full.partition(".")[0] for full in read(sql).tables}
