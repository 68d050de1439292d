"""Access to an owner's own server: whoever can read HOME/token may talk to it, and the browser window that it opened.

What must stay true: the secrets have 256 bits, are compared in constant time, and stand in no address that works twice.
"""

from __future__ import annotations

import hmac
import math
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
    """The secret in a file of a home, its token where none is named, read anew when the file changes."""

    def __init__(self, home: Path, file: str = FILE) -> None:
        self._path = home / file
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
    """A browser that came in: a name that lets nobody in, since when (seconds since 1970), who was named as its owner
    (nobody by a one-time address), and whether it is the one that asks."""

    id: str
    began: float
    who: str
    own: bool


@dataclass(frozen=True, slots=True)
class _Entered:
    """A session: since when, until when, and of whom, where they were named."""

    began: float
    until: float = math.inf
    who: str = ""


class Access:
    """The token in force, and the browser sessions of this run. `token` gives it, or where it lies: HOME; `figures`
    gives the token for figures alone, empty where there is none. With the token goes whoever came in by a one-time
    address, which it makes; who was named by somebody else stays."""

    def __init__(
        self,
        token: Path | Callable[[], str],
        *,
        figures: Callable[[], str] = lambda: "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._held, self._figures = TokenFile(token) if isinstance(token, Path) else token, figures
        self._clock, self._lock = clock, threading.Lock()
        self._codes: set[str] = set()
        self._sessions: dict[str, _Entered] = {}  # oldest first
        self._seen: str | None = None

    def knows(self, token: str) -> bool:
        """Return whether this is the token. Never true while the file is not safe."""
        held = self._current()
        return bool(held) and hmac.compare_digest(held.encode(), token.encode())

    def may_read_figures(self, token: str) -> bool:
        """Return whether this is the token for figures alone."""
        figures = self._figures()
        return bool(figures) and hmac.compare_digest(figures.encode(), token.encode())

    def new_code(self) -> str:
        """A code that opens one browser session, once."""
        code = secrets.token_urlsafe(32)
        self._current()
        with self._lock:
            self._codes.add(code)
        return code

    def exchange(self, code: str) -> str | None:
        """A session for a code that was not used before."""
        self._current()
        with self._lock:
            found = [kept for kept in self._codes if hmac.compare_digest(kept.encode(), code.encode())]
            if not found:
                return None
            self._codes.difference_update(found)
            return self._begun(_Entered(self._clock()))

    def admit(self, who: str, seconds: float) -> str:
        """Begin a session of somebody whom another server named, for so long."""
        now = self._clock()
        with self._lock:
            return self._begun(_Entered(now, now + seconds, who))

    def admits(self, session: str) -> bool:
        """Return whether this is a session of this run."""
        return self._of(session) is not None

    def who(self, session: str) -> str:
        """Return the name of a session's owner; nobody's where they came by a one-time address."""
        found = self._of(session)
        return "" if found is None else found.who

    def listed(self, own: str | None) -> list[BrowserSession]:
        """List the sessions of this run, newest first; `own` is the one that asks."""
        now, kept = self._clock(), list(self._sessions.items())
        going = [(session, entered) for session, entered in reversed(kept) if now < entered.until]
        return [BrowserSession(_name_of(each), of.began, of.who, each == own) for each, of in going]

    def end(self, id: str) -> bool:
        """End a session by its name: whether there was one."""
        with self._lock:
            kept = {session: entered for session, entered in self._sessions.items() if _name_of(session) != id}
            ended, self._sessions = len(kept) < len(self._sessions), kept
        return ended

    def _current(self) -> str:
        """Return the token in force, empty while its file is not safe. What came in by another one before is out."""
        try:
            held = self._held()
        except (Refusal, OSError):
            held = ""
        with self._lock:
            if self._seen not in (held, None):
                self._codes.clear()
                self._sessions = {session: of for session, of in self._sessions.items() if of.who}
            self._seen = held
        return held

    def _begun(self, entered: _Entered) -> str:
        session = secrets.token_urlsafe(32)
        self._sessions = dict([*self._sessions.items(), (session, entered)][-_MOST_SESSIONS:])
        return session

    def _of(self, session: str) -> _Entered | None:
        self._current()
        offered, now = session.encode(), self._clock()
        found = [of for kept, of in list(self._sessions.items()) if hmac.compare_digest(kept.encode(), offered)]
        return next((of for of in found if now < of.until), None)


def _name_of(session: str) -> str:
    return sha256(session.encode()).hexdigest()[:16]
