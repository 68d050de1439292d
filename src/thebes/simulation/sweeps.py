"""Many simulations side by side: how an answer depends on epsilon, on the number of people, on the mechanism.

For researchers who decide before they ask. Every run is a simulation; nothing here spends anybody's budget.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from thebes.privacy.faults import Mistake
from thebes.simulation.featurizer import featurize
from thebes.simulation.tables import Population, people_of
from thebes.simulation.world import simulate
from thebes.tasks import registry
from thebes.tasks.document import Document, PeopleDocument, Range, Values
from thebes.tasks.fit import fits
from thebes.tasks.rehearsal import HARMLESS
from thebes.tasks.release import Release

Score = Callable[[Release], float]


@dataclass(frozen=True)
class SimulatedRun:
    """One simulated release: what was varied, which repeat it was, and what `score` said of it."""

    varied: Mapping[str, Any]
    repeat: int
    score: float


def sweep(
    document: Mapping[str, Any],
    rows: Any,
    *,
    vary: Mapping[str, Sequence[Any]],
    repeats: int = 10,
    score: Score | None = None,
    seed: int = 0,
) -> Any:
    """A DataFrame with one line for every combination of `vary` (document fields to lists of values): mean and
    standard deviation of `score` (by default the released number; NaN where none was) over `repeats` simulations."""
    import pandas as pd

    measure = score or _number
    people = people_of(rows)
    lines, told = [], set[str]()
    for varied in _combinations(vary):
        _tell_misfits(registry.check({**document, **varied}), people, told)
        runs = [r.score for r in _runs({**document, **varied}, people, varied, repeats, measure, seed)]
        lines.append(
            {**varied, "repeats": repeats, "mean": np.mean(runs), "sd": np.std(runs, ddof=1 if repeats > 1 else 0)}
        )
    return pd.DataFrame(lines)


def _combinations(vary: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    if not vary or not all(len(values) for values in vary.values()):
        raise Mistake("vary", "must name at least one field of the document, each with at least one value")
    for values in product(*vary.values()):
        yield dict(zip(vary, values, strict=True))


def _tell_misfits(document: Document, people: Population, told: set[str]) -> None:
    """Warn once of values that do not fit; of a hundred simulations each would say it again."""
    if not isinstance(document, PeopleDocument):
        return
    for fit in fits(document, featurize(document.featurizer, people)):
        if fit.told is not None and fit.told not in told:
            told.add(fit.told)
            warnings.warn(fit.told, stacklevel=3)


def _runs(
    document: Mapping[str, Any], people: Population, varied: Mapping[str, Any], repeats: int, score: Score, seed: int
) -> Iterator[SimulatedRun]:
    for repeat in range(repeats):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            yield SimulatedRun(varied, repeat, score(simulate(document, people, seed=seed + repeat, proofs=False)))


def _number(release: Release) -> float:
    if release.value is None:
        return float("nan")
    if not isinstance(release.value, (int, float)):
        raise Mistake("score", "is needed: this task does not release a single number")
    return float(release.value)


@dataclass(frozen=True)
class EpsilonPlan:
    """The least epsilon, to within a tenth, for which `share` of the answers come within the wanted distance: of an
    answer of several numbers each of them."""

    epsilon: float
    within: float
    people: int
    share: float
    reached: float  #: the distance that `share` of the simulated answers kept


def plan(
    document: Mapping[str, Any],
    *,
    within: float,
    people: int,
    rows: Any = None,
    share: float = 0.95,
    repeats: int = 60,
    seed: int = 0,
) -> EpsilonPlan:
    """Find the epsilon that gives plus or minus `within`, for `people` people, `share` of the time.

    Simulated on `rows` (drawn anew with repetition), or, without them, on people spread evenly over the document's
    bounds. The distance is that between the answer and the truth about these same people: the noise's part. Of several
    numbers, such as a histogram's, it is that of the one that is farthest off.
    """
    if not within > 0:
        raise Mistake("within", "must be greater than 0")
    if not within < float("inf"):
        raise Mistake("within", "must be finite")
    if not 0 < share < 1:
        raise Mistake("share", "must lie between 0 and 1")
    if isinstance(people, bool) or people < 1:
        raise Mistake("people", "must be a whole number of at least 1")
    checked = registry.check({**document, "epsilon": document.get("epsilon", 1.0)})
    if not isinstance(checked, PeopleDocument):
        raise Mistake("type", "is a kind that institutions answer; ask them what it costs there: thebes task quote")
    crowd = crowd_of(checked, rows, people, seed)
    _tell_misfits(checked, crowd, set())

    def reached(epsilon: float) -> float:
        asked = at_epsilon(document, epsilon)
        exact = _truth(asked, crowd)
        runs = _runs(asked, crowd, {}, repeats, lambda release: _distance(exact, release), seed + 1)
        off = [run.score for run in runs]
        return float(np.sort(off)[min(len(off) - 1, int(np.ceil(share * len(off))) - 1)])

    low, high = 1e-3, 1e-3
    while (found := reached(high)) > within:
        low, high = high, high * 4
        if high > 1e4:
            raise Mistake("within", "is closer than any epsilon brings this answer: ask more people, or for less")
    while high / low > 1.1 and high > 1e-3:
        middle = (low * high) ** 0.5
        seen = reached(middle)
        low, high, found = (low, middle, seen) if seen <= within else (middle, high, found)
    return EpsilonPlan(high, within, people, share, found)


def at_epsilon(document: Mapping[str, Any], epsilon: float) -> dict[str, Any]:
    """The same document at another epsilon, which whatever epsilon was to follow from does not set."""
    return {**{name: value for name, value in document.items() if name != "mixed"}, "epsilon": epsilon}


def _truth(document: Mapping[str, Any], crowd: Population) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = numbers_of(simulate(at_epsilon(document, HARMLESS), crowd, seed=0, proofs=False))
    if found is None:
        raise Mistake(
            "type", "answers with no numbers; try epsilons with thebes simulate, or in Python with sweep and a score"
        )
    return found


def numbers_of(release: Release) -> dict[str, float] | None:
    """Return every number of an answer by its name; none of what has no answer, None of what is none."""
    value = {} if release.value is None else release.value
    named = value if isinstance(value, Mapping) else {"": value}
    told = {str(name): float(each) for name, each in named.items() if isinstance(each, (int, float, np.number))}
    return told if len(told) == len(named) else None


def _distance(exact: Mapping[str, float], release: Release) -> float:
    """Return how far the number is off that is farthest. No answer, or one about other groups, is as far as can be."""
    found = numbers_of(release)
    if not found or found.keys() != exact.keys():
        return np.inf
    return max(abs(found[name] - exact[name]) for name in exact)


def crowd_of(document: PeopleDocument, rows: Any, people: int, seed: int) -> Population:
    """Draw so many people from rows, with repetition, or without rows within the document's bounds."""
    draw = np.random.Generator(np.random.PCG64(seed))  # made-up people, not noise
    if rows is not None:
        given = people_of(rows)
        if given.flat is None or len(given.flat.person) != given.people:
            raise Mistake("rows", "must be one flat table with one row for each person")
        chosen = draw.integers(0, given.people, people)
        return people_of({name: column[chosen] for name, column in given.flat.columns.items()})
    columns: dict[str, Any] = {}
    for column in {name for names in document.reads.values() for name in names}:
        bound = (document.bounds or {}).get(column)
        if isinstance(bound, Range):
            columns[column] = draw.uniform(bound.low, bound.high, people)
        elif isinstance(bound, Values):
            columns[column] = draw.choice(np.array(bound.values, dtype=object), people)
        else:
            told = f"are needed: the document does not say which values {column!r} can have"
            raise Mistake("rows", f"{told}; give a table of people like them, or declare its bounds")
    if not columns:
        raise Mistake("rows", "are needed: the featurizer names no column")
    return people_of(columns)
