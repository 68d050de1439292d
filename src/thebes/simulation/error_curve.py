"""The expected error of a task over epsilon and the number of people, beside an answer that is not private and beside a
guess.

For who decides how many to ask and at which price: where the curve of error has come down to that of the answer without
noise, a larger epsilon buys nothing more; where it lies above the guess, nothing is learned. Every point is simulated.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from thebes.privacy.faults import Mistake
from thebes.simulation.sweeps import at_epsilon, crowd_of, numbers_of
from thebes.simulation.tables import Population, people_of
from thebes.simulation.world import simulate
from thebes.tasks import registry
from thebes.tasks.beside_guess import RIGHT
from thebes.tasks.document import PeopleDocument
from thebes.tasks.rehearsal import HARMLESS
from thebes.tasks.release import Release

_POPULATION = 20_000  #: people made up where no rows are given
OFF, WRONG, SQUARED = "distance from the truth", "share told wrong", "mean squared error"


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """One point of the curve. Of a statistic `error` is the distance from the truth about the population that a share
    of the answers keeps, of a model the mean of what it gets wrong of people that it did not learn from. `not_private`
    is the same without noise, from the same people; `guessing` that of whoever asks nobody, None where no guess is
    known, or where people are made up as it would have them."""

    epsilon: float
    people: int
    error: float
    not_private: float
    guessing: float | None
    measure: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def error_curve(
    document: Mapping[str, Any],
    rows: Any = None,
    *,
    epsilons: Sequence[float],
    people: Sequence[int],
    repeats: int = 20,
    share: float = 0.95,
    seed: int = 0,
) -> list[ExpectedError]:
    """Simulate a task at each epsilon with each number of people, drawn from `rows` with repetition (or, without rows,
    spread evenly over the bounds): numbers of people one after another, each at every epsilon. Of a model half of the
    rows are kept aside for judging it."""
    if not epsilons or not people:
        raise Mistake("epsilons" if people else "people", "must be at least one")
    checked = registry.check(at_epsilon(document, epsilons[0]))
    if not isinstance(checked, PeopleDocument):
        raise Mistake("type", "is a kind that institutions answer; simulate it over tables of your own")
    if not 0 < share < 1 or repeats < 1:
        raise Mistake("share" if repeats >= 1 else "repeats", "must lie between 0 and 1, with at least one repeat")
    population = people_of(rows) if rows is not None else crowd_of(checked, None, _POPULATION, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        first = simulate(at_epsilon(document, HARMLESS), population, seed=seed, proofs=False)
        truth = numbers_of(first)
        if truth is None and "beside_guess" not in first.extra:
            raise Mistake("type", "answers with no numbers and no model that can be judged over rows")
        curve = (
            _Statistic(checked, population, truth, share) if truth is not None else _Model(checked, population, seed)
        )
        points = []
        for size in people:
            crowds = [crowd_of(checked, curve.drawn_from, size, seed + repeat) for repeat in range(repeats)]
            exact = curve.errors(at_epsilon(document, HARMLESS), crowds, seed)
            for epsilon in epsilons:
                noisy = curve.errors(at_epsilon(document, epsilon), crowds, seed)
                # people who are made up are spread as a guess would have them: beside these it says nothing
                guess = None if rows is None else curve.guess(size)
                points.append(ExpectedError(epsilon, size, curve.of(noisy), curve.of(exact), guess, curve.measure))
    return points


class _Statistic:
    """The errors of numbers: how far the one is off that is farthest."""

    measure = OFF

    def __init__(
        self, document: PeopleDocument, population: Population, truth: Mapping[str, float], share: float
    ) -> None:
        self.document, self.drawn_from, self._truth, self._share = document, population, truth, share
        self._rehearsal = registry.rehearsal(document.type)

    def _true(self, people: int) -> dict[str, float]:
        grown = people / self.drawn_from.people if self._rehearsal.grows(self.document) else 1.0
        return {name: grown * number for name, number in self._truth.items()}

    def errors(self, document: Mapping[str, Any], crowds: Sequence[Population], seed: int) -> list[float]:
        return [
            self._off(simulate(document, crowd, seed=seed + place, proofs=False), crowd.people)
            for place, crowd in enumerate(crowds)
        ]

    def _off(self, release: Release, people: int) -> float:
        found, true = numbers_of(release), self._true(people)
        if not found or found.keys() != true.keys():
            return float("inf")
        return max(abs(found[name] - true[name]) for name in true)

    def of(self, errors: Sequence[float]) -> float:
        return float(np.quantile(errors, self._share, method="inverted_cdf"))

    def guess(self, people: int) -> float | None:
        guessed = self._rehearsal.guess(self.document, people)
        return None if guessed is None else max(abs(guessed - number) for number in self._true(people).values())


class _Model:
    """The errors of a model over half of the population, which nobody is drawn from."""

    def __init__(self, document: PeopleDocument, population: Population, seed: int) -> None:
        flat = population.flat
        if flat is None or len(flat.person) != population.people or population.people < 2:
            raise Mistake("rows", "must be one flat table with one row for each of at least two people")
        order = np.random.Generator(np.random.PCG64(seed)).permutation(population.people)  # rows, not noise
        half = population.people // 2
        self.drawn_from, self._aside = (
            people_of({name: column[some] for name, column in flat.columns.items()})
            for some in (order[:half], order[half:])
        )
        self.measure, self._guessed = WRONG, list[float]()

    def errors(self, document: Mapping[str, Any], crowds: Sequence[Population], seed: int) -> list[float]:
        return [
            self._off(simulate(document, crowd, seed=seed + place, aside=self._aside, proofs=False))
            for place, crowd in enumerate(crowds)
        ]

    def _off(self, release: Release) -> float:
        told = release.extra.get("beside_guess")
        if told is None:
            return float("inf")
        right = told["measure"] == RIGHT
        self.measure = WRONG if right else SQUARED
        self._guessed = [1 - told["guessing"] if right else told["guessing"]]
        return float(1 - told["reached"] if right else told["reached"])

    def of(self, errors: Sequence[float]) -> float:
        return float(np.mean(errors))

    def guess(self, people: int) -> float | None:
        return self._guessed[0] if self._guessed else None
