"""The error that a curve says is that of simulated answers, within 15 %, over statistics of people and sites."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thebes
from tests.support.coordinator import AGES
from thebes.data.engines.source import frame_table
from thebes.data.schema import schema_of
from thebes.privacy.randomness import seeded_for_simulation
from thebes.requestor.curve import drawn
from thebes.simulation import made_up
from thebes.simulation.rehearsal import FORMULA, REHEARSED
from thebes.simulation.sites import run
from thebes.tasks import registry

SCHEMA = {
    "unit": "person",
    "columns": {
        "age": {"type": "integer", "low": 0, "high": 100},
        "weight": {"type": "float", "low": 40, "high": 120},
        "ward": {"type": "string", "values": ["a", "b", "c"]},
    },
}
SITES = {"north": schema_of(SCHEMA), "south": schema_of(SCHEMA)}
QUERIES: dict[str, dict[str, Any]] = {
    "count": {"statistic": "count"},
    "count of some": {"statistic": "count", "where": "age > 40"},
    "sum": {"statistic": "sum", "column": "weight"},
    "histogram": {"statistic": "histogram", "column": "age", "bins": 10},
    "mean by ward": {"statistic": "mean", "column": "age", "by": ["ward"]},
    "variance": {"statistic": "variance", "column": "weight"},
    "quantile": {"statistic": "quantile", "quantile": 0.5, "column": "weight"},
}
PEOPLE: dict[str, dict[str, Any]] = {
    "count": {"aggregator": "count", "missing": "count"},
    "sum": {"aggregator": "sum"},
    "mean": {"aggregator": "mean"},
    "median": {"aggregator": "median"},
    "histogram": {"aggregator": "histogram", "bins": 6},
}
FORMULAS = ("count", "count of some", "sum", "histogram")
DRAWS = 600
CROWDS = 60  #: a median's error depends on who happens to lie beside it


def reached(errors: list[Any]) -> float:
    return float(np.quantile(np.concatenate([np.ravel(each) for each in errors]), 0.95, method="inverted_cdf"))


def numbers(release: Any) -> np.ndarray:
    value = release.value
    return np.array(list(value.values()) if isinstance(value, dict) else [value], dtype=float)


def agree(said: float, seen: float, step: float = 0.0) -> None:
    """An error that is counted in whole rows may lie a row beside."""
    assert abs(said - seen) <= max(0.15 * seen, step)


@pytest.mark.few(0, slow=3)
@pytest.mark.parametrize("name", QUERIES)
def test_a_curve_over_sites_is_what_answers_do(name: str) -> None:
    """The rows of the test are others than the curve's, drawn within the same schemas."""
    document = {"type": "query", "dataset": "patients", "epsilon": 0.5, **QUERIES[name]}
    found = drawn(registry.check(document), [0.5, 2.0], 4000, schemas=SITES, repeats=600)
    assert {point.basis for point in found} == {FORMULA if name in FORMULAS else REHEARSED}
    crowds = [
        {
            site: frame_table(own, pd.DataFrame(made_up.table_of(own, 2000, seed=1000 + 2 * crowd + place)))
            for place, (site, own) in enumerate(SITES.items())
        }
        for crowd in range(CROWDS)
    ]

    def answer(epsilon: float, seed: int) -> np.ndarray:
        asked: Any = registry.check({**document, "epsilon": epsilon})
        return numbers(run(asked, crowds[seed % CROWDS], seeded_for_simulation(seed)))

    truths = [answer(1e5, crowd) for crowd in range(CROWDS)]
    for point in found:
        seen = [answer(point.epsilon, draw) - truths[draw % CROWDS] for draw in range(DRAWS)]
        agree(point.half_width or 0.0, reached([np.abs(each) for each in seen]), step=1.0 if "count" in name else 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", PEOPLE)
def test_a_curve_over_people_is_what_answers_do(name: str) -> None:
    document = {**AGES, **PEOPLE[name]}
    found = drawn(registry.check(document), [0.5, 2.0], 1000, repeats=600)
    assert {point.basis for point in found} == {FORMULA if name in FORMULAS else REHEARSED}
    crowds = [np.random.default_rng(500 + crowd).uniform(0, 120, 1000) for crowd in range(CROWDS)]

    def answer(epsilon: float, seed: int) -> np.ndarray:
        asked = {**document, "epsilon": epsilon, "min_count": 1000}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return numbers(thebes.simulate(asked, {"age": crowds[seed % CROWDS]}, seed=seed))

    truths = [answer(1e5, crowd) for crowd in range(CROWDS)]
    for point in found:
        seen = [answer(point.epsilon, draw) - truths[draw % CROWDS] for draw in range(DRAWS)]
        agree(point.half_width or 0.0, reached([np.abs(each) for each in seen]), step=1.0 if name == "count" else 0.0)
