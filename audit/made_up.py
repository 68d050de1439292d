"""Made-up rows: the marginals they are made of, the checks of guesses from them, and whether a guessed direction agrees
with the rows, with one person there or not, who has as many rows as a person may have."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from audit.query import ADD, ALIKE, FAST, OTHERS, ROWS, SCHEMA, Known
from thebes.curator.cache.smart.check import Sought, SparseCheck, ThresholdCheck
from thebes.curator.cache.smart.directions import BITS, Noised, Taught
from thebes.curator.cache.smart.marginals import bought, priced
from thebes.curator.cache.smart.parameters import Parameters
from thebes.curator.cache.smart.rows import MadeUp
from thebes.curator.cache.smart.steering import Steered
from thebes.data.table import Sums, Term
from thebes.learning.features import Features, Range
from thebes.learning.slopes import LinearSlopes
from thebes.privacy.mechanisms.additive import Additive, Laplace
from thebes.privacy.stability import Sensitivity
from thebes.testing.audit import Audited, Case, Draw, repeatedly

EPSILON = Decimal(1)
PARAMETERS = Parameters(epsilon=EPSILON, parts=2, rows=16)
CUTS = PARAMETERS.cuts(SCHEMA)
NOISE, _ = priced(CUTS, SCHEMA, PARAMETERS)
BETA = 0.4


def cases() -> list[Case]:
    """What is told of the rows in each of the three ways."""
    return [
        Audited("marginals of made-up rows", float(EPSILON), 0.0, ADD, *_marginals(NOISE), draws=1500),
        Audited("a guess checked with a noisy threshold", float(EPSILON), 0.0, ADD, *_thresholds(ROWS), draws=3000),
        Audited("a guessed direction, checked until it fails", float(EPSILON), 0.0, ADD, *_directions(), draws=800),
    ]


def broken() -> list[Case]:
    """Noise for one column of several; a check that takes a person for one row."""
    one, other = (partial(_alone, _exactly(table)) for table in _tables())
    return [
        Audited("marginals, each noised alone", 1.0, 0.0, ADD, one, other, positive_control=True, draws=40_000),
        Audited("a threshold for one row", 1.0, 0.0, ADD, *_thresholds(1), positive_control=True),
    ]


def _tables() -> list[Known]:
    return [Known(pd.concat([OTHERS, *rows], ignore_index=True)) for rows in ([ALIKE], [])]


def _marginals(noise: Additive) -> tuple[Draw, Draw]:
    """How many rows there are in the cells of somebody's, over all columns."""

    def told(table: Known) -> float:
        found = bought(CUTS, table, noise, FAST).counts
        return float(sum(counts[place] for counts, place in zip(found, _PLACES, strict=True)))

    return _both(told)


def _exactly(table: Known) -> NDArray[np.int64]:
    counts = [table.sums(Sums((Term(),), axes=(cut.axis,)))[:, 0] for cut in CUTS]
    return np.array([of[place] for of, place in zip(counts, _PLACES, strict=True)])


def _alone(exact: NDArray[np.int64], draws: int) -> NDArray[np.float64]:
    """With noise that hides a person in one column."""
    short = Laplace(EPSILON).noise(Sensitivity(ROWS, ROWS**2))
    noised = short.add(np.tile(exact, (draws, 1)), FAST)
    return np.asarray(noised.sum(axis=1))


def _thresholds(reach: int) -> tuple[Draw, Draw]:
    """Whether a guess passes that is off by all that one person has, or by nothing."""
    check = ThresholdCheck.of(EPSILON, reach=reach, threshold=0, beta=BETA)
    assert check is not None

    def told(table: Known) -> float:
        return float(check.passes(abs(_count(table) - len(OTHERS)), FAST))

    return _both(told)


def _directions() -> tuple[Draw, Draw]:
    """How often a direction passes before it fails, of up to five times, where one unit turns the exact one about as
    far as it can."""
    features = Features([Range("x", 0, 10)])
    taught = Taught(SCHEMA, features, "y", LinearSlopes(features.width))
    marginals = bought(CUTS, Known(pd.concat([OTHERS, ALIKE], ignore_index=True)), NOISE, FAST)
    steered = Steered(Noised(taught, 1, 1e-6, 10), MadeUp.of(CUTS, marginals, PARAMETERS, 1), seed=1)
    guess, away = np.array([1.0, 0.0]), np.array([-ROWS * 2**BITS, 0])
    sought = Sought(steered.reach, 0, BETA, 0)

    def told(turned: bool) -> float:
        check = SparseCheck()
        check.begin(EPSILON, FAST)
        total = np.array([ROWS * 2**BITS // 2, 0]) + turned * away
        distance = -steered.agreement(guess, total)
        return float(next((n for n in range(5) if not check.passes(sought, distance, FAST)), 5))

    return repeatedly(lambda: told(turned=True)), repeatedly(lambda: told(turned=False))


def _both(told: Callable[[Known], float]) -> tuple[Draw, Draw]:
    one, other = (repeatedly(partial(told, table)) for table in _tables())
    return one, other


def _count(table: Known) -> int:
    return int(table.sums(Sums((Term(),)))[0, 0])


#: the cells of `ALIKE`'s rows
_PLACES = [-2 if cut.name in ("x", "y") else 2 for cut in CUTS]
