"""The socket at which a coordinator takes requests."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

from thebes.privacy.faults import Mistake


def listen(host: str, port: int) -> socket.socket:
    """A bound socket, which processes that this one starts may be handed."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, and at once: else an answer's body waits 40 ms for the acknowledgement of its head.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError, UnicodeError) as error:
        made.close()
        if isinstance(error, (socket.gaierror, UnicodeError)) or getattr(error, "errno", None) == errno.EADDRNOTAVAIL:
            raise Mistake("--host", f"{host} is not an address of this machine") from None
        raise Mistake(
            "--port", f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}"
        ) from None
    made.set_inheritable(True)
    return made


def inherited(descriptor: int) -> socket.socket:
    """The socket that whoever started this process has bound."""
    return socket.socket(fileno=descriptor)


def url_of(host: str, listening: socket.socket, *, secure: bool) -> str:
    return f"{'https' if secure else 'http'}://{shown(host)}:{listening.getsockname()[1]}"


def shown(host: str) -> str:
    """A host as it stands before a port."""
    return f"[{host}]" if ":" in host else host


def check_tls(certificate: Path | None, key: Path | None) -> None:
    """Refuse one without the other."""
    if (certificate is None) != (key is None):
        raise Mistake("--tls-cert", "and --tls-key go together")
