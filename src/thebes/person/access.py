"""Who may talk to a person's own server: whoever can read HOME/token, and the browser window it opened.

What must stay true: the secrets have 256 bits, are compared in constant time, and stand in no address that works twice.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
import threading
from pathlib import Path

from thebes.privacy.faults import Refusal

FILE = "token"
_MOST_SESSIONS = 32


class UnsafeFile(Refusal):
    """A file that holds a secret belongs to somebody else or can be read by others; it is not used."""


def make_token(home: Path, *, anew: bool = False) -> Path:
    """HOME/token with 256 random bits, mode 0600; an existing one is kept unless `anew`."""
    path = home / FILE
    fresh = home / f".{FILE}.{secrets.token_hex(4)}"
    if path.exists() and not anew:
        read_secret(path)
        return path
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    return path


def read_secret(path: Path) -> str:
    """What stands in a secret's file, after checking that it is this user's own and nobody else's to read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise UnsafeFile(f"there is no {path.name} in this home; `thebes person --new-token` makes one") from None
    except OSError:
        raise UnsafeFile(f"{path.name} is not a plain file") from None
    with os.fdopen(descriptor, "r", encoding="ascii") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
            raise UnsafeFile(
                f"{path.name} can be read by others or belongs to somebody else; run `thebes person --new-token`"
            )
        return file.read(1000).strip()


class Access:
    """The token in force, read anew when the file changes, and the browser sessions of this run."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        self._stamp: tuple[int, int, int] | None = None
        self._token = ""
        self._lock = threading.Lock()
        self._codes: set[str] = set()
        self._sessions: list[str] = []

    def knows(self, token: str) -> bool:
        """Whether this is the token. Never true while the file is not safe."""
        try:
            held = self._held()
        except (Refusal, OSError):
            return False
        return bool(held) and hmac.compare_digest(held.encode(), token.encode())

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
        """Whether this is a session of this run."""
        offered = session.encode()
        return sum(hmac.compare_digest(kept.encode(), offered) for kept in list(self._sessions)) > 0

    def _held(self) -> str:
        facts = self._path.lstat()
        stamp = (facts.st_ino, facts.st_mtime_ns, facts.st_mode)
        if stamp != self._stamp:
            self._token, self._stamp = "", None
            self._token = read_secret(self._path)
            self._stamp = stamp
        return self._token
