"""The authority that lets peers into a group, and afterwards knows no more about their tokens than anybody else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from thebes.privacy.faults import Mistake
from thebes.tokens import codec, schemes
from thebes.tokens.parameters import LEAST_MINIMUM, PRIVATE, GroupParameters
from thebes.tokens.refusals import EnrolmentRefused, Flawed

FORM = "thebes-authority"


@dataclass(frozen=True)
class Authority:
    """The authority of one group in one epoch, and its secret key.

    What its tokens promise rests on it in one way: that it enrols each human once. **Whoever calls `enrol` must know
    who asks, and keep for each identity and epoch the one request it signed**: another request of the same identity
    would be a second credential and a second voice. The same request again is safe, its answer is the same.

    It never learns a peer's secret, so it can neither recognise a token nor make one in a peer's name. It can make
    credentials for people who do not exist.
    """

    scheme: str
    group: str
    epoch: str
    minimum: int
    _key: bytes = field(repr=False)

    @classmethod
    def create(cls, group: str, epoch: str, *, minimum: int, scheme: str = schemes.DEFAULT) -> Authority:
        """A new authority with a fresh key. `minimum` is the size below which no peer presents a token."""
        codec.name("group", group)
        codec.name("epoch", epoch)
        codec.whole("minimum", minimum, LEAST_MINIMUM)
        return cls(scheme, group, epoch, minimum, schemes.named(scheme).new_key())

    def parameters(self, *, size: int, names: str = PRIVATE) -> GroupParameters:
        """Return what the group publishes once `size` peers are enrolled; `names` is fixed before the first one is."""
        public_key = schemes.named(self.scheme).public_key(self._key)
        return GroupParameters(self.scheme, self.group, self.epoch, public_key, self.minimum, size, names)

    def enrol(self, request: object) -> str:
        """The response to a peer's request, or EnrolmentRefused. The same request always gets the same response."""
        scheme = schemes.named(self.scheme)
        try:
            core = codec.read(request, version=scheme.version, length=scheme.request_bytes)
            response = scheme.answer(self._key, codec.header(self.group, self.epoch), core)
        except Flawed as found:
            raise EnrolmentRefused(found.flaw) from None
        return codec.write(scheme.version, response)

    def as_json(self) -> dict[str, Any]:
        """All of it, *with the secret key*: for a file that only the authority can read."""
        return {
            "format": FORM,
            "version": 1,
            "scheme": self.scheme,
            "group": self.group,
            "epoch": self.epoch,
            "minimum": self.minimum,
            "secret_key": self._key.hex(),
        }

    @classmethod
    def from_json(cls, value: object) -> Authority:
        """The authority that was kept."""
        fields = codec.record("authority", value, FORM, {"scheme", "group", "epoch", "minimum", "secret_key"})
        key = codec.unhex("secret_key", fields["secret_key"])
        made = cls(fields["scheme"], fields["group"], fields["epoch"], fields["minimum"], key)
        try:
            made.parameters(size=0)
        except Flawed as found:
            raise Mistake("secret_key", f"is not the secret key of an authority ({found.flaw})") from None
        return made
