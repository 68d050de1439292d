"""Choosing one of finitely many candidates by integer utility, sampled exactly.

No float takes part: weights are bounded from both sides by decimals, a uniform number is drawn bit by bit, and
a choice is made only once every number within the bounds agrees on it. So the odds are exactly those proved.
How long a draw takes is not protected.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal, Inexact
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy import exact
from thebes.privacy.events import ExponentialEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.measurement import Measurement
from thebes.privacy.mechanisms.columns import integers, whole
from thebes.privacy.promise import Adjacency, adjacency_of
from thebes.privacy.randomness import Randomness

Integers = NDArray[np.int64]

_DIGITS = 40  # decimal digits of the first attempt; each further attempt adds as many
_DOWN = Context(prec=30, rounding=ROUND_FLOOR)
_EXACT = Context(prec=200, traps=[Inexact])
_WORD = 2**64


def rate_of(epsilon: Decimal, spread: int | Fraction) -> Decimal:
    """The log-odds that one unit of utility may buy: epsilon / spread, rounded down (toward more privacy).

    `spread` is how far apart two candidates' utilities can be driven by one unit: max - min, over candidates, of
    the change in utility. A draw with P(i) proportional to size_i * exp(-rate * shortfall_i) is then epsilon-DP, in
    fact epsilon-bounded-range: the log-ratio of two neighbours is -rate * change_i + ln(Z/Z'), and Z/Z' is an
    average of exp(rate * change) (McSherry & Talwar 2007, theorem 6; Durfee & Rogers 2019, definition 3.1).
    """
    part = Fraction(spread)
    return _DOWN.divide(_DOWN.multiply(epsilon, Decimal(part.denominator)), Decimal(part.numerator))


def part_of(epsilon: Decimal, parts: int) -> Decimal:
    """One of `parts` equal shares of epsilon, rounded down to a whole step, so that all together never exceed it."""
    share = _DOWN.divide(epsilon, Decimal(parts)).quantize(exact.EPSILON_STEP, ROUND_FLOOR)
    if share <= 0:
        raise Mistake("epsilon", f"is too small to be split into {parts} parts")
    return share


def _bounds(exponent: Decimal, digits: int) -> tuple[int, int]:
    # Integers around 10^digits * exp(-exponent): Decimal's exp is correctly rounded to `digits` digits.
    if exponent == 0:
        return 10**digits, 10**digits
    if exponent > 3 * digits:  # exp(-3 digits) < 10^-digits
        return 0, 1
    context = Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX)
    scaled = int(context.exp(exponent.copy_negate()).scaleb(digits, context))
    return max(0, scaled - 1), scaled + 2


def _times(rate: Decimal, units: int) -> Decimal:
    return _EXACT.multiply(rate, Decimal(units))


def occurs(exponent: Decimal, randomness: Randomness) -> bool:
    """True with probability exactly exp(-exponent), for an exponent that is not negative."""
    return exponent == 0 or _pick_below(exponent, randomness)


def _pick_below(exponent: Decimal, randomness: Randomness) -> bool:
    digits, numerator, size = _DIGITS, 0, 1
    while True:
        numerator, size = numerator * _WORD + int(randomness.words(1)[0]), size * _WORD
        low, high = _bounds(exponent, digits)
        if (numerator + 1) * 10**digits <= low * size:
            return True
        if numerator * 10**digits >= high * size:
            return False
        digits += _DIGITS


def _pick(masses: Sequence[int], exponents: Sequence[Decimal], randomness: Randomness) -> int:
    """Index i with probability exactly proportional to masses[i] * exp(-exponents[i]), by inversion."""
    digits, numerator, size = _DIGITS, 0, 1
    while True:
        for word in randomness.words(2):
            numerator, size = numerator * _WORD + int(word), size * _WORD
        around = [_bounds(x, digits) for x in exponents]
        lows = list(accumulate(m * low for m, (low, _) in zip(masses, around, strict=True)))
        highs = list(accumulate(m * high for m, (_, high) in zip(masses, around, strict=True)))
        # The uniform number times the true total lies in [first, last) / size.
        first, last = numerator * lows[-1], (numerator + 1) * highs[-1]
        i = bisect_left(lows, -(-last // size))
        if i < len(lows) and (i == 0 or highs[i - 1] * size <= first):
            return i
        digits += _DIGITS


def draw(shortfalls: Integers, sizes: Integers, *, rate: Decimal, randomness: Randomness) -> tuple[int, int]:
    """One of sum(sizes) candidates: (segment, place within the segment), with the exact odds
    P(segment i) proportional to sizes[i] * exp(-rate * shortfalls[i]).

    By rejection: shortfalls are rounded down to strides of about 1/rate, a stride is picked by `_pick`, a candidate
    uniformly within it, and kept with probability exp(-rate * rest) >= 1/e. So few exponentials are ever needed.
    """
    stride = min(max(1, int(1 / rate)), 2**62) if rate > Decimal("1e-18") else 2**62
    strides = shortfalls // stride
    order = np.argsort(strides, kind="stable")
    ends = np.cumsum(sizes[order])
    first = np.flatnonzero(np.diff(strides[order], prepend=-1))
    before = np.concatenate([[0], ends[first[1:] - 1]])
    masses = [int(m) for m in np.diff(np.append(before, ends[-1]))]
    exponents = [_times(rate, stride * int(s)) for s in strides[order][first]]
    while True:
        i = _pick(masses, exponents, randomness)
        place = int(before[i]) + int(randomness.below(masses[i], 1)[0])
        j = int(np.searchsorted(ends, place, side="right"))
        segment = int(order[j])
        if occurs(_times(rate, int(shortfalls[segment] % stride)), randomness):
            return segment, place - int(ends[j] - sizes[segment])


def shortfall(candidates: int, rate: Decimal, level: float) -> float:
    """Return how far below the best the chosen utility lies at most, with probability `level`:
    ln(candidates/(1-level))/rate.

    (McSherry & Talwar 2007, theorem 7: the best candidate alone has weight 1, all worse ones together at most
    candidates * exp(-rate * t).)
    """
    return math.log(candidates / (1 - level)) / float(rate)


def utility_spread(sensitivity: int, monotone: bool, adjacency: Adjacency) -> int:
    """Return how far two utilities can be driven apart: twice the sensitivity, once where all move the same way."""
    if monotone and adjacency is not Adjacency.ADD_REMOVE_ONE:
        raise Mistake("monotone", "holds under add-remove-one only: replacing a unit may raise one and lower another")
    return sensitivity if monotone else 2 * sensitivity


def exponential(
    utilities: ArrayLike,
    *,
    sensitivity: int,
    epsilon: exact.Number,
    adjacency: str | Adjacency,
    randomness: Randomness,
    monotone: bool = False,
) -> Measurement:
    """The index of a candidate with high utility: P(i) proportional to exp(epsilon * utility_i / spread).

    `utilities` are whole numbers, higher is better; real utilities are scaled and rounded by a public rule first.
    `sensitivity` is the most that one unit can change any of them under `adjacency`, rounding included. `monotone`
    says that one more unit never lowers one utility while raising another (counts do so under add-remove-one); the
    same epsilon then buys twice the log-odds. Epsilon-DP and epsilon^2/8-zCDP: see `rate_of`. How good the choice
    is, is not released.
    """
    scores = integers("utilities", utilities)
    delta_u = whole("sensitivity", sensitivity, least=1, most=2**53)
    promise, e = adjacency_of(adjacency), exact.epsilon(epsilon)
    rate = rate_of(e, utility_spread(delta_u, monotone, promise))
    behind = scores.max() - scores
    chosen, _ = draw(behind, np.ones_like(behind), rate=rate, randomness=randomness)
    return Measurement(
        value=chosen,
        event=ExponentialEvent(e),
        adjacency=promise,
        mechanism="exponential",
        parameters={
            "candidates": scores.size,
            "sensitivity": delta_u,
            "monotone": monotone,
            "utility_shortfall_95": shortfall(scores.size, rate, 0.95),
        },
        simulated=randomness.simulated,
    )
