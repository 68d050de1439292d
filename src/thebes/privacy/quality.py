"""Bounds on how far the mean over rows can lie from the mean over everybody they were drawn from: they fail seldom.

Every row is drawn by itself and has a loss between 0 and 1. `lost` is the sum of losses over the rows that were seen
and `kept` the sum of one minus the loss, so that both together are the number of rows. Must stay true: a bound is
worst at the greatest `lost` and the least `kept` (a lower one the other way round), so that ends of intervals may be
put in where noise hides the sums; and the number of rows tells nothing about their losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from thebes.privacy.distributions import beta_quantile

#: (lost, kept, failing) -> an end for the mean over everybody, wrong with probability at most `failing`
Bound = Callable[[float, float, float], float]


def bernstein(lost: float, kept: float, failing: float) -> float:
    """Return mean + sqrt(2 mean L / n) + 4 L / n with L = ln(1 / failing): Sage's listing 2 for losses up to 1.

    For the true mean u the sum falls below n u - sqrt(2 n u L) with probability at most `failing` (Bernstein's
    inequality for variables that are not negative; the variance of one is at most u). Solved for u:
    u <= mean + L / n + sqrt(2 mean L / n + L^2 / n^2), which is below the bound by sqrt(a + b) <= sqrt(a) + sqrt(b).
    At a fixed `kept` it grows with `lost` while lost < kept and 4 L < kept (each term's derivative); elsewhere `kept`
    alone stands for the number of rows, which is fewer and so worse.
    """
    if kept <= 0:
        return 1.0
    far = math.log(1 / failing)
    rows = lost + kept if lost < kept and 4 * far < kept else kept
    mean = lost / (lost + kept)
    return min(1.0, mean + math.sqrt(2 * mean * far / rows) + 4 * far / rows)


def chernoff(lost: float, kept: float, failing: float) -> float:
    """The largest u with n KL(mean, u) <= ln(1 / failing), KL between coins of these chances (Hoeffding 1963).

    Never above `bernstein`. With u above the mean, n KL falls in `lost` (derivative ln(mean / u) < 0) and grows in
    `kept` (derivative ln((1 - mean) / (1 - u)) > 0), so it is worst where the bound is asked for.
    """
    if kept <= 0:
        return 1.0
    return _farthest(lost, kept, math.log(1 / failing), 1.0)


def chernoff_below(lost: float, kept: float, failing: float) -> float:
    """The least u that `chernoff` leaves possible on the other side; worst at the least `lost` and the most `kept`."""
    if lost <= 0:
        return 0.0
    return _farthest(lost, kept, math.log(1 / failing), 0.0)


@lru_cache(maxsize=4096)
def binomial(lost: float, kept: float, failing: float) -> float:
    """Exact for losses that are 0 or 1 (Clopper & Pearson 1934): the largest u for which so few, or fewer, are lost
    with probability at least `failing`.

    That probability is the regularised incomplete beta function I(1 - u; kept, lost + 1), which grows with `lost` and
    falls with `kept`, also between whole numbers; so the ends of intervals may be put in.
    """
    if kept <= 0:
        return 1.0
    return 1.0 - float(beta_quantile(kept, max(lost, 0.0) + 1, failing))


@lru_cache(maxsize=4096)
def binomial_below(lost: float, kept: float, failing: float) -> float:
    """The least u for which as many are lost, or more, with probability at least `failing`."""
    if lost <= 0:
        return 0.0
    return float(beta_quantile(lost, max(kept, 0.0) + 1, failing))


def empirical(squares: float, mixed: float, kept_squares: float, failing: float) -> float:
    """Return mean + sqrt(2 V L / n) + 7 L / (3 (n - 1)), V the variance of the losses seen and L = ln(2 / failing)
    (Maurer & Pontil 2009, theorem 4).

    Over the rows seen, `squares` is the sum of x^2, `mixed` of 2 x (1 - x), `kept_squares` of (1 - x)^2: together the
    number of rows, and the mean is (mixed / 2 + squares) / rows. It grows with `squares`, and with `mixed` as long as
    squares < kept_squares (its derivative is (kept_squares - squares) / (2 rows^2)); elsewhere rows are taken to be
    only mixed / 2 + squares + kept_squares, which is fewer. V is at most squares / (n - 1), and n at least
    `kept_squares`. So the bound is worst at the greatest of the first two and the least of the third.
    """
    if kept_squares <= 2:
        return 1.0
    far = math.log(2 / failing)
    spread = squares / (kept_squares - 1)
    lost = mixed / 2 + squares
    mean = lost / (kept_squares + (mixed + squares if squares < kept_squares else lost))
    return min(1.0, mean + math.sqrt(2 * spread * far / kept_squares) + 7 * far / (3 * (kept_squares - 1)))


def hoeffding(rows: float, failing: float) -> float:
    """Return how far the mean of values in a range of length 1 lies from everybody's, on either side (Hoeffding
    1963)."""
    return math.sqrt(math.log(2 / failing) / (2 * rows)) if rows > 0 else math.inf


def _farthest(lost: float, kept: float, far: float, end: float) -> float:
    """The u between the mean and `end` where rows times KL(mean, u) reaches `far`, rounded towards `end`."""
    rows = lost + kept
    mean = lost / rows
    near, end_ = mean, end
    for _ in range(60):
        middle = (near + end_) / 2
        if rows * _divergence(mean, middle) > far:
            end_ = middle
        else:
            near = middle
    return end_


def _divergence(p: float, q: float) -> float:
    """KL between coins that show heads with chances p and q, both within [0, 1]."""
    if q <= 0 or q >= 1:
        return 0.0 if p == q else math.inf
    heads = p * math.log(p / q) if p > 0 else 0.0
    tails = (1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0
    return heads + tails
