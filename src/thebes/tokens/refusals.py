"""The reasons that a token, an enrolment or a group is not accepted. Nothing here says who somebody is, or tells a
secret."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from thebes.privacy.faults import Refusal


class Flaw(StrEnum):
    """The fault in something that arrived. Everything that is checked is public, so saying which tells nothing.

    The first six are found by reading; PROOF and SIGNATURE only by verifying.
    """

    TEXT = "text"
    """not the one base64url spelling of any bytes"""
    VERSION = "version"
    """made for a version that this Thebes or this group does not know"""
    LENGTH = "length"
    """too short or too long"""
    POINT = "point"
    """holds bytes that are not a point of the curve, or a point outside the group of prime order"""
    IDENTITY = "identity"
    """holds the identity point, with which anything could be proven"""
    SCALAR = "scalar"
    """holds a number outside 1 .. order - 1"""
    PROOF = "proof"
    """does not prove this: made for another context, report, group or pseudonym, or not a proof at all"""
    SIGNATURE = "signature"
    """no signature of this group's authority stands behind it"""


class Flawed(ValueError):
    """The error by which a scheme says that bytes are not accepted. Never leaves this room: callers meet one of the
    refusals below."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(flaw.value)
        self.flaw = flaw


_TOKEN = {
    Flaw.PROOF: "it was made for another context, report or group; present again with your credential",
    Flaw.SIGNATURE: "no credential of this group stands behind it; enrol with the group's authority",
    Flaw.VERSION: "it has a version that is not known here; update Thebes",
}
_ENROLMENT = {
    Flaw.PROOF: "it does not prove that its maker knows what is inside; begin a new enrolment",
    Flaw.SIGNATURE: "it is not signed with the key of the group that was pinned; do not use it, and ask the authority",
    Flaw.VERSION: "it has a version that is not known here; update Thebes",
}


class TokenRefused(Refusal):
    """A token proves nothing here; `flaw` says what is wrong with it. Nothing was counted."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(f"the token is refused ({flaw}): {_TOKEN.get(flaw, 'it is damaged; send it again')}")
        self.flaw = flaw

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.flaw,))


class EnrolmentRefused(Refusal):
    """A request or a response of an enrolment is not accepted; `flaw` says why. Nothing was signed, nothing is kept."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(f"the enrolment is refused ({flaw}): {_ENROLMENT.get(flaw, 'it is damaged; send it again')}")
        self.flaw = flaw

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.flaw,))


class UnpinnedGroup(Refusal):
    """The parameters shown are not those that were pinned, so a credential or token could mark its peer: not used."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(
            f"the group's parameters have the digest {found}, pinned is {expected}; "
            "compare both with the digest that the group publishes elsewhere before you go on"
        )
        self.expected = expected
        self.found = found

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.expected, self.found))


class GroupTooSmall(Refusal):
    """The published group has `size` members and promised at least `minimum`: too few to hide among."""

    def __init__(self, group: str, size: int, minimum: int) -> None:
        super().__init__(
            f"group {group!r} has {size} members, and its tokens hide nobody below {minimum}; wait until more enrol"
        )
        self.group = group
        self.size = size
        self.minimum = minimum

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.group, self.size, self.minimum))
