"""Copying a home into a file, and bringing a copy back.

What must stay true: a copy holds no key of a task, and no token that lets its bearer in; what is restored is whole or
not there at all, and its ledger is frozen before anybody can open it.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from thebes import machine
from thebes.cli.homes import archive
from thebes.cli.homes.roles import role_of
from thebes.cli.homes.snapshot import BEARERS, snapshot
from thebes.data import keys
from thebes.ledger import MOVED, Ledger, NoKeeper
from thebes.privacy.faults import Mistake, ThebesError
from thebes.wire.access import make_token
from thebes.wire.homes import HomeRole
from thebes.wire.local_server import Hold

_KEY, _KEYRING = "key.json", "keyring"
_WHY = "restored from a copy"


class NotMoved(ThebesError):
    """There is no copy, and the home that was to move spends nothing any more."""

    def __init__(self, home: Path, why: OSError | ThebesError) -> None:
        told = (why.strerror or type(why).__name__) if isinstance(why, OSError) else str(why)
        super().__init__(
            f"there is no copy ({told}), and {str(home)!r} spends nothing any more all the same; try again, "
            f"or stay here after all: thebes ledger thaw --stay --home {home}"
        )


@dataclass(frozen=True, slots=True)
class CopyAccount:
    """The account of what was copied, or restored, and of what its owner should know of it."""

    role: HomeRole
    files: int
    made_at: float
    notices: tuple[str, ...]


def backup(
    home: Path, to: Path, *, passphrase: str | None, move: bool = False, clock: Callable[[], float] = time.time
) -> CopyAccount:
    """Copy a home as it is at this moment, its processes running or not, into the new file `to`. With `move` a person's
    home, which nobody uses meanwhile, spends nothing from then on: the copy, which forgot nothing, lives instead."""
    home, to = home.resolve(), to.absolute()
    role = role_of(home)
    if home.stat().st_uid != machine.user():
        raise Mistake("HOME", f"{str(home)!r} belongs to somebody else; copy it as that user")
    if to.resolve().is_relative_to(home):
        raise Mistake("--to", "must lie outside the home: a copy inside would be lost with it")
    if move and role is not HomeRole.PERSON:
        raise Mistake("--move", f"is for a person's home; stop the {role}, copy it, and start the copy only")
    archive.promise(to, passphrase)  # before a home that moves stops spending
    if move and passphrase is None and keys.kept(home) == _KEYRING:
        why = "the store's key is in this system's keyring, and a copy without it opens nowhere else"
        raise Mistake("--passphrase-file", f"is needed with --move: {why}")
    about = archive.Copied(role, clock())
    with closing(Hold(home)) if move else nullcontext(), _snapshot_of(home, role, move=move) as stage:
        key = _out_of_the_keyring(stage, home) if passphrase is not None else {}
        notices = [*_of_keys(stage, passphrase), *_of_a_server(stage, role)]
        files = archive.write(stage, to, about, passphrase, instead=key)
    return CopyAccount(role, files, about.made_at, tuple(notices))


@contextmanager
def _snapshot_of(home: Path, role: HomeRole, *, move: bool) -> Iterator[Path]:
    """The home as of one moment; where it moves that is after the last that its ledger will ever spend."""
    if move:
        with Ledger(f"sqlite:///{home / 'ledger.db'}", create=False) as ledger:
            ledger.freeze(MOVED)
    try:
        with snapshot(home, role) as stage:
            yield stage
    except (OSError, ThebesError) as error:
        if not move:
            raise
        raise NotMoved(home, error) from error


def _out_of_the_keyring(stage: Path, home: Path) -> dict[str, bytes]:
    """The key of a person's store as a file would hold it, for a copy that is sealed: it goes there from memory, as
    beside the store that it opens it must not lie, however short."""
    if keys.kept(stage) != _KEYRING:
        return {}
    return {_KEY: json.dumps({"kept": "file", "key": keys.key_of(home).hex()}).encode("ascii")}


def _of_keys(stage: Path, passphrase: str | None) -> list[str]:
    if passphrase is None and keys.kept(stage) == _KEYRING:
        return [
            "the store's key stays in this system's keyring and is not in the copy, which opens nowhere else; "
            "--passphrase-file FILE takes the key along"
        ]
    return []


def _of_a_server(stage: Path, role: HomeRole) -> list[str]:
    if role is HomeRole.COORDINATOR and not (stage / "coordinator.db").exists():
        return ["its database is not in the home: copy PostgreSQL with pg_dump after this, see docs/copies.md"]
    return []


def restore(file: Path, home: Path, *, passphrase: str | None) -> CopyAccount:
    """Bring a copy back into a folder that is new or empty."""
    home = home.absolute()
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        raise Mistake("--home", f"{str(home)!r} is not empty; a copy is restored into a new folder only")
    if not home.parent.is_dir():
        raise Mistake("--home", f"there is no folder {str(home.parent)!r}")
    fresh = Path(tempfile.mkdtemp(prefix=f".{home.name}.restoring-", dir=home.parent))  # mode 0700
    try:
        with archive.opened(file, passphrase) as (about, contents):
            files = 0
            for name, content in contents:
                if name in BEARERS:  # of a copy that was made before these stayed behind
                    shutil.copyfileobj(content, _Nowhere())
                    continue
                _put(fresh / name, content)
                files += 1
        notices = _settled(fresh, about.role)
        if home.exists():
            home.rmdir()
        os.rename(fresh, home)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return CopyAccount(about.role, files, about.made_at, tuple(notices))


class _Nowhere:
    """A file that keeps nothing, for what is read through so that its digest is checked."""

    def write(self, piece: bytes) -> int:
        return len(piece)


def _put(path: Path, content: IO[bytes]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        shutil.copyfileobj(content, file)
        file.flush()
        os.fsync(file.fileno())


def _settled(home: Path, role: HomeRole) -> list[str]:
    """Make what came back safe to open: nothing may be spent, and nothing said, that the copy has forgotten of; and
    whoever was let into the home that was copied is not let into this one by the same token."""
    notices = []
    if role is HomeRole.COORDINATOR:
        new = "its first start makes a new admin.token and figures.token, for their holders"
        notices.append(f"{new}; whoever was logged in logs in again")
    elif role is not HomeRole.LEDGER:
        make_token(home)
        notices.append("its token is new: programs that bring their own copy of it are given this one")
    for path in sorted(home.rglob("*.db")):
        if "store" not in path.relative_to(home).parts[:1]:  # a person's store is checked page by page as it is read
            _sound(path)
    if (home / "ledger.db").exists():
        # No keeper: the head that it remembers is the living ledger's, where that still is.
        with Ledger(f"sqlite:///{home / 'ledger.db'}", create=False, keeper=NoKeeper()) as ledger:
            ledger.freeze(_WHY)
        (home / "ledger.db").chmod(0o600)
        notices.append("its ledger is frozen: nothing is spent until its owner runs `thebes ledger thaw --home HOME`")
    if role is not HomeRole.PERSON and _tasks_settled(home):
        notices.append("tasks that were open: what was answered is said again as it was, nothing else is answered")
    if role is HomeRole.COORDINATOR and (home / "coordinator.db").exists():
        from thebes.coordinator.storage import restored_home

        ended = restored_home.settle(home)
        if ended:
            notices.append(f"{ended} open task{'s' if ended > 1 else ''} with sealed contributions ended as failed")
        notices.append("people who saw newer tasks than this copy has refuse it: see docs/copies.md")
    elif role is HomeRole.COORDINATOR:
        # The keys of its tasks went with the home: nothing under way would ever end, and nobody would be told.
        notices.append(
            "its database is elsewhere: before it is started, thebes settle --home HOME --store postgresql://..."
        )
    if role is HomeRole.PERSON:
        notices.append("look at your standing rules before you thaw: they answer by themselves once you have")
    return notices


def _tasks_settled(home: Path) -> int:
    from thebes.cli.homes.settlement import settle

    return settle(home)


def _sound(path: Path) -> None:
    try:
        with closing(sqlite3.connect(path)) as opened:
            said = opened.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error:
        said = None
    if said != ("ok",):
        raise Mistake("FILE", f"holds a damaged {path.name}; nothing was restored")
