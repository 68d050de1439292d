"""A copy of a home as one file: what it is, the files, and last the digest of each, so that a part is never taken for
the whole."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from thebes import __version__
from thebes.cli.homes.sealed_file import MAGIC, Opening, Sealing, long_enough
from thebes.database.folder_sync import settle
from thebes.privacy.faults import Fault, Mistake
from thebes.wire.homes import HomeRole

FORMAT = 1
_FIRST, _LAST = "thebes-copy.json", "thebes-digests.json"
_MOST_TOLD = 2**26  #: bytes of either
_LATEST = 2.0**37  #: moments after it are no dates
_PART = re.compile(r"[^/\0]{1,255}")
_NONE = "is not a copy that `thebes backup` made; nothing was restored"
_THERE = "there is {!r} already; a copy is never written over another file"
_BROKEN = "is damaged or cut off; nothing was restored"
#: what reading a strange archive, or strange JSON in one, raises
_ODD = (tarfile.TarError, EOFError, ValueError, IndexError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class Copied:
    """The account of what a copy is of. `made_at` is seconds since 1970."""

    role: HomeRole
    made_at: float
    version: str = __version__
    format: int = FORMAT


def write(
    stage: Path, to: Path, about: Copied, passphrase: str | None, *, instead: Mapping[str, bytes] | None = None
) -> int:
    """Put everything below `stage` into a new file that only its owner reads; how many files those were. What is given
    `instead` of files by their names never lies open on a disk: only a sealed copy may hold it."""
    if instead and passphrase is None:
        raise Fault("what must not lie open on a disk goes into a sealed copy only")
    fresh, descriptor = _beside(to)
    try:
        with os.fdopen(descriptor, "wb") as file:
            sealing = None if passphrase is None else Sealing(file, passphrase)
            digests = _archived(stage, sealing or file, about, instead or {})
            if sealing is not None:
                sealing.close()
            file.flush()
            os.fsync(file.fileno())
        _named(fresh, to)
    finally:
        fresh.unlink(missing_ok=True)
    with suppress(OSError):  # not every place for copies can do that
        settle(to.parent)
    return len(digests)


def promise(to: Path, passphrase: str | None) -> None:
    """A Mistake where `write` would meet one at once; nothing stays of the try."""
    if passphrase is not None:
        long_enough(passphrase)
    fresh, descriptor = _beside(to)
    os.close(descriptor)
    fresh.unlink()


def _beside(to: Path) -> tuple[Path, int]:
    """A new file beside `to`, opened, which is to get its name."""
    if to.exists():
        raise Mistake("--to", _THERE.format(str(to)))
    fresh = to.with_name(f".{to.name}.{secrets.token_hex(4)}.part")
    try:
        return fresh, os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise Mistake("--to", f"cannot write into {str(to.parent)!r}: {error.strerror}") from None


def _named(fresh: Path, to: Path) -> None:
    """Give the copy its name, and never that of a file which came meanwhile."""
    try:
        try:
            os.link(fresh, to)
        except FileExistsError:
            raise
        except OSError:  # a stick's file system may know no links; the name is taken first, then
            os.close(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            os.replace(fresh, to)
    except FileExistsError:
        raise Mistake("--to", _THERE.format(str(to))) from None


def _archived(stage: Path, file: Any, about: Copied, instead: Mapping[str, bytes]) -> dict[str, str]:
    digests: dict[str, str] = {}
    with tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        _add(archive, _FIRST, json.dumps(asdict(about)).encode())
        for path in sorted(path for path in stage.rglob("*") if path.is_file()):
            name = path.relative_to(stage).as_posix()
            with io.BytesIO(instead[name]) if name in instead else open(path, "rb") as opened:
                size = opened.seek(0, os.SEEK_END)
                opened.seek(0)
                content = _Digesting(opened)
                archive.addfile(_told(name, size), content)
            digests[name] = content.digest.hexdigest()
        _add(archive, _LAST, json.dumps(digests).encode())
    return digests


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    archive.addfile(_told(name, len(content)), io.BytesIO(content))


def _told(name: str, size: int) -> tarfile.TarInfo:
    told = tarfile.TarInfo(name)
    told.size, told.mode = size, 0o600
    return told


class _Digesting:
    """A file that is read, and the digest of what was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.digest = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        found = self._file.read(size)
        self.digest.update(found)
        return found


@contextmanager
def opened(file: Path, passphrase: str | None) -> Iterator[tuple[Copied, Iterator[tuple[str, IO[bytes]]]]]:
    """Open a copy: give what it is of, and its files in order, each to be read before the next one; raise a Mistake
    where it is none. Only who has taken the last one knows that all of it is whole."""
    try:
        raw = open(file, "rb")  # noqa: SIM115
    except OSError as error:
        raise Mistake("FILE", f"{str(file)!r} cannot be read: {error.strerror}") from None
    with raw:
        source: Any = raw
        if raw.read(len(MAGIC)) == MAGIC:
            if passphrase is None:
                raise Mistake("--passphrase-file", "is needed: this copy opens with a passphrase only")
            source = Opening(raw, passphrase)
        else:
            raw.seek(0)
        try:
            archive = tarfile.open(fileobj=source, mode="r|")  # noqa: SIM115
        except Mistake:
            raise
        except _ODD:
            raise Mistake("FILE", _NONE) from None
        try:
            with archive:
                yield _about(archive), _contents(archive)
        except Mistake:
            raise
        except _ODD:
            raise Mistake("FILE", _BROKEN) from None


def _about(archive: tarfile.TarFile) -> Copied:
    first = archive.next()
    known = first is not None and first.name == _FIRST and first.size <= _MOST_TOLD and not first.issparse()
    content = archive.extractfile(first) if first is not None and known else None
    if content is None:
        raise Mistake("FILE", _NONE)
    told = json.loads(content.read())
    if not isinstance(told, dict) or not isinstance(told.get("format"), int):
        raise Mistake("FILE", _BROKEN)
    if told["format"] > FORMAT:
        raise Mistake(
            "FILE", f"was made by a newer version of Thebes ({told.get('version')}); restore it with that one"
        )
    try:
        about = Copied(HomeRole(told["role"]), float(told["made_at"]), str(told["version"]), told["format"])
    except (KeyError, ValueError, TypeError, OverflowError):
        raise Mistake("FILE", _BROKEN) from None
    if not 0 <= about.made_at < _LATEST:
        raise Mistake("FILE", _BROKEN)
    return about


def _contents(archive: tarfile.TarFile) -> Iterator[tuple[str, IO[bytes]]]:
    digests: dict[str, str] = {}
    while (told := archive.next()) is not None:
        if not told.isreg() or told.issparse() or not _inside(told.name):  # holes could be larger than any disk
            raise Mistake("FILE", "holds what no copy of a home holds; nothing was restored")
        content = archive.extractfile(told)
        assert content is not None  # noqa: S101  it is a plain file
        if told.name == _LAST:
            if told.size > _MOST_TOLD or json.loads(content.read()) != digests:
                raise Mistake("FILE", _BROKEN)
            return
        digesting = _Digesting(content)
        yield told.name, digesting  # type: ignore[misc]
        digests[told.name] = digesting.digest.hexdigest()
    raise Mistake("FILE", _BROKEN)  # the digests never came


def _inside(name: str) -> bool:
    """Return whether a name is one below the home, spelled plainly."""
    path = PurePosixPath(name)
    parts = path.parts
    return bool(parts) and str(path) == name and all(_PART.fullmatch(p) and p not in ("..", "/") for p in parts)
