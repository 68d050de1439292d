"""The context of a token: where it counts, and what it is bound to."""

from __future__ import annotations

from dataclasses import dataclass

from thebes.privacy.faults import Mistake
from thebes.tokens import codec
from thebes.tokens.parameters import GroupParameters

_LONGEST = 200  #: characters of a task's id or a part


@dataclass(frozen=True, slots=True)
class Context:
    """One part of one task: each peer of the group has one pseudonym here, and it is like none elsewhere.

    The digest of the task's document is inside, so that a token made for what a peer agreed to says nothing for
    another document under the same id.
    """

    task_id: str
    task_digest: str
    part: str

    def __post_init__(self) -> None:
        for argument, value in (("task_id", self.task_id), ("part", self.part)):
            if not isinstance(value, str) or not value or len(value) > _LONGEST or not value.isprintable():
                raise Mistake(argument, f"must be 1 to {_LONGEST} printable characters")
        if len(codec.unhex("task_digest", self.task_digest)) != codec.DIGEST_BYTES:
            raise Mistake("task_digest", "must be the 64 hexadecimal digits of the task's digest")

    def digest(self, parameters: GroupParameters) -> bytes:
        """The context's id in a group: SHA-256 over the group's key, group, epoch, task, its digest and the part."""
        group = (parameters.public_key, parameters.group, parameters.epoch)
        task = (self.task_id, bytes.fromhex(self.task_digest), self.part)
        return codec.digest("thebes/tokens/context/v1", *group, *task)

    def report_digest(self, report: bytes) -> bytes:
        """Return the digest that a token is bound to: of the canonical bytes of the report that goes with it, and the
        task's digest."""
        if not isinstance(report, bytes):
            raise Mistake("report", "must be bytes: the report in its canonical form")
        return codec.digest("thebes/tokens/report/v1", bytes.fromhex(self.task_digest), report)


def checked_report(report_digest: object) -> bytes:
    """A digest as `Context.report_digest` makes it."""
    if not isinstance(report_digest, bytes) or len(report_digest) != codec.DIGEST_BYTES:
        raise Mistake("report_digest", "must be the 32 bytes that Context.report_digest gives")
    return report_digest
