"""A file that only a passphrase opens, written and read as a stream.

What must stay true: nothing of it is believed that was changed, moved or cut off; every file has a key of its own.
"""

from __future__ import annotations

import secrets
from typing import IO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from thebes.data.keys import SHORTEST_PASSPHRASE
from thebes.privacy.faults import Mistake

MAGIC = b"thebes sealed copy 1\n"
_SALT = 16
_TAG = 16
_CHUNK = 2**18
# RFC 9106, section 4, the second recommended setting of argon2id.
_PASSES, _MEMORY_KIB, _LANES = 3, 64 * 1024, 4


def long_enough(passphrase: str) -> None:
    """A Mistake where nothing is sealed with it."""
    if len(passphrase) < SHORTEST_PASSPHRASE:
        raise Mistake("--passphrase-file", f"must hold at least {SHORTEST_PASSPHRASE} characters in its first line")


class Sealing:
    """Writes to `file` in chunks; `close` writes the last one, without which nothing opens, and leaves `file` open."""

    def __init__(self, file: IO[bytes], passphrase: str) -> None:
        long_enough(passphrase)
        salt = secrets.token_bytes(_SALT)
        self._file, self._cipher, self._number = file, _cipher(passphrase, salt), 0
        self._waiting = bytearray()
        file.write(MAGIC + salt)

    def write(self, data: bytes) -> int:
        self._waiting += data
        while len(self._waiting) > _CHUNK:  # never all of it: the last chunk is marked
            self._put(bytes(self._waiting[:_CHUNK]), last=False)
            del self._waiting[:_CHUNK]
        return len(data)

    def close(self) -> None:
        self._put(bytes(self._waiting), last=True)
        self._waiting.clear()

    def _put(self, chunk: bytes, *, last: bool) -> None:
        self._file.write(self._cipher.encrypt(_nonce(self._number, last=last), chunk, MAGIC))
        self._number += 1


class Opening:
    """Reads what `Sealing` wrote, from after `MAGIC`; a Mistake at the first chunk that is not as it was written."""

    def __init__(self, file: IO[bytes], passphrase: str) -> None:
        self._file, self._number, self._ended = file, 0, False
        self._cipher = _cipher(passphrase, file.read(_SALT))
        self._ahead, self._ready = file.read(_CHUNK + _TAG), b""

    def read(self, size: int) -> bytes:
        while len(self._ready) < size and not self._ended:
            self._ready += self._next()
        given, self._ready = self._ready[:size], self._ready[size:]
        return given

    def _next(self) -> bytes:
        chunk, self._ahead = self._ahead, self._file.read(_CHUNK + _TAG)
        self._ended = not self._ahead
        try:
            opened = self._cipher.decrypt(_nonce(self._number, last=self._ended), chunk, MAGIC)
        except (InvalidTag, ValueError):
            why = "is damaged or cut off" if self._number else "does not open: another passphrase, or it is damaged"
            raise Mistake("FILE", f"{why}; nothing was restored") from None
        self._number += 1
        return opened


def _nonce(number: int, *, last: bool) -> bytes:
    # A key is used for one file, so that counting is enough.
    return number.to_bytes(11, "big") + bytes([last])


def _cipher(passphrase: str, salt: bytes) -> ChaCha20Poly1305:
    from argon2.low_level import Type, hash_secret_raw

    key = hash_secret_raw(
        passphrase.encode(),
        salt.ljust(_SALT, b"\0"),
        time_cost=_PASSES,
        memory_cost=_MEMORY_KIB,
        parallelism=_LANES,
        hash_len=32,
        type=Type.ID,
    )
    return ChaCha20Poly1305(key)
