"""The only door to the curve library: BLS12-381 points and scalars as bytes, strictly read.

What must stay true: a point from outside is on the curve, in the group of prime order and not the identity; a scalar
from outside lies in 1 .. ORDER - 1; no term of a sum is dropped (the library shortens lists of unequal length).
The library is not constant in time: use secrets only where nobody on the same machine measures.
"""

from __future__ import annotations

from collections.abc import Sequence

from py_arkworks_bls12381 import GT, G1Point, G2Point, Scalar

from thebes.tokens.refusals import Flaw, Flawed

ORDER = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
POINT_BYTES, KEY_BYTES, SCALAR_BYTES = 48, 96, 32

Point = G1Point
KeyPoint = G2Point

_KEY_BASE = G2Point()
_MINUS_KEY_BASE = -_KEY_BASE


def scalar(value: int) -> Scalar:
    """`value` modulo the order, as the library takes it."""
    return Scalar.from_be_bytes((value % ORDER).to_bytes(SCALAR_BYTES, "big"))


def write_scalar(value: int) -> bytes:
    return (value % ORDER).to_bytes(SCALAR_BYTES, "big")


def read_scalar(raw: bytes) -> int:
    """A scalar from outside. Zero is refused too: no honest message holds one."""
    if len(raw) != SCALAR_BYTES:
        raise Flawed(Flaw.LENGTH)
    value = int.from_bytes(raw, "big")
    if not 0 < value < ORDER:
        raise Flawed(Flaw.SCALAR)
    return value


def read_scalars(raw: bytes) -> list[int]:
    """Scalars that follow one another, to the last byte."""
    return [read_scalar(raw[start : start + SCALAR_BYTES]) for start in range(0, len(raw), SCALAR_BYTES)]


def inverse(value: int) -> int:
    return pow(value, -1, ORDER)


def write_point(point: Point | KeyPoint) -> bytes:
    return bytes(point.to_compressed_bytes())


def read_point(raw: bytes) -> Point:
    """A point of G1 from outside."""
    if len(raw) != POINT_BYTES:
        raise Flawed(Flaw.LENGTH)
    try:
        point = G1Point.from_compressed_bytes(raw)  # refuses what is off the curve or outside the subgroup
    except ValueError:
        raise Flawed(Flaw.POINT) from None
    if point == G1Point.identity():
        raise Flawed(Flaw.IDENTITY)
    return point


def read_key(raw: bytes) -> KeyPoint:
    """A public key, a point of G2, from outside."""
    if len(raw) != KEY_BYTES:
        raise Flawed(Flaw.LENGTH)
    try:
        point = G2Point.from_compressed_bytes(raw)
    except ValueError:
        raise Flawed(Flaw.POINT) from None
    if point == G2Point.identity():
        raise Flawed(Flaw.IDENTITY)
    return point


def key_point(secret: int) -> KeyPoint:
    """The public key of a secret one."""
    return _KEY_BASE * scalar(secret)


def times(point: Point, value: int) -> Point:
    return point * scalar(value)


def combine(points: Sequence[Point], values: Sequence[int]) -> Point:
    """The sum of each point times its value."""
    if len(points) != len(values):
        raise ValueError("as many values as points")
    if not points:
        return G1Point.identity()
    return G1Point.multiexp_unchecked(list(points), [scalar(value) for value in values])


def hash_to_point(message: bytes, tag: bytes) -> Point:
    """RFC 9380, suite BLS12381G1_XMD:SHA-256_SSWU_RO_, under the domain separation tag `tag`."""
    return G1Point.hash_to_curve(message, tag)


def signed_by(key: KeyPoint, a: Point, b: Point, shift: int = 0) -> bool:
    """Return whether b is a times (the secret of `key` plus `shift`), by two pairings."""
    shifted = key + _KEY_BASE * scalar(shift) if shift else key
    return GT.pairing_check([a, b], [shifted, _MINUS_KEY_BASE])


class FixedPoints:
    """Points that are multiplied again and again by public values; after some uses, through tables of their multiples.

    A table holds d * 256^i * point for every digit d and place i, so that a product is 32 additions: about a quarter
    of the time. Only for verifying: which entries are read depends on the values.
    """

    USES_BEFORE_TABLES = 64  # a table costs about as much as it saves in so many uses

    def __init__(self, points: Sequence[Point]) -> None:
        self._points = tuple(points)
        self._uses = 0
        self._tables: tuple[list[list[Point]], ...] | None = None

    def combine(self, values: Sequence[int]) -> Point:
        """The sum of each point times its value."""
        if self._tables is None:
            self._uses += 1
            if self._uses <= self.USES_BEFORE_TABLES:
                return combine(self._points, values)
            self._tables = tuple(_table(point) for point in self._points)
        total = G1Point.identity()
        for table, value in zip(self._tables, values, strict=True):
            for row, digit in zip(table, (value % ORDER).to_bytes(SCALAR_BYTES, "little"), strict=True):
                if digit:
                    total = total + row[digit]
        return total


def _table(point: Point) -> list[list[Point]]:
    rows = []
    for _ in range(SCALAR_BYTES):
        row = [G1Point.identity()]
        for _ in range(255):
            row.append(row[-1] + point)
        rows.append(row)
        point = row[-1] + point
    return rows
