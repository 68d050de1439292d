"""Tiresias' tables of models and its figure of times: what is asked, how it is scored, and what is said of prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papers import datasets
from papers.datasets import Dataset
from papers.outcome import Row
from papers.registry import experiment, experiments
from papers.tiresias import PAPER, asking, figure_5_1, learning, table, table_5_1, table_5_2
from thebes.simulation import population
from thebes.tasks import registry

BUNDLED = [datasets.wine(), datasets.cancer(), datasets.diabetes(), datasets.made_up_housing()]


def cell(series: str, epsilon: float, ours: float, printed: float | None = None) -> Row:
    return Row(panel="wine", series=series, at=epsilon, epsilon=epsilon, ours=ours, printed=printed)


def test_the_tables_and_the_figure_of_times_are_there() -> None:
    found = {name for name, one in experiments().items() if one.paper == PAPER}
    assert {"tiresias-table-5-1", "tiresias-table-5-2", "tiresias-figure-5-1"} <= found


# --- what is asked --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", BUNDLED, ids=lambda data: data.name)
def test_every_document_is_one_that_people_could_be_asked_and_costs_them_its_epsilon(data: Dataset) -> None:
    number = asking.is_number(data)
    models = ["LinearRegression"] if number else ["GaussianNB", "LogisticRegression"]
    asked = [asking.integrated(data, 4.0, model) for model in models]
    asked += [asking.bounded(data, 4.0), asking.gradient(data, 4.0, hidden=False)]
    for document in asked:
        checked: Any = registry.check({**document, "min_count": 11})
        price = registry.kind(checked.type).price(checked)
        assert price.epsilon == 4
        assert float(price.delta) == (asking.DELTA if checked.type == "integrated" else 0)
        assert checked.gives == (*asking.names(data), asking.TARGET)


@pytest.mark.parametrize("data", BUNDLED, ids=lambda data: data.name)
def test_a_network_sees_numbers_between_minus_one_and_one_and_its_guesses_come_back_in_units(data: Dataset) -> None:
    ends = asking.Ends(data)
    assert np.abs(ends.inputs(data.X)).max() <= 1
    assert np.abs(ends.inputs(data.X)).max(axis=0).min() > 0.2  # bounds that have to do with the columns
    if asking.is_number(data):
        assert np.abs(ends.target(data.y)).max() <= 1
        assert ends.back(ends.target(data.y)) == pytest.approx(data.y)


def test_every_model_of_the_paper_has_its_two_prints() -> None:
    for tables, data in ((table_5_1, BUNDLED[:2]), (table_5_2, BUNDLED[2:])):
        for one in data:
            told = {series for series in learning.series_of(one) if series != learning.SHALLOW}
            assert set(tables.PRINTED[one.name]) == told
        cells = {(one.name, series) for one in data for series in learning.series_of(one)}
        assert {goal[:2] for goal in tables.GOALS} <= cells


# --- what comes out -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_models_of_all_three_ways_are_learned_scored_on_other_rows_and_the_same_again() -> None:
    """Seeded, so that nothing here is luck; the usual class of wine is .4 of it."""
    data = datasets.wine()
    asked = learning.series_of(data, quick=True)
    found = learning.private(data, asked, 32.0, (0,), folds=1)
    assert set(found.by_seed) == set(found.seconds) == set(asked)
    assert min(scores[0] for scores in found.by_seed.values()) > 0.8
    assert learning.private(data, asked, 32.0, (0,), folds=1).by_seed == found.by_seed
    nothing = learning.private(data, [learning.BAYES], 0.01, (0,), folds=1)
    assert nothing.by_seed[learning.BAYES][0] < 0.8  # who pays nothing learns nothing


@pytest.mark.slow
def test_without_the_houses_made_up_ones_stand_in_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEBES_DATA", str(tmp_path))
    monkeypatch.setattr(table, "QUICK_EPSILONS", (32.0,))
    outcome = experiment("tiresias-table-5-2").run(quick=True)
    assert outcome.made_up
    assert "made-up" in outcome.data
    rows = {row.series: row for row in outcome.rows if row.panel == "housing"}
    for series in (learning.LINEAR, learning.SHALLOW, learning.REGRESSION):
        assert rows[series].ours > 0.4  # in the table's own units, or it would be far below nothing
        assert rows[series].epsilon == 32
        assert rows[series].ceiling == pytest.approx(rows[learning.LINEAR].ceiling)
    assert rows[learning.LINEAR].printed == 0.704
    assert rows[learning.SHALLOW].printed == 0.260


# --- what is said of prints -----------------------------------------------------------------------------------


def test_the_smallest_epsilon_that_reaches_a_print_is_found_and_what_none_reaches_is_named() -> None:
    rows = [
        cell("a", 1.0, 0.5),
        cell("a", 8.0, 0.8),
        cell("a", 32.0, 0.9, printed=0.75),
        cell("a", 64.0, 0.9, printed=0.95),
    ]
    (smallest,), never = table.reached(rows)
    assert (smallest.ours, smallest.printed, smallest.epsilon) == (8.0, 32.0, 8.0)
    assert "wine: a" in smallest.series
    assert never == "Not reached at any epsilon tried: wine: a, 0.95 at 64 (we reach 0.900)."
    assert table.reached(rows[:3])[1] == "Every print is reached."


def test_goals_that_are_missed_are_named() -> None:
    rows = [cell("a", 1.0, 0.5), cell("a", 8.0, 0.8)]
    goals = {("wine", "a", 1.0): 0.55, ("wine", "a", 8.0): 0.7, ("wine", "b", 8.0): 0.7}
    assert table.missed(rows, goals) == "Goals that are missed: wine, a, epsilon 1: 0.500 instead of 0.55."
    assert table.missed(rows, {("wine", "a", 8.0): 0.7}) == "Every goal of ours is met."


# --- times ----------------------------------------------------------------------------------------------------


def test_what_the_figure_asks_is_answered_about_made_up_people() -> None:
    """Simulated, seeded: the answers are near what is true of these people."""
    import thebes

    people = population(2000, 0)
    median: Any = thebes.simulate(figure_5_1.TASKS["median"], people.columns, seed=0)
    assert median.value == pytest.approx(np.median(people.columns["profile.demographics"]["age"]), abs=2)
    line: Any = thebes.simulate(figure_5_1.TASKS["linear regression"], people.columns, seed=0)
    assert line.model.coef_ == pytest.approx([2, -1], abs=0.3)


@pytest.mark.slow
def test_people_answer_a_coordinator_process_and_the_task_ends_with_all_of_them(tmp_path: Path) -> None:
    from papers.tiresias.clients import Coordinator

    with Coordinator(tmp_path) as there:
        for document in figure_5_1.TASKS.values():
            run = there.ask(document, population(20, 0))
            assert run.release["certificate"]["contributors"] == 20
            assert min(run.publishing, run.contributions, run.answer) > 0
            assert run.beside_empty > 0
