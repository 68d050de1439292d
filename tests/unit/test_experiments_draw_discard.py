"""Experiments of Draw and Discard: what stands for the paper's data, other architectures, what each outcome says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papers.draw_discard import PAPER, calls, digits, figure_5, known_weights, searches, table_theorem_1
from papers.draw_discard.alternatives import (
    AveragedSame,
    Batches,
    DrawAndDiscard,
    OneInK,
    SameInstance,
    trained,
)
from papers.draw_discard.crowd import Crowd
from papers.draw_discard.judging import judged
from papers.registry import experiments
from thebes.privacy import randomness
from thebes.simulation.world import simulate
from thebes.tasks import registry
from thebes.tasks.draw_discard.plan import weights_of

SMALL = {**known_weights.DOCUMENT, "learning_rate": 0.1, "instances": 4, "epsilon": 100.0}


def checked(**more: object) -> Any:
    return registry.check({**SMALL, **more})


def crowd(people: int = 400) -> Crowd:
    return Crowd(known_weights.FEATURIZER, known_weights.people(people))


def averages(server: Any, document: Any, some: Crowd, looks: tuple[int, ...], seed: int = 1) -> list[np.ndarray]:
    source = randomness.seeded_for_simulation(seed)
    people = some.rows.people
    return list(trained(document, some.prepared(document), people, server(document, source), source, looks=looks))


def test_every_experiment_of_the_paper_is_there() -> None:
    names = {"2", "3", "4", "5", "phishing", "ranking", "theorem-1"}
    assert {name for name, one in experiments().items() if one.paper == PAPER} == {f"draw-discard-{n}" for n in names}


# --- data and models -------------------------------------------------------------------------------------------


def test_the_models_have_as_many_weights_as_the_papers() -> None:
    for asked, weights in (
        (known_weights.DOCUMENT, 33),
        (calls.DOCUMENT, calls.WEIGHTS),
        (digits.DOCUMENT, digits.WEIGHTS),
        (searches.DOCUMENT, searches.WEIGHTS),
    ):
        assert weights_of(registry.check({**asked, "mechanism": "none"})) == weights
    assert (calls.WEIGHTS, searches.WEIGHTS) == (387, 50_000)


def test_known_weights_make_46_percent_and_come_back_unscaled() -> None:
    test = known_weights.people(100_000)
    assert test["o"].mean() == pytest.approx(0.462, abs=0.006)
    assert known_weights.unscaled(known_weights.SCALED) == pytest.approx(dict(known_weights.TRUE))
    best = judged(known_weights.chances(test) >= 0.5, test["o"] == 1)
    assert best["accuracy"] == pytest.approx(0.811, abs=0.005)


def test_a_yes_is_judged_by_counting() -> None:
    said, true = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert judged(said, true) == {"accuracy": 0.5, "precision": 0.5, "recall": 0.5}
    assert judged(~said & said, true)["precision"] == 0.0


@pytest.mark.slow
def test_without_the_data_made_up_digits_and_calls_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEBES_DATA", str(tmp_path))
    held = calls.calls()
    assert held.made_up
    assert "made-up" in str(held)
    assert set(held.train) == set(calls.BOUNDS)
    drawn = digits.digits(300)
    assert drawn.made_up
    assert "made-up" in str(drawn)
    run = drawn.crowd.trained({**digits.DOCUMENT, "instances": 2, "reduce": "sum"}, 0)
    assert drawn.accuracy(run.models[-1]) > 0.3
    assert run.epsilon is None


def test_a_rank_counts_ties_half() -> None:
    made = searches.searches(50, 3)
    first = searches.ranked(made, made.table["taken"].astype(float))
    assert first == {"MRR": 1.0, "NDCG": 1.0}
    tied = searches.ranked(made, np.zeros(50 * searches.SHOWN))
    assert tied["MRR"] == pytest.approx(1 / 5.5)
    assert searches.ranked(made, made.best)["MRR"] > 0.6
    assert made.table["taken"].reshape(50, -1).sum(axis=1).tolist() == [1] * 50


# --- architectures -----------------------------------------------------------------------------------------------


def test_a_watched_crowd_releases_what_a_simulation_does() -> None:
    table = known_weights.people(300)
    run = Crowd(known_weights.FEATURIZER, table).trained({**SMALL, "max_participations": 2}, 5)
    same = simulate({**SMALL, "max_participations": 2}, table, seed=5)
    assert run.release.value == same.value
    assert len(run.models) == 2
    assert run.models[-1].weights == pytest.approx(same.value["weights"])
    assert run.models[0].weights != run.models[1].weights


@pytest.mark.slow
def test_the_architecture_called_draw_and_discard_learns_as_the_kind_does() -> None:
    """The same law, drawn with other coins: averages over many runs agree."""
    some, document = crowd(300), checked()
    ours = [averages(DrawAndDiscard, document, some, (1,), seed)[0] for seed in range(30)]
    kinds = [some.trained(SMALL, seed).models[-1].coefficients for seed in range(30)]
    apart = np.mean(ours, axis=0) - np.mean(kinds, axis=0)
    error = np.sqrt((np.var(ours, axis=0, ddof=1) + np.var(kinds, axis=0, ddof=1)) / 30)
    assert np.abs(apart / error).max() < 5.5


def test_batches_of_one_and_a_single_instance_are_training_at_a_server() -> None:
    some = crowd()
    alone = checked(instances=1, epsilon=1e6)  # hardly any spread to begin with
    same = [averages(server, alone, some, (1,))[0] for server in (SameInstance, OneInK)]
    batch = averages(lambda document, source: Batches(document, source, size=1), alone, some, (1,))[0]
    # The coins of the three differ, so the order of people does.
    for other in same:
        assert np.abs(other - batch).max() < 0.5
        assert np.corrcoef(other, batch)[0, 1] > 0.9


def test_a_batch_moves_the_model_by_the_average_of_its_updates() -> None:
    some, document = crowd(40), checked()
    moved = averages(lambda d, s: Batches(d, s, size=40), document, some, (1,))[0]
    prepared, people = some.prepared(document), np.arange(40)
    start = np.zeros((40, 33))
    source = randomness.seeded_for_simulation(1)
    each = prepared.changed(start, np.full(40, 0.1), prepared.batch(people), prepared.ahead(40, source))
    assert moved == pytest.approx(each.mean(axis=0))
    assert not averages(lambda d, s: Batches(d, s, size=41), document, some, (1,))[0].any()


def test_averaging_with_the_drawn_model_is_half_the_rate() -> None:
    some = crowd()
    half = averages(AveragedSame, checked(learning_rate=0.2, epsilon=200.0), some, (1,))[0]
    whole = averages(SameInstance, checked(learning_rate=0.1), some, (1,))[0]
    assert half == pytest.approx(whole)


def test_one_in_k_throws_the_others_away() -> None:
    some, document = crowd(400), checked(instances=20)
    source = randomness.seeded_for_simulation(2)
    server, taken = OneInK(document, source), 0
    for _ in range(2000):
        place, drawn = server.draw()
        server.take(place, drawn + 1)
        taken += server.model is not drawn
    assert 60 < taken < 145
    assert np.abs(averages(OneInK, document, some, (1, 2))[1]).max() > 0


@pytest.mark.slow
def test_noise_of_updates_adds_up_at_a_server_and_averages_out_in_a_batch() -> None:
    nobody, document = table_theorem_1.nobody(400), registry.check(table_theorem_1.DOCUMENT)
    for size, times in ((1, 400), (400, 1 / 400)):
        made = [
            averages(lambda d, s, n=size: Batches(d, s, size=n), document, nobody, (1,), seed) for seed in range(12)
        ]
        assert np.mean(np.square(made)) == pytest.approx(times * table_theorem_1.VARIANCE, rel=0.6)


# --- outcomes ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_spread_between_instances_is_half_of_k_updates_noise() -> None:
    found = [table_theorem_1.apart(table_theorem_1.nobody(20_000), 5, 1, seed) for seed in range(3)]
    assert np.mean(found) == pytest.approx(2.5, rel=0.2)


@pytest.mark.slow
def test_known_weights_are_drawn_as_points_and_read_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from papers.page import page, pictures

    monkeypatch.setattr(figure_5, "QUICK_UPDATES", 4000)
    outcome = figure_5.EXPERIMENT.run(quick=True)
    weights = [row for row in outcome.rows if row.panel == f"weights, {figure_5.FALLING}"]
    assert {row.series for row in weights} == set(known_weights.TRUE)
    assert all(row.printed == known_weights.TRUE[row.series] for row in weights)
    (by_weight,) = {row.epsilon for row in outcome.rows if row.series == figure_5.BY_WEIGHT}
    assert by_weight == pytest.approx(33 * np.log(32), abs=0.01)
    shown = dict(pictures(outcome))
    assert str(shown[f"weights, {figure_5.FALLING}"]).count("<circle") == 33
    assert "nan" not in page([outcome])
