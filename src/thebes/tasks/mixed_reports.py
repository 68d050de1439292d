"""The promise of a task's reports mixed among each other, from how many took part: assumptions first, then the figure.

Honest is who follows the rules and hides where they send from: a report whose sender is seen can be assigned to its
owner, and covers nobody. All others are colluders, whatever they mean to do.

What must stay true: colluders are left out before anything is reckoned; where reports fall into peer partitions, how
many honest ones are in the owner's own is drawn and taken at its least, at a tenth of delta; a report that is mixed
among fewer than two has no figure but its local one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction

from thebes.privacy import exact
from thebes.privacy.accounting.mixing import mixed_epsilon
from thebes.privacy.figures import figure, spaced

COLLUDING = 0.5  #: of the others, where a document says nothing
LARGEST_LOCAL = 8.0  #: that is chosen for anybody
USUAL_DELTA = 1e-6
DRAWN_SHARE = 10  #: one in so many parts of delta is kept back for partitions that are drawn too small
#: the loss of a mechanism, and how often its reports support their owner's category and another one
Supports = tuple[Decimal, Fraction, Fraction]


@dataclass(frozen=True, slots=True)
class MixedCrowd:
    """The people among whom one owner's reports to a phase are mixed: `people` in each of its parts, in `partitions`;
    one owner sends `packets` in all that cannot be linked, which share the local epsilon. `smallest` is how many the
    smallest partition had, where that is known."""

    people: int
    partitions: int = 1
    packets: int = 1
    smallest: int | None = None

    @property
    def least(self) -> int:
        """The number of reports in the smallest partition."""
        return self.people // self.partitions if self.smallest is None else self.smallest

    def honest(self, delta: float, colluding: float) -> int:
        """Return how many honest reports there are at least, the owner's own among them. Where slots fall into
        partitions, honest people fall into the owner's each with one chance in so many, wherever colluders sit:
        Chernoff's bound, but for a tenth of delta over all packets. Whoever drops honest people for the partition that
        they fell into breaks this, and nobody can see it."""
        kept = Fraction(1) - Fraction(str(colluding))
        sure = math.ceil(kept * self.least)
        if self.partitions == 1:
            return sure
        mean = float(kept * self.people / self.partitions)
        drawn = mean - math.sqrt(2 * mean * math.log(DRAWN_SHARE * self.packets / delta))
        return max(1, min(sure, math.floor(drawn)))

    def figure(self, epsilon: float, *, delta: float, colluding: float, supports: Supports | None) -> float:
        """Return the epsilon at `delta` of whoever sends in this phase what costs `epsilon` in all."""
        return figure_among(
            self.honest(delta, colluding) if self.least >= 2 else 1,
            epsilon,
            delta=delta,
            packets=self.packets,
            partitions=self.partitions,
            supports=supports,
        )


def mixed_figure(
    crowds: Sequence[MixedCrowd],
    epsilon: float,
    *,
    delta: float,
    colluding: float = COLLUDING,
    supports: Supports | None = None,
) -> float:
    """The epsilon at `delta` of whoever sends in any one of these phases what costs `epsilon` in all."""
    return max(crowd.figure(epsilon, delta=delta, colluding=colluding, supports=supports) for crowd in set(crowds))


def figure_among(
    honest: int,
    epsilon: float,
    *,
    delta: float,
    packets: int,
    partitions: int,
    supports: Supports | None = None,
) -> float:
    """The epsilon at `delta` of whoever sends in one phase what costs `epsilon` in all, each packet mixed among so many
    honest reports; rounded up to four digits."""
    each, own = exact.epsilon(epsilon) / packets, None
    if supports is not None and packets == 1 and supports[0] <= each:
        each, own = supports[0], supports[1:]
    spent = delta if partitions == 1 else delta * (1 - 1 / DRAWN_SHARE)
    found = mixed_epsilon(each, honest=honest, delta=spent, packets=packets, supports=own)
    step = Decimal(1).scaleb(found.adjusted() - 3)
    return min(float(epsilon), float(found.quantize(step, ROUND_CEILING)))


def deciding(
    crowds: Sequence[MixedCrowd],
    epsilon: float,
    *,
    delta: float,
    colluding: float = COLLUDING,
    supports: Supports | None = None,
) -> MixedCrowd:
    """Return the crowd that the figure of all of them comes from; of several the one with the fewest honest reports."""

    def rank(crowd: MixedCrowd) -> tuple[float, int]:
        figure = crowd.figure(epsilon, delta=delta, colluding=colluding, supports=supports)
        return figure, -crowd.honest(delta, colluding)

    return max(dict.fromkeys(crowds), key=rank)


def usual_delta(people: int) -> float:
    """The delta where none is named: one in a million, of more than 100,000 people one in ten times as many."""
    return min(USUAL_DELTA, 1 / (10 * people))


def local_epsilon(mixed: float, figure: Callable[[float], float]) -> float:
    """The largest local epsilon in hundredths, up to `LARGEST_LOCAL`, whose figure is at most `mixed`; at least `mixed`
    itself, as mixing never costs more."""
    low, high = math.floor(mixed * 100), round(LARGEST_LOCAL * 100)
    if low >= high or figure(high / 100) <= mixed:
        return high / 100 if low < high else mixed
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if figure(middle / 100) <= mixed else (low, middle)
    return max(low / 100, mixed)


def mixed_words(told: Mapping[str, float]) -> str:
    """The promise of a document in one line, for whoever asks: {"epsilon", "delta", "n", "honest"}."""
    return (
        f"mixed: epsilon {figure(told['epsilon'])}, delta {figure(told['delta'])} against whoever sees the answers and "
        f"cannot tell whose is whose, if {spaced(int(told['honest']))} of {spaced(int(told['n']))} follow the rules "
        "and hide where they send from, which no machine without a proxy does"
    )
