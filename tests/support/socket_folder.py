"""Folders for servers' own sockets, whose addresses may have some hundred characters and no more."""

from __future__ import annotations

import tempfile
from pathlib import Path

_LONGEST = 20  #: of the place for temporary files, so that a socket's whole path stays short


def socket_folder(prefix: str, *, durable: bool = False) -> Path:
    """Make a folder at a short path: in memory where the tests' files lie there and it need not outlast the machine."""
    place = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp" if durable or len(place) > _LONGEST else place))
