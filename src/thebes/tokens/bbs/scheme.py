"""The scheme `bbs-nym-1`: one pseudonym secret for each credential, nothing else signed, nothing ever disclosed.

After draft-irtf-cfrg-bbs-signatures, -bbs-blind-signatures and -bbs-per-verifier-linkability (its state of June 2026).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from thebes.tokens.bbs import batch, commitment, proof
from thebes.tokens.bbs.curve import (
    ORDER,
    POINT_BYTES,
    SCALAR_BYTES,
    key_point,
    read_key,
    read_point,
    read_scalar,
    read_scalars,
    write_point,
    write_scalar,
)
from thebes.tokens.bbs.proof import Proof
from thebes.tokens.bbs.pseudonym import context_point
from thebes.tokens.bbs.signature import SIGNATURE_BYTES, Issuer, Signature, sign_blindly
from thebes.tokens.bbs.suite import CIPHERSUITE, P1, Suite, prefixed, write
from thebes.tokens.refusals import Flaw, Flawed
from thebes.tokens.scheme import PresentedToken, Scheme

SUITE = Suite(CIPHERSUITE + b"H2G_HM2S_PSEUDONYM_")  # as in the published vectors
_SECRETS = 1  # of a credential; the signed scalars are the blind and this one
_HIDDEN = 1 + _SECRETS


class BbsPseudonyms(Scheme):
    name = "bbs-nym-1"
    version = 1
    request_bytes = commitment.length(_SECRETS)
    response_bytes = SIGNATURE_BYTES + SCALAR_BYTES
    token_bytes = proof.length(_HIDDEN) + POINT_BYTES

    @property
    def fingerprint(self) -> bytes:
        points = write(P1, *SUITE.generators(1), *SUITE.blind_generators(_HIDDEN))
        return hashlib.sha256(prefixed(SUITE.api_id, points)).digest()

    def new_key(self) -> bytes:
        return write_scalar(SUITE.fresh_scalars(1)[0])

    def public_key(self, key: bytes) -> bytes:
        return write_point(key_point(read_scalar(key)))

    def check_public_key(self, public_key: bytes) -> None:
        read_key(public_key)

    def request(self) -> tuple[bytes, bytes]:
        secret, blind, *masks = SUITE.fresh_scalars(2 + _HIDDEN)
        return commitment.commit(SUITE, [secret], blind=blind, masks=masks), write(blind, secret)

    def answer(self, key: bytes, header: bytes, request: bytes) -> bytes:
        number = read_scalar(key)
        committed = commitment.opened(SUITE, request, _SECRETS)
        # Only the key's holder can compute it, and a repeated request gets no second credential.
        entropy = SUITE.hash_to_scalar(prefixed(key, header, request), "NYM_ENTROPY_")
        issuer = _issuer(self.public_key(key), header)
        signature = sign_blindly(issuer, number, messages=(), commitment=committed, entropy=entropy)
        return signature.write() + write_scalar(entropy)

    def finish(self, public_key: bytes, header: bytes, secret: bytes, response: bytes) -> bytes:
        if len(response) != self.response_bytes:
            raise Flawed(Flaw.LENGTH)
        signature = Signature.read(response[:SIGNATURE_BYTES])
        entropy = read_scalar(response[SIGNATURE_BYTES:])
        blind, own = _two_scalars(secret)
        credential = signature.write() + write(blind, (own + entropy) % ORDER)
        self.check_credential(public_key, header, credential)
        return credential

    def check_credential(self, public_key: bytes, header: bytes, credential: bytes) -> None:
        signature, scalars = _credential(credential)
        signature.verify(_issuer(public_key, header), scalars)

    def pseudonym(self, credential: bytes, context: bytes) -> bytes:
        _, (_, secret) = _credential(credential)
        return write_point(context_point(SUITE, context).pseudonym([secret]))

    def present(self, public_key: bytes, header: bytes, credential: bytes, context: bytes, binding: bytes) -> bytes:
        signature, scalars = _credential(credential)
        statement = prefixed(public_key, header, context, binding)
        made, pseudonym = proof.prove(
            _issuer(public_key, header),
            signature,
            scalars,
            (),
            context=context_point(SUITE, context),
            secrets=_SECRETS,
            header=binding,
            masks=SUITE.fresh_scalars(proof.OWN_MASKS + _HIDDEN, secret=credential, statement=statement),
        )
        return made.write() + write_point(pseudonym)

    def verify(self, public_key: bytes, header: bytes, shown: Sequence[PresentedToken]) -> list[bytes | Flaw]:
        issuer = _issuer(public_key, header)
        results: list[bytes | Flaw] = []
        proofs: dict[int, Proof] = {}
        for place, one in enumerate(shown):
            try:
                proofs[place] = self._checked(issuer, one)
                results.append(one.core[-POINT_BYTES:])
            except Flawed as found:
                results.append(found.flaw)
        for place, signed in zip(proofs, batch.verified(issuer.key, list(proofs.values())), strict=True):
            if not signed:
                results[place] = Flaw.SIGNATURE
        return results

    def _checked(self, issuer: Issuer, shown: PresentedToken) -> Proof:
        if len(shown.core) != self.token_bytes:
            raise Flawed(Flaw.LENGTH)
        made = Proof.read(shown.core[:-POINT_BYTES], _HIDDEN)
        pseudonym = read_point(shown.core[-POINT_BYTES:])
        context = context_point(SUITE, shown.context)
        proof.check(issuer, made, pseudonym, {}, context=context, secrets=_SECRETS, header=shown.binding)
        return made


@lru_cache(maxsize=8)
def _issuer(public_key: bytes, header: bytes) -> Issuer:
    return Issuer.of_pseudonyms(SUITE, public_key, header, messages=0, committed=0, secrets=_SECRETS)


def _credential(raw: bytes) -> tuple[Signature, list[int]]:
    return Signature.read(raw[:SIGNATURE_BYTES]), _two_scalars(raw[SIGNATURE_BYTES:])


def _two_scalars(raw: bytes) -> list[int]:
    if len(raw) != 2 * SCALAR_BYTES:
        raise Flawed(Flaw.LENGTH)
    return read_scalars(raw)
