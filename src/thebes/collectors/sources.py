"""Reading what other programs left: files, archives, JSON and XML of any size, and databases that are in use.

What must stay true: whatever stands in a file, reading it ends, in bounded memory, with rows or with a Mistake that
names the file and the line; nothing is unpacked to disk, nothing is fetched, and no entity is expanded.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import sqlite3
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

from thebes.privacy.faults import Mistake

LONGEST_LINE, LONGEST_TEXT = 2**22, 10_000
LARGEST_ITEM = 2**24  #: characters of one element of a JSON array
DEEPEST = 60
LEAST_UNPACKED, MOST_GROWTH = 2**26, 200  #: an archive may unpack to this many times its size, or at least to 64 MiB
MOST_MEMBERS = 100_000

_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError, RuntimeError)


def broken(name: str | Path, line: int | None, why: str) -> Mistake:
    """The Mistake for a file that cannot be read to its end. `why` never repeats what stands in the file."""
    where = "" if line is None else f", line {line}"
    return Mistake("file", f"{Path(name).name}{where}: {why}; nothing of it was stored")


@dataclass(frozen=True, slots=True)
class Member:
    """A file, or a file inside an archive."""

    name: str
    stream: IO[bytes]


def members(path: str | Path, wanted: Callable[[str], bool]) -> Iterator[Member]:
    """A file itself, or those in a folder, a .zip or a .tar(.gz) whose name is wanted. Each is open while in use."""
    place, found = Path(path), False
    for member in _members(place, wanted):
        found = True
        yield member
    if not found:
        raise broken(place, None, "holds no file that this collector reads")


def _members(place: Path, wanted: Callable[[str], bool]) -> Iterator[Member]:
    if place.is_dir():
        for each in sorted(p for p in place.rglob("*") if p.is_file() and wanted(p.relative_to(place).as_posix())):
            with opened(each) as file:
                yield Member(each.name, file)
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
                yield Member(place.name, file)
        except _DAMAGED:
            raise broken(place, None, "is a damaged or encrypted archive") from None


@contextmanager
def opened(path: str | Path) -> Iterator[IO[bytes]]:
    """A plain file, for reading; never a device or a pipe, which might not end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise Mistake("file", f"{str(path)!r} cannot be read: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Mistake("file", f"{str(path)!r} is not a plain file")
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


def items(stream: IO[bytes], name: str | Path) -> Iterator[tuple[str, Any, int]]:
    """Every element of every array at the top of a JSON file, as (key, element, line); key "" where the file is one
    array. Other values at the top come as they are. The file may be larger than memory, an element may not."""
    reader = _Json(io.TextIOWrapper(stream, "utf-8-sig", errors="strict"), name)
    first = reader.peek()
    if first == "[":
        yield from reader.array("")
    elif first == "{":
        yield from reader.object()
    else:
        raise reader.wrong("is not a JSON array or object")
    if reader.peek():
        raise reader.wrong("goes on after its end")


def elements(stream: IO[bytes], name: str | Path) -> Iterator[tuple[tuple[str, ...], dict[str, str], str, int]]:
    """Every element of an XML file when it ends, as (path of names, attributes, text, line). Entities are refused."""
    found: list[tuple[tuple[str, ...], dict[str, str], str, int]] = []
    open_: list[tuple[str, dict[str, str], list[str]]] = []
    # defusedxml is this: expat without entities. External ones are never fetched, since no handler resolves any.
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(open_) >= DEEPEST:
            raise broken(name, parser.CurrentLineNumber, "is nested too deeply")
        open_.append((tag.rpartition(":")[2], attributes, []))

    def text(data: str) -> None:
        if open_ and len(open_[-1][2]) < 1000:
            open_[-1][2].append(data[:LONGEST_TEXT])

    def end(_: str) -> None:
        path = tuple(tag for tag, _, _ in open_)
        _, attributes, said = open_.pop()
        found.append((path, attributes, "".join(said).strip(), parser.CurrentLineNumber))

    def entity(*_: Any) -> int:
        raise broken(name, parser.CurrentLineNumber, "defines entities, which no export needs")

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.EntityDeclHandler = parser.ExternalEntityRefHandler = entity
    taken = 0
    try:
        while True:
            piece = stream.read(2**16)
            parser.Parse(piece, not piece)
            taken += len(piece)
            if taken - parser.CurrentByteIndex > LARGEST_ITEM:
                raise broken(name, parser.CurrentLineNumber, "has an element that is too large")
            yield from found
            found.clear()
            if not piece:
                return
    except expat.ExpatError as error:
        raise broken(name, error.lineno, "is not well-formed XML") from None
    except Mistake:
        raise
    except (ValueError, LookupError):
        raise broken(name, parser.CurrentLineNumber, "is in an encoding that cannot be read") from None


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


class _Json:
    """A window over a JSON text, moved on as elements are read."""

    def __init__(self, text: io.TextIOWrapper, name: str | Path) -> None:
        self._text, self._name = text, name
        self._window, self._at, self._line = "", 0, 1
        self._decoder = json.JSONDecoder()

    def wrong(self, why: str) -> Mistake:
        return broken(self._name, self._line, why)

    def peek(self) -> str:
        """The next character that is not white space; "" at the end."""
        while True:
            while self._at < len(self._window):
                character = self._window[self._at]
                if character not in " \t\r\n":
                    return character
                self._line += character == "\n"
                self._at += 1
            if not self._more():
                return ""

    def object(self) -> Iterator[tuple[str, Any, int]]:
        self._expect("{")
        if self.peek() == "}":
            self._at += 1
            return
        while True:
            key = self._value()
            if not isinstance(key, str):
                raise self.wrong("has a key that is not text")
            self._expect(":")
            if self.peek() == "[":
                yield from self.array(key)
            else:
                line = self._line
                yield key, self._value(), line
            if self._next_or("}"):
                return

    def array(self, key: str) -> Iterator[tuple[str, Any, int]]:
        self._expect("[")
        if self.peek() == "]":
            self._at += 1
            return
        while True:
            self.peek()
            line = self._line
            yield key, self._value(), line
            if self._next_or("]"):
                return

    def _value(self) -> Any:
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._window, self._at)
                if end < len(self._window) or not self._more():
                    self._line += self._window.count("\n", self._at, end)
                    self._at = end
                    return value
            except json.JSONDecodeError as error:
                pos = error.pos - self._at
                if not self._more():
                    self._line += self._window.count("\n", 0, pos)
                    raise self.wrong("is not JSON") from None
            except (ValueError, RecursionError):
                raise self.wrong("is nested too deeply, or has a number that is too long") from None
            if len(self._window) - self._at > LARGEST_ITEM:
                raise self.wrong("has an element that is too large, or is not JSON")

    def _expect(self, character: str) -> None:
        if self.peek() != character:
            raise self.wrong("is not JSON")
        self._at += 1

    def _next_or(self, end: str) -> bool:
        """Past a comma, or past the end of what is being read: True."""
        found = self.peek()
        if found not in (",", end) or not found:
            raise self.wrong("is not JSON, or ends too early")
        self._at += 1
        return found == end

    def _more(self) -> bool:
        # twice as much each time, so that a large element is not decoded over and over again
        waiting = len(self._window) - self._at
        try:
            piece = self._text.read(max(2**16, waiting))
        except UnicodeDecodeError:
            raise self.wrong("is not text in UTF-8") from None
        self._window, self._at = self._window[self._at :] + piece, 0
        return bool(piece)


class _Bounded(io.RawIOBase):
    """A stream out of an archive that ends with a Mistake when it grows beyond what is plausible."""

    def __init__(self, stream: IO[bytes], name: str, most: int) -> None:
        self._stream, self._name, self._left = stream, name, most

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        try:
            piece = self._stream.read(len(target))
        except _DAMAGED:
            raise broken(self._name, None, "is damaged or encrypted") from None
        self._left -= len(piece)
        if self._left < 0:
            raise broken(self._name, None, "unpacks to far more than its archive's size")
        target[: len(piece)] = piece
        return len(piece)


def _zipped(file: IO[bytes], place: Path, wanted: Callable[[str], bool]) -> Iterator[Member]:
    most = max(LEAST_UNPACKED, MOST_GROWTH * place.stat().st_size)
    with zipfile.ZipFile(file) as archive:
        names = archive.infolist()
        if len(names) > MOST_MEMBERS:
            raise broken(place, None, "has too many files in it")
        for each in sorted(names, key=lambda i: i.filename):
            if not each.is_dir() and wanted(each.filename):
                with archive.open(each) as stream:
                    yield Member(each.filename, io.BufferedReader(_Bounded(stream, each.filename, most)))


def _tarred(file: IO[bytes], place: Path, wanted: Callable[[str], bool]) -> Iterator[Member]:
    most = max(LEAST_UNPACKED, MOST_GROWTH * place.stat().st_size)
    with tarfile.open(fileobj=file, mode="r:*") as archive:
        total = 0
        for count, each in enumerate(archive):
            total += each.size
            if count > MOST_MEMBERS or total > most:
                raise broken(place, None, "unpacks to far more than its size")
            if each.isfile() and wanted(each.name):
                stream = archive.extractfile(each)
                if stream is not None:
                    yield Member(each.name, io.BufferedReader(_Bounded(stream, each.name, most)))


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
