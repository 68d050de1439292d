"""Exact, vectorised discrete Laplace and discrete Gaussian noise from uniform 64-bit words.

Must stay true: the distribution of a draw is exactly the stated one for the exact rational value of `scale`. Every
decision is a comparison of E = -ln(U), U uniform in (0, 1), with a number. Floats decide only where a proven error
band leaves no doubt; the rest is decided in arbitrary precision, drawing more bits of U as needed. Argument below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake

if TYPE_CHECKING:
    from thebes.privacy.randomness import Randomness

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

LEAST_SCALE, LARGEST_SCALE = 2.0**-30, 2.0**50
#: Values and results are clamped to this on both sides: a clamp of the exact answer is post-processing.
FARTHEST = 2**61

_BITS = 63
_SAFETY = 2.0**-40
_BLOCK = 1 << 16


def add_laplace(randomness: Randomness, values: Integers, *, scale: float) -> Integers:
    """Each value plus its own discrete Laplace noise: P(k) proportional to exp(-|k| / scale), exactly.

    A magnitude G with P(G >= m) = exp(-m / scale) is floor(scale * E), since E is a standard exponential. For large
    scales G = high * block + low, with independent high = floor(scale / block * E) and low uniform below `block` and
    kept with probability exp(-low / scale), so that the float error of scale * E never reaches the integers. A sign
    is tossed and (minus, 0) drawn again (Canonne, Kamath & Steinke 2020, algorithm 2).
    """
    return _added(values, scale, lambda count: _laplace(randomness, count, scale))


def add_gaussian(randomness: Randomness, values: Integers, *, scale: float) -> Integers:
    """Each value plus its own discrete Gaussian noise: P(k) proportional to exp(-k^2 / (2 scale^2)), exactly.

    Discrete Laplace noise Y of scale t = floor(scale) + 1 is kept with probability
    exp(-(|Y| - scale^2 / t)^2 / (2 scale^2)) (Canonne, Kamath & Steinke 2020, algorithm 3).
    """
    return _added(values, scale, lambda count: _gaussian(randomness, count, scale))


def _added(values: Integers, scale: float, draw: Callable[[int], Integers]) -> Integers:
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not math.isfinite(scale) or scale < 0:
        raise Mistake("scale", "must be a finite number that is not negative")
    array = np.asarray(values)
    if array.dtype != np.int64:
        raise Mistake("values", "must be 64-bit integers")
    if scale == 0 or array.size == 0:
        return array.copy()
    if not LEAST_SCALE <= scale <= LARGEST_SCALE:
        raise Mistake("scale", "must be 0 or lie between 2^-30 and 2^50")
    flat = np.clip(array.reshape(-1), -FARTHEST, FARTHEST)
    for start in range(0, flat.size, _BLOCK):
        part = flat[start : start + _BLOCK]
        part += _collected(draw, part.size)
    return np.clip(flat, -FARTHEST, FARTHEST).reshape(array.shape)


def _collected(draw: Callable[[int], Integers], count: int) -> Integers:
    # `draw(n)` returns the accepted ones of n independent proposals, so any concatenation of its answers is i.i.d.
    pieces = [draw(count)]
    while (missing := count - sum(piece.size for piece in pieces)) > 0:
        pieces.append(draw(missing))
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _laplace(randomness: Randomness, count: int, scale: float) -> Integers:
    words = randomness.words(count)
    negative = (words & np.uint64(1)).astype(np.bool_)
    block = 1 << max(0, math.floor(math.log2(scale)) - 4)
    magnitude = _Exponentials(randomness, words >> np.uint64(1)).whole(scale / block)
    if block > 1:
        # A magnitude past 2^62 would leave the clamped range whatever the value: no result depends on its size.
        magnitude = np.minimum(magnitude, 2 * FARTHEST // block) * block
        magnitude += _collected(lambda n: _low(randomness, n, block, scale), count)
    keep: Flags = ~(negative & (magnitude == 0))
    return np.where(negative, -magnitude, magnitude)[keep]


def _low(randomness: Randomness, count: int, block: int, scale: float) -> Integers:
    low = (randomness.words(count) & np.uint64(block - 1)).astype(np.int64)
    limit = low / scale
    kept = _Exponentials(randomness, randomness.words(count) >> np.uint64(1)).exceed(
        limit, limit * 2.0**-50, lambda i: Fraction(int(low[i])) / Fraction(scale)
    )
    return low[kept]


def _gaussian(randomness: Randomness, count: int, scale: float) -> Integers:
    top = math.floor(scale) + 1
    proposed = _laplace(randomness, count, float(top))
    far, centre = np.abs(proposed).astype(np.float64), scale * scale / top
    limit = ((far - centre) / scale) ** 2 / 2
    # |far - centre| is known to 2^-50 max(far, centre), hence its square to the band below.
    band = (np.maximum(far, centre) / scale) ** 2 * 2.0**-48
    square = Fraction(scale) ** 2
    kept = _Exponentials(randomness, randomness.words(proposed.size) >> np.uint64(1)).exceed(
        limit, band, lambda i: (abs(int(proposed[i])) - square / top) ** 2 / (2 * square)
    )
    return proposed[kept]


class _Exponentials:
    """Standard exponentials E = -ln(U), each known from the first 63 bits of its U; further bits are drawn on doubt.

    `value` is -ln of the middle of U's interval (w, w + 1) / 2^63. Its error is below `band`: the interval's ends
    are at most 1 / w away; the float logarithm (documented below 4 ulp of at most 44), the conversion of w and the
    difference together err by less than 2^-44, for which 2^-40 is charged.
    """

    def __init__(self, randomness: Randomness, words: NDArray[np.uint64]) -> None:
        self._randomness = randomness
        self._words = words
        numbers = words.astype(np.float64)
        with np.errstate(divide="ignore"):
            self.band: Floats = 1 / numbers + _SAFETY
        self.value: Floats = _BITS * math.log(2) - np.log(numbers + 0.5)

    def whole(self, scale: float) -> Integers:
        """floor(scale * E). `scale` is below 2^6, so that floats settle all but a vanishing share."""
        centre, band = self.value * scale, (self.band + self.value * 2.0**-50) * scale
        low, high = np.floor(np.maximum(centre - band, 0)), np.floor(centre + band)
        result = low.astype(np.int64)
        for i in np.flatnonzero(low != high).tolist():
            result[i] = min(self._lazy(i).whole(Fraction(scale)), 2 * FARTHEST)
        return result

    def exceed(self, limit: Floats, limit_band: Floats, exact_limit: Callable[[int], Fraction]) -> Flags:
        """Return whether E > limit: true with probability exp(-limit) for the exact limit."""
        band = self.band + limit_band
        result = np.asarray(self.value > limit)
        for i in np.flatnonzero(~(np.abs(self.value - limit) > band)).tolist():
            result[i] = self._lazy(i).exceeds(exact_limit(i))
        return result

    def _lazy(self, i: int) -> _LazyExponential:
        return _LazyExponential(self._randomness, int(self._words[i]))


class _LazyExponential:
    """One E = -ln(U) in arbitrary precision; ends with probability 1, as e^rational is irrational."""

    def __init__(self, randomness: Randomness, digits: int) -> None:
        self._randomness = randomness
        self._digits, self._bits = digits, _BITS

    def _refine(self) -> None:
        self._digits = self._digits << 64 | int(self._randomness.words(1)[0])
        self._bits += 64

    def _ends(self) -> tuple[Fraction, Fraction | None]:
        # Rigorous ends; None for no upper end yet. Decimal's ln is correctly rounded, so each of the few operations
        # errs by at most bits * 10^(1 - precision); 10^5 of these are charged.
        precision = self._bits // 3 + 30
        arithmetic = Context(prec=precision, Emax=MAX_EMAX, Emin=MIN_EMIN)
        slack = Fraction(self._bits, 10 ** (precision - 6))
        whole = arithmetic.multiply(arithmetic.ln(Decimal(2)), self._bits)

        def exponential(digits: int) -> Fraction:
            return Fraction(arithmetic.subtract(whole, arithmetic.ln(Decimal(digits))))

        high = exponential(self._digits) + slack if self._digits else None
        return max(Fraction(0), exponential(self._digits + 1) - slack), high

    def exceeds(self, limit: Fraction) -> bool:
        while True:
            low, high = self._ends()
            if low >= limit:
                return True
            if high is not None and high <= limit:
                return False
            self._refine()

    def whole(self, scale: Fraction) -> int:
        while True:
            low, high = self._ends()
            if high is not None and math.floor(low * scale) == math.floor(high * scale):
                return math.floor(low * scale)
            self._refine()
