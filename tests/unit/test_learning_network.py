"""Networks over units of several rows: what one unit can move, and what sampled noise costs."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from papers.sage.frames import data_of
from thebes.curator.pipelines.allowance import Allowance
from thebes.curator.pipelines.ready import of
from thebes.learning import network
from thebes.learning.network import Sampling
from thebes.privacy.accounting.calibration import sampled_ratio
from thebes.privacy.accounting.report import total
from thebes.privacy.events import PoissonGaussianEvent, Repeated
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import seeded_for_simulation
from thebes.privacy.transformations.sums import VectorSum

SCHEMA: dict[str, Any] = {
    "unit": "person",
    "max_rows_per_unit": 4,
    "columns": {
        "who": {"type": "integer", "key": True},
        "way": {"type": "float", "low": 0.0, "high": 10.0},
        "took": {"type": "float", "low": 0.0, "high": 1.0},
    },
}
#: persons with one to four rows, one after the other
SIZES = np.array([1, 4, 2, 3, 1, 4])


def slopes(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, (int(SIZES.sum()), 7))


@pytest.mark.parametrize("clip", [0.5, 20.0])
def test_a_unit_moves_a_sum_by_no_more_than_one_clipped_gradient_however_many_rows_it_has(clip: float) -> None:
    bounded, own = VectorSum(clip, 2, 7, 20), slopes()
    whole = bounded.total(network._by_unit(own, SIZES, clip))
    ends = np.cumsum(SIZES)
    for unit, size in enumerate(SIZES):
        rows = np.delete(own, np.arange(ends[unit] - size, ends[unit]), axis=0)
        moved = whole - bounded.total(network._by_unit(rows, np.delete(SIZES, unit), clip))
        assert 0 < int((moved**2).sum()) <= bounded.reach.l2_squared


def test_a_units_gradient_is_the_mean_of_its_rows_in_whatever_order_they_lie() -> None:
    own = slopes()
    made = network._by_unit(own, SIZES, 1.0)
    starts = np.cumsum(SIZES) - SIZES
    for unit, (start, size) in enumerate(zip(starts, SIZES, strict=True)):
        assert made[unit] == pytest.approx(own[start : start + size].mean(axis=0), abs=1e-6)
    turned = np.concatenate([own[start : start + size][::-1] for start, size in zip(starts, SIZES, strict=True)])
    assert np.array_equal(network._by_unit(turned, SIZES, 1.0), made)


def test_units_are_told_apart_within_batches_and_taken_whole() -> None:
    def batch(people: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.zeros((len(people), 2)), np.zeros(len(people)), np.array(people)

    rows, targets, starts = network._together([batch([3, 3, 9]), batch([]), batch([9, 9, 1])], 2)
    assert (len(rows), len(targets)) == (6, 6)
    assert starts.tolist() == [0, 2, 3, 5, 6]  # numbers mean nothing in another batch: these are two persons called 9
    sizes, chosen = network._rows_of(starts, np.array([0, 2, 3]))
    assert (sizes.tolist(), chosen.tolist()) == ([2, 2, 1], [0, 1, 3, 4, 5])
    sizes, chosen = network._rows_of(starts, np.array([], dtype=np.int64))
    assert len(sizes) == len(chosen) == 0


@pytest.mark.slow
def test_a_network_learns_from_persons_with_several_rows() -> None:
    draw = np.random.default_rng(3)
    who = np.sort(draw.integers(1, 1500, 5000))
    way = draw.uniform(0, 10, 5000)
    frame = pd.DataFrame({"who": who, "way": way, "took": np.abs(way - 5) / 5})
    pipeline = of(
        {
            "stream": "rides",
            "model": "NeuralNetwork",
            "inputs": ["way"],
            "output": "took",
            "target": {"mse": 0.01},
            "epsilon": 4.0,
            "delta": 1e-6,
            "layers": [8],
            "steps": 60,
            "rate": 0.2,
            "learning_rate": 0.05,
        }
    )
    model = pipeline.train(data_of(SCHEMA, frame, seeded_for_simulation(1)), Allowance(4, 1e-6))
    seen = np.linspace(0, 10, 101)
    truth = np.abs(seen - 5) / 5
    assert np.mean((model.predict(seen[:, None]) - truth) ** 2) < 0.6 * np.var(truth)  # no line tells more than 0


@pytest.mark.slow
def test_noise_is_the_least_that_one_of_two_accountants_proves_enough() -> None:
    terms: Any = {"steps": 20, "rate": 0.05}
    made = Sampling.of(1, 1e-6, **terms)
    assert made.ratio < 0.97 * sampled_ratio(rate=made.rate, rounds=20, epsilon=1, delta=1e-6)
    paid = total(made.event, adjacency="add-remove-one", delta=1e-6, unit="event")
    assert 0.98 < paid.epsilon <= 1
    made = Sampling.of(1, 1e-10, **terms)  # no loss distribution can be computed: the curve is what there is
    assert made.ratio == sampled_ratio(rate=made.rate, rounds=20, epsilon=1, delta=1e-10)
    assert made.finer(2.0**20 * made.ratio, 1000) == 1


def test_what_a_grid_adds_to_delta_is_set_aside_step_by_step() -> None:
    once = PoissonGaussianEvent(0.05, 2.0, 1e-8)
    plain = PoissonGaussianEvent(0.05, 2.0)
    for accountant in ("distribution", "renyi"):
        terms: Any = {"adjacency": Adjacency.ADD_REMOVE_ONE, "unit": "event", "accountants": [accountant]}
        said = total(Repeated(once, 20), delta=1e-6, **terms)
        expected = total(Repeated(plain, 20), delta=Decimal("8e-7"), **terms).epsilon
        assert float(said.epsilon) == pytest.approx(float(expected), rel=1e-9)
        assert said.epsilon > total(Repeated(plain, 20), delta=Decimal("1e-6"), **terms).epsilon
    with pytest.raises(Mistake, match="carry already"):
        total(Repeated(once, 20), delta=1e-7, adjacency="add-remove-one", unit="event")
    with pytest.raises(Mistake, match="at least 0"):
        PoissonGaussianEvent(0.05, 2.0, -1e-9)
