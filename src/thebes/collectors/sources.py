"""Reading what other programs left: files, archives, and databases that are in use.

What must stay true: whatever stands in a file, reading it ends, in bounded memory, with rows or with a Mistake that
names the file and the line; nothing is unpacked to disk and nothing is fetched.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import sqlite3
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Self

from thebes.privacy.faults import Mistake

LONGEST_LINE, LONGEST_TEXT = 2**22, 10_000
LEAST_UNPACKED, MOST_GROWTH = 2**26, 200  #: an archive may unpack to this many times its size, or at least to 64 MiB
MOST_UNPACKED = 20 * 10**9  #: bytes that any archive may unpack to
MOST_MEMBERS = 100_000
LARGEST_VALUE = 2**24  #: bytes of one value of a database
LARGEST_HEAD = 2**20  #: bytes of what an archive says about one file: its name, its times

_HEADS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  #: other ways choose how much memory they need
#: what Python's own readers of archives raise for some bytes or other
_DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, gzip.BadGzipFile, struct.error),
    *(EOFError, LookupError, OverflowError, RuntimeError, ValueError),
)


def broken(name: str | Path, line: int | None, why: str) -> Mistake:
    """The Mistake for a file that cannot be read to its end. `why` never repeats what stands in the file."""
    where = "" if line is None else f", line {line}"
    return Mistake("file", f"{Path(name).name}{where}: {why}; nothing of it was stored")


def own_folder() -> Path:
    """The home of the user, where programs leave their files; a user that is only a number has none."""
    found = os.path.expanduser("~")
    if not os.path.isabs(found):
        raise Mistake("file", "this user has no home to look into; name one with --file when installing")
    return Path(found)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file, or a file inside an archive."""

    name: str
    stream: IO[bytes]


def members(path: str | Path, wanted: Callable[[str], bool], sought: str | None = None) -> Iterator[SourceFile]:
    """A file itself, or those in a folder, a .zip or a .tar(.gz) whose name is wanted. Each is open while in use. Where
    there is none, the Mistake says what was `sought`, in words."""
    place, found = Path(path), False
    for member in _members(place, wanted):
        found = True
        yield member
    if not found:
        looked_for = "" if sought is None else f"; it looks for {sought}"
        raise broken(place, None, f"holds no file that this collector reads{looked_for}")


def _members(place: Path, wanted: Callable[[str], bool]) -> Iterator[SourceFile]:
    if place.is_dir():
        for each in sorted(p for p in place.rglob("*") if p.is_file() and wanted(p.relative_to(place).as_posix())):
            with opened(each) as file:
                yield SourceFile(each.name, file)
        return
    with opened(place) as file:
        start = file.read(4)
        file.seek(0)
        try:
            if start == b"PK\x03\x04":
                yield from _zipped(file, place, wanted)
            elif start[:2] == b"\x1f\x8b" or place.name.lower().endswith((".tar", ".tgz")):
                yield from _tarred(file, place, wanted)
            else:
                yield SourceFile(place.name, file)
        except Mistake:
            raise
        except _DAMAGED:
            raise broken(place, None, "is a damaged or encrypted archive") from None


@contextmanager
def opened(path: str | Path) -> Iterator[IO[bytes]]:
    """A plain file, for reading; never a device or a pipe, which might not end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise Mistake("file", f"{str(path)!r} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Mistake("file", f"{str(path)!r} is not a plain file")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def lines(stream: IO[bytes], name: str | Path, *, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """(number from 1, text without its end) for each line."""
    number = 0
    while raw := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(raw) > LONGEST_LINE:
            raise broken(name, number, "is longer than any line should be")
        try:
            yield number, raw.decode(encoding).rstrip("\r\n").removeprefix("\ufeff" if number == 1 else "")
        except UnicodeDecodeError:
            raise broken(name, number, f"is not text in {encoding}") from None


@contextmanager
def copied(database: str | Path) -> Iterator[sqlite3.Connection]:
    """A copy of an SQLite database that another program may be using, with its journal, to read from.

    Copied again while it changed under our hands, so that database and journal belong together. The copy lies in a
    folder that only this user reads, and goes when the block ends.
    """
    place = Path(database)
    with tempfile.TemporaryDirectory(prefix="thebes-") as folder:
        for _ in range(5):
            before = _facts(place)
            for end in before:
                with opened(f"{place}{end}") as source, open(Path(folder) / f"copy{end}", "wb") as target:
                    shutil.copyfileobj(source, target)
            if _facts(place) == before:
                break
            for end in before:
                (Path(folder) / f"copy{end}").unlink(missing_ok=True)
        else:
            raise Mistake("file", f"{place.name} changes all the time; close the program that writes it, or try later")
        connection = sqlite3.connect(Path(folder) / "copy")
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)  # also of what it computes itself
            connection.set_progress_handler(_ticks(), 10_000_000)
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            yield connection
        except sqlite3.Error as error:
            raise broken(place, None, f"is not a database as expected ({type(error).__name__})") from None
        finally:
            connection.close()


def moment(text: object) -> datetime | None:
    """A time in UTC from the ways exports write it; None where there is none. Without an offset it is taken as UTC."""
    if not isinstance(text, str) or not 8 <= len(text) <= 40:
        return None
    spelled = re.sub(r" ([+-]\d{4})$", r"\1", text.strip())
    try:
        found = datetime.fromisoformat(spelled)
        return found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def since_1970(value: object, *, per_second: int) -> datetime | None:
    """A time from a count of seconds, milliseconds or microseconds."""
    try:
        return datetime.fromtimestamp(int(value) / per_second, UTC)  # type: ignore[call-overload]
    except (ValueError, TypeError, OverflowError, OSError):
        return None


def words(value: object, longest: int = LONGEST_TEXT) -> str | None:
    """Text as a cell may hold it: no lone surrogates, not too long; None for whatever is not text."""
    if not isinstance(value, str):
        return None
    return value[:longest].encode("utf-8", "replace").decode()


def number(value: object) -> float | None:
    """A finite number from a number or its spelling."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if abs(found) < 1e300 else None


class _Bounded(io.RawIOBase):
    """A stream out of an archive that ends with a Mistake when all of them grow beyond what is plausible. `left` holds
    one number, shared by all streams of the archive."""

    def __init__(self, stream: IO[bytes], name: str, left: list[int]) -> None:
        self._stream, self._name, self._left = stream, name, left

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        try:
            piece = self._stream.read(len(target))
        except _DAMAGED:
            raise broken(self._name, None, "is damaged or encrypted") from None
        self._left[0] -= len(piece)
        if self._left[0] < 0:
            raise broken(self._name, None, "unpacks to far more than its archive's size")
        target[: len(piece)] = piece
        return len(piece)


def _most_unpacked(place: Path) -> int:
    return min(MOST_UNPACKED, max(LEAST_UNPACKED, MOST_GROWTH * place.stat().st_size))


def _zipped(file: IO[bytes], place: Path, wanted: Callable[[str], bool]) -> Iterator[SourceFile]:
    left = [_most_unpacked(place)]
    with zipfile.ZipFile(file) as archive:
        names = archive.infolist()
        if len(names) > MOST_MEMBERS:
            raise broken(place, None, "has too many files in it")
        for each in sorted(names, key=lambda i: i.filename):
            if not each.is_dir() and wanted(each.filename):
                if each.compress_type not in _PACKED:
                    raise broken(each.filename, None, "is packed in a way that exports are not")
                with archive.open(each) as stream:
                    yield SourceFile(each.filename, io.BufferedReader(_Bounded(stream, each.filename, left)))


class _Head(tarfile.TarInfo):
    """The head that stands before a file. Long names and extended heads are read whole by `tarfile`, so they must be
    short."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        made = super().frombuf(buf, encoding, errors)
        if made.type in _HEADS and made.size > LARGEST_HEAD:
            raise tarfile.ReadError("says far too much about one of its files")
        return made


def _tarred(file: IO[bytes], place: Path, wanted: Callable[[str], bool]) -> Iterator[SourceFile]:
    most, packed = _most_unpacked(place), file.read(2) == b"\x1f\x8b"
    file.seek(0)
    with tarfile.open(fileobj=file, mode="r:gz" if packed else "r:", tarinfo=_Head) as archive:
        total, left = 0, [most]
        for count, each in enumerate(archive):
            total += each.size
            if count > MOST_MEMBERS or total > most:
                raise broken(place, None, "unpacks to far more than its size")
            if each.isfile() and wanted(each.name):
                stream = archive.extractfile(each)
                if stream is not None:
                    yield SourceFile(each.name, io.BufferedReader(_Bounded(stream, each.name, left)))


def _facts(place: Path) -> dict[str, tuple[int, int, int]]:
    """Of the database and of the journals beside it: what would change if anything was written."""
    found = {}
    for end in ("", "-wal", "-journal"):
        try:
            facts = os.stat(f"{place}{end}")
        except FileNotFoundError:
            continue
        found[end] = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
    if "" not in found:
        raise Mistake("file", f"there is no {str(place)!r}")
    return found


def _ticks() -> Callable[[], int]:
    """Ends a statement of a database that was made to run for ever: 1,000 times 10 million steps."""
    left = iter(range(1000))
    return lambda: int(next(left, None) is None)
