"""Arguments that somebody chose by hand, judged whatever they are for; scikit-learn is not needed for that."""

from __future__ import annotations

from typing import Any

import numpy as np

from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import Randomness, seeded_for_simulation, system


def randomness_of(random_state: Any) -> Randomness:
    """None: the operating system's entropy. A whole number: a repeatable simulation that protects nobody."""
    if random_state is None:
        return system()
    if isinstance(random_state, Randomness):
        return random_state
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        return seeded_for_simulation(int(random_state))
    raise Mistake("random_state", "must be None, or a whole number for a simulation")


def whole(argument: str, value: Any, least: int = 1) -> int:
    """A whole-numbered hyperparameter."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise Mistake(argument, f"must be a whole number of at least {least}")
    return int(value)


def positive(argument: str, value: Any, *, zero: bool = False) -> float:
    """A hyperparameter greater than 0 (or, with `zero`, not negative)."""
    good = isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and np.isfinite(value)
    if not good or value < 0 or (value == 0 and not zero):
        raise Mistake(argument, "must be a finite number" + (" that is not negative" if zero else " greater than 0"))
    return float(value)


def one_of(argument: str, value: Any, known: tuple[str, ...]) -> str:
    """A hyperparameter that is one of a few words."""
    if not isinstance(value, str) or value not in known:
        raise Mistake(argument, "must be one of " + ", ".join(repr(word) for word in known))
    return value
