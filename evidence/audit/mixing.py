"""Reports that nobody can assign: what whoever collects them learns of one of their owners, everything about the others
known but their coins; and three ways to mix that are no mixing."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np

from thebes.privacy.accounting.mixing import mixed_epsilon
from thebes.privacy.mechanisms.local.response import RandomizedResponse
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import system
from thebes.tasks.audit.case import Audited, Case, Draw, Enumerated, Floats

REPLACE = Adjacency.REPLACE_ONE
SIZE, LOCAL, PEOPLE, CROWD, DELTA = 3, 2.0, 40, 400, 1e-3
_LAST = SIZE - 1  #: what everybody else has


def cases() -> list[Case]:
    """Mixed reports of categories by two ways to reckon, of two packets, and every outcome of three people's."""
    mechanism = RandomizedResponse(SIZE, LOCAL)
    supports = (mechanism.hold, mechanism.stray)
    made: list[Case] = []
    for title, people, ways, packets in (
        ("any mechanism", PEOPLE, None, 1),
        ("its own law", CROWD, supports, 1),
        ("two packets", PEOPLE, None, 2),
    ):
        epsilon = float(mixed_epsilon(LOCAL, honest=people, delta=DELTA, packets=packets, supports=ways))
        draws = _counts(0, people, packets), _counts(1, people, packets)
        made.append(Audited(f"mixed reports, {title}", epsilon, DELTA, REPLACE, draws[0], draws[1], draws=100_000))
    few = RandomizedResponse(6, 2)
    for delta in (0.1, 0.3):
        epsilon = float(mixed_epsilon(few.loss().epsilon, honest=3, delta=delta, supports=(few.hold, few.stray)))
        worlds = _every_count(few, 0), _every_count(few, 1)
        made.append(
            Enumerated("mixed reports of three people, exact odds", epsilon, delta, REPLACE, worlds[0], worlds[1])
        )
    return made


def broken() -> list[Case]:
    """The figure of mixed reports where they are not mixed, of more people than took part, and by a shorter formula."""
    epsilon = float(mixed_epsilon(LOCAL, honest=CROWD, delta=DELTA))
    crowd = float(mixed_epsilon(LOCAL, honest=100 * PEOPLE, delta=DELTA))
    first = _first(0), _first(1)
    fewer = _counts(0, PEOPLE, 1), _counts(1, PEOPLE, 1)
    few = RandomizedResponse(6, 2)
    worlds = _every_count(few, 0), _every_count(few, 1)
    return [
        Audited(
            "mixed reports in their order of arrival",
            epsilon,
            DELTA,
            REPLACE,
            first[0],
            first[1],
            positive_control=True,
            draws=20_000,
        ),
        Audited(
            "mixed reports of a hundredth of the people",
            crowd,
            DELTA,
            REPLACE,
            fewer[0],
            fewer[1],
            positive_control=True,
            draws=100_000,
        ),
        Enumerated(
            "mixed reports, clones for the owner and others alike",
            1.5,
            0.039,
            REPLACE,
            worlds[0],
            worlds[1],
            positive_control=True,
        ),
    ]


def _counts(own: int, people: int, packets: int) -> Draw:
    mechanism, randomness = RandomizedResponse(SIZE, LOCAL), system()

    def once(n: int) -> Floats:
        values = np.full((n, people), _LAST)
        values[:, 0] = own
        said = np.asarray(mechanism.perturb(values.ravel(), randomness)).reshape(n, people)
        return np.asarray(np.stack([(said == value).sum(axis=1) for value in (0, 1)], axis=1), dtype=np.float64)

    def draw(n: int) -> Floats:
        blocks = [min(5_000, n - start) for start in range(0, n, 5_000)]
        return np.concatenate([sum(once(size) for _ in range(packets)) for size in blocks])

    return draw


def _first(own: int) -> Draw:
    mechanism, randomness = RandomizedResponse(SIZE, LOCAL), system()
    return lambda n: np.asarray(mechanism.perturb(np.full(n, own), randomness))


def _every_count(mechanism: RandomizedResponse, own: int) -> dict[object, Fraction]:
    """The exact odds of how often three people say each value, where the two others have the last two ones."""
    m, found = mechanism.size, dict[object, Fraction]()
    values = (own, m - 2, m - 1)
    for said in itertools.product(range(m), repeat=len(values)):
        chance = math.prod(mechanism.hold if s == v else mechanism.stray for s, v in zip(said, values, strict=True))
        key = tuple(sorted(said))
        found[key] = found.get(key, Fraction(0)) + chance
    return found
