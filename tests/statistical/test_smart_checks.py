"""The checks of guesses: their noise is as they say, and what they promise holds against whoever tries to break it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from thebes.curator.cache.smart.check import UNIT, Sought, SparseCheck, ThresholdCheck, _part
from thebes.curator.cache.smart.parameters import SmartParameters
from thebes.curator.cache.synopsis import View
from thebes.curator.cache.synthesis.base_histograms import Groundwork
from thebes.curator.cache.synthesis.domain import Domain
from thebes.curator.questions.plans import Integers, QuestionPlan
from thebes.data.engines.source import frame_table
from thebes.data.schema import schema_of
from thebes.data.table import Table
from thebes.privacy.mechanisms.sparse_vector import difference_tail
from thebes.privacy.randomness import seeded_for_simulation
from thebes.testing.statistics import assert_rate, assert_scale, laplace_cdf

SCHEMA = schema_of(
    {
        "unit": "person",
        "max_rows_per_unit": 3,
        "columns": {
            "who": {"type": "integer", "key": True},
            "sex": {"type": "string", "values": ["f", "m"]},
            "age": {"type": "integer", "low": 0, "high": 99},
        },
    }
)


class Nobody:
    view: View = ()

    def __init__(self) -> None:
        self._table = frame_table(SCHEMA, pd.DataFrame({"who": [1], "sex": ["f"], "age": [5]}).iloc[:0])

    def table(self, blocks: View | None = None) -> Table:
        return self._table

    def totals(self, plan: QuestionPlan, blocks: View | None = None) -> Integers:
        raise AssertionError("nothing is asked")


@pytest.mark.slow
def test_marginals_have_the_noise_of_all_columns_together():
    parameters = SmartParameters(epsilon="0.5", bins={"age": 100})
    domain = Domain(SCHEMA, parameters.cuts(SCHEMA))
    made = Groundwork(domain, source="independent", epsilon=parameters.epsilon, delta=parameters.delta)
    assert made.purchase.epsilon == parameters.epsilon
    chance, nobody, found = seeded_for_simulation(1), Nobody(), []
    for _ in range(50):
        made.restore({})
        made.buy(nobody, lambda purchase: None, chance)
        found += [each.counts for each in made.histograms("")]
    drawn = np.concatenate(found)
    blurred = drawn + np.random.default_rng(1).uniform(-0.5, 0.5, drawn.size)
    assert_scale(blurred, laplace_cdf, 2 * 3 / 0.5)  # two columns, three rows of one person


def passing_odds(scale: float, excess: int) -> float:
    return 1 - difference_tail(scale, -excess) if excess < 0 else difference_tail(scale, excess + 1)


@pytest.mark.slow
def test_a_sparse_check_passes_as_often_as_its_noise_says():
    chance, sought, passed = seeded_for_simulation(2), Sought(7, 20 * 7, 0.01), 0
    distance = sought.threshold + 7  # one unit's reach above it
    for _ in range(6000):
        check = SparseCheck()
        check.begin(3.0, chance)
        passed += check.passes(sought, distance, chance)
    assert_rate(passed, 6000, lambda epsilon: passing_odds(3 * UNIT / epsilon, UNIT), 3.0)


@pytest.mark.slow
def test_a_threshold_check_passes_as_often_as_its_noise_says():
    check = ThresholdCheck.of(0.5, reach=7, threshold=100, beta=0.01)
    assert check is not None
    chance = seeded_for_simulation(3)
    passed = sum(check.passes(107, chance) for _ in range(9000))
    assert_rate(passed, 9000, lambda epsilon: 0.5 * np.exp(-epsilon), 0.5)


@pytest.mark.slow
def test_what_a_threshold_passes_is_within_its_width_but_for_beta():
    found = ThresholdCheck.within(400.0, reach=7, beta=0.05)
    assert found is not None
    epsilon, check = found
    assert check.width <= 400
    chance = seeded_for_simulation(4)
    wrong = sum(check.passes(401, chance) for _ in range(6000))
    assert binomtest(wrong, 6000, 0.05, "greater").pvalue > 1e-6
    assert wrong > 6000 * 0.05 * 0.6  # and it costs no more than that needs
    assert float(epsilon) < 7 * 2 * np.log(1 / (2 * 0.05)) / 400 * 1.01


def hunted(beta: float, hunters: int) -> int:
    """Count the successes of those who ask what is just too near to fail until an opening stays open, which means that
    its threshold's noise happens to be high, and who then ask for a guess that is a little too far."""
    chance, errors = seeded_for_simulation(5), 0
    for _ in range(hunters):
        check = SparseCheck()
        sought = Sought(1, 40, beta)
        bait = sought.threshold + 4
        for _ in range(12):
            epsilon = check.price(sought)
            assert epsilon is not None
            check.begin(epsilon, chance)
            if all(check.passes(sought, bait, chance) for _ in range(25)):
                errors += check.passes(sought, sought.width + 1, chance)
                break
    return errors


@pytest.mark.slow
def test_what_a_sparse_check_passes_is_within_its_width_but_for_beta_also_for_hunters_of_lucky_openings():
    beta, hunters = 0.1, 200
    assert binomtest(hunted(beta, hunters), hunters, beta, "greater").pvalue > 1e-6


def test_all_openings_together_have_no_more_than_beta():
    first = sum(_part(1.0, opening) for opening in range(1, 100_000))
    assert first + 100_000**-0.2 / 0.2 / 5.6 < 1  # what is left is below the integral of k^-1.2


def test_an_opening_serves_what_it_was_made_for_and_what_rounds_a_little_smaller():
    check, chance = SparseCheck(), seeded_for_simulation(6)
    sought = Sought(1, 901, 0.001)
    for _ in range(3):
        epsilon = check.price(sought)
        assert epsilon is not None
        check.begin(epsilon, chance)
        assert check.serves(sought)
        assert check.serves(Sought(3, 3 * 901 - 5, 0.001))
        assert not check.serves(Sought(1, 600, 0.001))
        assert not check.serves(Sought(1, 901, 0.0001))
        while check.passes(sought, 10_000, chance):
            pass
        assert not check.serves(sought)


@pytest.mark.parametrize("reach", [1, 3, 2**20 + 1])
def test_one_unit_moves_a_distance_by_no_more_than_its_reach_is_counted(reach):
    sought, draw = Sought(reach, 10 * reach + 3, 0.1), np.random.default_rng(7)
    for _ in range(500):
        distance = int(draw.integers(0, 100 * reach))
        moved = distance + int(draw.integers(0, reach + 1))
        assert 0 <= sought.excess(moved) - sought.excess(distance) <= UNIT
