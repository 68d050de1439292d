"""The second promise of local reports that nobody can assign to their owners: what mixing adds to local noise.

One owner's report is changed at random, up to `local` epsilon, and collected with those of others. For whoever cannot
tell whose is whose, (epsilon, delta) with a far smaller epsilon holds too, under replace-one, where `honest` reports
(the owner's own among them) have coins that nobody else knows. Everything that the adversary knows, sends itself
or can assign to its owner (by an address, where nothing hides it) is left out of `honest`.

Proof, for x against x' of one owner, everything about the others known but their coins:

1. Blanket (Balle, Bell, Gascon & Nissim 2019, lemma 5.3). Let w(y) be at most every value's likelihood of the report y.
   Each other owner sends, with probability sum w, a report drawn from w / sum w, whatever the owner's value; where the
   adversary is told which did not and what these sent, it knows more. What is left is exchangeable, so
   delta(eps) <= E[max(0, V_1 + ... + V_n)] / n, V = (R_x(y) - e^eps R_x'(y)) / w(y) for y from w, and 0 with the rest.
2. Corners. a = R_x / w and b = R_x' / w lie in [1, E], E = e^local. max(0, .) is convex, so moving each (a, b) to the
   corners of that square with its mean kept only raises it. Likelihoods add up to 1, so the corners (E, 1) and (1, E)
   have one probability c; then V is A = E - e^eps or -B = -(E e^eps - 1) with probability c each, -E (e^eps - 1) at
   (E, E), -(e^eps - 1) at (1, 1), and 0.
3. Reports that support a value. If a report is e^local times as likely where it supports its owner's value, then with
   P(supports own) = hold and P(supports another) = stray: c = (hold - stray) / (E - 1), c11 = hold / E - c,
   c00 = 1 - hold - c. Where odds are less than E, splitting as in 2 gives the same c and a little less c11.
4. Any pure mechanism. Of all laws of 2, V = A or -B with probability 1 / (E + 1) each, else 0, is the largest in convex
   order: means agree (1 - e^eps), everything lies in [-B, A], c <= 1 / (E + 1); so E(V - t)+ is smaller for t >= 0, and
   for t in [-B, 0] E(t - V)+ is convex in t, 0 at -B and not above the line of this law, which has its largest value at
   t = 0. Rows of several columns, and packets that can be linked, are one report of their total epsilon.
5. Packets that cannot be linked, each mixed in a part of its own. The law of 4 is exactly that of the pair in which the
   owner says 0 or 1 by randomised response and each of n - 1 others says 0, 1 (1 / (E + 1) each) or nothing (the clones
   of Feldman, McMillan & Talwar 2021, 2023), in both directions by symmetry: a dominating pair, which composes, also
   adaptively (Zhu, Dong & Wang 2022).

Not to be used: clones that send as the owner does, with (hold - stray) / (E - 1) for the owner and the others alike. An
owner whose report tells nothing does not send as the others who tell nothing do; exact enumeration breaks it (a law in
the tests). The decomposition of 2 and 3 is the best there is for such reports (Su, Cheng & Wang 2025).

Every number is rounded upward: what is summed is positive, what is left out counts in full, and `_UP` covers floats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from thebes.privacy import exact
from thebes.privacy.distributions import binomial_pmf
from thebes.privacy.faults import Mistake

Floats = NDArray[np.float64]

MOST_HONEST = 10**9
LARGEST_LOCAL = 30.0  #: above, mixing adds nothing that could be told
_BUCKETS = 128  #: of how many reports tell something
_BLOCKS = 48  #: of how many of these speak for one value
_FAR = 9.5  #: standard deviations
_UP = 1 + 1e-9
_MISSED = 1e-4  #: of delta, that fewer reports than `least` tell nothing


@dataclass(frozen=True, slots=True)
class ReportLaw:
    """The probabilities, for two values that are to look alike, that a report of the blanket speaks for a given one of
    them (`telling`; as often for the other one), for both, and for neither."""

    local: float
    telling: float
    both: float = 0.0
    neither: float = 0.0

    @classmethod
    def of_any(cls, local: float) -> ReportLaw:
        """The law that no pure mechanism exceeds."""
        return cls(local, 1 / (math.exp(local) + 1))

    @classmethod
    def of_supports(cls, local: float, hold: Fraction | float, stray: Fraction | float) -> ReportLaw:
        """The law of reports that support their owner's value with probability `hold`, another one with `stray`."""
        grown, own, other = math.exp(local), float(hold), float(hold - stray)
        telling = other / math.expm1(local)
        # A little less of what tells nothing, which only raises the figure: a loss is rounded up to 1e-12.
        less = max(0.0, 1 - 1e-9 - 4e-12 / math.expm1(local))
        both = max(0.0, own / grown - telling - 1e-12) * less
        neither = max(0.0, 1 - own - telling - 1e-12) * less
        return cls(local, telling, both, neither)


class MixedReports:
    """Reports of one law, `honest` of them, mixed: the delta that is proved at an epsilon, and the inverse. `delta` is
    about the one that will be asked for; it sets how surely enough reports tell nothing."""

    def __init__(self, law: ReportLaw, honest: int, *, delta: float) -> None:
        self.law, self.honest = law, honest
        two = min(2 * law.telling, 1 - 1e-12)
        mean = honest * two
        spread = _FAR * (math.sqrt(mean * (1 - two)) + 1)
        low, high = max(0, int(mean - spread) - 2), min(honest, int(mean + spread) + 3)
        chances = binomial_pmf(np.arange(low, high + 1.0), honest, two)
        starts = np.unique(np.linspace(0, high - low, min(_BUCKETS, high - low + 1)).astype(np.int64))
        self._weights = np.add.reduceat(chances, starts)
        self._first, self._last = low + starts.astype(float), low + np.append(starts[1:] - 1, high - low).astype(float)
        self._outside = _beyond(honest, two, low, high)
        rest = np.maximum(honest - self._last, 0.0)
        self._missed = delta * _MISSED if law.both + law.neither > 0 else 0.0
        self._least = np.zeros_like(rest)
        if self._missed:
            # Nonnegative terms fall short of their sum's mean by sqrt(2 v ln(1/missed)) with probability `missed` at
            # most, v the sum of their mean squares (Maurer 2003).
            grown, left = math.exp(law.local), 1 - two
            each, square = (grown * law.both + law.neither) / left, (grown**2 * law.both + law.neither) / left
            short = np.sqrt(2 * rest * square * -math.log(self._missed))
            self._least = np.maximum(rest * each - short, 0.0) * (1 - 1e-9)
        self._told = two * math.exp(law.local)

    def delta_at(self, epsilon: float) -> float:
        """The delta that is proved at this epsilon.

        Given that T reports tell, W of them speak for x, Bin(T, 1/2), and the sum is (A + B) W - T B less what tells
        nothing. T between a and b is taken at b with a head start of (b - a)(B - A) / 2, the mean of what is added:
        Jensen. Terms of W are taken in blocks, each as a geometric series from its first one: they are log-concave.
        """
        grown, e = math.exp(self.law.local), math.exp(epsilon)
        a = grown - e + 1e-15 * grown
        if a <= 0:
            return 0.0
        b = math.expm1(epsilon + self.law.local) * (1 - 1e-15)
        step, trials = a + b, self._last
        ahead = (trials - self._first) * (b - a) / 2
        owed = np.maximum((trials * b + math.expm1(epsilon) * self._least) * (1 - 1e-12) - ahead, 0.0)
        sums = _excess(step, owed, trials)
        inside = float(self._weights @ sums) / self.honest
        return (inside + a * self._outside + self._told * self._missed) * _UP

    def epsilon_at(self, delta: float) -> float:
        """The least epsilon that is proved at `delta`, to one part in 10,000; at most the local one."""
        high = self.law.local
        if self.delta_at(high * (1 - 1e-9)) > delta:
            return high
        # Near the published closed bound (Feldman, McMillan & Talwar 2023, theorem 3.2) the search begins; only what
        # `delta_at` says is believed.
        grown = math.exp(high)
        wide = 4 * math.sqrt(2 * math.log(4 / delta) / ((grown + 1) * self.honest)) + 4 / self.honest
        low, before, after = 0.0, 0.0, -math.inf
        middle = min(high / 2, 0.6 * math.log1p((grown - 1) * wide))
        while high - low > 1e-4 * high and high > 1e-9:
            found = math.log(max(self.delta_at(middle), 1e-300) / delta)
            low, high = (low, middle) if found <= 0 else (middle, high)
            before, after = (before, found) if found <= 0 else (found, after)
            if not low:
                middle = high / 2
            elif after == -math.inf:
                middle = min(1.3 * low, (low + high) / 2)
            else:
                share = before / (before - after)  # a straight line between the two, and a little past it
                share += 2e-5 * high / (high - low) * (1 if share < 0.5 else -1)
                middle = low + (high - low) * min(max(share, 0.02), 0.98)
        return min(max(high, 1e-9), self.law.local)


def _beyond(trials: int, p: float, low: int, high: int) -> float:
    """Bound P(X < low) + P(X > high) of a binomial variable, by geometric series: its terms are log-concave."""
    odds, total = p / (1 - p), 0.0
    if high < trials:
        ratio = (trials - high - 1) / (high + 2) * odds
        total += float(binomial_pmf(high + 1, trials, p)) / max(1 - ratio, 1e-300)
    if low > 0:
        ratio = (low - 1) / ((trials - low + 2) * odds)
        total += float(binomial_pmf(low - 1, trials, p)) / max(1 - ratio, 1e-300)
    return min(1.0, total)


def _excess(step: float, owed: Floats, trials: Floats) -> Floats:
    """Bound E[max(0, step W - owed)] from above, W binomial with so many fair trials."""
    mean, spread = trials / 2, np.sqrt(trials) / 2
    first = np.ceil(owed / step)
    span = np.maximum(_FAR * spread, mean + _FAR * spread - first) + 1
    width = np.maximum(np.ceil(span / _BLOCKS), 1.0)
    starts = first[:, None] + width[:, None] * np.arange(_BLOCKS + 1.0)
    chances = binomial_pmf(starts, trials[:, None], 0.5)
    ratio = np.maximum(trials[:, None] - starts, 0.0) / (starts + 1)
    over = step * starts - owed[:, None]
    inner, last = ratio[:, :-1], np.minimum(ratio[:, -1], 1 - 1e-9)
    log = np.log(np.maximum(inner, 1e-300))
    with np.errstate(over="ignore", invalid="ignore"):
        terms = np.where(np.abs(log) < 1e-12, width[:, None], np.expm1(width[:, None] * log) / np.expm1(log))
    # Within a block what is farther is likelier only below the middle; else the mean place is at most its middle.
    place = np.where(inner <= 1, (width[:, None] - 1) / 2, width[:, None] - 1)
    found = np.sum(chances[:, :-1] * np.maximum(terms, 1.0) * (over[:, :-1] + step * place) * (1 + 1e-12), axis=1)
    found += chances[:, -1] * (over[:, -1] / (1 - last) + step * last / (1 - last) ** 2)
    # Where nearly every W is above what is owed: the mean, and Hoeffding's bound on the rest.
    below = np.maximum(mean - first, 0.0)
    plain = step * mean - owed + owed * np.exp(-2 * below**2 / np.maximum(trials, 1.0))
    far = below > _FAR * spread
    return np.where(far, plain * (1 + 1e-12), found)


@lru_cache(maxsize=4096)
def _single(local: float, honest: int, delta: float, supports: tuple[Fraction, Fraction] | None) -> float:
    found = MixedReports(ReportLaw.of_any(local), honest, delta=delta).epsilon_at(delta)
    if supports is not None:
        own = MixedReports(ReportLaw.of_supports(local, *supports), honest, delta=delta)
        found = min(found, own.epsilon_at(delta))
    return found


def mixed_epsilon(
    local: exact.Number,
    *,
    honest: int,
    delta: exact.Number,
    packets: int = 1,
    supports: tuple[Fraction, Fraction] | None = None,
) -> Decimal:
    """The epsilon at `delta` of one owner whose `packets` cannot be linked, each of `local` epsilon and each mixed
    among `honest` reports of a part of its own; rounded up, and never above what all of them cost without mixing.

    `supports` is (hold, stray) of a mechanism whose reports support categories; the smaller of its own law's figure and
    that of any mechanism is taken.
    """
    each = exact.epsilon(local, "local")
    spent = float(exact.delta(delta)) * (1 - 1e-15)
    for name, value, least, most in (("honest", honest, 1, MOST_HONEST), ("packets", packets, 1, 10_000)):
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise Mistake(name, f"must be a whole number from {least} to {most}")
    plain, size = each * packets, float(exact.loss_of(float(each)))
    if spent <= 0 or honest < 2 or size > LARGEST_LOCAL:
        return plain
    added = packets * _single(size, honest, spent / packets, supports)
    found = added if packets == 1 else min(added, _composed(size, honest, packets, spent))
    return min(plain, exact.loss_of(found))


# --- packets that cannot be linked ----------------------------------------------------------------------------

_RESERVE = 1e-13  #: what a Fourier transform may lose of delta


@lru_cache(maxsize=1024)
def _composed(local: float, honest: int, packets: int, delta: float) -> float:
    """Bound by the privacy loss distribution of the pair of step 5: losses are rounded up to a grid and convolved."""
    once = _single(local, honest, delta, None)
    if once >= local or delta <= 10 * packets * _RESERVE:
        return packets * local
    grid = max(once / 400, packets * local / 2**16)
    start, masses = _losses(local, honest, grid)
    size = 1 << (packets * (len(masses) - 1)).bit_length()
    together = np.fft.irfft(np.fft.rfft(masses, size) ** packets, size)[: packets * (len(masses) - 1) + 1].clip(0)
    lost = packets * max(0.0, 1 - float(masses.sum())) + _RESERVE * packets
    losses = (start * packets + np.arange(len(together))) * grid

    def needed(epsilon: float) -> float:
        above = losses > epsilon
        return float(together[above] @ -np.expm1(epsilon - losses[above])) * _UP + lost

    low, high = 0.0, packets * local
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if needed(middle) <= delta else (middle, high)
    return high


def _losses(local: float, honest: int, grid: float) -> tuple[int, Floats]:
    """The losses of the pair as multiples of `grid`, from the least one up. A bucket of clones is taken at the fewest:
    further ones only hide more. What is left out of the sum counts as an infinite loss."""
    others, p = honest - 1, 2 / (math.exp(local) + 1)
    spread = _FAR * (math.sqrt(others * p * (1 - p)) + 1)
    low, high = max(0, int(others * p - spread)), min(others, int(others * p + spread) + 1)
    chances = binomial_pmf(np.arange(low, high + 1.0), others, p)
    starts = np.unique(np.linspace(0, high - low, min(_BUCKETS, high - low + 1)).astype(np.int64))
    weights = np.add.reduceat(chances, starts)
    keep, reach = 1 / (1 + math.exp(-local)), math.ceil(local / grid) + 1
    masses = np.zeros(2 * reach + 1)
    for clones, weight in zip((low + starts).tolist(), weights.tolist(), strict=True):
        wide = _FAR * (math.sqrt(clones) / 2 + 1)
        said = np.arange(max(0.0, math.floor(clones / 2 - wide)), min(clones + 1.0, math.ceil(clones / 2 + wide)) + 1)
        with_own, without = binomial_pmf(said - 1, clones, 0.5), binomial_pmf(said, clones, 0.5)
        here = keep * with_own + (1 - keep) * without
        there = (1 - keep) * with_own + keep * without
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = np.where(here > 0, np.log(here) - np.log(there), 0.0)
        place = np.clip(np.ceil(loss / grid + 1e-9), -reach, reach).astype(np.int64) + reach
        masses += weight * np.bincount(place, here, len(masses))
    return -reach, masses * (1 - 1e-12)
