"""A site's folder: what its steward writes (`policy.toml`, `datasets/`), and what the site keeps (ledger, audit log,
outbox, the certificate in `link/`).

What must stay true: nobody else may read it; one supervisor at a time serves it, and one algorithm process at a time
works in it.
"""

from __future__ import annotations

from pathlib import Path

from thebes import machine
from thebes.privacy.faults import Mistake
from thebes.wire.homes import HomeRole, has_of
from thebes.wire.local_server import Hold

POLICY, DATASETS, LINK = "policy.toml", "datasets", "link"
LEDGER, AUDIT, OUTBOX = "ledger.db", "audit.db", "outbox.db"
AUTHORITY, CERTIFICATE, KEY = "ca.pem", "site.pem", "site.key"  #: in `link/`
_HELD = "site.lock"  #: by whoever serves it, `thebes site`
_JOINING_HELD = "join.lock"  #: by whoever changes `link/` by a join code
_ROWS_HELD = "rows.lock"  #: by its process with the rows, which a supervisor that was killed may leave for a moment


class SiteHome:
    """The folder, made with mode 0700 if need be. A coordinator's home stands for its own site."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).expanduser().resolve()
        if has_of(HomeRole.PERSON, self.folder):
            raise Mistake("--home", f"{str(folder)!r} is a person's home; give the site a folder of its own")
        try:
            for place in (self.folder, self.datasets):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
                facts = place.stat()
                if facts.st_uid != machine.user():
                    raise Mistake("--home", f"{str(place)!r} belongs to somebody else")
                if facts.st_mode & 0o077:
                    place.chmod(0o700)
        except (FileExistsError, NotADirectoryError):
            raise Mistake("--home", f"{str(folder)!r} is not a folder") from None
        except OSError as error:
            raise Mistake("--home", f"cannot use {str(folder)!r}: {error.strerror}") from None

    @property
    def datasets(self) -> Path:
        return self.folder / DATASETS

    @property
    def policy(self) -> Path:
        return self.folder / POLICY

    @property
    def link(self) -> Path:
        return self.folder / LINK

    @property
    def ledger(self) -> str:
        """The address of its ledger."""
        return f"sqlite:///{self.folder / LEDGER}"

    @property
    def of_a_coordinator(self) -> bool:
        return has_of(HomeRole.COORDINATOR, self.folder)

    def hold(self, *, shared: bool = False) -> Hold:
        """The right to serve it, until it is closed or the process ends; `shared` for who only looks whether anybody
        has it."""
        return Hold(self.folder, shared=shared, file=_HELD)

    def hold_joining(self) -> Hold:
        """The right to change its certificate by a join code."""
        return Hold(self.folder, file=_JOINING_HELD)

    def hold_rows(self) -> Hold:
        """The right to answer from its rows, in the same way."""
        return Hold(self.folder, file=_ROWS_HELD)


def stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when the file does; None where there is none."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return (facts.st_ino, facts.st_mtime_ns, facts.st_size)
