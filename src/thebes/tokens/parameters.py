"""The parameters that a group publishes: enough to verify its tokens, and for a peer to see that everybody is shown the
same."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from thebes.privacy.faults import Mistake
from thebes.tokens import codec, schemes
from thebes.tokens.refusals import Flawed, UnpinnedGroup
from thebes.tokens.scheme import Scheme

FORM = "thebes-group"
VERSION = 2  #: 1 did not say whether names become public
PUBLIC, PRIVATE = "public", "private"
LEAST_MINIMUM = 2  #: in a group of one, every token names its peer
_FIELDS = {"scheme", "group", "epoch", "public_key", "header", "constants", "minimum", "names", "size", "digest"}


@dataclass(frozen=True)
class GroupParameters:
    """A group in one epoch.

    `digest` covers everything but `size`: it never changes while the epoch lasts, and it is what a peer pins, having
    got it by another way than the parameters. A peer that is shown a key or header of its own would be recognised by
    every token it makes; the pinned digest is what rules that out.

    `names` says whether the names of its members become public with its list, so that each knows before enrolling.

    `size` is how many are enrolled *as the authority says*. An authority that enrols people who do not exist makes
    the group look larger than it is; nothing here can find that out.
    """

    scheme: str
    group: str
    epoch: str
    public_key: bytes
    minimum: int
    size: int
    names: str = PRIVATE

    def __post_init__(self) -> None:
        scheme = schemes.named(self.scheme)
        codec.name("group", self.group)
        codec.name("epoch", self.epoch)
        codec.whole("minimum", self.minimum, LEAST_MINIMUM)
        codec.whole("size", self.size, 0)
        if self.names not in (PUBLIC, PRIVATE):
            raise Mistake("names", f"must be {PUBLIC!r} or {PRIVATE!r}")
        try:
            scheme.check_public_key(self.public_key)
        except Flawed as found:
            raise Mistake("public_key", f"is no key that tokens can be verified under ({found.flaw})") from None

    @property
    def verifier(self) -> Scheme:
        """The scheme by which this group's tokens are made and verified."""
        return schemes.named(self.scheme)

    @property
    def header(self) -> bytes:
        """The header that every credential of this group and epoch is signed under."""
        return codec.header(self.group, self.epoch)

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of all that may never differ between two peers."""
        key = (self.verifier.fingerprint, self.group, self.epoch, self.public_key, self.header)
        return codec.digest("thebes/tokens/group/v2", self.scheme, *key, str(self.minimum), self.names).hex()

    def require(self, pin: str) -> None:
        """Passes only for the parameters with this pinned digest."""
        if not isinstance(pin, str) or len(codec.unhex("pin", pin)) != codec.DIGEST_BYTES:
            raise Mistake("pin", "must be the 64 hexadecimal digits of the group's digest")
        if self.digest != pin:
            raise UnpinnedGroup(pin, self.digest)

    def as_json(self) -> dict[str, Any]:
        """The record to publish."""
        return {
            "format": FORM,
            "version": VERSION,
            "scheme": self.scheme,
            "group": self.group,
            "epoch": self.epoch,
            "public_key": self.public_key.hex(),
            "header": self.header.hex(),
            "constants": self.verifier.fingerprint.hex(),
            "minimum": self.minimum,
            "names": self.names,
            "size": self.size,
            "digest": self.digest,
        }

    @classmethod
    def from_json(cls, value: object) -> GroupParameters:
        """A published record, read strictly; what follows from the rest is worked out again and compared."""
        fields = codec.record("parameters", value, FORM, _FIELDS, version=VERSION)
        key = codec.unhex("public_key", fields["public_key"])
        names = fields["names"]
        made = cls(fields["scheme"], fields["group"], fields["epoch"], key, fields["minimum"], fields["size"], names)
        for field, expected in made.as_json().items():
            if fields[field] != expected:
                raise Mistake(field, "does not follow from the rest of the group's record, so the record was changed")
        return made
