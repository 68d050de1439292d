"""Things that targets keep open from one input to the next: closed when the process ends, or before it by a test."""

from __future__ import annotations

import atexit
import tempfile
from contextlib import ExitStack
from pathlib import Path

OPEN = ExitStack()
atexit.register(OPEN.close)


def folder() -> Path:
    """A new one, gone when all is closed."""
    return Path(OPEN.enter_context(tempfile.TemporaryDirectory(prefix="thebes-fuzz-")))
