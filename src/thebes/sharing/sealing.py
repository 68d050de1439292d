"""Shares sealed to the server that is to hold them, on their way through another.

HPKE of RFC 9180 in base mode: X25519, HKDF-SHA256, ChaCha20-Poly1305, as the cryptography package has it. A sealed
share opens only for the key, context, nonce and public share that it was sealed with, so that it cannot be moved to
another task or report. Whoever records it now and breaks X25519 later reads it: with the leader's share, the value.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from thebes.privacy.faults import Mistake, Refusal

SEALED_MORE = 48  #: bytes that sealing adds: an ephemeral key and a tag

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


class SealRefused(Refusal):
    """A sealed share does not open: it was sealed for another key, task, part or report, or is damaged."""

    def __init__(self) -> None:
        super().__init__(
            "the sealed share does not open: it was made for another server, task or report; make a new report"
        )


class SealingKey:
    """The key pair of a server to which shares are sealed."""

    def __init__(self, private: X25519PrivateKey) -> None:
        self._private = private
        self.public = private.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> SealingKey:
        return cls(X25519PrivateKey.generate())

    @classmethod
    def from_bytes(cls, private: bytes) -> SealingKey:
        return cls(X25519PrivateKey.from_private_bytes(private))

    def private_bytes(self) -> bytes:
        """Return the secret half, for whoever keeps it outside every copy."""
        return self._private.private_bytes_raw()

    def open(self, sealed: bytes, *, context: bytes, nonce: bytes, public_share: bytes) -> bytes:
        """Return what was sealed to this key for this report; SealRefused otherwise."""
        try:
            return _SUITE.decrypt(sealed, self._private, info=_info(self.public, context, nonce, public_share))
        except (InvalidTag, ValueError):
            raise SealRefused from None


def bound_to(task: str, context: bytes) -> bytes:
    """Return the context of a part within one run of its task: what is signed or sealed for it opens in no other run,
    also of the same document. Otherwise a leader could ask one contributor under many ids and have one helper add up
    all of their answers, under the noise of one."""
    return context + b"/" + task.encode()


def seal(share: bytes, public_key: bytes, *, context: bytes, nonce: bytes, public_share: bytes) -> bytes:
    """Seal a share to the holder of `public_key`, for this report in this context and for no other."""
    info = _info(public_key, context, nonce, public_share)
    try:  # also points with which everybody would have the same secret are refused here
        return _SUITE.encrypt(share, X25519PublicKey.from_public_bytes(public_key), info=info)
    except ValueError:
        raise Mistake("public_key", "must be the 32 bytes of an X25519 key that hides something") from None


def _info(public_key: bytes, context: bytes, nonce: bytes, public_share: bytes) -> bytes:
    pieces = (b"thebes/sharing/seal/v1", public_key, context, nonce, public_share)
    return b"".join(len(piece).to_bytes(4, "big") + piece for piece in pieces)
