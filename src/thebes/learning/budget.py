"""The budget that one fit may spend, and the only door through which its sums leave: exact integer sums plus integer
noise.

Must stay true: shares are fixed before the data are looked at and never exceed 1; a row is rounded by itself before
it is summed; the sensitivity counts that rounding; every release is written down as an event before it is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from thebes.privacy import exact
from thebes.privacy.accounting.gaussian import grid_slack, ratio_for
from thebes.privacy.events import ApproximateEvent, Event, GaussianEvent, LaplaceEvent, PureEvent
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.promise import Adjacency, adjacency_of
from thebes.privacy.randomness import Randomness
from thebes.privacy.stability import LARGEST_TOTAL

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: This part of delta pays for drawing Gaussian noise on a grid; all the rest goes into the noise itself.
_GRID_PART = 0.01
#: Lengths and distances are proved for real numbers; floats computed them.
_FLOAT_SLACK = 1 + 1e-9
_LEAST_SCALE, _LARGEST_SCALE = 2.0**20, 2.0**48
_HALF = 31  #: bits of a whole number that are summed apart from the others
_EXACT = 2.0**53  #: whole numbers below this a float holds


@dataclass(frozen=True, slots=True)
class Reach:
    """The distance that one row can move a sum: the greatest length of a row, and the greatest distance between two
    rows.

    Both in the norm of the noise they are used with: L1 for Laplace, L2 for Gaussian.
    """

    length: float
    distance: float

    def under(self, adjacency: Adjacency) -> float:
        """A row comes or goes: its length. A row is replaced by any other: the distance of the two, or its length, as
        the other may be one that counts for nothing."""
        return max(self.distance, self.length) if adjacency is Adjacency.REPLACE_ONE else self.length


@dataclass(frozen=True, slots=True)
class Noisy:
    """A released vector, and the scale of the noise on each coordinate (sd if Gaussian, b if Laplace)."""

    value: Floats
    scale: float


class FitBudget:
    """`epsilon` and `delta` for everything one fit releases, under `adjacency`.

    Pure releases: discrete Laplace noise, epsilons add. Gaussian releases: shares of 1 / ratio^2 add, and together
    they cost exactly as much as one Gaussian release with the total (Dong, Roth & Su 2022, corollary 3.3; also when
    later questions depend on earlier answers, as each question's own share was fixed in advance).
    """

    def __init__(
        self,
        *,
        epsilon: exact.Number,
        delta: exact.Number,
        adjacency: str | Adjacency,
        randomness: Randomness,
        rows: int = 1,
    ) -> None:
        """`rows`: how many rows of one unit may come, go or change at once; distances add up."""
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise Mistake("rows", "must be a whole number of at least 1")
        self.rows = rows
        self.epsilon = exact.epsilon(epsilon)
        self.delta = exact.delta(delta)
        self.adjacency = adjacency_of(adjacency)
        self.randomness = randomness
        self.events: list[Event] = []
        self.bought_count = False
        #: how many rows there are where that is public, those that count for nothing among them, or what was released
        self.size: float | None = None
        self.paid_delta = Decimal(0)  #: for what was bought before the rest was split
        self._spent = Fraction(0)
        self._ratio: float | None = None

    @property
    def pure(self) -> bool:
        return self.delta == 0

    def use_pure(self) -> None:
        """Give delta back unspent: everything that follows is pure."""
        self.delta = Decimal(0)

    def refuse_pure(self, what: str) -> None:
        """For what needs a delta and was given none."""
        raise Mistake("delta", f"is 0, but {what} has no pure form: give a delta greater than 0, for example 1e-6")

    @property
    def counts_are_public(self) -> bool:
        return self.adjacency is Adjacency.REPLACE_ONE

    def pay(self, share: Fraction) -> Decimal:
        """Hand `share` of epsilon to a pure mechanism of its own; only before the rest is split."""
        part = self._before(share)
        self.events.append(PureEvent(part))
        return part

    def pay_with_delta(self, share: Fraction) -> tuple[Decimal, Decimal]:
        """Hand `share` of epsilon and of delta to an approximate mechanism of its own; only before the rest is split.

        What is left is spent on releases of its own: epsilons and deltas of the two parts add up to the whole."""
        if self.pure:
            raise Fault("there is no delta to hand over")
        delta = (_decimal(share) * self.delta).quantize(exact.DELTA_STEP, ROUND_FLOOR)
        part = self._before(share).quantize(exact.EPSILON_STEP, ROUND_FLOOR)
        self.delta -= delta
        self.paid_delta += delta
        self.events.append(ApproximateEvent(part, delta))
        return part, delta

    def _before(self, share: Fraction) -> Decimal:
        if self._spent or self._ratio is not None:
            raise Fault("a part of its own must be paid before the rest is split")
        part = _decimal(share) * self.epsilon
        self.epsilon -= part
        return part

    def ratio(self, share: Fraction) -> float:
        """Noise standard deviation over sensitivity for a Gaussian release with this share of 1 / ratio^2."""
        if self.pure:
            raise Fault("Gaussian noise needs a delta")
        if self._ratio is None:
            self._ratio = ratio_for(math.nextafter(float(self.epsilon), 0), float(self.delta) * (1 - _GRID_PART))
        return self._ratio / math.sqrt(share) * (1 + 1e-12)

    def event(self) -> GaussianEvent:
        """Return what a fit that spends everything in Gaussian releases costs in all: for accountants of zCDP and Renyi
        curves the noise on a grid costs no more, to others its slack is said."""
        return GaussianEvent(self.ratio(Fraction(1)), float(self.delta) * _GRID_PART)

    def laplace_scale(self, reach: Reach, share: Fraction) -> float:
        return self._moved(reach) * self._laplace_ratio(share)

    def gaussian_scale(self, reach: Reach, share: Fraction) -> float:
        return self._moved(reach) * self.ratio(share)

    def laplace(self, blocks: Iterable[Floats], *, width: int, reach: Reach, share: Fraction) -> Noisy:
        """The sum of all rows with discrete Laplace noise: pure, at `share` of epsilon.

        Discrete Laplace noise on integers of L1 sensitivity s and scale s / e is e-DP (Ghosh et al. 2009).
        """
        moved = self._moved(reach)
        step = 2.0 ** -math.ceil(math.log2(2**20 * width / moved))
        sensitivity = moved / step * _FLOAT_SLACK + width * self._roundings()
        return self._laplace(_summed(blocks, width, step), sensitivity, step, share)

    def gaussian(self, blocks: Iterable[Floats], *, width: int, reach: Reach, share: Fraction) -> Noisy:
        """The sum of all rows with discrete Gaussian noise on a grid fine enough to count as continuous."""
        return self.gaussian_of_classes(_of_one_class(blocks), classes=1, width=width, reach=reach, share=share)

    def gaussian_of_classes(
        self, blocks: Iterable[tuple[Floats, Integers]], *, classes: int, width: int, reach: Reach, share: Fraction
    ) -> Noisy:
        """The sums of the rows of each class, one after the other, with noise as `gaussian` has it. A block is rows and
        their classes, of which there are none where there is but one; `reach` is in all these sums together."""
        moved, size = self._moved(reach), classes * width
        step = self._step(moved, size, share)
        sensitivity = moved / step * _FLOAT_SLACK + math.sqrt(size) * self._roundings()
        return self._gaussian(_summed_of_classes(blocks, classes, width, step), sensitivity, step, share)

    def gaussian_rounds(
        self, *, width: int, times: int, reach: Reach, share: Fraction, unit: float
    ) -> Callable[[Integers], Floats]:
        """Prepare the release of `times` sums of whole `unit`s, in turn, each with an equal part of `share`: with
        Gaussian noise on a grid as fine as `gaussian` has it, or finer. What is asked next may follow from what was
        released, as every sum's share is fixed here. `reach` holds for the whole numbers: nothing is rounded any more.
        """
        each, moved = share / times, self._moved(reach)
        finer = 2 ** max(0, math.ceil(math.log2(unit / self._step(moved, width, each))))
        ratio = self.ratio(each)
        scale = moved / unit * finer * _FLOAT_SLACK * ratio * (1 + 1e-12)
        self._take(each * times)
        self.events += [GaussianEvent(ratio, _grid_slack(width, ratio, scale))] * times
        added = self.randomness.gaussian_rounds(width, times=times, scale=scale)
        most = LARGEST_TOTAL // finer  # cutting off brings no two sums farther apart, and tells nobody of their size
        return lambda sums: added(np.minimum(np.maximum(sums, -most), most) * finer) * (unit / finer)

    def laplace_counts(self, counts: Integers, *, reach: Reach, share: Fraction) -> Noisy:
        """Whole counts with discrete Laplace noise."""
        return self._laplace(counts, self._moved(reach), 1.0, share)

    def gaussian_counts(self, counts: Integers, *, reach: Reach, share: Fraction) -> Noisy:
        """Whole counts with Gaussian noise on a fine grid."""
        moved = self._moved(reach)
        step = min(1.0, self._step(moved, counts.size, share))
        most = int(LARGEST_TOTAL * step)  # cutting off brings no two sums farther apart, and tells nobody of their size
        return self._gaussian(np.clip(counts, -most, most) * int(1 / step), moved / step, step, share)

    def row_count(self, rows: int, share: Fraction) -> float:
        """Return the number of rows: exact where that is public (`size`, if it was said), else bought with `share`; at
        least 1."""
        if self.counts_are_public:
            return float(max(1, rows if self.size is None else self.size))
        self.bought_count = True
        counts, reach = np.array([rows], dtype=np.int64), Reach(1, 1)
        released = self.laplace_counts if self.pure else self.gaussian_counts
        return max(1.0, float(released(counts, reach=reach, share=share).value[0]))

    # --- noise -----------------------------------------------------------------------------------------

    def _moved(self, reach: Reach) -> float:
        return reach.under(self.adjacency) * self.rows

    def _roundings(self) -> float:
        # Each coordinate of a row is off by at most half a step; under replace-one two rows are.
        return (1.0 if self.counts_are_public else 0.5) * self.rows

    def _laplace_ratio(self, share: Fraction) -> float:
        return 1 / float(_decimal(share) * self.epsilon) * (1 + 1e-9)

    def _laplace(self, sums: Integers, sensitivity: float, step: float, share: Fraction) -> Noisy:
        self._take(share)
        ratio = self._laplace_ratio(share)
        scale = sensitivity * ratio * (1 + 1e-12)
        self.events.append(LaplaceEvent(ratio, max(1, int(sensitivity))))
        return Noisy(self.randomness.laplace(sums, scale=scale).astype(np.float64) * step, scale * step)

    def _gaussian(self, sums: Integers, sensitivity: float, step: float, share: Fraction) -> Noisy:
        self._take(share)
        ratio = self.ratio(share)
        scale = sensitivity * ratio * (1 + 1e-12)
        self.events.append(GaussianEvent(ratio, _grid_slack(sums.size, ratio, scale)))
        return Noisy(self.randomness.gaussian(sums, scale=scale).astype(np.float64) * step, scale * step)

    def _take(self, share: Fraction) -> None:
        if share <= 0 or self._spent + share > 1:
            raise Fault("the shares of one fit exceed its budget")
        self._spent += share

    def _step(self, moved: float, width: int, share: Fraction) -> float:
        # The largest power of two at which this release's grid slack stays within its share of the part kept for it.
        ratio = self.ratio(share)
        allowed = float(self.delta) * _GRID_PART * float(share)
        least = max(_LEAST_SCALE, math.sqrt(_grid_slack(width, ratio, 1.0) / allowed))
        if least > _LARGEST_SCALE:
            raise Mistake("delta", "is too small: noise of this precision does not fit 64 bits")
        return 2.0 ** -math.ceil(math.log2(least / (ratio * moved)))


def _summed(blocks: Iterable[Floats], width: int, step: float) -> Integers:
    """The exact sum of rows in whole steps, cut off at what fits: a refusal would say how many rows there are."""
    return _summed_of_classes(_of_one_class(blocks), 1, width, step)


def _of_one_class(blocks: Iterable[Floats]) -> Iterator[tuple[Floats, Integers]]:
    return ((block, np.empty(0, dtype=np.int64)) for block in blocks)


def _summed_of_classes(blocks: Iterable[tuple[Floats, Integers]], classes: int, width: int, step: float) -> Integers:
    """The same of the rows of each class apart, one after the other."""
    totals = [0] * (classes * width)
    for block, own in blocks:
        whole = np.rint(block / step)
        sums = [total for c in range(classes) for total in _added(whole if classes == 1 else whole[own == c])]
        totals = [total + more for total, more in zip(totals, sums, strict=True)]
    return np.array([max(-LARGEST_TOTAL, min(LARGEST_TOTAL, total)) for total in totals], dtype=np.int64)


def _added(whole: Floats) -> list[int]:
    """The exact sum of rows of whole numbers."""
    largest = max(whole.max(initial=0.0), -whole.min(initial=0.0))
    if largest * len(whole) < _EXACT:  # floats hold every sum of these, whatever the order
        return [int(total) for total in whole.sum(axis=0).tolist()]
    # Where a wild hyperparameter made floats overflow, a row adds nothing: the integer of a NaN has no bound.
    numbers = np.where(np.isfinite(whole), whole, 0.0).astype(np.int64)
    # In two halves, so that no sum of a block leaves 64 bits, however fine the steps are.
    upper, lower = (numbers >> _HALF).sum(axis=0).tolist(), (numbers & (2**_HALF - 1)).sum(axis=0).tolist()
    return [(u << _HALF) + d for u, d in zip(upper, lower, strict=True)]


def _grid_slack(width: int, ratio: float, scale: float) -> float:
    """Return what drawing `width` coordinates on the integers adds to delta: scale / ratio apart in L2, two sums are at
    most sqrt(width) times as far in L1. Over many releases it adds up, whatever is asked adaptively."""
    return grid_slack(scale, math.sqrt(width) * scale / ratio)


def _decimal(share: Fraction) -> Decimal:
    return Decimal(share.numerator) / Decimal(share.denominator)
