"""A task rehearsed over made-up rows: how far noise would move its answer, at its own epsilon or at several.

People are drawn within the bounds that a document declares, rows of sites within their schemas. The distance is that of
an answer from the truth about these same rows: the noise's part, and nothing of whom one happens to ask.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thebes.data.engines.source import frame_table
from thebes.data.schema import Schema
from thebes.data.table import Table
from thebes.privacy import randomness as chance
from thebes.privacy.faults import Mistake
from thebes.simulation import made_up, sites
from thebes.simulation.featurizer import featurize
from thebes.simulation.guess import beside, of_sites
from thebes.simulation.streams import simulate_stream
from thebes.simulation.tables import people_of
from thebes.simulation.world import simulate
from thebes.tasks import registry
from thebes.tasks.document import Bound, Document, PeopleDocument, Values
from thebes.tasks.rehearsal import ERROR, REPEATS, RIGHT, WRONG, Quantities, Rehearsal, learned_by
from thebes.tasks.release import Release
from thebes.tasks.site_document import SiteDocument

JUDGED = 2_000  #: other made-up rows, over which a model is judged
SHARE = 0.95
ROWS = 1_000  #: of all sites together, where nobody says about how many they have
CROWDS = 40  #: that take turns
MOST_SITES = 5  #: that are made up
MOST_ROWS = 100_000
FORMULA, REHEARSED = "formula", "rehearsal"
_MOST_QUANTITIES = 12
_STREAMS = 4  #: that are made up: each attempt of a pipeline takes a while
#: what an epsilon of one's own does away with
_INSTEAD = ("accuracy", "max_epsilon", "epsilon_per_weight", "start_epsilon")


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The distance from the exact answer that 95 of 100 answers keep at one epsilon; of a model, what 95 of 100 keep
    below of what it gets wrong. None where too few answered. `basis` says whether that follows from the noise
    (`formula`) or was simulated (`rehearsal`); `of` names the number where an answer has several."""

    epsilon: float
    half_width: float | None
    basis: str
    of: str = "the answer"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def rehearsed(
    document: Document,
    kind: Rehearsal[Any],
    *,
    repeats: int = REPEATS,
    seconds: float,
    schemas: Mapping[str, Schema] | None = None,
    rows_about: int | None = None,
) -> dict[str, Any]:
    """Say how far the answer would be off: {"people", "repeats", "unanswered", "lent", "finds", "quantities"}, as the
    pages show it. Begins no further repeat after `seconds`, once there are three."""
    with _trials(document, kind, schemas, rows_about) as trials:
        first, truths = trials[0], [_truth(trial) for trial in trials]
        answers = _answers(trials, {}, repeats, time.monotonic() + seconds)
    quantities = [_quantity(first, what, truths, answers) for what in truths[0]]
    told = {"people": first.people, "repeats": len(answers), "unanswered": sum(each is None for each in answers)}
    lent, finds = list(first.lent), list(kind.finds(document))
    return {**told, "lent": lent, "finds": finds, "quantities": quantities}


def curve(
    document: Document,
    kind: Rehearsal[Any],
    epsilons: Sequence[float],
    *,
    repeats: int = REPEATS,
    seconds: float = float("inf"),
    schemas: Mapping[str, Schema] | None = None,
    rows_about: int | None = None,
) -> list[CurvePoint]:
    """Find how far off an answer is at each epsilon, one after another. Of an answer of several numbers of one kind it
    is what 95 of 100 of all these numbers keep."""
    if not epsilons:
        raise Mistake("epsilons", "must be at least one")
    found = []
    with _trials(document, kind, schemas, rows_about) as trials:
        plain, repeats = kind.of_noise_alone(document), min(repeats, kind.repeats)
        truths = [] if plain else [_truth(trial) for trial in trials]
        for number, epsilon in enumerate(sorted(set(epsilons))):
            asked: dict[str, Any] = {"epsilon": float(epsilon), **dict.fromkeys(_INSTEAD)}
            if plain:
                found.append(CurvePoint(float(epsilon), _bar(trials[0].release(1, **asked)), FORMULA))
                continue
            ends = time.monotonic() + seconds / len(epsilons)
            answers = _answers(trials, asked, repeats, ends, first=1 + number * repeats)
            for what in truths[0]:
                told = _quantity(trials[0], what, truths, answers)
                wrong = told.get("most", told.get("within"))
                if "least" in told:
                    what, wrong = WRONG, None if told["least"] is None else 1 - told["least"]
                found.append(CurvePoint(float(epsilon), wrong, REHEARSED, what))
    return found


class _Trial(Protocol):
    """A task that can be tried over the same made-up rows again and again."""

    document: Document
    kind: Rehearsal[Any]
    people: int
    lent: Sequence[str]
    columns: Mapping[str, NDArray[Any]]
    classes: int | None  #: of what is learned

    def release(self, seed: int, **changed: Any) -> Release: ...


@contextmanager
def _trials(
    document: Document, kind: Rehearsal[Any], schemas: Mapping[str, Schema] | None, rows_about: int | None
) -> Iterator[Sequence[_Trial]]:
    """Make up some crowds, since a median depends on who happens to lie beside it; one where a model is learned."""
    if rows_about is not None and not 1 <= rows_about <= MOST_ROWS:
        raise Mistake("rows_about", f"must be a whole number from 1 to {MOST_ROWS}")
    crowds = range(CROWDS if learned_by(document) is None else 1)
    if isinstance(document, PeopleDocument):
        yield [_People(document, kind, rows_about, crowd) for crowd in crowds]
    elif isinstance(document, SiteDocument) and document.in_attempts and schemas:
        few = crowds[:_STREAMS]
        with ExitStack() as opened:
            yield [_Stream(document, kind, schemas, rows_about or ROWS, crowd, opened) for crowd in few]
    elif isinstance(document, SiteDocument):
        if not schemas:
            raise Mistake("sites", "that have this data set are not there, so nobody knows what its columns are")
        with ExitStack() as opened:
            yield [_Sites(document, kind, schemas, rows_about or ROWS, crowd, opened) for crowd in crowds]
    else:
        raise Mistake("type", "is answered neither by people nor by sites, so it cannot be rehearsed")


class _People:
    def __init__(self, document: PeopleDocument, kind: Rehearsal[Any], rows_about: int | None, crowd: int) -> None:
        # its epsilon stands; that it follows from something else is no matter of other crowds
        fewer = {} if rows_about is None else {"min_count": rows_about, "max_count": None}
        if fewer or getattr(document, "mixed", None) is not None:
            document = _changed(document, {**fewer, "mixed": None})
        self.document: Document = document
        self.kind, self.people = kind, kind.people(document)
        lent = _lent(document, kind)
        self.lent: Sequence[str] = list(lent)
        lent |= dict.fromkeys(kind.finds(document), made_up.found_values())
        bounds: Mapping[str, Bound] = document.bounds or {}
        label, spreads = learned_by(document), made_up.spreads_of(document.gives, bounds, lent)
        self.columns: Mapping[str, NDArray[Any]] = made_up.rows_of(
            spreads, self.people, seed=1 + 2 * crowd, label=label
        )
        self._aside = None
        learned = bounds.get(label or "")
        self.classes = len(learned.values) if isinstance(learned, Values) else None
        if label is not None:
            self._aside = made_up.rows_of(made_up.spreads_of(document.gives, bounds, {}), JUDGED, seed=2, label=label)
        names = ", ".join('"' + column.replace('"', '""') + '"' for column in self.columns)
        self._asked = {**document.as_json(), "featurizer": f"SELECT {names} FROM made.up"}  # noqa: S608
        self._asked.pop("max_count", None)

    def release(self, seed: int, **changed: Any) -> Release:
        given = {name: value for name, value in {**self._asked, **changed}.items() if value is not None}
        return simulate(given, self.columns, seed=seed, aside=self._aside, proofs=False)


class _Sites:
    def __init__(
        self,
        document: SiteDocument,
        kind: Rehearsal[Any],
        schemas: Mapping[str, Schema],
        rows: int,
        crowd: int,
        opened: ExitStack,
    ) -> None:
        import pandas as pd

        named = list(schemas) if document.sites == "all" else [site for site in document.sites if site in schemas]
        chosen, label = (named or list(schemas))[:MOST_SITES], learned_by(document)
        self.document = _changed(document, {"sites": "all", "min_sites": None})
        self.kind, self.people = kind, rows
        self.lent: Sequence[str] = ()
        self.columns: Mapping[str, NDArray[Any]] = {}
        self.classes = _classes(schemas[chosen[0]], label)

        def tables(count: int, first: int) -> dict[str, Table]:
            made: dict[str, Table] = {}
            for place, site in enumerate(chosen):
                rows = made_up.table_of(schemas[site], max(1, count // len(chosen)), seed=first + place, label=label)
                table = frame_table(schemas[site], pd.DataFrame(rows))
                opened.callback(table.close)
                made[site] = table
            return made

        self._tables = tables(rows, 1 + 2 * MOST_SITES * crowd)
        self._aside = tables(JUDGED, 1 + MOST_SITES) if label is not None else {}

    def release(self, seed: int, **changed: Any) -> Release:
        document = _changed(self.document, changed) if changed else self.document
        assert isinstance(document, SiteDocument)  # noqa: S101
        release = sites.run(document, self._tables, chance.seeded_for_simulation(seed))
        return beside(release, of_sites(document, release, self._tables, self._aside)) if self._aside else release


class _Stream:
    """A pipeline over a growing data set that is made up."""

    def __init__(
        self,
        document: SiteDocument,
        kind: Rehearsal[Any],
        schemas: Mapping[str, Schema],
        rows: int,
        crowd: int,
        opened: ExitStack,
    ) -> None:
        import pandas as pd

        site = document.sites[0]
        if site not in schemas:
            raise Mistake("sites", f"has {site!r}, which is not there, so nobody knows what its columns are")
        self.document: Document = document
        self.kind, self.people, self._schema = kind, rows, schemas[site]
        self.lent: Sequence[str] = ()
        self.columns: Mapping[str, NDArray[Any]] = {}
        label = learned_by(document)
        self.classes = _classes(self._schema, label)
        self._rows = made_up.table_of(self._schema, rows, seed=1 + 2 * crowd, label=label)
        self._aside = {}
        if label is not None:
            aside = made_up.table_of(self._schema, JUDGED, seed=2, label=label)
            self._aside = {site: frame_table(self._schema, pd.DataFrame(aside))}
            opened.callback(self._aside[site].close)

    def release(self, seed: int, **changed: Any) -> Release:
        document = _changed(self.document, changed) if changed else self.document
        assert isinstance(document, SiteDocument)  # noqa: S101
        release = simulate_stream(document, self._rows, self._schema, chance.seeded_for_simulation(seed))
        return beside(release, of_sites(document, release, self._aside, self._aside)) if self._aside else release


def _classes(schema: Schema, label: str | None) -> int | None:
    """Count the declared values of what is learned, if it has some."""
    own = schema.columns.get(label or "")
    return len(own.values) if own is not None and own.values is not None else None


def _changed(document: Any, fields: Mapping[str, Any]) -> Any:
    given = {name: value for name, value in {**document.as_json(), **fields}.items() if value is not None}
    return registry.check(given)


def _truth(trial: _Trial) -> Quantities:
    def run(seed: int = 0, **changed: Any) -> Quantities | None:
        return _numbers(trial, seed, changed)

    found = trial.kind.truth(trial.document, trial.columns, run)
    if found is None:
        raise Mistake("document", f"gave no answer even without noise; {trial.kind.unanswered(trial.document)}")
    return dict(list(found.items())[:_MOST_QUANTITIES])


def _answers(
    trials: Sequence[_Trial], changed: Mapping[str, Any], repeats: int, ends: float, first: int = 1
) -> list[Quantities | None]:
    """Try them in turn; None where no answer came out."""
    answers: list[Quantities | None] = []
    while len(answers) < repeats and (len(answers) < 3 or time.monotonic() < ends):
        answers.append(_numbers(trials[len(answers) % len(trials)], first + len(answers), changed))
    return answers


def _numbers(trial: _Trial, seed: int, changed: Mapping[str, Any]) -> Quantities | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = trial.release(seed, **changed)
    found = trial.kind.quantities(release)
    return None if found is None else {**_beside(release), **found}


def _beside(release: Release) -> Quantities:
    """Return how right a model is, beside a guess, and whether it is better; nothing of what is no model."""
    guess = release.extra.get("beside_guess")
    if guess is None:
        return {}
    return {RIGHT if guess["measure"] == "right" else ERROR: [guess["reached"], guess["guessing"], guess["better"]]}


def _quantity(
    trial: _Trial, what: str, truths: Sequence[Quantities], answers: Sequence[Quantities | None]
) -> dict[str, Any]:
    heard = [(place % len(truths), answer[what]) for place, answer in enumerate(answers) if answer and what in answer]
    if what in (RIGHT, ERROR):
        exact = truths[0][what]
        if what == RIGHT and trial.classes is not None:  # of as many of each, but for an odd one
            exact = [exact[0], 1 / trial.classes]
        return _beside_guess(what, exact, [each for _, each in heard], len(answers))
    off = [np.abs(np.asarray(each) - np.asarray(truths[place][what])).ravel() for place, each in heard]
    off = [each[~np.isnan(each)] for each in off]  # a group that was not said has no mean to be off
    return {"what": what, "within": _reached(off, len(answers))}


def _beside_guess(
    what: str, exact: Sequence[float], answers: Sequence[Sequence[float]], repeats: int
) -> dict[str, Any]:
    """Find what `SHARE` of the models keep to, beside the same without noise and a guess: `exact` has these two, and
    each answer these and whether it is better."""
    worst = _reached([np.array([1.0 - each[0] if what == RIGHT else each[0]]) for each in answers], repeats)
    better = sum(each[2] for each in answers)
    told: dict[str, Any] = {"what": what, "exact": exact[0], "guessed": exact[1], "poor": better < SHARE * repeats}
    if what == RIGHT:
        return {**told, "least": None if worst is None else 1.0 - worst}
    return {**told, "most": worst}


def _reached(off: Sequence[NDArray[Any]], repeats: int) -> float | None:
    """The distance that `SHARE` of all answers kept; no answer is as far away as can be."""
    if not off:
        return None
    numbers = max(each.size for each in off)
    every = np.sort(np.concatenate([*off, np.full((repeats - len(off)) * numbers, np.inf)]))
    if not every.size:
        return None
    found = float(every[min(len(every) - 1, int(np.ceil(SHARE * len(every))) - 1)])
    return found if np.isfinite(found) else None


def _bar(release: Release) -> float | None:
    """Return how far the error bar of an answer reaches, where that is the noise's own."""
    bar = release.interval(SHARE)
    if bar is None:
        return None
    value = list(release.value.values()) if isinstance(release.value, Mapping) else [release.value]
    numbers = np.asarray(value, dtype=np.float64)
    return float(max(np.max(np.asarray(bar.high) - numbers), np.max(numbers - np.asarray(bar.low))))


def _lent(document: PeopleDocument, kind: Rehearsal[Any]) -> dict[str, NDArray[Any]]:
    """Return the values of the kind's sample people for every column without bounds, by its place."""
    if kind.example is None:
        return {}
    found = featurize(kind.example.document["featurizer"], people_of(kind.example.people)).first().columns.values()
    given = zip(document.gives, found, strict=False)
    return {column: values for column, values in given if column not in (document.bounds or {})}
