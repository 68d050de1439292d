"""The children of a test's process, as the system knows them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class Children:
    """The processes that this one has started as `python -m module` since this was made, and that still run; or
    `forked` ones, of which such a process is the parent."""

    def __init__(self, module: str, *, forked: bool = False) -> None:
        self._module, self._forked = module.encode(), forked
        self._before = self._running()

    def __call__(self) -> set[int]:
        return self._running() - self._before

    def _running(self) -> set[int]:
        started = self._below({os.getpid()})
        return self._below(started) if self._forked else started

    def _below(self, parents: set[int]) -> set[int]:
        found = set()
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # some end meanwhile
                state, parent = (place / "stat").read_text().rpartition(") ")[2].split()[:2]
                ours = int(parent) in parents and state != "Z"
                if ours and self._module in (place / "cmdline").read_bytes().split(b"\0"):
                    found.add(int(place.name))
        return found
