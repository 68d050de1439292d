"""The noise in an answer over sites: its scale for every statistic, wherever it is added, and its error bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from thebes.curator.questions.joint import JointPlan
from thebes.curator.questions.plans import Plan
from thebes.data.engines.source import frame_table
from thebes.data.schema import Schema, schema_of
from thebes.data.table import Batch, Sums, Table
from thebes.privacy.accounting import gaussian
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import Randomness, seeded_for_simulation, system
from thebes.simulation.sites import run
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.protocols import Ask, Setting
from thebes.tasks.query.totals import TOTALS, whole
from thebes.testing.statistics import LEVEL, assert_size

RNG = np.random.default_rng(3)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
ROWS = 900
AGE = np.clip(RNG.normal(45, 15, ROWS), 1, 99)
FRAME = pd.DataFrame(
    {
        "who": [f"p{place // 3}" for place in range(ROWS)],
        "age": AGE,
        "weight": 40 + 0.5 * AGE + RNG.normal(0, 6, ROWS),
        "sex": RNG.choice(["f", "m"], ROWS),
    }
)

SEVERAL: dict[str, dict[str, Any]] = {
    "all": {"statistic": "count"},
    "known": {"statistic": "count", "column": "age"},
    "added": {"statistic": "sum", "column": "age"},
    "middle": {"statistic": "mean", "column": "age"},
    "half": {"statistic": "quantile", "column": "weight", "quantile": 0.5, "bins": 16},
}
#: fields, the totals' own tokens for one row, how many counts of other levels a row is in
QUESTIONS: dict[str, tuple[dict[str, Any], int]] = {
    "count": ({}, 1),
    "grouped count": ({"statistic": "count", "by": "sex"}, 1),
    "sum": ({"column": "age"}, 2**22),
    "grouped sum": ({"statistic": "sum", "column": "age", "by": "sex"}, 2**22),
    "mean": ({"column": "age"}, 2**20),
    "grouped mean": ({"statistic": "mean", "column": "age", "by": "sex"}, 2**20),
    "mean of a new column": (
        {"statistic": "mean", "column": "old", "features": {"old": {"divide": [{"square": "age"}, 100]}}},
        2**20,
    ),
    "variance": ({"column": "age"}, 2**20),
    "grouped variance": ({"statistic": "variance", "column": "age", "by": "sex"}, 2**20),
    "histogram": ({"column": "age", "bins": 5}, 1),
    "quantile": ({"column": "age", "quantile": 0.5, "bins": 16}, 1),
    "quantile in levels": ({"statistic": "quantile", "column": "age", "quantile": 0.5, "bins": 1024}, 2),
    "correlation": ({"columns": ["age", "weight"]}, 2**30),  # fewer steps, for so little epsilon
    "several statistics": ({"statistic": None, "statistics": SEVERAL}, 3 * 2**20),  # of three parts, each as long
    "grouped statistics": ({"statistic": None, "statistics": SEVERAL, "by": "sex"}, 3 * 2**20),
}


def schema(rows: int) -> Schema:
    return schema_of(
        {
            "unit": "person",
            "max_rows_per_unit": rows,
            "columns": {
                "who": {"type": "string", "key": True},
                "age": {"type": "float", "low": 0, "high": 100},
                "weight": {"type": "float", "low": 20, "high": 120},
                "sex": {"type": "string", "values": ["f", "m"]},
            },
        }
    )


class Remembered:
    """A table that adds up each question once: what is drawn here is noise, not rows."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.schema = table.schema
        self.known: dict[Sums, np.ndarray] = {}
        self.rows: dict[tuple[Any, ...], list[Batch]] = {}

    def sums(self, wanted: Sums) -> np.ndarray:
        if wanted not in self.known:
            self.known[wanted] = self.table.sums(wanted)
        return self.known[wanted]

    def batches(self, columns: Sequence[str], where: Any = None, *, rows: int = 65_536) -> Any:
        asked = (*columns, where, rows)
        if asked not in self.rows:
            self.rows[asked] = list(self.table.batches(columns, where, rows=rows))
        return iter(self.rows[asked])


def tables(rows: int, sites: int = 1) -> dict[str, Table]:
    size = ROWS // sites
    parts = [FRAME.iloc[i * size : (i + 1) * size].reset_index(drop=True) for i in range(sites)]
    return {f"s{i}": Remembered(frame_table(schema(rows), part)) for i, part in enumerate(parts)}


def document(question: str, noise: str, epsilon: float, **more: Any) -> Any:
    fields, _ = QUESTIONS[question]
    body = {"statistic": question, "dataset": "d", "noise": noise, "epsilon": epsilon, **fields, **more}
    return registry.check({"type": "query", **body})


def overheard(finish: Any, seen: list[np.ndarray]) -> Any:
    """Return what finishes a plan and keeps the totals that it is given."""
    return lambda plan, totals, *rest, **more: seen.append(totals) or finish(plan, totals, *rest, **more)


def noise_in(asked: Any, holding: dict[str, Table], source: Randomness, count: int, monkeypatch: Any) -> np.ndarray:
    """Draw what is added to totals of one site, or to their sum at the coordinator, cell by cell, `count` times."""
    seen: list[np.ndarray] = []
    for each in (Plan, JointPlan):
        monkeypatch.setattr(each, "finish", overheard(each.finish, seen))
    setting = Setting(
        unit=Unit.PERSON, randomness=source, simulated=True, sites={site: t.schema for site, t in holding.items()}
    )
    owner, found = registry.site_owner(asked), []
    for _ in range(count):
        aggregator: Any = registry.aggregator(asked, setting)
        exact = []
        for site, table in holding.items():
            ask, claim = aggregator.ask(site), RecordedClaim()
            assert isinstance(ask, Ask)
            given = owner.contribute(asked, ask, table, claim, randomness=source)
            exact.append(asked.plan(table.schema).totals(table))
            if asked.noise == "site":
                found.append(given.fields[TOTALS][0] - exact[-1])
            else:
                assert (whole(given.fields) == exact[-1]).all()
                aggregator.accept(given)
        if asked.noise == "coordinator":
            monkeypatch.setattr("thebes.tasks.query.aggregator.LEVELS", ())
            aggregator.advance(NOON)
            found.append(seen[-1] - sum(exact))
    return np.concatenate(found)


@pytest.mark.few(0, slow=15)
@pytest.mark.parametrize("noise", ["site", "coordinator"])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("question", QUESTIONS)
def test_laplace_noise_hides_all_rows_of_one_person(question, rows, noise, monkeypatch) -> None:
    asked, (_, tokens) = document(question, noise, 0.02), QUESTIONS[question]
    holding = tables(rows)
    cells = asked.plan(schema(rows)).size
    if question == "quantile in levels":  # of the levels that have the least error here
        tokens = len(asked.plan(schema(rows)).counts.levels)
        assert tokens > 1
    source = seeded_for_simulation(rows)
    drawn = noise_in(asked, holding, source, math.ceil(1800 / cells), monkeypatch)
    assert_size(drawn, "laplace", tokens * rows / 0.02)


@pytest.mark.few(0, slow=8)
@pytest.mark.parametrize("noise", ["site", "coordinator"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_gaussian_noise_hides_all_rows_of_one_person(question, noise, monkeypatch) -> None:
    epsilon, delta, rows = 0.05, 0.3, 1  # a delta so large that Gaussian noise is the smaller one
    asked, (_, tokens) = document(question, noise, epsilon, delta=delta), QUESTIONS[question]
    plan = asked.plan(schema(rows))
    length = math.sqrt(len(plan.counts.levels)) if "quantile" in question else tokens
    if "statistics" in question:  # squared lengths add up
        length = tokens / math.sqrt(3)
    source = seeded_for_simulation(7)
    drawn = noise_in(asked, tables(rows), source, math.ceil(1800 / plan.size), monkeypatch)
    assert_size(drawn, "gaussian", gaussian.ratio_for(epsilon, delta * 0.999) * length * rows)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["site", "coordinator"])
def test_noise_from_the_operating_system_has_the_same_scale(noise, monkeypatch) -> None:
    drawn = noise_in(document("histogram", noise, 0.02), tables(2), system(), 400, monkeypatch)
    assert_size(drawn, "laplace", 2 / 0.02)


@pytest.mark.slow
def test_one_coordinator_adds_one_noise_however_many_sites_answer(monkeypatch) -> None:
    asked = document("histogram", "coordinator", 0.02)
    drawn = noise_in(asked, tables(1, sites=5), seeded_for_simulation(1), 400, monkeypatch)
    assert_size(drawn, "laplace", 1 / 0.02)


@pytest.mark.slow
def test_the_coordinators_noise_hides_whoever_may_have_the_most_rows(monkeypatch) -> None:
    some, more = tables(1), tables(3)
    asked, holding = document("histogram", "coordinator", 0.02), {"a": some["s0"], "b": more["s0"]}
    drawn = noise_in(asked, holding, seeded_for_simulation(1), 400, monkeypatch)
    assert_size(drawn, "laplace", 3 / 0.02)


def told(which: Any) -> list[float]:
    """Answer `SEVERAL` exactly, of some rows, in the order of their names, as answers are."""
    own, weight = AGE[which], FRAME["weight"][which]
    half = float(np.quantile(weight, 0.5, method="inverted_cdf"))
    found = {"all": own.size, "known": own.size, "added": own.sum(), "middle": own.mean(), "half": half}
    return [found[name] for name in sorted(SEVERAL)]


#: what the exact answer is, over the rows that count
TRUTHS: dict[str, Any] = {
    "count": ROWS,
    "sum": AGE.sum(),
    "mean": AGE.mean(),
    "variance": AGE.var(),
    "quantile": np.quantile(AGE, 0.5),
    "quantile in levels": np.quantile(AGE, 0.5),
    "correlation": np.corrcoef(AGE, FRAME["weight"])[0, 1],
    "grouped mean": [AGE[FRAME["sex"] == sex].mean() for sex in ("f", "m")],
    "grouped sum": [AGE[FRAME["sex"] == sex].sum() for sex in ("f", "m")],
    "histogram": np.histogram(AGE, 5, (0, 100))[0],
    "several statistics": told(np.ones(ROWS, dtype=bool)),
    "grouped statistics": [*told(FRAME["sex"] == "f"), *told(FRAME["sex"] == "m")],
}


@pytest.mark.few(0, slow=10)
@pytest.mark.parametrize(
    ("noise", "sites", "more"),
    [("site", 1, {}), ("site", 4, {"delta": 0.05}), ("coordinator", 4, {}), ("coordinator", 4, {"delta": 0.05})],
)
@pytest.mark.parametrize("question", TRUTHS)
def test_error_bars_hold_the_truth_as_often_as_they_say(question, noise, sites, more) -> None:
    asked, holding = document(question, noise, 1.0, **more), tables(3, sites)
    truth, source, tries = np.asarray(TRUTHS[question]), seeded_for_simulation(2), 60 if "variance" in question else 150
    inside = {0.5: 0, 0.95: 0}
    near = 0
    for _ in range(tries):
        release = run(asked, holding, source)
        for level in inside:
            bar = release.interval(level)
            inside[level] += int(np.sum((np.asarray(bar.low) <= truth) & (truth <= np.asarray(bar.high))))
        bar = release.interval(0.95)
        value = np.array(list(release.value.values())) if isinstance(release.value, dict) else release.value
        near += int(np.sum(np.abs(value - truth) <= (np.asarray(bar.high) - np.asarray(bar.low)) / 4))
    for level, hits in inside.items():
        assert binomtest(hits, tries * truth.size, level, alternative="less").pvalue > LEVEL
    if question in ("count", "sum", "mean", "histogram", "grouped mean", "grouped sum"):
        assert binomtest(near, tries * truth.size, 0.97, alternative="less").pvalue < 1e-3, "needlessly wide"
