"""Made-up rows: the marginals they are made of, the checks of guesses from them, and whether a guessed direction agrees
with the rows, with one person there or not, who has as many rows as a person may have."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from papers.smartcache.directions import BITS, Noised, Taught
from papers.smartcache.steering import Steered
from thebes.curator.cache.smart.check import Sought, SparseCheck, ThresholdCheck
from thebes.curator.cache.smart.parameters import SmartParameters
from thebes.curator.cache.smart.rows import MadeUp
from thebes.curator.cache.synopsis import View
from thebes.curator.cache.synthesis.base_histograms import Groundwork
from thebes.curator.cache.synthesis.domain import Domain
from thebes.curator.questions.plans import Integers, QuestionPlan
from thebes.data.table import Sums, Term
from thebes.learning.features import Features, Range
from thebes.learning.slopes import LinearSlopes
from thebes.privacy.mechanisms.additive import Laplace
from thebes.privacy.stability import Sensitivity
from thebes.tasks.audit.case import Audited, Case, Draw, repeatedly
from thebes.tasks.query.audit import ADD, ALIKE, FAST, OTHERS, ROWS, SCHEMA, SummedTable

EPSILON = Decimal(1)
PARAMETERS = SmartParameters(epsilon=EPSILON, parts=2, rows=16)
CUTS = PARAMETERS.cuts(SCHEMA)
BETA = 0.4


def cases() -> list[Case]:
    """List what is told of the rows in each of the three ways."""
    return [
        Audited("marginals of made-up rows", float(EPSILON), 0.0, ADD, *_marginals("independent"), draws=1500),
        Audited("made-up rows with pairs", float(EPSILON), 0.0, ADD, *_marginals("mst"), draws=300),
        Audited("a guess checked with a noisy threshold", float(EPSILON), 0.0, ADD, *_thresholds(ROWS), draws=3000),
        Audited("a guessed direction, checked until it fails", float(EPSILON), 0.0, ADD, *_directions(), draws=800),
    ]


def broken() -> list[Case]:
    """Noise for one column of several; a check that takes a person for one row."""
    one, other = (partial(_alone, _exactly(table)) for table in tables())
    return [
        Audited("marginals, each noised alone", 1.0, 0.0, ADD, one, other, positive_control=True, draws=200_000),
        Audited("a threshold for one row", 1.0, 0.0, ADD, *_thresholds(1), positive_control=True, draws=15_000),
    ]


def tables() -> list[SummedTable]:
    """With the person's rows, and without."""
    return [SummedTable(pd.concat([OTHERS, *rows], ignore_index=True)) for rows in ([ALIKE], [])]


class Rows:
    """The rows of a data set that does not grow."""

    def __init__(self, table: SummedTable) -> None:
        self.view: View = ()
        self._table = table

    def table(self, blocks: View | None = None) -> Any:
        return self._table

    def totals(self, plan: QuestionPlan, blocks: View | None = None) -> Integers:
        raise NotImplementedError


def groundwork(source: str) -> Groundwork:
    """Return what made-up rows are made of, not yet bought."""
    return Groundwork(Domain(SCHEMA, CUTS), source=source, epsilon=EPSILON, delta=Decimal(0))


def _marginals(source: str) -> tuple[Draw, Draw]:
    """Count the rows in the cells of somebody's, over all histograms."""
    made = groundwork(source)

    def told(table: SummedTable) -> float:
        made.restore({})
        made.buy(Rows(table), lambda purchase: None, FAST)
        found = made.histograms("")
        return float(sum(each.counts[tuple(_PLACES[place] for place in each.places)] for each in found))

    return _both(told)


def _exactly(table: SummedTable) -> NDArray[np.int64]:
    counts = [table.sums(Sums((Term(),), axes=(cut.axis,)))[:, 0] for cut in CUTS]
    return np.array([of[place] for of, place in zip(counts, _PLACES, strict=True)])


def _alone(exact: NDArray[np.int64], draws: int) -> NDArray[np.float64]:
    """With noise that hides a person in one column."""
    short = Laplace(EPSILON).noise(Sensitivity(ROWS, ROWS**2))
    noised = short.add(np.tile(exact, (draws, 1)), FAST)
    return np.asarray(noised.sum(axis=1))


def _thresholds(reach: int) -> tuple[Draw, Draw]:
    """Draw whether a guess passes that is off by all that one person has, or by nothing."""
    check = ThresholdCheck.of(EPSILON, reach=reach, threshold=0, beta=BETA)
    assert check is not None

    def told(table: SummedTable) -> float:
        return float(check.passes(abs(_count(table) - len(OTHERS)), FAST))

    return _both(told)


def _directions() -> tuple[Draw, Draw]:
    """Draw how often a direction passes before it fails, of up to five times, where one unit turns the exact one about
    as far as it can."""
    features = Features([Range("x", 0, 10)])
    taught = Taught(SCHEMA, features, "y", LinearSlopes(features.width))
    made = groundwork("independent")
    made.buy(Rows(SummedTable(pd.concat([OTHERS, ALIKE], ignore_index=True))), lambda purchase: None, FAST)
    steered = Steered(Noised(taught, 1, 1e-6, 10), MadeUp.of(CUTS, made.tree(()), ROWS, PARAMETERS, 1), seed=1)
    guess, away = np.array([1.0, 0.0]), np.array([-ROWS * 2**BITS, 0])
    sought = Sought(steered.reach, 0, BETA, 0)

    def told(turned: bool) -> float:
        check = SparseCheck()
        check.begin(EPSILON, FAST)
        total = np.array([ROWS * 2**BITS // 2, 0]) + turned * away
        distance = -steered.agreement(guess, total)
        return float(next((n for n in range(5) if not check.passes(sought, distance, FAST)), 5))

    return repeatedly(lambda: told(turned=True)), repeatedly(lambda: told(turned=False))


def _both(told: Callable[[SummedTable], float]) -> tuple[Draw, Draw]:
    one, other = (repeatedly(partial(told, table)) for table in tables())
    return one, other


def _count(table: SummedTable) -> int:
    return int(table.sums(Sums((Term(),)))[0, 0])


#: the cells of `ALIKE`'s rows
_PLACES = [-2 if cut.name in ("x", "y") else 2 for cut in CUTS]
