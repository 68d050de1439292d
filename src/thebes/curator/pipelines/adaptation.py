"""The means that an attempt gets after the ones before it failed: more data, or more budget. Pure functions of public
things.

What must stay true: no block ever pays a run more than its limits say, over all attempts; an attempt costs at least
twice what the last failed one did, so that all that failed together cost less than the one that did not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import StrEnum

from thebes.privacy import exact
from thebes.privacy.faults import Mistake

_DOWN = Context(prec=60, rounding=ROUND_FLOOR)
_UP = Context(prec=60, rounding=ROUND_CEILING)


class Strategy(StrEnum):
    """The way in which a run goes about its limits."""

    CONSERVE = "conserve"  #: little of both at first; then twice the data, or all there is and more epsilon instead
    DOUBLE = "double"  #: the same, but never a number of blocks between: twice the data, else twice the epsilon (Sage)
    AGGRESSIVE = "aggressive"  #: as much as is offered at once


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits of what a run may take: (epsilon, delta) of each block over all its attempts, the first of them with
    `start` of epsilon and `least` blocks."""

    epsilon: Decimal
    delta: Decimal
    start: Decimal
    least: int = 1
    strategy: Strategy = Strategy.CONSERVE

    def __post_init__(self) -> None:
        if not 0 < self.start <= self.epsilon:
            raise Mistake("start_epsilon", "must be greater than 0 and at most epsilon")
        if isinstance(self.least, bool) or not isinstance(self.least, int) or self.least < 1:
            raise Mistake("least_blocks", "must be a whole number of at least 1")

    def delta_for(self, epsilon: Decimal) -> Decimal:
        """An attempt's share of delta is its share of epsilon; rounded down, so that the sum stays within delta."""
        if not self.delta:
            return Decimal(0)
        share = _DOWN.divide(_DOWN.multiply(self.delta, epsilon), self.epsilon)
        return share.quantize(exact.DELTA_STEP, ROUND_FLOOR)


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """An attempt that was charged to its blocks. `failed`: its model was not good enough. One that never came so far
    (its process was killed) has cost what it cost, but says nothing about what would have been enough."""

    epsilon: Decimal
    blocks: tuple[str, ...]
    failed: bool = True

    @property
    def cost(self) -> Decimal:
        """Summed over its blocks."""
        return self.epsilon * len(self.blocks)


@dataclass(frozen=True, slots=True)
class Next:
    """The charge that the next attempt is to make to every one of its blocks, oldest first."""

    epsilon: Decimal
    delta: Decimal
    blocks: tuple[str, ...]


#: The names of the blocks that can still pay this epsilon (and its delta), oldest first.
Offered = Callable[[Decimal], Sequence[str]]


def next_attempt(limits: RunLimits, past: Sequence[PastAttempt], offered: Offered) -> Next | None:
    """Return what to try next; None where that has to wait for data or budget.

    Unless it is aggressive attempt k costs 2^(k-1) times the first, summed over blocks (and at each doubling no more
    than a step of epsilon a block beyond): the failed ones cost less than the accepted one, all together less than
    twice it.
    Where the attempt before, of half its cost, was not enough, that is less than four times the least that would have
    been. A block in all of them pays every one; `limits.epsilon` bounds what it pays in sum.
    """
    paid = paid_by_block(past)

    def payable(epsilon: Decimal) -> tuple[str, ...]:
        return tuple(name for name in offered(epsilon) if paid.get(name, Decimal(0)) + epsilon <= limits.epsilon)

    failed = [one for one in past if one.failed]
    choose = _aggressive if limits.strategy is Strategy.AGGRESSIVE else _doubling
    found = choose(limits, failed, payable)
    return None if found is None else Next(found[0], limits.delta_for(found[0]), found[1])


def paid_by_block(past: Sequence[PastAttempt]) -> dict[str, Decimal]:
    """Add up what each block has paid over all attempts."""
    paid: dict[str, Decimal] = {}
    for one in past:
        for name in one.blocks:
            paid[name] = paid.get(name, Decimal(0)) + one.epsilon
    return paid


def eta_of(attempt: int, eta: float) -> float:
    """The odds of a wrong verdict that the attempt of this number, from 1, may have: 6/(pi^2 i^2) of all, so that
    however many there are they add up to no more than `eta`.

    That the model of attempt i depends on the verdicts before it does no harm: it exists only where all of them were
    RETRY, which is one path. Along that path it follows from training data alone, so each bound holds for it, and the
    sum over attempts bounds the odds that any verdict is wrong.
    """
    return eta * 6 / (math.pi**2 * attempt**2)


_Found = tuple[Decimal, tuple[str, ...]] | None


def _doubling(
    limits: RunLimits, failed: Sequence[PastAttempt], payable: Callable[[Decimal], tuple[str, ...]]
) -> _Found:
    if not failed:
        blocks = payable(limits.start)
        return (limits.start, blocks[-limits.least :]) if len(blocks) >= limits.least else None
    epsilon, count = failed[-1].epsilon, len(failed[-1].blocks)
    if len(blocks := payable(epsilon)) >= 2 * count:
        return epsilon, blocks[-2 * count :]
    # Not twice as many: as many as can bear it share the same cost. The fewer they are the more each pays, and a higher
    # price finds no more blocks; so a number that finds too few is followed by what it found, and none is passed over.
    cost, many = 2 * failed[-1].cost, len(blocks) if limits.strategy is Strategy.CONSERVE else count
    while many >= count:
        each = _UP.divide(cost, Decimal(many)).quantize(exact.EPSILON_STEP, ROUND_CEILING)
        if len(blocks := payable(each)) >= many:
            return each, blocks[-many:]
        many = len(blocks)
    return None


def _aggressive(
    limits: RunLimits, failed: Sequence[PastAttempt], payable: Callable[[Decimal], tuple[str, ...]]
) -> _Found:
    """The epsilon (all, or a half, a quarter, ... of it) at which most can be had of all blocks together."""
    enough = 2 * failed[-1].cost if failed else limits.start * limits.least
    best: _Found = None
    epsilon, most = limits.epsilon, Decimal(0)
    while epsilon >= limits.start:
        blocks = payable(epsilon)
        cost = epsilon * len(blocks)
        if len(blocks) >= limits.least and cost >= enough and cost > most:
            best, most = (epsilon, blocks), cost
        epsilon = _DOWN.divide(epsilon, Decimal(2)).quantize(exact.EPSILON_STEP, ROUND_FLOOR)
    return best
