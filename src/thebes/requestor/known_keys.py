"""The keys of coordinators' lists that this user has met, and how far each list was read.

What must stay true: a key that was seen first is held against every later list; a list that lost or changed anything
since is refused. Nothing in the file is secret.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thebes.database import private_files
from thebes.privacy.faults import Mistake
from thebes.privacy.reading import NotJSON, read_json
from thebes.requestor.stored_logins import folder
from thebes.wire.task_log import Seen


@dataclass(frozen=True, slots=True)
class KnownKey:
    """The key of one coordinator, and the place up to which its list was read."""

    key: str
    seen: Seen


class KnownKeys:
    """The keys by the addresses of their coordinators."""

    def __init__(self, place: Path | None = None) -> None:
        self.path = (folder() if place is None else place) / "keys.json"

    def of(self, url: str) -> KnownKey | None:
        """Return the key of the coordinator at this address; None before first contact."""
        told = self._read().get(url)
        return None if told is None else KnownKey(told["key"], Seen(told["length"], told["head"]))

    def whose(self, keys: set[str]) -> str | None:
        """Return the address of a coordinator that is known by one of these keys."""
        return next((url for url, told in sorted(self._read().items()) if told["key"] in keys), None)

    def keep(self, url: str, known: KnownKey) -> None:
        """Hold this against every later list. On the disk when this returns, whole or not at all."""
        told = {**self._read(), url: {"key": known.key, "length": known.seen.length, "head": known.seen.head}}
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        private_files.put(self.path, json.dumps(told, indent=1))

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            told = read_json(self.path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except NotJSON:
            raise self._damaged() from None
        if not isinstance(told, dict) or not all(_is_known(one) for one in told.values()):
            raise self._damaged()
        return told

    def _damaged(self) -> Mistake:
        return Mistake("keys", f"{self.path} is damaged; remove it, then say each coordinator's fingerprint with --key")


def _is_known(one: object) -> bool:
    kinds = {"key": str, "length": int, "head": str}
    return isinstance(one, dict) and all(type(one.get(name)) is kind for name, kind in kinds.items())
