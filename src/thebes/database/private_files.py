"""Files for their owner alone: written whole or not at all, made once, and changed by one process at a time.

What must stay true: at no moment may anybody else read what is written, nobody reads half of it, and it is on the disk
before it is in its place. What a process that died left beside ends in `.new`, which no copy of a home takes along.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from thebes import machine
from thebes.database.folder_sync import settle


def write(file: Path, content: bytes | str) -> None:
    """Put this in the place of what was there; after the power failed there is the one or the other."""
    with _beside(file, content) as fresh:
        os.replace(fresh, file)


def put(file: Path, content: bytes | str) -> None:
    """Write a file so that it is there after the power failed."""
    write(file, content)
    settle(file.parent)


def create(file: Path, content: bytes | str) -> bool:
    """Make a file that is there after the power failed, unless there is one: whoever is first wins. Return whether
    this was."""
    with _beside(file, content) as fresh:
        try:
            os.link(fresh, file)
        except FileExistsError:
            return False
    settle(file.parent)
    return True


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Keep every other process that asks for this lock waiting; its folder is made where it is missing."""
    lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        machine.hold(descriptor)
        yield
    finally:
        os.close(descriptor)


def stamp(file: Path) -> tuple[int, int]:
    """Differs after a change."""
    try:
        facts = file.stat()
    except FileNotFoundError:
        return (0, 0)
    return (facts.st_mtime_ns, facts.st_ino)


@contextmanager
def _beside(file: Path, content: bytes | str) -> Iterator[str]:
    """Write beside its place, under a name that is gone again when this ends."""
    descriptor, fresh = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".new", dir=file.parent)  # 0600, O_EXCL
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content.encode() if isinstance(content, str) else content)
            opened.flush()
            os.fsync(opened.fileno())
        yield fresh
    finally:
        Path(fresh).unlink(missing_ok=True)
