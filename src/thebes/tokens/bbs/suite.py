"""The ciphersuite BLS12-381-SHA-256: hashing to scalars, generators, domains, and fresh secret numbers.

Every hash carries a tag that begins with the suite's api_id, so that what was made for one interface of the drafts
says nothing under another.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from thebes.tokens.bbs.curve import ORDER, Point, hash_to_point, read_point, write_point, write_scalar

CIPHERSUITE = b"BBS_BLS12381G1_XMD:SHA-256_SSWU_RO_"
#: the fixed point of every signature, as the draft prints it; it is derived from a seed, see the vectors' test
P1 = read_point(
    bytes.fromhex("a8ce256102840821a3e94ea9025e4662b205762f9776b3a766c872b948f1fd225e7c59698588e70d11406d161b4e28c9")
)
_WIDE = 48  # bytes hashed for one scalar or seed: 128 bits more than the order


def count(value: int) -> bytes:
    """A count, an index or a length, in eight bytes."""
    return value.to_bytes(8, "big")


def prefixed(*parts: bytes) -> bytes:
    """Parts one after the other, each behind its length, so that no two lists of parts give the same bytes."""
    return b"".join(count(len(part)) + part for part in parts)


def expand(message: bytes, tag: bytes, length: int) -> bytes:
    """RFC 9380, section 5.3.1: expand_message_xmd with SHA-256."""
    blocks = -(-length // 32)
    if blocks > 255 or len(tag) > 255:
        raise ValueError("expand_message_xmd gives at most 8160 bytes under a tag of at most 255")
    tag += bytes([len(tag)])
    first = hashlib.sha256(bytes(64) + message + length.to_bytes(2, "big") + b"\0" + tag).digest()
    block = bytes(32)
    out = bytearray()
    for number in range(1, blocks + 1):
        mixed = bytes(a ^ b for a, b in zip(first, block, strict=True))
        block = hashlib.sha256(mixed + bytes([number]) + tag).digest()
        out += block
    return bytes(out[:length])


@dataclass(frozen=True, slots=True)
class Suite:
    """One interface of the drafts, named by its `api_id`."""

    api_id: bytes

    def tag(self, purpose: str) -> bytes:
        return self.api_id + purpose.encode("ascii")

    def hash_to_scalar(self, message: bytes, purpose: str = "H2S_") -> int:
        return int.from_bytes(expand(message, self.tag(purpose), _WIDE), "big") % ORDER

    def message_scalar(self, message: bytes) -> int:
        """A message as the scalar that is signed."""
        return self.hash_to_scalar(message, "MAP_MSG_TO_SCALAR_AS_HASH_")

    def generators(self, number: int) -> tuple[Point, ...]:
        """The first `number` generators: one for the domain, then one for each message of the signer."""
        return _generators(self.api_id, number)

    def blind_generators(self, number: int) -> tuple[Point, ...]:
        """The first `number` generators of commitments: one for the blind, then messages, then pseudonym secrets."""
        return _generators(b"BLIND_" + self.api_id, number)

    def domain(self, public_key: bytes, generators: Sequence[Point], header: bytes) -> int:
        """Return the scalar that ties a signature to its key, its generators and its header."""
        points = b"".join(write_point(point) for point in generators)
        return self.hash_to_scalar(
            public_key + count(len(generators) - 1) + points + self.api_id + count(len(header)) + header
        )

    def fresh_scalars(self, number: int, *, secret: bytes = b"", statement: bytes = b"") -> list[int]:
        """Secret numbers in 1 .. order - 1 from the operating system's entropy.

        The holder's `secret` and the `statement` are hashed in: should that entropy ever repeat, as after a copied
        virtual machine, two different statements still never share a number, which would reveal the secret.
        """
        seed = hashlib.sha256(prefixed(secrets.token_bytes(32), secret, statement)).digest()
        raw = expand(seed, self.tag("FRESH_SCALARS_"), _WIDE * number)
        wide = (int.from_bytes(raw[start : start + _WIDE], "big") for start in range(0, len(raw), _WIDE))
        return [value % (ORDER - 1) + 1 for value in wide]


@lru_cache(maxsize=16)
def _generators(api_id: bytes, number: int) -> tuple[Point, ...]:
    seed_tag, tag = api_id + b"SIG_GENERATOR_SEED_", api_id + b"SIG_GENERATOR_DST_"
    seed = expand(api_id + b"MESSAGE_GENERATOR_SEED", seed_tag, _WIDE)
    found = []
    for index in range(1, number + 1):
        seed = expand(seed + count(index), seed_tag, _WIDE)
        found.append(hash_to_point(seed, tag))
    return tuple(found)


def write(*values: Point | int) -> bytes:
    """Points and scalars one after the other."""
    return b"".join(write_scalar(value) if isinstance(value, int) else write_point(value) for value in values)
