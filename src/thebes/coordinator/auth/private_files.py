"""Files of the authority's folder: for their owner alone, whole or not at all, and changed by one process at a time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from thebes import machine
from thebes.database.folder_sync import settle


def write(file: Path, content: bytes) -> None:
    """Write a file whole or not at all, for its owner alone: certificates too, since the register beside them names
    every site."""
    descriptor, beside = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # 0600
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
        os.close(descriptor)
        os.replace(beside, file)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside)
        raise


def put(file: Path, content: bytes) -> None:
    """Write a file so that it is there after the power failed."""
    write(file, content)
    settle(file.parent)


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
