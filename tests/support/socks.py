"""A SOCKS5 proxy for tests, on real sockets: it remembers what it was asked, and can refuse, hang up or hang."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

DOMAIN = 3


@dataclass(frozen=True)
class Asked:
    """The request of one connection: the kind of address (3 is a name), the address, and who it said it was."""

    kind: int
    host: str
    port: int
    name: bytes | None
    password: bytes | None


class SocksServer:
    """`names` says where a host's connections really go. `takes_names` False: it knows no names and passwords;
    `reply` other than 0: it refuses with that code; `slowly`: it speaks a byte at a time; `says`: it answers with
    these bytes and hangs up; `silent`: it never answers."""

    def __init__(
        self,
        names: Mapping[str, tuple[str, int]] | None = None,
        *,
        takes_names: bool = True,
        accepts: bool = True,
        reply: int = 0,
        slowly: bool = False,
        says: bytes | None = None,
        silent: bool = False,
    ) -> None:
        self.names = dict(names or {})
        self.asked: list[Asked] = []
        self.offered: list[bytes] = []  #: the methods each connection offered
        self._takes_names, self._accepts, self._reply = takes_names, accepts, reply
        self._slowly, self._says, self._silent = slowly, says, silent
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    @property
    def address(self) -> str:
        return f"socks5h://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Stop listening and cut every connection."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for one in self._open:
            _cut(one)
        self._thread.join(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(peer)
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with suppress(OSError, EOFError):
            if self._silent:
                while peer.recv(4096):
                    pass
            elif self._says is not None:
                peer.recv(4096)
                peer.sendall(self._says)
            else:
                self._talk(peer)
        _cut(peer)

    def _talk(self, peer: socket.socket) -> None:
        version, count = _exactly(peer, 2)
        offered = _exactly(peer, count)
        self.offered.append(offered)
        method = 2 if self._takes_names else 0
        if version != 5 or method not in offered:
            self._say(peer, b"\x05\xff")
            return
        self._say(peer, bytes([5, method]))
        name = password = None
        if method == 2:
            name = _exactly(peer, _exactly(peer, 2)[1])
            password = _exactly(peer, _exactly(peer, 1)[0])
            self._say(peer, b"\x01\x00" if self._accepts else b"\x01\x01")
            if not self._accepts:
                return
        kind = _exactly(peer, 4)[3]
        length = _exactly(peer, 1)[0] if kind == DOMAIN else 4 if kind == 1 else 16
        host = _exactly(peer, length)
        port = int.from_bytes(_exactly(peer, 2), "big")
        self.asked.append(Asked(kind, host.decode("latin-1"), port, name, password))
        target = self.names.get(host.decode("latin-1"))
        reply = self._reply or (0 if target else 4)
        self._say(peer, bytes([5, reply, 0, 1, 127, 0, 0, 1, 0, 0]))
        if reply or target is None:
            return
        with socket.socket() as there:  # not `create_connection`: tests watch what else calls that
            there.connect(target)
            self._open.append(there)
            back = threading.Thread(target=_pump, args=(there, peer), daemon=True)
            back.start()
            _pump(peer, there)
            back.join()

    def _say(self, peer: socket.socket, message: bytes) -> None:
        for piece in [message[i : i + 1] for i in range(len(message))] if self._slowly else [message]:
            peer.sendall(piece)
            if self._slowly:
                threading.Event().wait(0.005)


def _exactly(peer: socket.socket, count: int) -> bytes:
    heard = b""
    while len(heard) < count:
        piece = peer.recv(count - len(heard))
        if not piece:
            raise EOFError
        heard += piece
    return heard


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            sink.sendall(piece)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def _cut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
