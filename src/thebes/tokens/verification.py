"""Anybody's side: what a token proves under a group's published parameters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from thebes.tokens import codec
from thebes.tokens.context import Context, checked_report
from thebes.tokens.parameters import GroupParameters
from thebes.tokens.refusals import Flaw, Flawed, TokenRefused
from thebes.tokens.scheme import PresentedToken


@dataclass(frozen=True, slots=True)
class Presented:
    """A token as it arrived, with the context it was sent to and the digest of the report that came with it."""

    context: Context
    report_digest: bytes
    token: object


def verify(parameters: GroupParameters, context: Context, report_digest: bytes, token: object) -> str:
    """The pseudonym that the token proves for this context and report, as hex digits; TokenRefused otherwise.

    A credential has one pseudonym in a context, whatever it is presented with, so *one per peer* is kept by whoever
    stores pseudonyms: in one step, each at most once in a context. Nothing is remembered here.
    """
    (found,) = verify_many(parameters, [Presented(context, report_digest, token)])
    if isinstance(found, TokenRefused):
        raise found
    return found


def verify_many(parameters: GroupParameters, presented: Iterable[Presented]) -> list[str | TokenRefused]:
    """For each token what `verify` would give or raise, in about half the time.

    Tokens of several contexts may be mixed. The same pseudonym twice is not noticed here either.
    """
    scheme = parameters.verifier
    results: list[str | TokenRefused | None] = []
    readable: list[tuple[int, PresentedToken]] = []
    for place, one in enumerate(presented):
        binding = checked_report(one.report_digest)
        try:
            core = codec.read(one.token, version=scheme.version, length=scheme.token_bytes)
        except Flawed as found:
            results.append(TokenRefused(found.flaw))
            continue
        results.append(None)
        readable.append((place, PresentedToken(one.context.digest(parameters), binding, core)))
    outcomes = scheme.verify(parameters.public_key, parameters.header, [shown for _, shown in readable])
    for (place, _), outcome in zip(readable, outcomes, strict=True):
        results[place] = TokenRefused(outcome) if isinstance(outcome, Flaw) else outcome.hex()
    return [result for result in results if result is not None]
