"""Access to an owner's own server: whoever can read HOME/token may talk to it, and the browser window that it opened.

What must stay true: the secrets have 256 bits, are compared in constant time, and stand in no address that works twice.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable
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


class Access:
    """The token in force, and the browser sessions of this run. `token` gives it, or where it lies: HOME; `figures` is
    the token for figures alone, where there is one."""

    def __init__(self, token: Path | Callable[[], str], *, figures: str = "") -> None:
        self._held, self._figures = TokenFile(token) if isinstance(token, Path) else token, figures
        self._lock = threading.Lock()
        self._codes: set[str] = set()
        self._sessions: list[str] = []

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
            self._sessions = [*self._sessions, session][-_MOST_SESSIONS:]
            return session

    def admits(self, session: str) -> bool:
        """Return whether this is a session of this run."""
        offered = session.encode()
        return sum(hmac.compare_digest(kept.encode(), offered) for kept in list(self._sessions)) > 0
