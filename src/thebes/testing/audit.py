"""Attacks on promises: a certified lower bound on the epsilon that a mechanism really has, from its outputs alone.

An event is chosen on one half of the draws and counted on the other, so the bound holds at the stated confidence
whatever the choice was; a bound above the claim proves the claim wrong, one below proves nothing. Beside it stands
what the attacker gains: by how much more often the event happens where the person is there than where they are not,
which a promise bounds too. All bounds of a table share one error probability (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy import exact
from thebes.privacy.accounting.odds import meaning
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Adjacency
from thebes.tasks.audit.case import Audited, Case, Draw, Enumerated, Floats, Number, Written
from thebes.testing.transcripts import loss

#: what counts of an event: hits on the likelier side, hits on the other, draws of each
Score = Callable[[NDArray[np.int64], NDArray[np.int64], int], Floats]

#: The probability that any bound of a whole table is wrong.
LEVEL = 1e-9
#: With fewer draws than this not even a mechanism without any noise would be caught.
FEWEST = 150
_BINS = 100
_OF_GAINS = 1 / 64  #: the share of an error probability that bounds on gains get


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of the attack on one case."""

    name: str
    adjacency: Adjacency
    epsilon: float
    delta: float
    lower_bound: float
    exact: bool
    positive_control: bool
    advantage: float = 0.0  #: hits less false alarms of the best guess about the person, at least

    @property
    def most_advantage(self) -> float:
        """The advantage that the claim leaves to any attacker."""
        return meaning(self.epsilon, self.delta).advantage

    @property
    def exceeded(self) -> bool:
        """Return whether the claim is proved wrong. Exact figures are floats: their last bits do not count."""
        beyond = self.advantage > self.most_advantage * (1 + 1e-9)
        return beyond or self.lower_bound > self.epsilon * (1 + 1e-9)

    @property
    def good(self) -> bool:
        """Claims hold and broken mechanisms are caught."""
        return self.exceeded == self.positive_control

    @property
    def verdict(self) -> str:
        if self.positive_control:
            return "caught" if self.exceeded else "NOT CAUGHT"
        return "CLAIM EXCEEDED" if self.exceeded else "holds"


def audit(cases: Iterable[Case], *, level: float = LEVEL, effort: float = 1.0) -> list[Finding]:
    """Attack every case. With probability at least 1 - `level` no bound in the whole table is too high."""
    table = list(cases)
    if not table:
        raise Mistake("cases", "needs at least one case")
    return [examine(case, level=level / len(table), effort=effort) for case in table]


def examine(case: Case, *, level: float, effort: float = 1.0) -> Finding:
    """Attack one case; `effort` multiplies its number of draws."""
    if isinstance(case, Written):
        through = loss(case.run_a, case.run_b)
        found, gained = through.epsilon(case.delta), through.advantage
    elif isinstance(case, Enumerated):
        found = exact_epsilon(case.pmf_a, case.pmf_b, delta=case.delta)
        gained = exact_advantage(case.pmf_a, case.pmf_b)
    else:
        draws = max(FEWEST, round(case.draws * effort))
        found, gained = certified(case.draw_a, case.draw_b, delta=case.delta, draws=draws, level=level)
    exactly = not isinstance(case, Audited)
    return Finding(case.name, case.adjacency, case.epsilon, case.delta, found, exactly, case.positive_control, gained)


def exact_advantage(pmf_a: Mapping[Hashable, Number], pmf_b: Mapping[Hashable, Number]) -> float:
    """By how much the best event is likelier on one side than on the other: their distance in total variation."""
    outcomes = pmf_a.keys() | pmf_b.keys()
    return float(sum(max(Fraction(0), Fraction(pmf_a.get(o, 0)) - Fraction(pmf_b.get(o, 0))) for o in outcomes))


def exact_epsilon(pmf_a: Mapping[Hashable, Number], pmf_b: Mapping[Hashable, Number], *, delta: float) -> float:
    """The least epsilon at `delta` for these two distributions, in either direction."""
    for argument, pmf in (("pmf_a", pmf_a), ("pmf_b", pmf_b)):
        if any(p < 0 for p in pmf.values()) or abs(float(sum(pmf.values())) - 1) > 1e-9:
            raise Mistake(argument, "must be probabilities that sum to 1")
    return max(_one_way(pmf_a, pmf_b, delta), _one_way(pmf_b, pmf_a, delta))


def _one_way(there: Mapping[Hashable, Number], here: Mapping[Hashable, Number], delta: float) -> float:
    # delta(epsilon) is the sum of (p - e^epsilon q) over the outcomes whose ratio p/q exceeds e^epsilon; walk them in
    # order of their ratio until that sum would pass delta.
    pairs = [(Fraction(p), Fraction(here.get(outcome, 0))) for outcome, p in there.items() if p > 0]
    pairs.sort(key=lambda pair: pair[0] / pair[1] if pair[1] else math.inf, reverse=True)
    allowed = Fraction(delta)
    mass_p = mass_q = Fraction(0)
    for index, (p, q) in enumerate(pairs):
        mass_p, mass_q = mass_p + p, mass_q + q
        rest = mass_p - allowed
        if rest <= 0:
            continue
        if mass_q == 0:
            return math.inf
        odds = rest / mass_q
        following = pairs[index + 1] if index + 1 < len(pairs) else None
        if following is None or not following[1] or following[0] / following[1] <= odds:
            return max(0.0, math.log(odds))
    return 0.0


def certified_epsilon(draw_a: Draw, draw_b: Draw, *, delta: float, draws: int, level: float) -> float:
    """An epsilon that the mechanism provably exceeds, except with probability `level`; 0 where nothing is proved."""
    return certified(draw_a, draw_b, delta=delta, draws=draws, level=level / (1 - _OF_GAINS))[0]


def certified(draw_a: Draw, draw_b: Draw, *, delta: float, draws: int, level: float) -> tuple[float, float]:
    """An epsilon that the mechanism provably exceeds, and an advantage that an attacker provably has; 0 where nothing
    is proved. Both hold except with probability `level`.

    Clopper-Pearson bounds on the two probabilities of one event each; nearly all of the level is the epsilon's.
    """
    exact.delta(delta)
    if not 0 < level < 1:
        raise Mistake("level", "must lie between 0 and 1")
    seen_a, seen_b = _rows(draw_a(draws), draws), _rows(draw_b(draws), draws)
    scores: list[Score] = [
        lambda more, fewer, n: _bound(more, fewer, n, delta, level * (1 - _OF_GAINS)),
        lambda more, fewer, n: _gain(more, fewer, n, level * _OF_GAINS),
    ]
    attacks = [_best_attack(seen_a, seen_b, score) for score in scores]
    fresh_a, fresh_b = _rows(draw_a(draws), draws), _rows(draw_b(draws), draws)
    found = []
    for attack, score in zip(attacks, scores, strict=True):
        hits = attack.hits(fresh_a), attack.hits(fresh_b)
        more, fewer = hits[::-1] if attack.turned else hits
        found.append(float(score(np.array([more]), np.array([fewer]), draws)[0]))
    return found[0], found[1]


def _rows(outputs: ArrayLike, draws: int) -> Floats:
    array = np.asarray(outputs, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[0] != draws or np.isnan(array).any():
        raise Mistake("draw", "must return one number, or one row of numbers, for each of n outputs")
    return array


def _ends(more: NDArray[np.int64], fewer: NDArray[np.int64], draws: int, level: float) -> tuple[Floats, Floats]:
    """The least that the likelier side's probability may be, and the most that the other's may be."""
    from scipy.stats import beta

    low = np.where(more > 0, beta.ppf(level / 2, np.maximum(more, 1), draws - more + 1), 0.0)
    high = np.where(fewer < draws, beta.ppf(1 - level / 2, fewer + 1, np.maximum(draws - fewer, 1)), 1.0)
    return low, high


def _bound(more: NDArray[np.int64], fewer: NDArray[np.int64], draws: int, delta: float, level: float) -> Floats:
    low, high = _ends(more, fewer, draws, level)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(np.maximum(low - delta, 0.0) / high)
    return np.asarray(np.maximum(np.nan_to_num(found, nan=0.0, neginf=0.0), 0.0), dtype=np.float64)


def _gain(more: NDArray[np.int64], fewer: NDArray[np.int64], draws: int, level: float) -> Floats:
    low, high = _ends(more, fewer, draws, level)
    return np.asarray(np.maximum(low - high, 0.0), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Attack:
    """An event: the feature of an output falls into one of some bins. `turned`: it favours the second input."""

    feature: Callable[[Floats], Floats]
    edges: Floats
    bins: frozenset[int]
    turned: bool
    promise: float

    def hits(self, rows: Floats) -> int:
        return int(np.isin(_bin(self.feature(rows), self.edges), list(self.bins)).sum())


def _best_attack(rows_a: Floats, rows_b: Floats, score: Score) -> _Attack:
    # Features and the order of their bins are learned from one half, the event is picked by what it does on the other.
    half = len(rows_a) // 2
    attacks = [
        attack
        for feature in _features(rows_a[:half], rows_b[:half])
        for attack in _attacks(feature, rows_a, rows_b, half, score)
    ]
    return max(attacks, key=lambda attack: attack.promise)


def _features(rows_a: Floats, rows_b: Floats) -> list[Callable[[Floats], Floats]]:
    """Return the features an attacker looks at: each number, how finely it is written down, all numbers in one sum or
    as a whole."""
    features: list[Callable[[Floats], Floats]] = []
    for column in range(rows_a.shape[1]):
        features.append(lambda rows, c=column: rows[:, c])  # type: ignore[misc]
        features.append(lambda rows, c=column: fineness(rows[:, c]))  # type: ignore[misc]
    if rows_a.shape[1] > 1:
        both = np.vstack([rows_a, rows_b])
        middle = np.median(both, axis=0)
        spread = np.maximum(np.quantile(np.abs(both - middle), 0.75, axis=0), 1e-12)

        def tame(rows: Floats) -> Floats:
            return np.asarray(np.clip((rows - middle) / spread, -10, 10), dtype=np.float64)

        gap = tame(rows_a).mean(axis=0) - tame(rows_b).mean(axis=0)
        scatter = np.cov(tame(rows_a), rowvar=False) + np.cov(tame(rows_b), rowvar=False)
        weights = np.linalg.pinv(scatter + 1e-9 * np.eye(len(gap))) @ gap  # Fisher's linear discriminant
        features.append(lambda rows: np.asarray(tame(rows) @ weights, dtype=np.float64))
        # Different rows have different sums with these weights, so few distinct rows are told apart as wholes.
        names = np.sqrt(np.arange(2, 2 + rows_a.shape[1]))
        features.append(lambda rows: np.asarray(rows @ names, dtype=np.float64))
    return features


def fineness(values: Floats) -> Floats:
    """The exponent of the lowest bit that is set: noise added carelessly to floats tells there what it was added to."""
    mantissas, exponents = np.frexp(values)
    whole = (np.abs(mantissas) * 2.0**53).astype(np.int64)
    lowest = np.where(whole == 0, 1, whole & -whole)
    found = np.log2(lowest.astype(np.float64)) + exponents - 53
    return np.asarray(np.where(whole == 0, 2000.0, found), dtype=np.float64)


def _attacks(
    feature: Callable[[Floats], Floats], rows_a: Floats, rows_b: Floats, half: int, score: Score
) -> Sequence[_Attack]:
    learn_a, learn_b = feature(rows_a[:half]), feature(rows_b[:half])
    edges = _edges(np.concatenate([learn_a, learn_b]))
    size = len(edges) + 1
    learned_a, learned_b, picked_a, picked_b = (
        np.bincount(_bin(values, edges), minlength=size)
        for values in (learn_a, learn_b, feature(rows_a[half:]), feature(rows_b[half:]))
    )
    upward = np.arange(size)
    found = []
    for turned in (False, True):
        more, fewer = (picked_b, picked_a) if turned else (picked_a, picked_b)
        ratio = (learned_b + 0.5) / (learned_a + 0.5) if turned else (learned_a + 0.5) / (learned_b + 0.5)
        # Neyman and Pearson: unions of the bins with the best odds; and everything above or below one cut.
        for order in (np.argsort(-ratio, kind="stable"), upward, upward[::-1]):
            bounds = score(np.cumsum(more[order]), np.cumsum(fewer[order]), len(rows_a) - half)
            best = int(bounds.argmax())
            found.append(_Attack(feature, edges, frozenset(order[: best + 1].tolist()), turned, float(bounds[best])))
    return found


def _edges(values: Floats) -> Floats:
    """Cuts between bins: around every value where they repeat, else around quantiles and around frequent values."""
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= min(4 * _BINS, len(values) // 20):
        return np.asarray(distinct, dtype=np.float64)
    bins = min(_BINS, max(4, len(values) // 60))
    frequent = distinct[counts > len(values) / (4 * bins)]
    cuts = np.quantile(values, np.linspace(0, 1, bins + 1))
    return np.unique(np.concatenate([cuts, frequent, np.nextafter(frequent, np.inf)]))


def _bin(values: Floats, edges: Floats) -> NDArray[np.int64]:
    return np.searchsorted(edges, values, side="right").astype(np.int64)
