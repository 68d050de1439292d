"""The folder below which a data set's pictures lie, whatever its rows say of paths.

What must stay true: nothing outside is opened, no link is followed, nothing but a plain file is read, and nothing waits
for whoever is at the other end of a pipe. Paths are values of rows, so anybody may have written them.
"""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack
from pathlib import Path

from thebes.data.connectors.connector import SourceUnavailable
from thebes.data.pictures.limits import (
    ABSENT,
    DEEPEST_PATH,
    LARGE,
    LONGEST_PATH,
    MOST_BYTES,
    NONE,
    NOT_PLAIN,
    OUTSIDE,
)

_DOWN = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class UnreadablePicture(Exception):
    """A picture counts as zeros, for one of the reasons in `limits`."""


class PictureFolder:
    """The steward's folder; itself it may lie behind links, since the steward named it."""

    def __init__(self, folder: Path) -> None:
        try:
            self._door = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        except OSError:
            raise SourceUnavailable(
                f"source.files: there is no folder {folder.name} that can be read where the data set says"
            ) from None

    def content(self, path: str) -> bytes:
        """Return what is in the file of this path below the folder, or raise UnreadablePicture."""
        if not path:
            raise UnreadablePicture(NONE)
        parts = path.split("/")
        if len(path) > LONGEST_PATH or len(parts) > DEEPEST_PATH or any(part in ("", ".", "..") for part in parts):
            raise UnreadablePicture(OUTSIDE)
        with ExitStack() as opened:
            try:
                at = self._door
                for part in parts[:-1]:
                    at = os.open(part, _DOWN, dir_fd=at)
                    opened.callback(os.close, at)
                # Looked at before it is opened: to open a device may do something already.
                facts = os.stat(parts[-1], dir_fd=at, follow_symlinks=False)
                if not stat.S_ISREG(facts.st_mode):
                    raise UnreadablePicture(NOT_PLAIN)
                file = os.open(parts[-1], _READ, dir_fd=at)
                opened.callback(os.close, file)
                return _plain(file)
            except NotADirectoryError:  # a link, too
                raise UnreadablePicture(NOT_PLAIN) from None
            except (OSError, ValueError):  # no such file, or no name that a file can have
                raise UnreadablePicture(ABSENT) from None

    def close(self) -> None:
        if self._door >= 0:
            os.close(self._door)
            self._door = -1


def _plain(file: int) -> bytes:
    """Return what a plain file holds; it may be another one by now than the one that was looked at."""
    facts = os.fstat(file)
    if not stat.S_ISREG(facts.st_mode):
        raise UnreadablePicture(NOT_PLAIN)
    found = bytearray()
    while len(found) <= MOST_BYTES and (part := os.read(file, min(2**20, MOST_BYTES + 1 - len(found)))):
        found += part
    if len(found) > MOST_BYTES:
        raise UnreadablePicture(LARGE)
    return bytes(found)
