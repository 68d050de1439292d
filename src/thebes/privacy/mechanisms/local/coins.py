"""Coins whose exact odds keep a promise, and the exact loss of those odds.

Must stay true: a coin is rounded toward privacy, and a loss is computed from the coin's integer threshold, never
from the probability it was made from. Decimals of 80 digits stand for real numbers; `_SLACK` covers their rounding.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from thebes.privacy import exact
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.randomness import Coin, Randomness

WORD = 2**64
#: Below this, coins of 64 bits leave too little between "true" and "false".
LEAST_EPSILON = Decimal("1e-9")

WIDE = Context(prec=80, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SLACK = Decimal("1e-60")


def declared_epsilon(value: exact.Number) -> Decimal:
    """A local mechanism's epsilon, large enough to tell answers apart at all."""
    epsilon = exact.epsilon(value)
    if epsilon < LEAST_EPSILON:
        raise Mistake("epsilon", f"must be at least {LEAST_EPSILON} for a local mechanism")
    return epsilon


def exponential(value: Decimal) -> Decimal:
    """e^value to 80 digits."""
    return value.exp(WIDE)


def ratio(value: Fraction) -> Decimal:
    """A fraction to 80 digits."""
    return WIDE.divide(Decimal(value.numerator), Decimal(value.denominator))


def odds_of(coin: Coin) -> Fraction:
    """Heads against tails."""
    return Fraction(coin.heads, WORD - coin.heads)


def at_most(odds: Decimal) -> Coin:
    """The likeliest coin whose odds are at most `odds`; never a certain one."""
    share = WIDE.divide(odds, WIDE.add(odds, Decimal(1)))
    heads = WIDE.multiply(WIDE.multiply(share, Decimal(WORD)), 1 - _SLACK).to_integral_value(ROUND_FLOOR)
    return Coin(min(max(int(heads), 1), WORD - 1))


def at_least(odds: Decimal) -> Coin:
    """The unlikeliest coin whose odds are at least `odds`; never a certain one unless none else would do."""
    share = WIDE.divide(odds, WIDE.add(odds, Decimal(1)))
    heads = WIDE.multiply(WIDE.multiply(share, Decimal(WORD)), 1 + _SLACK).to_integral_value(ROUND_CEILING)
    return Coin(min(max(int(heads), 1), WORD - 1))


def loss_of(likelier: Fraction, promised: Decimal) -> Decimal:
    """Return ln of the largest likelihood ratio, rounded up to a ledger step but never past what was `promised`.

    A ratio above the promise is our bug: nothing may be drawn with such odds.
    """
    exact_loss = abs(ratio(likelier).ln(WIDE)) * (1 + _SLACK)
    if exact_loss > promised:
        raise Fault("the odds of a local mechanism exceed its epsilon")
    return min(promised, exact_loss.quantize(exact.EPSILON_STEP, ROUND_CEILING, WIDE))


def toss(randomness: Randomness, coin: Coin, count: int) -> NDArray[np.bool_]:
    """`count` tosses, True with exactly the coin's probability, for a quarter of the words.

    The first 16 bits of a uniform number decide against the first 16 of `heads`; where both are equal, 48 more do.
    """
    high, low = divmod(coin.heads, 2**48)
    first = randomness.words(-(-count // 4)).view(np.uint16)[:count]
    result: NDArray[np.bool_] = first < high
    tied = np.flatnonzero(first == high)
    result[tied] = (randomness.words(tied.size) >> np.uint64(16)) < np.uint64(low)
    return result
