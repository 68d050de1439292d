"""The messages that a site's supervisor and the process that talks say to each other: lines of JSON, and open
descriptors."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from typing import Any

_MOST_BYTES = 65_536
_MOST_DESCRIPTORS = 4


def tell(end: socket.socket, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
    """One line, with descriptors that the other process gets copies of."""
    line = json.dumps([dict(message), len(descriptors)]).encode() + b"\n"
    sent = socket.send_fds(end, [line], list(descriptors)) if descriptors else end.send(line)
    end.sendall(line[sent:])


class Ear:
    """Puts what comes together again, line by line."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._text = b""
        self._descriptors: list[int] = []

    def listen(self) -> list[tuple[dict[str, Any], list[int]]] | None:
        """Return what has come, each line with the descriptors that were sent with it; None at the end."""
        block, descriptors, _, _ = socket.recv_fds(self._end, _MOST_BYTES, _MOST_DESCRIPTORS)
        if not block:
            return None
        self._text += block
        self._descriptors += descriptors
        *lines, self._text = self._text.split(b"\n")
        heard = []
        for line in lines:
            message, count = json.loads(line)
            heard.append((dict(message), self._descriptors[:count]))
            del self._descriptors[:count]
        return heard
