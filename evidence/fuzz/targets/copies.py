"""A copy of a home as `thebes restore` reads it. Sealed copies are left to their cipher: nothing is read of one that
was changed."""

from __future__ import annotations

import os
from pathlib import Path

from thebes.cli.homes import archive
from thebes.privacy.faults import Refusal

MOST_BYTES = 2**26  #: nothing that is so much smaller may open to more


def one(data: bytes) -> None:
    descriptor = os.memfd_create("copy")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        _read(Path(f"/proc/self/fd/{descriptor}"), len(data))
    finally:
        os.close(descriptor)


def _read(path: Path, length: int) -> None:
    try:
        with archive.opened(path, None) as (_, contents):
            size = 0
            for _, content in contents:
                while block := content.read(2**16):
                    size += len(block)
                    assert size <= max(length, MOST_BYTES), "a small copy opens to a large home"
    except Refusal as error:
        raise AssertionError("a copy is refused as a mistake") from error
