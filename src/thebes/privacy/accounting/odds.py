"""The meaning of an epsilon and a delta to a person who has never met them: how well anybody can guess.

Someone who knows everything except whether it was you (a fair coin decides) and who sees the release guesses
right with probability at most `best_guess`. Source: Kairouz, Oh & Viswanath 2017, theorem 2.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from thebes.privacy import exact
from thebes.privacy.figures import figure

LARGE_EPSILON = 20.0  #: above this an epsilon is told to be large: one guess in 485 million is wrong
LARGE_DELTA = 1e-2  #: above this a delta is told to be large, however few people there are


@dataclass(frozen=True, slots=True)
class Meaning:
    """The same promise in other units. Nothing here says what an attacker learns about everybody from the release."""

    odds_factor: float  #: odds for or against any belief about one unit change by at most this factor
    best_guess: float  #: the best chance of guessing right what a fair coin hid, between 0.5 and 1
    advantage: float  #: twice what `best_guess` exceeds 0.5 by: the most that hits can exceed false alarms
    fails: float  #: the probability with which `odds_factor` may not hold

    @property
    def how_often(self) -> str:
        """`best_guess` as it is told everywhere. Rounded up: a risk is never told smaller than it is."""
        if self.best_guess > 0.999:
            return "almost always"
        return f"at most {math.ceil(round(1000 * self.best_guess, 9)) / 10:g} % of the time"

    def sentence(self, *, which: str, seen: str) -> str:
        """Say what somebody learns at most who knows all the rest, in the words that everybody is told. `best_guess`
        holds for every outcome: delta is in it."""
        return f"Somebody who has to guess, fifty-fifty, {which} is right {self.how_often} after seeing {seen}."


def large_epsilon(epsilon: float | Decimal) -> str:
    """Say that an epsilon promises hardly anything, where it is above `LARGE_EPSILON`; nothing of a smaller one."""
    told = float(epsilon)
    if told <= LARGE_EPSILON:
        return ""
    return (
        f"Epsilon {figure(told)} protects hardly at all: somebody who guesses between two answers of a person may end "
        "up practically certain. Usual are 0.1 to 10."
    )


def large_delta(delta: exact.Number, people: int | None = None) -> str:
    """Say what a delta allows that is above `LARGE_DELTA`, or at least one over this public number of people; nothing
    of a smaller one. No bound is left of it for each person: giving away so large a part of all rows would keep it."""
    told = float(exact.delta(delta))
    if told <= LARGE_DELTA and (people is None or told * people < 1):
        return ""
    return (
        f"Delta {figure(told)} is large: with that chance the answer may give somebody away altogether, whatever "
        "epsilon is. Take one far below 1 divided by the number of people, such as 1e-6."
    )


def meaning(epsilon: exact.Number, delta: exact.Number = 0) -> Meaning:
    """Return what (epsilon, delta) promises, each number rounded toward the attacker."""
    e, d = float(exact.epsilon(epsilon)), float(exact.delta(delta))
    guess = min(1.0, (1 + d * math.exp(-e)) / (1 + math.exp(-e)) * (1 + 1e-15))
    return Meaning(
        odds_factor=math.exp(e) * (1 + 1e-15) if e < 700 else math.inf,
        best_guess=guess,
        advantage=min(1.0, (math.tanh(e / 2) + 2 * d / (1 + math.exp(min(e, 700.0)))) * (1 + 1e-15)),
        fails=d,
    )
