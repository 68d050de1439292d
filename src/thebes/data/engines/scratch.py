"""Folders for what is needed while a process runs, such as rows that do not fit into memory: private, one for each who
asks, and gone when it ends.

Whoever is killed cannot clean up, so the next who comes does: a folder that nobody holds locked is nobody's.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from thebes import machine

_PREFIX = "engine-"


class Scratch:
    """A folder of its own below `place`, held until `close`; its name begins with `prefix`, as do those of its like."""

    def __init__(self, place: Path, prefix: str = _PREFIX) -> None:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        door = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            machine.hold(door)  # nobody else sweeps while a new folder is not yet locked
            for left in place.glob(f"{prefix}*"):
                _swept(left)
            self.folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
            self._held = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
            machine.hold(self._held)
        finally:
            os.close(door)

    def close(self) -> None:
        """Remove it and all that is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._held >= 0:
            os.close(self._held)
            self._held = -1


def _swept(left: Path) -> None:
    """Remove a folder whose owner is gone."""
    try:
        held = os.open(left, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        machine.hold(held, wait=False)
        shutil.rmtree(left, ignore_errors=True)
    except BlockingIOError:
        pass
    finally:
        os.close(held)
