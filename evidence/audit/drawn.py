"""Tasks and estimators judged by their noise alone: what was drawn, and what it was added to, with one person in the
rows or their neighbour. Nothing is left to samples: noise of half the scale shows wherever a claim is used to the half.

What coins decide (medians, responses by category, PrivUnit, samples of rows), thresholds that serve many questions, and
noise that is drawn before there is anything to add it to (gradients of people) are drawn often in other rooms instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

from evidence.audit import growing, learning, made_up, synthesis
from thebes.curator.cache.synthesis.allowance import SynthesisAllowance
from thebes.curator.cache.synthesis.recipe import Independent
from thebes.privacy.losses import Pure
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Integers, Randomness, Words
from thebes.tasks.audit.case import Case, Written
from thebes.tasks.query.audit import SummedTable

ADD = Adjacency.ADD_REMOVE_ONE


def cases() -> list[Case]:
    """List what data sets buy, and estimators by themselves."""
    return [*_data_sets(), *_estimators()]


def halved(cases: Iterable[Case]) -> list[Case]:
    """List the same with noise of half the scale, of all whose noise shows half of the claim: each must be caught."""
    shown = [case for case in cases if isinstance(case, Written) and case.used >= 0.5 and not case.positive_control]
    return [_half_of(case) for case in shown]


def _half_of(case: Written) -> Written:
    one, other = ((lambda source, run=run: run(Half(source))) for run in (case.run_a, case.run_b))
    return replace(case, name=f"{case.name}, half of it", run_a=one, run_b=other, positive_control=True)


class Half(Randomness):
    """Noise of half the scale that is asked for."""

    def __init__(self, source: Randomness) -> None:
        self._source = source
        self.simulated, self.drawn_by = source.simulated, source.drawn_by

    def words(self, count: int) -> Words:
        return self._source.words(count)

    def laplace(self, values: Integers, *, scale: float) -> Integers:
        return self._source.laplace(values, scale=scale / 2)

    def gaussian(self, values: Integers, *, scale: float) -> Integers:
        return self._source.gaussian(values, scale=scale / 2)


# --- what data sets buy, and estimators by themselves ---


def _data_sets() -> Iterator[Written]:
    tables = synthesis.tables()
    for delta in (0.0, 1e-3):
        recipe = Independent(synthesis.DOMAIN, SynthesisAllowance(1, delta))
        runs = [partial(_histograms, recipe, table) for table in tables]
        title = f"synthetic rows, {'Gaussian' if delta else 'Laplace'} noise"
        yield Written(f"drawn: {title}", 1.0, delta, ADD, runs[0], runs[1], used=0.8)
    bought = [partial(_bought, table) for table in made_up.tables()]
    epsilon = float(made_up.EPSILON)
    yield Written("drawn: marginals of made-up rows", epsilon, 0.0, ADD, bought[0], bought[1], used=0.99)
    sizes = [partial(_counted, *told) for told in ((5, 9), (6, 9 + growing.ROWS))]
    yield Written("drawn: users and their rows", 1.0, 0.0, ADD, sizes[0], sizes[1], used=0.99)


def _histograms(recipe: Independent, table: Any, randomness: Randomness) -> None:
    synthesis.told(recipe, table, randomness)


def _bought(table: SummedTable, randomness: Randomness) -> None:
    made_up.groundwork("independent").buy(made_up.Rows(table), lambda purchase: None, randomness)


def _counted(users: int, rows: int, randomness: Randomness) -> None:
    growing.counts().noisy(users, rows, randomness, price=Pure(Decimal(1)))


#: the least that an estimator's noise shows of its claim, where it is not the whole of it
_LESS = {"odds by categories": 0.5, "bounds estimated": 0.02}


def _estimators() -> Iterator[Written]:
    for each in learning.fitted():
        # A network samples its rows with coins; for how many classes noise is drawn depends on which labels there are,
        # which delta pays for. What these let through is judged by samples alone.
        if not each.name.startswith("network") and each.name != "classes bought":
            runs = [partial(_fitted, fit) for fit in (each.here, each.there)]
            used = _LESS.get(each.name, 0.6)
            yield Written(f"drawn: {each.name}", 1.0, each.delta, each.adjacency, runs[0], runs[1], used=used)


def _fitted(fit: learning.Fit, randomness: Randomness) -> None:
    fit(randomness)
