"""A group as its coordinator publishes it, and what a token is bound to: read by both sides, from the same lines.

What must stay true: two people who are shown different records of one group can find that out, because each record's
digest stands in the signed list under the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from thebes.privacy.faults import Mistake
from thebes.tokens import GroupParameters, codec
from thebes.tokens.parameters import PUBLIC
from thebes.wire import frames

MOST_MEMBERS = 1_000_000
_FIELDS = {"name", "epoch", "frozen", "minimum", "size", "digest", "parameters", "members", "names", "record"}


@dataclass(frozen=True)
class GroupRecord:
    """One epoch of a group. Once it is `frozen` nobody enrols, and nothing of it changes any more; from then on
    `members` has one entry for each credential, in no order that tells who came when: a digest that only the member
    and the authority can trace to a request. `names` are there then where the parameters say that they are public."""

    parameters: GroupParameters
    frozen: bool
    members: tuple[str, ...]
    names: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        return self.parameters.group

    @property
    def epoch(self) -> str:
        return self.parameters.epoch

    @property
    def size(self) -> int:
        """The number of credentials there are, as the authority says."""
        return self.parameters.size

    @property
    def digest(self) -> str:
        """Hex SHA-256 of all of it: what the signed list carries once it is frozen."""
        named = () if self.names is None else ("names", *self.names)
        said = (self.parameters.digest, str(self.size), *self.members, *named)
        return codec.digest("thebes/group/record/v1", *said).hex()

    def as_json(self) -> dict[str, Any]:
        """The body of `GET /api/group/{name}`. `digest` is what people pin and compare."""
        return {
            "name": self.name,
            "epoch": self.epoch,
            "frozen": self.frozen,
            "minimum": self.parameters.minimum,
            "size": self.size,
            "digest": self.parameters.digest,
            "parameters": self.parameters.as_json(),
            "members": list(self.members),
            "names": None if self.names is None else list(self.names),
            "record": self.digest if self.frozen else None,
        }

    @classmethod
    def from_json(cls, value: object) -> GroupRecord:
        """A record that somebody else wrote, read strictly; what follows from the rest is compared."""
        told: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
        if not set(told) >= _FIELDS or not isinstance(told["frozen"], bool):
            raise Mistake("group", "is not the record of one; the coordinator may be of another version")
        names = None if told["names"] is None else _texts("names", told["names"])
        made = cls(
            GroupParameters.from_json(told["parameters"]), told["frozen"], _texts("members", told["members"]), names
        )
        if len(set(made.members)) != len(made.members) or len(made.members) != (made.size if made.frozen else 0):
            raise Mistake("members", "must be as many as the size says, each of them once, and none before that")
        shown = made.as_json()
        if (made.names is not None) != (made.frozen and made.parameters.names == PUBLIC):
            raise Mistake("names", "are not shown as the group's parameters promised its members")
        for field in _FIELDS:
            if told[field] != shown[field]:
                raise Mistake(field, "does not follow from the rest of the group's record, so the record was changed")
        return made


def _texts(field: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MOST_MEMBERS or not all(isinstance(text, str) for text in value):
        raise Mistake(field, "must be a list of texts")
    return tuple(value)


def member_of(parameters: GroupParameters, request: str) -> str:
    """Return what stands in a group's list for the credential that this request of an enrolment led to."""
    return codec.digest("thebes/group/member/v1", parameters.digest, request).hex()


def listed_key(name: str, epoch: str) -> str:
    """Name the place where the signed list has the digest of a group's parameters, from the moment it was created."""
    return f"group~{name}~{epoch}"


def listed_record(name: str, epoch: str) -> str:
    """Name the place where it has the digest of the frozen record."""
    return f"group~{name}~{epoch}~frozen"


def report_of(ask_id: str, payload: Mapping[str, Any]) -> bytes:
    """The canonical bytes of a contribution, which its token is bound to: the RFC 8785 form of what was asked and
    what is answered, whether it travelled as JSON or as a frame."""
    import rfc8785

    try:
        return rfc8785.dumps({"ask_id": ask_id, "payload": frames.plain(payload)})
    except (ValueError, TypeError, RecursionError, OverflowError):
        raise Mistake("payload", "has a number or text without a canonical JSON form") from None
