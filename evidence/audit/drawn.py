"""Whole tasks, judged by their noise alone: what was drawn, and what it was added to, with one person in the rows or
their neighbour. Nothing is left to samples: noise of half the scale shows wherever a claim is used to the half.

What coins decide (medians, responses by category, PrivUnit, samples of rows), thresholds that serve many questions, and
noise that is drawn before there is anything to add it to (gradients of people) are drawn often in other rooms instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from evidence.audit import growing, learning, made_up, people, query, sites, synthesis
from thebes.curator.cache.synthesis.allowance import Allowance
from thebes.curator.cache.synthesis.recipe import Independent
from thebes.data.growing.writer import Writer
from thebes.data.schema import schema_of
from thebes.data.table import Table
from thebes.privacy.certificate import Certificate
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import Integers, Randomness, Words
from thebes.simulation.streams import simulated_attempts
from thebes.tasks import registry
from thebes.tasks.protocols import Ask, Setting, State
from thebes.testing.audit import Case, Written
from thebes.testing.kinds import Purse

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE_ONE
_NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)

#: Runs with the noise it is given and says what the answer's certificate claims, where there is one.
Told = Callable[[Randomness], Certificate | None]


@dataclass(frozen=True, slots=True)
class Task:
    """Something that can be asked, and its runs over two neighbours."""

    name: str
    epsilon: float
    delta: float
    adjacency: Adjacency
    here: Told
    there: Told
    used: float = 0.5  #: at least this share of the claim can be seen in the noise


def cases() -> list[Case]:
    """All that adds noise."""
    return [Written(f"drawn: {t.name}", t.epsilon, t.delta, t.adjacency, t.here, t.there) for t in tasks()]


def broken() -> list[Case]:
    """The same, each with noise of half the scale."""
    return [
        Written(f"drawn: {t.name}, half of it", t.epsilon, t.delta, t.adjacency, *_halved(t), positive_control=True)
        for t in tasks()
        if t.used >= 0.5
    ]


def tasks() -> list[Task]:
    """Every kind, and what a data set buys."""
    return [*_people(), *_owners(), *_institutions(), *_attempts(), *_data_sets(), *_estimators()]


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


def _halved(task: Task) -> tuple[Told, Told]:
    return partial(_with_half, task.here), partial(_with_half, task.there)


def _with_half(run: Told, source: Randomness) -> Certificate | None:
    return run(Half(source))


# --- people, of whom a server is trusted with the rows ---


def _people() -> Iterator[Task]:
    number, pair, mixed = {"x": people.RANGE}, people.PAIR, {"x": people.RANGE, "y": people.RANGE}
    some = {"type": "basic", "featurizer": "SELECT x FROM p.t"}
    model = {"type": "integrated", "inputs": ["x"], "output": "y", "featurizer": "SELECT x, y FROM p.t"}
    asked: list[tuple[str, dict[str, Any], dict[str, Any], float]] = [
        ("basic, sum", {**some, "aggregator": "sum"}, number, 0.99),
        ("basic, mean", {**some, "aggregator": "mean"}, number, 0.99),
        ("basic, variance", {**some, "aggregator": "variance"}, number, 0.6),
        ("basic, histogram", {**some, "aggregator": "histogram", "featurizer": "SELECT g FROM p.t"},
         {"g": people.SET}, 0.99),
        ("basic, histogram with delta", {**some, "aggregator": "histogram", "featurizer": "SELECT g FROM p.t",
         "epsilon": 0.3, "delta": 1e-2}, {"g": people.SET}, 0.99),
        ("integrated, naive Bayes", {**model, "model": "GaussianNB"}, pair, 0.99),
        ("integrated, naive Bayes with delta", {**model, "model": "GaussianNB", "delta": 1e-2}, pair, 0.6),
        ("integrated, forest", {**model, "model": "RandomForestClassifier"}, pair, 0.99),
        ("integrated, logistic", {**model, "model": "LogisticRegression", "delta": 1e-2}, pair, 0.5),
        ("integrated, linear", {**model, "model": "LinearRegression", "delta": 1e-2}, mixed, 0.5),
    ]  # fmt: skip
    for name, fields, bounds, used in asked:
        document = people.document_of(fields, bounds)
        runs = [partial(_released, document, own) for own in (people.HERE, people.THERE)]
        yield Task(name, document.epsilon, document.delta, REPLACE, runs[0], runs[1], used)


def _released(document: Any, own: dict[str, Any], randomness: Randomness) -> Certificate:
    return people.released(document, own, randomness).certificate


# --- people who trust nobody: the server takes apart what one of them sends ---


def _owners() -> Iterator[Task]:
    number = people.document_of({"type": "bounded", "featurizer": "SELECT x FROM p.t"}, {"x": people.RANGE})
    ask = Ask("any", "phase-0", 0, {})
    bounded = [partial(_sent, number, ask, people.rows_of(number, [own])) for own in (people.HERE, people.THERE)]
    yield Task("bounded, one number", 1.0, 0.0, REPLACE, bounded[0], bounded[1], 0.99)


def _sent(document: Any, ask: Ask, rows: Any, randomness: Randomness) -> None:
    registry.owner(document, simulated=True).contribute(document, ask, rows, Purse(), randomness=randomness)


# --- institutions ---


def _institutions() -> Iterator[Task]:
    for name, (fields, mine) in query.QUESTIONS.items():
        tables = [query.Known(pd.concat([query.OTHERS, *rows], ignore_index=True)) for rows in ([mine], [])]
        for noise in ("site", "coordinator"):
            document = query.document_of(name, fields, noise)
            yield _asked(f"query: {name}, noise at the {noise}", document, tables, 0.99)
    told: list[tuple[str, dict[str, Any], float]] = [
        ("train", sites.TRAIN, 0.6),
        ("train, two local steps", {**sites.TRAIN, "local_steps": 2, "loss_share": 0.2}, 0.6),
        ("algorithm, newton", sites.NEWTON, 0.6),
    ]
    for name, body, used in told:
        for noise in ("site", "coordinator"):
            if noise == "site" or "local_steps" not in body:
                document = registry.check({**body, "noise": noise})
                yield _asked(f"{name}, noise at the {noise}", document, list(sites.NEIGHBOURS), used)


def _asked(name: str, document: Any, tables: list[Any], used: float) -> Task:
    runs = [partial(_convened, document, table) for table in tables]
    return Task(name, document.epsilon, document.delta, ADD, runs[0], runs[1], used)


def _convened(document: Any, table: Table, randomness: Randomness) -> Certificate:
    """All that one site draws, or that is drawn for it, over all rounds."""
    setting = Setting(unit=Unit.PERSON, randomness=randomness, simulated=True, sites={"a": table.schema})
    aggregator: Any = registry.aggregator(document, setting)
    while aggregator.state is State.OPEN:
        ask = aggregator.ask("a")
        owner = registry.site_owner(document, simulated=True)
        aggregator.accept(owner.contribute(document, ask, table, Purse(), randomness=randomness))
        aggregator.advance(_NOON)
    found: Certificate = aggregator.release().certificate
    return found


# --- pipelines ---

_HOURS = 48
RIDES = schema_of(
    {
        "unit": "event",
        "time": "at",
        "columns": {
            "at": {"type": "timestamp"},
            "hour": {"type": "integer", "values": [0, 1, 2]},
            "took": {"type": "float", "low": 0, "high": 1},
        },
    }
)
_COINS = f"CAST(md5_number_lower('' || _n) & {2**63 - 1} AS BIGINT)"
#: what blocks are charged for their sizes beside what the document claims, as a share of it
OF_SIZES = 0.055


def _attempts() -> Iterator[Task]:
    """All attempts together: the row lies in the oldest block, and a target out of reach makes it pay for each."""
    body = {"type": "pipeline", "stream": "s", "sites": ["a"], "epsilon": 1.0, "model": "GroupMeans",
            "inputs": ["hour"], "output": "took", "target": {"absolute_error": 1e-4}}  # fmt: skip
    document = registry.check(body)
    runs = [partial(_attempted, document, mine) for mine in (True, False)]
    yield Task("pipeline, all attempts and sizes", 1.0 + OF_SIZES, 0.0, ADD, runs[0], runs[1], 0.8)


@cache
def _rides(mine: bool) -> pd.DataFrame:
    at = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(_HOURS), unit="h")
    frame = pd.DataFrame({"at": at, "hour": np.arange(_HOURS) % 2, "took": 0.0})
    own = pd.DataFrame({"at": [pd.Timestamp("2026-01-01T00:30")], "hour": [2], "took": [1.0]})
    return pd.concat([frame, own], ignore_index=True) if mine else frame


def _attempted(document: Any, mine: bool, randomness: Randomness) -> Certificate | None:
    setting = Setting(unit=Unit.EVENT, randomness=randomness, simulated=True, sites={"a": RIDES})
    aggregator: Any = registry.aggregator(document, setting)
    with (
        # of whether a row is trained or tested on, both runs get the same for everybody else
        patch.object(Writer, "_random", lambda writer: _COINS),
        simulated_attempts(document, _rides(mine), RIDES, randomness) as attempts,
    ):
        given = registry.stream_owner(document).attempt(document, aggregator.ask("a"), attempts)
    aggregator.accept(given)
    aggregator.advance(_NOON)
    found: Certificate = aggregator.release().certificate
    return found


# --- what data sets buy, and estimators by themselves ---


def _data_sets() -> Iterator[Task]:
    tables = synthesis.tables()
    for delta in (0.0, 1e-3):
        recipe = Independent(synthesis.DOMAIN, Allowance(1, delta))
        runs = [partial(_histograms, recipe, table) for table in tables]
        title = f"synthetic rows, {'Gaussian' if delta else 'Laplace'} noise"
        yield Task(title, 1.0, delta, ADD, runs[0], runs[1], 0.8)
    bought = [partial(_bought, table) for table in made_up.tables()]
    yield Task("marginals of made-up rows", float(made_up.EPSILON), 0.0, ADD, bought[0], bought[1], 0.99)
    sizes = [partial(_counted, *told) for told in ((5, 9), (6, 9 + growing.ROWS))]
    yield Task("users and their rows", 1.0, 0.0, ADD, sizes[0], sizes[1], 0.99)


def _histograms(recipe: Independent, table: Any, randomness: Randomness) -> None:
    synthesis.told(recipe, table, randomness)


def _bought(table: query.Known, randomness: Randomness) -> None:
    made_up.groundwork("independent").buy(made_up.Rows(table), lambda purchase: None, randomness)


def _counted(users: int, rows: int, randomness: Randomness) -> None:
    growing.counts().noisy(users, rows, randomness, epsilon=Decimal(1))


#: the least that an estimator's noise shows of its claim, where it is not the whole of it
_LESS = {"odds by categories": 0.5, "bounds estimated": 0.02}


def _estimators() -> Iterator[Task]:
    for each in learning.fitted():
        # A network samples its rows with coins; for how many classes noise is drawn depends on which labels there are,
        # which delta pays for. What these let through is judged by samples alone.
        if not each.name.startswith("network") and each.name != "classes bought":
            runs = [partial(_fitted, fit) for fit in (each.here, each.there)]
            yield Task(each.name, 1.0, each.delta, each.adjacency, runs[0], runs[1], _LESS.get(each.name, 0.6))


def _fitted(fit: learning.Fit, randomness: Randomness) -> None:
    fit(randomness)
