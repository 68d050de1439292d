"""The identity of a helper, which people know by its fingerprint, and what it signs: the key of one part of one task.

What must stay true: shares are sealed to no key that the pinned helper did not sign for exactly this part of exactly
this document. So a coordinator that certifies, or invents, a helper of its own reads nothing (Ed25519 of RFC 8032).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from thebes.privacy.faults import Refusal

_SIGNED = b"thebes/helper/key/v1"
_KEY_BYTES, _SIGNATURE_BYTES = 32, 64


class StrangeHelper(Refusal):
    """The key for the helper's shares is not signed by the helper that the document names; nothing may be sealed."""

    def __init__(self) -> None:
        super().__init__(
            "the coordinator shows a key that the helper in this task's document did not sign for it, so whoever holds "
            "it could be the coordinator itself; nothing was made or sent"
        )


class HelperIdentity:
    """A helper's own key pair, for as long as people are to know it."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self._public = private.public_key().public_bytes_raw()
        self.fingerprint = fingerprint_of(self._public)

    @classmethod
    def from_bytes(cls, private: bytes) -> HelperIdentity:
        return cls(Ed25519PrivateKey.from_private_bytes(private))

    @staticmethod
    def new() -> bytes:
        """Return a new private key, 32 raw bytes, for a helper to keep."""
        return Ed25519PrivateKey.generate().private_bytes_raw()

    def shown(self, sealing_key: bytes, context: bytes) -> dict[str, str]:
        """Return what contributors are shown of a part's key, in hex: the key, who signed it, and the signature."""
        signature = self._private.sign(_statement(sealing_key, context))
        return {"helper_key": sealing_key.hex(), "signed_by": self._public.hex(), "signature": signature.hex()}


def fingerprint_of(public: bytes) -> str:
    """Return the hex SHA-256 of a helper's public key, by which people compare it."""
    return hashlib.sha256(public).hexdigest()


def sealing_key(shown: Mapping[str, Any], fingerprint: str | None, context: bytes) -> bytes:
    """Return the key of a part, if the helper with this fingerprint signed it for this context; StrangeHelper where it
    did not, or where anything of it cannot be read."""
    try:
        key, public, signature = (bytes.fromhex(shown[name]) for name in ("helper_key", "signed_by", "signature"))
        sizes = (len(key), len(public), len(signature))
        if sizes != (_KEY_BYTES, _KEY_BYTES, _SIGNATURE_BYTES) or fingerprint_of(public) != fingerprint:
            raise StrangeHelper
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _statement(key, context))
    except (KeyError, TypeError, ValueError, InvalidSignature):
        raise StrangeHelper from None
    return key


def _statement(key: bytes, context: bytes) -> bytes:
    """The key has a fixed length and the context comes last: no two statements share their bytes."""
    return _SIGNED + key + context
