"""Table 2 of Sage in small: tests without statistics or without their correction let bad models pass, ours do not."""

from __future__ import annotations

import numpy as np
import pytest

from papers.registry import experiments
from papers.sage import figure_6, training
from papers.sage.table_2 import ATTEMPTS, METHODS, Models, among_accepted, told, tried
from thebes.privacy.randomness import seeded_for_simulation


@pytest.mark.parametrize(("method", "high"), [("chernoff", 0.05), ("binomial", 0.25)])
def test_only_tests_that_account_for_noise_hold_what_they_say(method: str, high: float) -> None:
    """Models that become a little better with each attempt, by losses of all or nothing."""
    draw = np.random.default_rng(0)
    losses = [(draw.random(50_000) < high * (1 - number / 20)).astype(np.float64) for number in range(ATTEMPTS)]
    passed, missed = tried(Models("made up", losses, method, reach=1.5), 0.05, 0.05, 30, 0)
    rates = dict(zip(METHODS, among_accepted(passed, missed), strict=True))
    worst = dict(zip(METHODS, missed.max(axis=0) / 30, strict=True))
    assert worst["no SLA"] > 0.5
    assert worst["Sage SLA"] <= 0.05  # which is what eta promises, of every target
    assert rates["no SLA"] > 0.2
    assert rates["UC DP SLA"] > 0.05
    assert rates["NP SLA"] <= 0.1
    assert rates["Sage SLA"] <= 0.05


def test_rows_until_a_model_is_accepted_grow_with_what_is_asked_of_it_and_with_what_is_promised() -> None:
    """A model that is wrong about .225 of the rows, tested on ever more of them."""
    sizes = figure_6.sizes_up_to(300_000, 5_000)
    assert sizes == [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000]
    exact = np.array([(0.0775 * size, 0.0225 * size) for size in sizes])
    ends = told(exact, 0.2, 0.05, "binomial", seeded_for_simulation(0))
    found = dict(zip(METHODS, figure_6.firsts(training.CRITEO, sizes, ends), strict=True))
    assert found["no SLA"][0.76] == 5_000 < found["NP SLA"][0.76] < found["Sage SLA"][0.76]
    needed = [found["Sage SLA"][target] for target in figure_6.TARGETS[training.CRITEO]]
    assert needed == sorted(needed)
    assert needed[0] < needed[-1]
    assert not figure_6.firsts(training.TAXI, sizes, ends)[0]  # squared errors would have to be far smaller


def test_the_table_and_the_figure_are_among_the_experiments() -> None:
    assert {"sage-table-2", "sage-6"} <= set(experiments())
