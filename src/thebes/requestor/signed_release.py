"""A release at the coordinator that published it: there it is saved, and there it is verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thebes.privacy.faults import Mistake
from thebes.requestor.verification import Verification, verify
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import BrokenRecord
from thebes.wire.release_record import ReleaseRecord


@dataclass(frozen=True, slots=True)
class SignedRelease:
    """The release `result` of a task, as its coordinator gave it."""

    client: CoordinatorClient
    task_id: str
    result: Mapping[str, Any]

    def save(self, path: str | Path, *, certificate_only: bool = False) -> None:
        """Write the record of the release into a file; nothing is written that is not of this release."""
        self._record()
        raw = self.client.record(self.task_id, certificate_only=certificate_only)
        try:
            Path(path).write_bytes(raw)
        except OSError as error:
            raise Mistake("path", f"cannot write {str(path)!r}: {error.strerror}") from None

    def verify(self, key: str | None = None) -> Verification:
        """Check it against the signed list as the coordinator shows it now."""
        return verify(self._record(), key=key, client=self.client)

    def _record(self) -> ReleaseRecord:
        record = ReleaseRecord.read(self.client.record(self.task_id))
        if record.task_id != self.task_id or record.release != self.result:
            raise BrokenRecord(
                "the coordinator's record is of another release than this one; if the task has gone on meanwhile, read "
                "handle.release again"
            )
        return record


def saved_record(path: str | Path) -> ReleaseRecord:
    """Read a record from a file."""
    return ReleaseRecord.read(bytes_of(path))


def bytes_of(path: str | Path) -> bytes:
    """Read a whole file, or a Mistake that names it."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Mistake("FILE", f"cannot read {str(path)!r}: {error.strerror}") from None
