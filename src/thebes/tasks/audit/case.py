"""A row of the audit: a claim of epsilon, and two neighbouring inputs on which it is attacked.

A kind's folder holds its own rows in `audit.py`: `cases()`, the honest ones and those that are broken on purpose. What
must stay true: every honest claim holds and every broken one is caught (`make audit`; `thebes.testing.audit` attacks).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness

Floats = NDArray[np.float64]
Number = int | float | Fraction
#: `n` outputs, independent of each other: one number each, or one row of numbers each
Draw = Callable[[int], ArrayLike]
#: runs something with the noise it is given, over one of two neighbouring inputs
Run = Callable[[Randomness], object]


@dataclass(frozen=True, slots=True)
class Audited:
    """A mechanism with its claim, drawn from on two neighbouring inputs under `adjacency`.

    A positive control is broken on purpose: the audit is worth something only where it is caught.
    """

    name: str
    epsilon: float
    delta: float
    adjacency: Adjacency
    draw_a: Draw
    draw_b: Draw
    positive_control: bool = False
    draws: int = 4000  #: from each input, for choosing and again for counting


@dataclass(frozen=True, slots=True)
class Enumerated:
    """A mechanism with finitely many outcomes, whose exact odds on two neighbouring inputs are known."""

    name: str
    epsilon: float
    delta: float
    adjacency: Adjacency
    pmf_a: Mapping[Hashable, Number]
    pmf_b: Mapping[Hashable, Number]
    positive_control: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """Something that runs with the noise it is given, on two neighbouring inputs: judged by what it adds noise to.

    A run returns the certificate of its answer, where it makes one. Where the noise shows half of the claim or more,
    the audit runs the same again with noise of half the scale, which must be caught.
    """

    name: str
    epsilon: float
    delta: float
    adjacency: Adjacency
    run_a: Run
    run_b: Run
    positive_control: bool = False
    used: float = 0.5  #: the least share of the claim that can be seen in the noise


Case = Audited | Enumerated | Written


def repeatedly(release: Callable[[], Any]) -> Draw:
    """Draw from a mechanism that makes one release per call; a release is a number or an array of numbers."""

    def draw(n: int) -> Floats:
        return np.asarray([np.ravel(np.asarray(release(), dtype=np.float64)) for _ in range(n)])

    return draw
