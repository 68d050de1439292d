"""Bounded reports of one number: two points, a piecewise flat density, and their mixture.

Must stay true: the position of every threshold and window is linear in the value's grid step, in whole numbers, so
that odds and unbiasedness hold without rounding.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Pure
from thebes.privacy.mechanisms.local import coins
from thebes.privacy.mechanisms.local.numbers import NumberMechanism, Positions
from thebes.privacy.mechanisms.local.shape import Floats, Integers
from thebes.privacy.randomness import Coin, Randomness

_FREE_BITS = 40
NARROWINGS = tuple(Decimal(n) / 100 for n in range(20, 51))
_FREE = 2**_FREE_BITS  #: how many positions a piecewise report's window can start at


class TwoPoint(NumberMechanism):
    """A report is 0 or 1; the higher the value, the likelier 1.

    Protects the value among all of [low, high], up to epsilon. The best choice for small epsilon.

    Proof: P(1) is rare / 2^64 at low and 1 - rare / 2^64 at high and linear between, in whole 2^64ths, so no two
    values differ by more than the odds (2^64 - rare) / rare <= e^epsilon (Duchi, Jordan & Wainwright 2018).
    """

    name = "two-point"
    least, most = 0, 1

    def __init__(self, low: float, high: float, epsilon: exact.Number, *, bits: int = 20) -> None:
        super().__init__(low, high, epsilon, bits=bits)
        least = coins.at_least(coins.WIDE.divide(Decimal(1), coins.exponential(self.epsilon))).heads
        # A multiple of the grid's steps, so that every step moves the threshold by the same whole number.
        self.rare = -(-least // self.grid.steps) * self.grid.steps
        if self.rare >= coins.WORD // 2:
            raise Mistake("bits", "are too many for so small an epsilon")
        self.rise = (coins.WORD - 2 * self.rare) // self.grid.steps

    def loss(self) -> Pure:
        return Pure(coins.loss_of(Fraction(coins.WORD - self.rare, self.rare), self.epsilon))

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"p": 1 - self.rare / coins.WORD}

    def _draw(self, steps: Integers, randomness: Randomness) -> Integers:
        heads = steps.astype(np.uint64) * np.uint64(self.rise) + np.uint64(self.rare)
        return (randomness.words(steps.size) < heads).astype(np.int64)

    def _shares(self, reports: Integers) -> Floats:
        rare = self.rare / coins.WORD
        return np.asarray((reports - rare) / self._slope, dtype=np.float64)

    def _moment(self, share: Positions, k: int) -> Positions:
        rare = self.rare / coins.WORD
        one = rare + share * self._slope
        low, high = -rare / self._slope - share, (1 - rare) / self._slope - share
        return one * high**k + (1 - one) * low**k

    @property
    def _step(self) -> float:
        return 0.5 / self._slope

    @property
    def _slope(self) -> float:
        return float(Fraction(coins.WORD - 2 * self.rare, coins.WORD))


class Piecewise(NumberMechanism):
    """A report is a whole number, likely inside a window that moves with the value.

    Protects the value among all of [low, high], up to epsilon. Better than two points for larger epsilon.

    Proof: with probability `hold` uniform on the window's `width` numbers, else uniform on the 2^40 others, wherever
    the window is; so a report has one of two likelihoods, whose ratio hold / (1 - hold) * 2^40 / width is at most
    e^epsilon by the choice of the coin, for any width (Wang et al. 2019, algorithm 2). Their width e^(-epsilon/2) 2^40
    is not the one with the least worst variance (at epsilon 8 it is three times that); it is searched here, and comes
    out near e^(-epsilon/3) 2^40, as Zhao et al. (2021) found for their PM-SUB.
    """

    name = "piecewise"
    least = 0

    def __init__(
        self, low: float, high: float, epsilon: exact.Number, *, bits: int = 20, narrowing: Decimal | None = None
    ) -> None:
        """`narrowing` n sets the width to e^(-n epsilon) 2^40; the best one by default. Any is private."""
        super().__init__(low, high, epsilon, bits=bits)
        if narrowing is None:
            self._set_width(min(NARROWINGS, key=self._worst))
        else:
            self._set_width(narrowing)

    def _set_width(self, narrowing: Decimal) -> None:
        self.width = max(1, round(_FREE * coins.exponential(-narrowing * self.epsilon)))
        self.most = _FREE + self.width - 1
        odds = coins.exponential(self.epsilon) * coins.ratio(Fraction(self.width, _FREE))
        self.coin = coins.at_most(odds)

    def _worst(self, narrowing: Decimal) -> float:
        self._set_width(narrowing)
        return self.variance(1)

    def loss(self) -> Pure:
        return Pure(coins.loss_of(coins.odds_of(self.coin) * Fraction(_FREE, self.width), self.epsilon))

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"p": float(self.coin.probability), "width": self.width / _FREE}

    def _draw(self, steps: Integers, randomness: Randomness) -> Integers:
        start = steps << (_FREE_BITS - self.grid.bits)
        inside = start + randomness.below(self.width, steps.size)
        outside = randomness.below(_FREE, steps.size)
        outside += self.width * (outside >= start)
        return np.where(coins.toss(randomness, self.coin, steps.size), inside, outside)

    def _shares(self, reports: Integers) -> Floats:
        return np.asarray((reports / _FREE - self._at_low) / self._slope, dtype=np.float64)

    @property
    def _slope(self) -> float:
        hold = self.coin.probability
        return float(hold - (1 - hold) * Fraction(self.width, _FREE))

    @property
    def _at_low(self) -> float:
        # The mean report, in units of 2^40, where the window starts at 0.
        hold, window = self.coin.probability, Fraction(self.width - 1, 2)
        return float((hold * window + (1 - hold) * (self.width + Fraction(_FREE - 1, 2))) / _FREE)

    def _moment(self, share: Positions, k: int) -> Positions:
        # Uniform on stretches of lengths w and 1, in units of 2^40 (whole numbers are that dense).
        hold, w = float(self.coin.probability), self.width / _FREE
        mean = hold * (share + w / 2) + (1 - hold) * ((1 + w) ** 2 / 2 - w * (share + w / 2))

        def within(start: Positions, end: Positions) -> Positions:
            area: Positions = ((end - mean) ** (k + 1) - (start - mean) ** (k + 1)) / (k + 1)
            return area

        inside = within(share, share + w)
        found: Positions = (hold * inside / w + (1 - hold) * (within(0.0, 1 + w) - inside)) / self._slope**k
        return found


class Hybrid(NumberMechanism):
    """Each report is piecewise with a public probability, else two-point, so that the worst value is served best.

    Protects the value among all of [low, high], up to epsilon: which of the two was drawn does not depend on the
    value, and each keeps epsilon (Wang et al. 2019, section 3.3). Two-point reports are the two numbers past the
    piecewise ones.
    """

    name = "hybrid"
    least = 0

    def __init__(self, low: float, high: float, epsilon: exact.Number, *, bits: int = 20) -> None:
        super().__init__(low, high, epsilon, bits=bits)
        self.two_point = TwoPoint(low, high, epsilon, bits=bits)
        choices = (self._best_mix(Piecewise(low, high, epsilon, bits=bits, narrowing=n)) for n in NARROWINGS)
        _, mix, self.piecewise = min(choices, key=lambda choice: choice[0])
        self.mix = Coin.nearest(mix)
        self.most = self.piecewise.most + 2

    def loss(self) -> Pure:
        return max(self.piecewise.loss(), self.two_point.loss(), key=lambda loss: loss.epsilon)

    def parameters(self) -> dict[str, Any]:
        return (
            self.piecewise.parameters()
            | self.two_point.parameters()
            | {
                "p": float(self.piecewise.coin.probability),
                "p_two_point": 1 - self.two_point.rare / coins.WORD,
                "piecewise": float(self.mix.probability),
            }
        )

    def _best_mix(self, piecewise: Piecewise) -> tuple[float, float, Piecewise]:
        # Piecewise noise grows, two-point noise falls with the distance from the middle, both with its square; so the
        # worst value's variance is least at an end or where the two cancel.
        growth = 4 * (piecewise._variance(0.0) - piecewise._variance(0.5))

        def worst(mix: float) -> float:
            return max(self._mixed(piecewise, mix, share) for share in (0.0, 0.5))

        best = min((0.0, 1.0, 1 / (1 + max(growth, 0.0))), key=worst)
        return worst(best), best, piecewise

    def _mixed(self, piecewise: Piecewise, mix: float, share: float) -> float:
        return mix * piecewise._variance(share) + (1 - mix) * self.two_point._variance(share)

    def _draw(self, steps: Integers, randomness: Randomness) -> Integers:
        flat = coins.toss(randomness, self.mix, steps.size)
        reports = np.empty(steps.size, dtype=np.int64)
        reports[flat] = self.piecewise._draw(steps[flat], randomness)
        reports[~flat] = self.two_point._draw(steps[~flat], randomness) + (self.piecewise.most + 1)
        return reports

    def _shares(self, reports: Integers) -> Floats:
        past = self.piecewise.most + 1
        return np.where(
            reports < past, self.piecewise._shares(reports), self.two_point._shares(np.maximum(reports - past, 0))
        )

    def _moment(self, share: Positions, k: int) -> Positions:
        mix = float(self.mix.probability)
        return mix * self.piecewise._moment(share, k) + (1 - mix) * self.two_point._moment(share, k)
