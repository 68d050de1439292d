"""A peer's side: enrol once in an epoch, then present in as many contexts as one likes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from thebes.privacy.faults import Mistake
from thebes.tokens import codec
from thebes.tokens.context import Context, checked_report
from thebes.tokens.parameters import GroupParameters
from thebes.tokens.refusals import EnrolmentRefused, Flawed, GroupTooSmall, UnpinnedGroup

_ENROLMENT, _CREDENTIAL = "thebes-enrolment", "thebes-credential"


@dataclass(frozen=True)
class Enrolment:
    """An enrolment that has begun. Keep it (`as_json`) before `request` is sent, until `finish` gave the credential.

    The request shows nothing of the secret inside it, to whoever has whatever computer. Send the same one again
    when no answer came: another one is another enrolment, and the authority refuses that.
    """

    parameters: GroupParameters
    request: str
    _secret: bytes = field(repr=False)

    @classmethod
    def begin(cls, parameters: GroupParameters, *, pin: str) -> Enrolment:
        """A fresh secret and the request for it. `pin` is the group's digest, got by another way than `parameters`."""
        parameters.require(pin)
        scheme = parameters.verifier
        request, secret = scheme.request()
        return cls(parameters, codec.write(scheme.version, request), secret)

    def finish(self, response: object) -> Credential:
        """The credential, once the response is verified under the pinned key and header; EnrolmentRefused otherwise."""
        pinned, scheme = self.parameters, self.parameters.verifier
        try:
            core = codec.read(response, version=scheme.version, length=scheme.response_bytes)
            return Credential(pinned, scheme.finish(pinned.public_key, pinned.header, self._secret, core))
        except Flawed as found:
            raise EnrolmentRefused(found.flaw) from None

    def as_json(self) -> dict[str, Any]:
        """All of it, *with the secret*: for the peer's own store."""
        head = {"format": _ENROLMENT, "version": 1, "parameters": self.parameters.as_json()}
        return {**head, "request": self.request, "secret": self._secret.hex()}

    @classmethod
    def from_json(cls, value: object) -> Enrolment:
        """The enrolment that was kept."""
        fields = codec.record("enrolment", value, _ENROLMENT, {"parameters", "request", "secret"})
        parameters = GroupParameters.from_json(fields["parameters"])
        scheme = parameters.verifier
        try:
            codec.read(fields["request"], version=scheme.version, length=scheme.request_bytes)
        except Flawed as found:
            raise Mistake("request", f"is not the request of an enrolment ({found.flaw})") from None
        return cls(parameters, fields["request"], codec.unhex("secret", fields["secret"]))


@dataclass(frozen=True)
class Credential:
    """The right to one token for each context of a group's epoch, without saying whose it is.

    A token shows that *somebody* enrolled made it, and that two tokens of one context are or are not of the same
    somebody. Authority, aggregator, requestor and all other peers together learn no more from it, about any context.
    They may learn more from elsewhere: from the network, from when it was sent, from what the report says, from a
    group that is small. Whoever has the credential is its peer; one that is lost waits for the next epoch.
    """

    parameters: GroupParameters
    _secret: bytes = field(repr=False)

    def pseudonym(self, context: Context) -> str:
        """The pseudonym that every token of this credential shows in `context`, as hex digits."""
        return self.parameters.verifier.pseudonym(self._secret, context.digest(self.parameters)).hex()

    def present(self, context: Context, report_digest: bytes, published: GroupParameters) -> str:
        """A token for this context and report.

        `published` is what the group shows now. Another group than the pinned one, or one that is smaller than its
        minimum, is refused, and nothing is made. Tokens are fresh each time, so write one down before it is sent: a
        second one for the same context has the same pseudonym and is counted as the same peer.
        """
        pinned = self.parameters
        if published.digest != pinned.digest:
            raise UnpinnedGroup(pinned.digest, published.digest)
        if published.size < pinned.minimum:
            raise GroupTooSmall(pinned.group, published.size, pinned.minimum)
        binding = checked_report(report_digest)
        scheme = pinned.verifier
        core = scheme.present(pinned.public_key, pinned.header, self._secret, context.digest(pinned), binding)
        return codec.write(scheme.version, core)

    def as_json(self) -> dict[str, Any]:
        """All of it, *with the secret*: for the peer's own store."""
        head = {"format": _CREDENTIAL, "version": 1, "parameters": self.parameters.as_json()}
        return {**head, "secret": self._secret.hex()}

    @classmethod
    def from_json(cls, value: object) -> Credential:
        """The credential that was kept; a damaged one is refused here and not by the first verifier."""
        fields = codec.record("credential", value, _CREDENTIAL, {"parameters", "secret"})
        parameters = GroupParameters.from_json(fields["parameters"])
        secret = codec.unhex("secret", fields["secret"])
        try:
            parameters.verifier.check_credential(parameters.public_key, parameters.header, secret)
        except Flawed as found:
            raise Mistake("credential", f"is damaged or of another group ({found.flaw})") from None
        return cls(parameters, secret)
