"""The uses of a home's key beside the store: marking consent, and sealing bytes that wait to be sent."""

from __future__ import annotations

import hashlib
import hmac
import json
import os

from thebes.privacy.faults import Fault

_NONCE = 12


class Seal:
    """Keys derived from the home's own, one for each use."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        self._consent = _derived(key, b"thebes person consent 1")
        self._waiting = ChaCha20Poly1305(_derived(key, b"thebes person waiting 1"))

    def consent(self, *, task_id: str, digest: str, number: int, price: dict[str, str]) -> str:
        """The mark under exactly this document at exactly this price; any change makes another mark."""
        said = json.dumps([task_id, digest, number, sorted(price.items())]).encode()
        return hmac.new(self._consent, said, hashlib.sha256).hexdigest()

    def close(self, body: bytes, context: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._waiting.encrypt(nonce, body, context)

    def open(self, sealed: bytes, context: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return self._waiting.decrypt(sealed[:_NONCE], sealed[_NONCE:], context)
        except InvalidTag:
            raise Fault("what waits to be sent was changed, or belongs to another home") from None


def _derived(key: bytes, use: bytes) -> bytes:
    return hmac.new(key, use, hashlib.sha256).digest()
