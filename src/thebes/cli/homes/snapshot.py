"""A home as it was at one moment, while its processes go on.

What must stay true: every database is seen as of the same moment, so that no charge is missing for an answer that is
there, and no answer for a charge; the keys of tasks, what seals a cache's secrets, rows that were only put aside,
tokens and the key of sessions are never part of it. A site's certificate and an authority's key are: a copy brings
them back.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from thebes import machine
from thebes.privacy.faults import Fault, Mistake
from thebes.site.dataset import GROWING
from thebes.site.helping.keys import FOLDER as HELPING
from thebes.wire.homes import HomeRole

STAGE = ".copying-"  #: how the folder is called, in the home, where a copy is put together
_PATIENCE_SECONDS = 60.0
_SQLITE = b"SQLite format 3\0"
_TASK_KEYS = "keys"
_SCRATCH = "scratch"  #: rows that did not fit into memory, for as long as somebody reads them
#: each process makes these anew, or a database's own files of a moment
_PASSING = ("daemon.json", "lock", "site.lock")
#: whoever has one of these is let in, or can write what lets in: a copy lies elsewhere, and is not to open the home
_JOIN_CODES = "join_codes.json"
BEARERS = ("token", "admin.token", "figures.token", "session.key")
_PASSING_ENDS = (".lock", "-wal", "-shm", "-journal", ".new", ".part")
#: what is written down first where a process writes to several, and is copied in that order
_LAST = ("person.db", "outbox.db", "audit.db", "ledger.db")


@contextmanager
def snapshot(home: Path, role: HomeRole) -> Iterator[Path]:
    """A folder with a copy of the home as of one moment; it lies in the home, is its owner's alone and goes again."""
    for left in home.glob(f"{STAGE}*"):  # of one that was killed
        shutil.rmtree(left, ignore_errors=True)
    stage = Path(tempfile.mkdtemp(prefix=STAGE, dir=home))  # mode 0700
    try:
        _fill(stage, home, role)
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _fill(stage: Path, home: Path, role: HomeRole) -> None:
    with ExitStack() as opened:
        with _still(home, role) as (files, databases):
            for folder in sorted({file.parent for file in files}):
                (stage / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            reading = {file: opened.enter_context(_as_of_now(home / file)) for file in databases}
            # Logs before their databases: whatever is carried over meanwhile is then in the log that was copied.
            for file in sorted(files, key=lambda file: (not file.name.endswith("-wal"), str(file))):
                if file not in reading:
                    _put(home / file, stage / file, again=role is HomeRole.PERSON and file.parts[0] == "store")
        # Whoever writes goes on from here: what is copied now is what was there before.
        for file, connection in reading.items():
            _copied(connection, stage / file)


@contextmanager
def _still(home: Path, role: HomeRole) -> Iterator[tuple[list[Path], list[Path]]]:
    """The files that there are, and which of them are databases, while nobody writes to any of these: only then is
    every file there that they name. Begins anew where a database came before all were held."""
    while True:
        with ExitStack() as held:
            if role is HomeRole.PERSON:
                held.enter_context(_alone(home / "store" / "lock"))
            databases = _databases(home, _listed(home, role))
            for file in databases:
                held.enter_context(_unchanged(home / file))
            files = _listed(home, role)
            # Only others are looked into: to close a file that is held lets go of it.
            if not _databases(home, sorted({*files} - {*databases})):
                there = {*files}
                yield files, [file for file in databases if file in there]
                return


def _listed(home: Path, role: HomeRole) -> list[Path]:
    return sorted(path.relative_to(home) for path in _files(home, role))


def _databases(home: Path, files: list[Path]) -> list[Path]:
    """Those that can be read without a key, in the order in which they are held."""
    found = [file for file in files if _plain_database(home / file)]
    return sorted(found, key=lambda file: (_LAST.index(file.name) if file.name in _LAST else -1, str(file)))


def _files(home: Path, role: HomeRole) -> Iterator[Path]:
    for folder, folders, names in os.walk(home):
        place = Path(folder)
        folders[:] = [name for name in folders if not _left_out((place / name).relative_to(home), role)]
        for name in names:
            path = place / name
            relative = path.relative_to(home)
            if path.is_symlink() or not path.is_file():
                continue
            if role is HomeRole.PERSON and relative.parts[0] == "store":
                if not name.endswith("-shm") and name != "lock":  # the log belongs to its database: see `_put`
                    yield path
            elif not (name in _PASSING or name.endswith(_PASSING_ENDS) or _kept_back(relative) or _begun(path)):
                yield path


def _left_out(folder: Path, role: HomeRole) -> bool:
    """A folder that is no part of a copy, told from its place: a data set that grows may be called as it likes."""
    match folder.parts:
        case (name,):
            of_tasks = role is HomeRole.COORDINATOR and name == _TASK_KEYS
            return of_tasks or name in (_SCRATCH, HELPING) or name.startswith((f"{_SCRATCH}-", STAGE))
        case (place, _, name):
            return (place, name) == (GROWING, _SCRATCH)
    return False


def _kept_back(file: Path) -> bool:
    """Return whether a file is kept out of a copy: what lets its bearer in, also half written; and what seals a cache:
    without that it forgets its secrets and buys them anew, which must not be known, and not be used in a copy."""
    match file.parts:
        case (name,):
            return name in BEARERS or name.startswith(tuple(f".{bearer}." for bearer in BEARERS))
        case ("ca", name):
            return _JOIN_CODES in name  # one that was used since would be open again
        case ("cache", *_):
            return file.suffix == ".key"
    return False


def _begun(path: Path) -> bool:
    """A database that is just being made."""
    return path.suffix == ".db" and path.stat().st_size == 0


def _plain_database(path: Path) -> bool:
    """One that can be read without a key. A person's store cannot."""
    if path.suffix != ".db":
        return False
    with open(path, "rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Nobody writes to the store of a person meanwhile."""
    if not lock.exists():
        yield
        return
    descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    try:
        machine.hold(descriptor)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _unchanged(path: Path) -> Iterator[None]:
    """Nobody writes to a database meanwhile."""
    with _connected(path) as connection:
        _run(connection, "BEGIN IMMEDIATE", path)
        try:
            yield
        finally:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")


@contextmanager
def _as_of_now(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that sees a database as it is at this moment, whatever is written later."""
    with _connected(path) as connection:
        _run(connection, "BEGIN", path)
        _run(connection, "SELECT count(*) FROM sqlite_master", path)
        yield connection


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, timeout=_PATIENCE_SECONDS, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def _run(connection: sqlite3.Connection, statement: str, path: Path) -> None:
    try:
        connection.execute(statement).fetchall()
    except sqlite3.Error as error:
        kind = type(error).__name__
        raise Fault(f"{path.name} cannot be copied ({kind}); is it damaged, or held by another program?") from None


def _copied(source: sqlite3.Connection, to: Path) -> None:
    os.close(os.open(to, os.O_CREAT | os.O_EXCL, 0o600))
    target = sqlite3.connect(to, isolation_level=None)
    try:
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE").fetchall()  # one file, until it is opened where it is restored
    except sqlite3.Error as error:
        raise Fault(f"{to.name} could not be copied ({type(error).__name__}); is the disk full?") from None
    finally:
        target.close()


def _put(file: Path, to: Path, *, again: bool) -> None:
    """A file as it is now: the same one under a second name, where it is only ever replaced as a whole; else a copy of
    its bytes (`again`)."""
    try:
        if not again:
            os.link(file, to)
            return
    except FileNotFoundError:
        return  # it has just gone
    except OSError:
        pass  # this file system has no second names
    try:
        shutil.copyfile(file, to)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Mistake("HOME", f"{file.name} cannot be read: {error.strerror}") from None
    to.chmod(0o600)
