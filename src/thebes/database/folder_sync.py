"""What a folder lists, on the disk."""

from __future__ import annotations

import os
from pathlib import Path


def settle(folder: Path) -> None:
    """What happened to the folder's entries, names that came, changed or went, survives a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
