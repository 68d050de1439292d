"""Going downhill by answers to gradient questions, each paid for as it comes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from papers.smartcache.directions import Direction, Directions, Sums, charged
from thebes.curator.cache.purchase import Purchase, amounts
from thebes.curator.cache.synopsis import Pay
from thebes.learning.updates import Update
from thebes.privacy.faults import Fault
from thebes.privacy.measurement import Floats
from thebes.privacy.randomness import Randomness


@dataclass(frozen=True, slots=True)
class Step:
    """One answer, what it cost, and the weights after it."""

    weights: Floats
    direction: Direction


def downhill(
    directions: Directions,
    sums: Sums,
    *,
    start: Floats,
    rule: Update,
    steps: int,
    pay: Pay,
    randomness: Randomness,
    penalty: Floats | float = 0.0,
) -> Iterator[Step]:
    """So many steps from `start`. `penalty` times the weights is added to every direction: ridge regression, with 0 for
    an intercept. `sums` is looked at by `directions` alone, after what it says it may cost. Whoever does not take the
    next step does not pay for it."""
    weights = np.array(start, dtype=np.float64)
    for _ in range(steps):
        allowed, paid = list(directions.most(weights)), list[Purchase]()

        def spend(purchase: Purchase, allowed: list[Purchase] = allowed, paid: list[Purchase] = paid) -> None:
            if purchase not in allowed:
                raise Fault("a direction pays for what it did not say before")
            allowed.remove(purchase)
            pay(purchase)
            paid.append(purchase)

        direction = charged(directions.answer(weights, sums, spend, randomness), amounts(paid))
        weights = rule.step(weights, direction.mean + np.asarray(penalty) * weights)
        yield Step(weights, direction)
