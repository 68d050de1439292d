"""The evidence on caches: what a workload is, what each way of answering it saves, and how often an answer is off."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

from papers.registry import experiment, experiments
from papers.smartcache import tables
from papers.smartcache.asking import EXACT, GAUSSIAN, NONE, PMW, SYNTHETIC, Strategy, Trail, ask, width_of
from papers.smartcache.questions import ORDERS, workload
from papers.smartcache.tables import Asked, made_up


@cache
def small(name: str) -> Asked:
    return made_up(name, 3000)


@cache
def trail(name: str, order: str, strategy: Strategy) -> Trail:
    asked = small(name)
    return ask(asked, workload(asked, order, queries=500, seed=0), strategy, 0)


def saved(name: str, order: str, strategy: Strategy) -> float:
    return 1 - trail(name, order, strategy).paid[-1] / trail(name, order, NONE).paid[-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["avocado", "bank"])
def test_a_workload_has_its_shares_and_is_the_same_again(name: str) -> None:
    asked = small(name)
    for order in ORDERS:
        questions = workload(asked, order, queries=2000, seed=1)
        assert questions == workload(asked, order, queries=2000, seed=1)
        assert questions != workload(asked, order, queries=2000, seed=2)
        for question in set(questions):
            question.plan(asked.schema, epsilon=1)
    kinds = Counter(question.statistic for question in workload(asked, "fresh", queries=4000, seed=0))
    assert kinds["count"] == pytest.approx(1600, abs=160)
    assert kinds["histogram"] == pytest.approx(1400, abs=160)
    assert len(set(workload(asked, "uniform", queries=500, seed=0))) <= 200


def test_some_questions_of_a_pool_are_asked_much_more_often() -> None:
    often = Counter(workload(small("avocado"), "zipf", queries=3000, seed=0)).most_common(1)[0][1]
    alike = Counter(workload(small("avocado"), "uniform", queries=3000, seed=0)).most_common(1)[0][1]
    assert often > 300 > alike


@pytest.mark.slow
@pytest.mark.parametrize("name", ["avocado", "bank"])
def test_reusing_answers_saves_what_it_is_said_to(name: str) -> None:
    assert saved(name, "uniform", EXACT) >= 0.70
    assert saved(name, "uniform", GAUSSIAN) >= 0.95
    if name == "avocado":
        assert saved(name, "fresh", EXACT) >= 0.45
        assert saved(name, "fresh", GAUSSIAN) >= 0.90


@pytest.mark.slow
def test_a_synopsis_that_does_not_pay_costs_little_more_than_none() -> None:
    for order in ("uniform", "fresh"):
        exact = trail("avocado", order, EXACT).paid[-1]
        assert trail("avocado", order, PMW).paid[-1] <= 1.15 * exact
        assert trail("avocado", order, PMW).sources["cache"] == trail("avocado", order, EXACT).sources["cache"]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [NONE, EXACT, GAUSSIAN, PMW])
def test_no_answer_is_off_by_more_than_it_may_more_often_than_it_may(strategy: Strategy) -> None:
    errors = [e for order in ("uniform", "fresh") for e in trail("avocado", order, strategy).errors]
    assert np.mean(np.array(errors) > 1) <= 0.004
    assert np.mean(errors) > 0.1  # it is noise, and not the truth


def test_made_up_rows_are_cheap_and_far_off() -> None:
    found = trail("avocado", "uniform", SYNTHETIC)
    assert found.paid[0] == found.paid[-1] == pytest.approx(0.1)
    assert max(found.errors) > 2
    assert found.missed > 0.01


def test_what_an_answer_may_be_off_is_a_share_of_the_rows() -> None:
    asked = small("avocado")
    for question in workload(asked, "fresh", queries=50, seed=0):
        plan = question.plan(asked.schema, epsilon=1)
        most = 1 if question.statistic != "sum" else plan.grid.steps  # type: ignore[attr-defined]
        assert width_of(plan, asked) == pytest.approx(0.05 * 3000 * most)


def test_rows_that_stand_in_say_so_and_have_declared_values_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "opened", lambda name: None)
    for name in ("avocado", "bank"):
        made: Any = tables.table.__wrapped__(name)
        assert made.made_up
        assert tables.about(made).startswith("made-up rows")
        for column, declared in made.schema.columns.items():
            values = made.frame[column]
            if declared.values is not None:
                assert values.isin(declared.values).all()
            else:
                assert values.between(declared.low, declared.high).all()


# --- experiments --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_over_many_overlapping_counts_a_guess_pays_and_in_rho_it_keeps_still() -> None:
    outcome = experiment("smartcache-long").run(quick=True)
    paid = {row.series: row.ours for row in outcome.rows if row.at == 400}
    assert paid["pmw"] < paid["exact"]
    assert paid["smart"] < paid["exact"]
    assert paid["pmw + Gaussian"] <= 1.15 * paid["exact + Gaussian"]
    assert all(row.ours <= 0.004 for row in outcome.rows if row.at is None)


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 7])
def test_descents_are_run_once_for_two_figures(number: int) -> None:
    outcome = experiment(f"smartcache-figure-10-{number}").run(quick=True)
    last = {row.series: row for row in outcome.rows}
    assert {"real rows with noise", "synthetic only", "smart"} <= set(last)
    paid = {row.epsilon for row in outcome.rows if row.series == "synthetic only"}
    assert len(paid) == 1  # once, before the first step
    if number == 7:
        assert last["real rows with noise"].ours < 1.7 * last["real rows, not private"].ours


def test_the_figures_of_the_thesis_are_all_there() -> None:
    names = {f"smartcache-figure-10-{number}" for number in range(1, 11)}
    assert names | {"smartcache-table-10-1", "smartcache-long"} <= set(experiments())
