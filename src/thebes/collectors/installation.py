"""The collectors that are installed at a home: HOME/collectors, one record each, for its owner's eyes only.

Rows and states are not here: they lie in the store. A publisher's key stays pinned when a collector is removed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from thebes import machine
from thebes.collectors.publication import Publication, Unverified, fingerprint
from thebes.data.store.declaration import Declaration, collector_name
from thebes.database import private_files
from thebes.privacy.faults import Mistake, Refusal
from thebes.wire.local_server import Hold, HomeInUse

_PINS = ".publishers.json"


@dataclass(frozen=True, slots=True)
class Record:
    """A collector at a home. `app` is its name in the store and in SQL, `agreed` the tables and columns that the person
    said yes to; times are ISO, in UTC."""

    app: str
    collector: str
    version: int
    options: dict[str, Any] = field(default_factory=dict)
    every_seconds: float | None = None
    installed_at: str = ""
    agreed: dict[str, list[str]] = field(default_factory=dict)
    last_at: str | None = None
    last_rows: int | None = None
    last_error: str | None = None

    def next_at(self) -> datetime | None:
        """Return when the collector is due; None where it runs only when asked."""
        if self.every_seconds is None:
            return None
        since = datetime.fromisoformat(self.last_at or self.installed_at)
        return since + timedelta(seconds=self.every_seconds if self.last_at else 0)

    def agrees(self, declared: Declaration) -> None:
        """Refuses what the person was not shown, for instance by a newer version."""
        further = [
            f"{table.name}.{column.name}"
            for table in declared.tables
            for column in table.columns
            if column.name not in self.agreed.get(table.name, [])
        ]
        if further:
            called = "" if self.app == self.collector else f" --as {self.app}"
            raise Refusal(
                f"{self.collector} also fills {', '.join(further)} now, which you have not seen yet; look at it and "
                f"agree: thebes collector install {self.collector}{called}"
            )

    def due(self, now: datetime) -> bool:
        """Return whether the collector should run by itself now. One without an interval runs once."""
        at = self.next_at()
        return self.last_at is None if at is None else at <= now


class Installed:
    """The records of one home."""

    def __init__(self, home: Path) -> None:
        folder = home.expanduser().resolve()
        if not (folder / "token").exists():
            raise Mistake("--home", f"{str(home)!r} is not a person's home; `thebes person --home DIR` makes one")
        self.home = folder
        self._folder = folder / "collectors"
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def records(self) -> list[Record]:
        """Everything installed, by name."""
        names = sorted(path.stem for path in self._folder.glob("[!.]*.json"))
        return [self.record(name) for name in names]

    def find(self, app: str) -> Record | None:
        try:
            told = json.loads(self._path(app).read_text(encoding="utf-8"))
            return Record(**told)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            raise Mistake("NAME", f"the record of {app!r} in the home is damaged; install it again") from None

    def record(self, app: str) -> Record:
        """One record; a Mistake where there is none."""
        found = self.find(app)
        if found is None:
            raise Mistake("NAME", f"{app[:60]!r} is not installed at this home; `thebes collector install` does it")
        return found

    def write(self, record: Record) -> None:
        self._put(self._path(record.app), asdict(record))

    def forget(self, app: str) -> None:
        """Take its record away; a Refusal while it runs. The files by which runs keep apart stay: one that is held
        and gone keeps nobody apart."""
        with self.turn(app):
            self._path(app).unlink(missing_ok=True)

    def pinned(self, collector: str) -> str | None:
        """The key under which a collector was installed here first."""
        found = self._pins().get(collector)
        return str(found) if found is not None else None

    def trust(self, publication: Publication) -> None:
        """Pin the key of a publication at first sight; refuse another one ever after."""
        held = self.pinned(publication.name)
        if held is None:
            self._put(self._folder / _PINS, {**self._pins(), publication.name: publication.key})
        self.same_publisher(publication)

    def same_publisher(self, publication: Publication) -> None:
        held = self.pinned(publication.name)
        if held is not None and held != publication.key:
            raise Unverified(
                f"{publication.name} is signed by {publication.fingerprint}, but was by {fingerprint(held)} before; if "
                f"its publisher says that this is right: thebes collector remove {publication.name} --forget-publisher"
            )

    def distrust(self, collector: str) -> None:
        """Forget the key; the next installation pins whichever key is there."""
        self._put(self._folder / _PINS, {name: key for name, key in self._pins().items() if name != collector})

    @contextmanager
    def staying(self, app: str | None) -> Iterator[None]:
        """Inside, this process and no other stays and runs whatever is due, or one collector; `stayed` sees it."""
        try:
            held = Hold(self._folder, file=_staying(app))
        except HomeInUse:
            what = "every collector that is due" if app is None else app
            raise Refusal(f"another process stays already and runs {what} at this home; stop it first") from None
        with closing(held):
            yield

    def stayed(self, app: str) -> bool:
        """Return whether some process will run a collector when it is due."""
        try:
            for file in (_staying(None), _staying(app)):
                if (self._folder / file).exists():
                    Hold(self._folder, shared=True, file=file).close()
        except HomeInUse:
            return True
        return False

    @contextmanager
    def turn(self, app: str) -> Iterator[None]:
        """Only one run of a collector at a time."""
        descriptor = os.open(self._folder / f".{app}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                machine.hold(descriptor, wait=False)
            except BlockingIOError:
                raise Refusal(f"{app} is running already; wait for it, or stop it") from None
            yield
        finally:
            os.close(descriptor)

    def _path(self, app: str) -> Path:
        return self._folder / f"{collector_name(app)}.json"

    def _pins(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self._folder / _PINS).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError):
            raise Unverified("the pinned publishers' keys in the home cannot be read; nothing is trusted") from None

    def _put(self, path: Path, body: dict[str, Any]) -> None:
        private_files.write(path, json.dumps(body, indent=1))


def _staying(app: str | None) -> str:
    return ".every" if app is None else f".{app}.every"


def stamp() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
