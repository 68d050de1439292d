"""A home as other programs of the same user and machine meet it: who holds it, where that process listens, its token.

What must stay true: the token is shown to this machine only, and only while the home is held; nothing else is followed.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from thebes import machine
from thebes.confinement import answers
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.reading import NotJSON, read_json
from thebes.wire.address import base_url, is_loopback, segment
from thebes.wire.problems import from_problem
from thebes.wire.refusals import Unreachable

TOKEN, DAEMON = "token", "daemon.json"
_LOCK = "lock"
_MOST_BYTES = 2**30  #: of an answer, which may be a whole store
START_SECONDS = 15.0  #: so long may a process that has taken its home need until it says where it listens
_LOOKS, _LOOK_SECONDS = 10, 0.02  #: whoever only looks whether a home is held has it for less than all of these


class UnsafeFile(Refusal):
    """A file that holds a secret belongs to somebody else or can be read by others; it is not used."""


class HomeInUse(Refusal):
    """Another process holds this home and does not answer on its own address."""


def listening_at(port: int) -> socket.socket:
    """A socket of this machine only: 127.0.0.1, never another address. It outlives whoever listens on it."""
    if not 0 <= port <= 65535:
        raise Mistake("--port", "must lie between 0 and 65535")
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen(64)
    except OSError as error:
        listening.close()
        raise Mistake("--port", f"{port} cannot be used: {error.strerror}") from None
    return listening


def read_secret(path: Path) -> str:
    """Return what stands in a secret's file, after checking that it is this user's own and nobody else's to read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise UnsafeFile(f"there is no {path.name} in this home; `thebes person --new-token` makes one") from None
    except OSError:
        raise UnsafeFile(f"{path.name} is not a plain file") from None
    with os.fdopen(descriptor, "r", encoding="ascii") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != machine.user() or facts.st_mode & 0o077:
            raise UnsafeFile(
                f"{path.name} can be read by others or belongs to somebody else; run `thebes person --new-token`"
            )
        return file.read(1000).strip()


class Hold:
    """The right to use a home, until it is closed or the process ends; `shared` with others that share it. `file` is
    another one for a part of the home that is held by itself."""

    def __init__(self, home: Path, *, shared: bool = False, file: str = _LOCK) -> None:
        self._descriptor = os.open(home / file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        tries = 1 if shared else _LOOKS
        while not self._taken(shared=shared):
            tries -= 1
            if not tries:
                os.close(self._descriptor)
                raise HomeInUse(f"another process uses the home {str(home)!r}; stop it, or wait until it has started")
            time.sleep(_LOOK_SECONDS)

    def _taken(self, *, shared: bool) -> bool:
        try:
            machine.hold(self._descriptor, shared=shared, wait=False)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        os.close(self._descriptor)


def announced(home: Path) -> dict[str, Any]:
    """Return what was announced last; the process may be gone."""
    try:
        told = json.loads((home / DAEMON).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


class Local:
    """Talks to the `thebes person` that holds a home. Errors are the same classes as in that process. `timeout` is for
    one request and its whole answer, such as all of a store."""

    def __init__(self, url: str, token: str, *, timeout: float = 300) -> None:
        self.url = url
        headers = {"Authorization": f"Bearer {token}"}
        self._http = answers.client(
            base_url=url, headers=headers, timeout=timeout, seconds=timeout, most_bytes=_MOST_BYTES
        )

    @classmethod
    def running(cls, home: Path, *, patience: float = 0.0) -> Self | None:
        """The daemon that holds `home`, or None where nobody does. The token is shown only while the home is held:
        an address that was left behind may belong to somebody else by now. One that is just starting is waited for,
        for so many seconds."""
        end = time.monotonic() + patience
        while True:
            try:
                Hold(home, shared=True).close()  # others who only look are not taken for one who holds it
                return None
            except HomeInUse:
                url = announced(home).get("url")
                if isinstance(url, str) and _here(url):
                    break
                if time.monotonic() >= end:
                    raise
            time.sleep(_LOOK_SECONDS)
        made = cls(url, read_secret(home / TOKEN))
        try:
            made.store()
        except Refusal:
            made.close()
            raise HomeInUse(f"another process holds the home {str(home)!r} and does not answer") from None
        return made

    def store(self) -> list[dict[str, Any]]:
        return list(self._ask("GET", "/api/store"))

    def register(self, app: str, tables: Mapping[str, Any]) -> int:
        return int(self._ask("POST", f"/app/{segment('app', app)}/register", dict(tables))["version"])

    def insert(self, app: str, table: str, rows: list[dict[str, Any]]) -> int:
        body = {"table": table, "rows": rows}
        return int(self._ask("POST", f"/app/{segment('app', app)}/insert", body)["inserted"])

    def deliver(self, app: str, delivery: Mapping[str, Any]) -> dict[str, int]:
        return dict(self._ask("POST", f"/app/{segment('app', app)}/delivery", delivery))

    def progress(self, app: str) -> dict[str, Any]:
        return dict(self._ask("GET", f"/app/{segment('app', app)}/delivery"))

    def remove(self, app: str, *, keep_data: bool) -> None:
        self._ask("POST", f"/api/store/{segment('app', app)}/remove", {"keep_data": keep_data})

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, **query: str) -> Any:
        json = body if body is not None or method == "GET" else {}
        try:
            answer = self._http.request(method, path, json=json, params=query or None)
        except httpx.HTTPError as error:
            raise Unreachable(self.url, f"the person's own server does not answer ({type(error).__name__})") from None
        try:
            told = read_json(answer.content)
        except NotJSON:
            told = None
        if not answer.is_success:
            raise from_problem(answer.status_code, told)
        return told


def _here(url: str) -> bool:
    """Return whether an announced address is this machine's own."""
    try:
        return is_loopback(urlsplit(base_url(url)[0]).hostname or "")
    except Mistake:
        return False
