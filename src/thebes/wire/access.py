"""Access to an owner's own server: whoever can read HOME/token may talk to it, and the browser window that it opened.

What must stay true: the secrets have 256 bits, are compared in constant time, and stand in no address that works twice.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from thebes.database import private_files
from thebes.privacy.faults import Refusal
from thebes.wire.local_server import TOKEN as FILE
from thebes.wire.local_server import UnsafeFile as UnsafeFile
from thebes.wire.local_server import read_secret as read_secret

FIGURES = "figures.token"  #: the file whose bearer may read figures, and nothing else
_MOST_SESSIONS = 32


def make_token(home: Path, *, anew: bool = False, file: str = FILE) -> Path:
    """HOME/token, or another file, with 256 random bits, mode 0600; an existing one is kept unless `anew`."""
    path = home / file
    if path.exists() and not anew:
        read_secret(path)
        return path
    private_files.write(path, secrets.token_urlsafe(32) + "\n")
    return path


class TokenFile:
    """The token in HOME/token, read anew when the file changes."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        self._stamp: tuple[int, int, int] | None = None
        self._token = ""

    def __call__(self) -> str:
        facts = self._path.lstat()
        stamp = (facts.st_ino, facts.st_mtime_ns, facts.st_mode)
        if stamp != self._stamp:
            self._token, self._stamp = "", None
            self._token = read_secret(self._path)
            self._stamp = stamp
        return self._token


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A browser that came in: a name that lets nobody in, since when (seconds since 1970), and whether it is the one
    that asks."""

    id: str
    began: float
    own: bool


class Access:
    """The token in force, and the browser sessions of this run. `token` gives it, or where it lies: HOME; `figures` is
    the token for figures alone, where there is one."""

    def __init__(
        self, token: Path | Callable[[], str], *, figures: str = "", clock: Callable[[], float] = time.time
    ) -> None:
        self._held, self._figures = TokenFile(token) if isinstance(token, Path) else token, figures
        self._clock, self._lock = clock, threading.Lock()
        self._codes: set[str] = set()
        self._sessions: dict[str, float] = {}  # since when, oldest first

    def knows(self, token: str) -> bool:
        """Return whether this is the token. Never true while the file is not safe."""
        try:
            held = self._held()
        except (Refusal, OSError):
            return False
        return bool(held) and hmac.compare_digest(held.encode(), token.encode())

    def may_read_figures(self, token: str) -> bool:
        """Return whether this is the token for figures alone."""
        return bool(self._figures) and hmac.compare_digest(self._figures.encode(), token.encode())

    def new_code(self) -> str:
        """A code that opens one browser session, once."""
        code = secrets.token_urlsafe(32)
        with self._lock:
            self._codes.add(code)
        return code

    def exchange(self, code: str) -> str | None:
        """A session for a code that was not used before."""
        with self._lock:
            found = [kept for kept in self._codes if hmac.compare_digest(kept.encode(), code.encode())]
            if not found:
                return None
            self._codes.difference_update(found)
            session = secrets.token_urlsafe(32)
            self._sessions = dict([*self._sessions.items(), (session, self._clock())][-_MOST_SESSIONS:])
            return session

    def admits(self, session: str) -> bool:
        """Return whether this is a session of this run."""
        offered = session.encode()
        return sum(hmac.compare_digest(kept.encode(), offered) for kept in list(self._sessions)) > 0

    def listed(self, own: str | None) -> list[BrowserSession]:
        """List the sessions of this run, newest first; `own` is the one that asks."""
        kept = list(self._sessions.items())
        return [BrowserSession(_name_of(session), began, session == own) for session, began in reversed(kept)]

    def end(self, id: str) -> bool:
        """End a session by its name: whether there was one."""
        with self._lock:
            kept = {session: began for session, began in self._sessions.items() if _name_of(session) != id}
            ended, self._sessions = len(kept) < len(self._sessions), kept
        return ended


def _name_of(session: str) -> str:
    return sha256(session.encode()).hexdigest()[:16]
