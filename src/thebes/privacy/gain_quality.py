"""The figure of what a model gains on one guess for everybody, from people who each say so once, at random.

What must stay true: a report depends on its owner's row through three likelihoods alone, whatever model it is about; of
models that gain nothing at most `CLAIM` are called better, and an interval holds the gain in `LEVEL` of all cases.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy import exact, quality
from thebes.privacy.faults import Mistake
from thebes.privacy.measurement import Interval
from thebes.privacy.mechanisms.local.response import RandomizedResponse
from thebes.privacy.model_quality import CLAIM, LEVEL, NO_BETTER, Quality, verdict_of
from thebes.privacy.randomness import Randomness

ANSWERS = 3  #: 0: the model does worse than the guess, 1: as well, 2: better
SQUARED = "squared gain"  #: the metric of a model of numbers
_STEPS = 2**20  #: of a gain between 0 and 1


class GainResponse:
    """The report of a model's gain on a guess over one row, a number from -1 to 1: for labels "model right" less "guess
    right"; for numbers the difference of their squared losses.

    The gain is rounded at random to -1, 0 or 1, so that its mean stays (whole ones stay themselves; others first go to
    the nearest of 2^20 steps), and the outcome is said by randomised response over these three.

    Proof: rounding has coins of its own, so a row gives a mixture of the three outcomes' laws. Each two of these differ
    by a factor of at most e^epsilon (`RandomizedResponse`), hence so do any two mixtures: the report is epsilon-private
    for every two rows and every model, also one that an attacker made up.
    """

    name = "randomized-response of a gain"

    def __init__(self, epsilon: exact.Number) -> None:
        self.response = RandomizedResponse(ANSWERS, epsilon)
        #: the mean of a report, less 1, is this part of the gain: (e^epsilon - 1) / (e^epsilon + 2)
        self.kept = float(self.response.hold - self.response.stray)

    def perturb(self, gains: ArrayLike, randomness: Randomness) -> NDArray[np.int64]:
        """One report for each gain."""
        steps = np.rint(np.asarray(gains, dtype=np.float64) * _STEPS).astype(np.int64)
        if (np.abs(steps) > _STEPS).any():
            raise Mistake("gains", "must lie between -1 and 1")
        whole = randomness.below(_STEPS, steps.size) < np.abs(steps)
        answers = 1 + np.sign(steps) * whole
        return self.response.perturb(answers, randomness).astype(np.int64)

    def figure(self, told: ArrayLike, *, share: float | None, of: str, metric: str = "gain") -> Quality:
        """Read the gain off how many people said each of the three answers; somebody must have answered.

        *Value.* (yes - no) / (n kept) is unbiased. *Interval.* It is the mean of n independent numbers within
        +-1 / kept, so it errs by more than sqrt(2 ln(2 / a) / n) / kept in a of all cases at most (Hoeffding 1963,
        theorem 2), for these people as they are as well as for everybody they were drawn from.

        *Better.* Of people drawn one by one a report is yes with chance u and no with chance v, u - v = kept x gain.
        Among the reports that are either, yes is binomial with chance u / (u + v), at most 1/2 where nothing is gained.
        The exact lower end passes 1/2 with odds of at most `CLAIM` then (McNemar 1947).
        """
        no, same, yes = np.asarray(told, dtype=np.int64).tolist()
        people = no + same + yes
        value = (yes - no) / (people * self.kept)

        def wide(failing: float) -> float:
            return math.sqrt(2 * math.log(1 / failing) / people) / self.kept

        bar = wide((1 - LEVEL) / 2)
        least = quality.binomial_below(yes, no, CLAIM) - 0.5
        low, middle, high = np.clip([value - bar, value, value + bar], -1.0, 1.0).tolist()
        return Quality(
            metric=metric,
            value=middle,
            interval=Interval(LEVEL, low, high),
            guessing=0.0,
            verdict=verdict_of(least, value + wide(NO_BETTER)),
            people=people,
            share=share,
            epsilon=float(self.response.epsilon),
            of=of,
        )
