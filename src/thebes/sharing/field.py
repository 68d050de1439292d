"""Field64: whole numbers modulo 2^64 - 2^32 + 1, many at once in numpy.

Must stay true: every array that is given or returned holds canonical elements, 0 .. ORDER - 1, as uint64. Nothing here
branches on a value, but numpy promises no constant time: secrets of one process meet no clock of another.

Source: the field of draft-irtf-cfrg-vdaf; reduction by 2^64 = 2^32 - 1 and 2^96 = -1 as in Hamburg (2012).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake

Elements = NDArray[np.uint64]
Factor = Elements | np.uint64  #: elements, or one that stands for all
Bytes = NDArray[np.uint8]

ORDER = 2**64 - 2**32 + 1
ELEMENT_BYTES = 8
#: generates the subgroup of order 2^32: the largest power of two that divides ORDER - 1
GENERATOR = pow(7, 2**32 - 1, ORDER)

_LOW = np.uint64(2**32 - 1)
_HALF = np.uint64(32)
_ORDER = np.uint64(ORDER)


def element(number: int) -> np.uint64:
    """Return the element that a whole number stands for; negative ones lie in the upper half."""
    return np.uint64(number % ORDER)


def elements(numbers: NDArray[np.int64]) -> Elements:
    """Return the elements that 64-bit numbers stand for."""
    return np.where(numbers < 0, numbers.astype(np.uint64) - _LOW, numbers.astype(np.uint64))


def signed(found: Elements) -> list[int]:
    """Return the whole numbers nearest to 0 that elements stand for: above ORDER / 2 they are negative."""
    return [value - ORDER if value > ORDER // 2 else value for value in found.tolist()]


def add(a: Elements, b: Factor) -> Elements:
    """Return a + b. Where 2^64 is passed, 2^32 - 1 makes up for it, and the sum is already below ORDER."""
    total = np.asarray(a + b)
    total += (total < a) * _LOW
    total -= (total >= _ORDER) * _ORDER
    return total


def subtract(a: Elements, b: Factor) -> Elements:
    """Return a - b. A borrow took 2^64, of which all but ORDER is taken off again."""
    found = np.asarray(a - b)
    found -= (a < b) * _LOW
    return found


def negate(a: Elements) -> Elements:
    return subtract(np.zeros_like(a), a)


def multiply(a: Elements, b: Factor) -> Elements:
    """Return a * b, from four products of halves; intermediate arrays are used again, so that blocks stay in cache.

    high * 2^64 + low = low - high // 2^32 + (high mod 2^32) (2^32 - 1), each step mended by 2^32 - 1 where it wraps:
    the first cannot wrap twice as low < 2^32 where it does, nor the second as both terms are below 2^64 - 2^33 + 2.
    """
    low_a, low_b = a & _LOW, b & _LOW
    high_a, high_b = a >> _HALF, b >> _HALF
    low = low_a * low_b
    middle = high_a * low_b
    middle += low >> _HALF
    other = low_a * high_b
    other += middle & _LOW
    high = high_a * high_b
    high += middle >> _HALF
    high += other >> _HALF
    low &= _LOW
    low |= other << _HALF
    np.right_shift(high, _HALF, out=middle)
    high &= _LOW
    wrapped = low < middle
    low -= middle
    low -= wrapped * _LOW
    np.left_shift(high, _HALF, out=middle)
    middle -= high
    low += middle
    low += (low < middle) * _LOW
    low -= (low >= _ORDER) * _ORDER
    return np.asarray(low)


def total(a: Elements, axis: int) -> Elements:
    """Return the sum along an axis. Halves are added apart, so that up to 2^31 terms never wrap."""
    low = (a & _LOW).sum(axis, dtype=np.uint64)
    high = (a >> _HALF).sum(axis, dtype=np.uint64)
    return add(low, multiply(high, np.uint64(2**32)))


def powers(base: Elements, count: int) -> Elements:
    """Return base^1 .. base^count in a new last axis; as many as are known give as many more."""
    found = np.empty((*base.shape, count), dtype=np.uint64)
    found[..., 0] = base
    known = 1
    while known < count:
        more = min(known, count - known)
        found[..., known : known + more] = multiply(found[..., :more], found[..., known - 1 : known])
        known += more
    return found


def roots(count: int) -> Elements:
    """Return the `count`-th roots of 1 in order, `count` a power of two up to 2^32: what polynomials are known at."""
    root = pow(GENERATOR, 2**32 // count, ORDER)
    return np.array([pow(root, place, ORDER) for place in range(count)], dtype=np.uint64)


def weights_at(points: Elements, count: int) -> Elements:
    """Return, in a new last axis, the weight of each value at the `count`-th roots w_i in the value at a point.

    Lagrange: w_i / count times the product of point - w_j over all other j, as the derivative of x^count - 1 at w_i is
    count / w_i. Products of what comes before and after need no inversion, so a root is no exception.
    """
    known = roots(count)
    apart = subtract(points[..., None], known)
    before, after = np.ones_like(apart), np.ones_like(apart)
    for place in range(1, count):
        before[..., place] = multiply(before[..., place - 1], apart[..., place - 1])
        after[..., -place - 1] = multiply(after[..., -place], apart[..., -place])
    return multiply(multiply(before, after), multiply(known, element(pow(count, -1, ORDER))))


def written(found: Elements) -> Bytes:
    """Return the bytes of the last axis: eight of each element, lowest first."""
    return np.ascontiguousarray(found, dtype="<u8").view(np.uint8)


def read(raw: Bytes) -> Elements:
    """Return what `written` wrote; numbers of ORDER and above are left for `canonical` to find."""
    if raw.shape[-1] % ELEMENT_BYTES:
        raise Mistake("share", "must be whole elements of eight bytes")
    return np.ascontiguousarray(raw).view("<u8").astype(np.uint64, copy=False)


def canonical(found: Elements) -> NDArray[np.bool_]:
    """Tell, for each row, whether all its numbers are elements."""
    return np.asarray((found < _ORDER).all(axis=-1))
