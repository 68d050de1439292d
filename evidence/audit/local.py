"""Mechanisms that run at each owner: reports of categories, of numbers, and of whole rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import comb
from typing import Any

import numpy as np

from thebes.learning.graph.gradient_clip import clip_rows
from thebes.privacy.mechanisms.local.additive import LocalGaussian, LocalLaplace
from thebes.privacy.mechanisms.local.bounded import Hybrid, Piecewise, TwoPoint
from thebes.privacy.mechanisms.local.hadamard import HadamardResponse
from thebes.privacy.mechanisms.local.privunit import PrivUnit
from thebes.privacy.mechanisms.local.response import RandomizedResponse
from thebes.privacy.mechanisms.local.shape import LocalMechanism
from thebes.privacy.mechanisms.local.subset import SubsetSelection
from thebes.privacy.mechanisms.local.unary import AsymmetricUnaryEncoding, SymmetricUnaryEncoding
from thebes.privacy.mechanisms.local.vectors import LocalGaussianVector, LocalLaplaceVector, LocalLaplaceWeights
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import system
from thebes.tasks.audit.case import Audited, Case, Draw, Enumerated

REPLACE = Adjacency.REPLACE_ONE
SIZE = 4
DRAWS = 60_000

Odds = dict[Hashable, Fraction]


def cases() -> list[Case]:
    """All of this room: drawn from, and where outcomes are few also enumerated."""
    return [*_categories(), *_numbers(), *_rows(), *_gradients(), *_enumerated()]


def _reports(mechanism: LocalMechanism, value: Any) -> Draw:
    randomness = system()

    def draw(n: int) -> np.ndarray:
        return np.asarray(mechanism.perturb(np.repeat(np.asarray([value]), n, axis=0), randomness))

    return draw


def _drawn(title: str, mechanism: LocalMechanism, here: Any, there: Any, draws: int = DRAWS) -> Audited:
    return Audited(
        f"{mechanism.name}{title}",
        float(mechanism.epsilon),
        float(mechanism.delta),
        REPLACE,
        _reports(mechanism, here),
        _reports(mechanism, there),
        draws=draws,
    )


def _categories() -> list[Case]:
    kinds: list[Callable[[int, float], Any]] = [
        RandomizedResponse,
        HadamardResponse,
        SubsetSelection,
        SymmetricUnaryEncoding,
        AsymmetricUnaryEncoding,
    ]
    made: list[Case] = [_drawn(f", epsilon {e}", kind(SIZE, e), 0, 1) for kind in kinds for e in (0.5, 2.0)]
    return [*made, _drawn(" with delta", RandomizedResponse(SIZE, 1.0, 0.05), 0, 3)]


def _numbers() -> list[Case]:
    kinds: list[Callable[[float, float, float], Any]] = [LocalLaplace, TwoPoint, Piecewise, Hybrid]
    made: list[Case] = [_drawn(f", epsilon {e}", kind(-1.0, 3.0, e), -1.0, 3.0) for kind in kinds for e in (1.0, 3.0)]
    return [*made, *(_drawn(f", epsilon {e}", LocalGaussian(-1.0, 3.0, e, 1e-3), -1.0, 3.0) for e in (1.0, 4.0))]


def _rows() -> list[Case]:
    here, there = np.array([1.0, 0.0, 0.0]), np.array([-1.0, 0.0, 0.0])
    return [
        _drawn(f", epsilon {e}, for the {aim}", PrivUnit(3, e, aim=aim), here, there)
        for e, aim in ((1.0, "mean"), (4.0, "mean"), (3.0, "second-moment"))
    ]


# --- exact odds from the coins' integer thresholds --------------------------------------------------------------


def _gradients() -> list[Case]:
    """Two gradients as far apart as clipping lets them be. By weight, an owner's two weights cost twice epsilon."""
    here, there = np.array([[2.0, 2.0], [-2.0, -2.0]])
    made: list[tuple[Any, float, float]] = [
        (LocalLaplaceVector(2, Decimal(1), 0.5), 1.0, 0.0),
        (LocalLaplaceWeights(2, Decimal("0.5"), 0.5), 1.0, 0.0),
        (LocalGaussianVector.calibrated(2, Decimal(1), Decimal("0.001"), 0.5), 1.0, 0.001),
    ]
    sides = [clip_rows(side[None, :], 0.5)[0] for side in (here, there)]
    found: list[Case] = []
    for vector, epsilon, delta in made:
        draws = [_reports(vector, side) for side in sides]
        name = f"{vector.name}, two weights"
        found.append(Audited(name, epsilon, delta, REPLACE, draws[0], draws[1], draws=DRAWS))
    return found


def _enumerated() -> list[Case]:
    made: list[Case] = []
    for e in (0.1, 1.0, 5.0):
        response, with_delta = RandomizedResponse(SIZE, e), RandomizedResponse(SIZE, e, 1e-3)
        hadamard, subset = HadamardResponse(SIZE, e), SubsetSelection(SIZE, e)
        symmetric, asymmetric = SymmetricUnaryEncoding(SIZE, e), AsymmetricUnaryEncoding(SIZE, e)
        for mechanism, odds in (
            (response, _response),
            (with_delta, _response),
            (hadamard, _hadamard),
            (subset, _subset),
            (symmetric, _unary),
            (asymmetric, _unary),
        ):
            label = " with delta" if mechanism.delta else ""
            made.append(
                Enumerated(
                    f"{mechanism.name}{label}, exact odds",
                    e,
                    float(mechanism.delta),
                    REPLACE,
                    odds(mechanism, 0),
                    odds(mechanism, 1),
                )
            )
    return made


def _response(mechanism: Any, own: int) -> Odds:
    return {c: mechanism.hold if c == own else mechanism.stray for c in range(mechanism.size)}


def _unary(mechanism: Any, own: int) -> Odds:
    odds: Odds = {}
    for bits in product((0, 1), repeat=mechanism.size):
        chance = Fraction(1)
        for category, bit in enumerate(bits):
            one = mechanism.hold if category == own else mechanism.stray
            chance *= one if bit else 1 - one
        odds[bits] = chance
    return odds


def _subset(mechanism: Any, own: int) -> Odds:
    m, w = mechanism.size, mechanism.members
    odds: Odds = {}
    for bits in product((0, 1), repeat=m):
        if sum(bits) == w:
            odds[bits] = mechanism.hold / comb(m - 1, w - 1) if bits[own] else (1 - mechanism.hold) / comb(m - 1, w)
    return odds


def _hadamard(mechanism: Any, own: int) -> Odds:
    half = mechanism.rows // 2
    minus = {row: bin(row & (own + 1)).count("1") % 2 for row in range(mechanism.rows)}
    return {row: (1 - mechanism.hold if odd else mechanism.hold) / half for row, odd in minus.items()}
