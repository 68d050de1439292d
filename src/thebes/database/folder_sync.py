"""The writing of a folder's list of entries to the disk."""

from __future__ import annotations

import os
from pathlib import Path


def settle(folder: Path) -> None:
    """Make what happened to the folder's entries, names that came, changed or went, survive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
