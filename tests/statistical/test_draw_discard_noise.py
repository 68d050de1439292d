"""The noise of draw-discard seen from outside (the declared scale fits, 30 % more or less does not), and the laws of
drawing and discarding: the spread that stays, what is forgotten, and how rarely honest contributions are outliers."""

from __future__ import annotations

import math
import sys
from collections import deque
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

import thebes
from evidence.bench import draw_discard as bench
from thebes.data.rows import Rows
from thebes.privacy import randomness
from thebes.privacy.accounting import gaussian
from thebes.privacy.mechanisms.local.privunit import PrivUnit
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.draw_discard.instances import Instances
from thebes.tasks.draw_discard.plan import plan
from thebes.tasks.protocols import Ask
from thebes.testing.statistics import assert_scale, gaussian_cdf, laplace_cdf

N = 2500
RATE, CLIP, DRAWN = 0.25, 0.5, np.array([0.3, -0.2, 0.1])
UNIT = {"type": "range", "low": 0.0, "high": 1.0}
DOCUMENT = {
    "type": "draw-discard",
    "epsilon": 3.0,
    "featurizer": "SELECT a, b, y FROM p.t",
    "family": "linear",
    "inputs": ["a", "b"],
    "output": "y",
    "bounds": {"a": UNIT, "b": UNIT, "y": UNIT},
    "learning_rate": RATE,
    "clip": CLIP,
}


def checked(**more: object):
    return registry.check({k: v for k, v in {**DOCUMENT, **more}.items() if v is not None})


def steps(document, a: float, b: float, y: object, chance) -> np.ndarray:
    """Draw what N owners of the same row take off the drawn model, at a rate of 1."""
    columns = {"a": np.full(N, a), "b": np.full(N, b), "y": np.full(N, y, dtype=object)}
    ask = Ask("a", "phase-0", 0, {"weights": DRAWN, "version": 0, "lane": 0})
    given = registry.owner(document).contribute(
        document, ask, Rows.one_each(columns), RecordedClaim(), randomness=chance
    )
    return (DRAWN - given.fields["weights"]) / RATE


def test_by_weight_each_clipped_weight_has_noise_of_twice_the_clip_over_epsilon() -> None:
    document = checked(mechanism="laplace", epsilon=None, epsilon_per_weight=1.5, max_participations=2)
    assert document.epsilon == 4.5
    noise = steps(document, 0.0, 0.0, None, randomness.system())
    assert_scale(noise.ravel(), laplace_cdf, 2 * CLIP / 0.75)
    predicted = 0.3 - 0.2 * 0.5 + 0.1
    true = np.array([1.0, 0.5, 1.0]) * (predicted - 1.0)
    moved = steps(document, 0.5, 1.0, 1.0, randomness.system())
    error = math.sqrt(2) * 2 * CLIP / 0.75 / math.sqrt(N)
    assert np.abs(moved.mean(axis=0) - np.clip(true, -CLIP, CLIP)).max() < 6.5 * error


def test_by_l1_length_the_whole_gradient_has_noise_of_twice_the_clip_over_epsilon() -> None:
    document = checked(mechanism="laplace-l1", max_participations=2)
    assert_scale(steps(document, 0.0, 0.0, None, randomness.system()).ravel(), laplace_cdf, 2 * CLIP / 1.5)
    true = np.array([1.0, 0.5, 1.0]) * (0.3 - 0.1 + 0.1 - 1.0)
    moved = steps(document, 0.5, 1.0, 1.0, randomness.system()).mean(axis=0)
    error = math.sqrt(2) * 2 * CLIP / 1.5 / math.sqrt(N)
    assert np.abs(moved - true * CLIP / np.abs(true).sum()).max() < 6.5 * error


def test_by_l2_length_gaussian_noise_hides_two_gradients_twice_the_clip_apart() -> None:
    document = checked(mechanism="gaussian", delta=2e-4, max_participations=2)
    scale = gaussian.ratio_for(1.5, 1e-4) * 2 * CLIP
    assert_scale(steps(document, 0.0, 0.0, None, randomness.system()).ravel(), gaussian_cdf, scale)
    true = np.array([1.0, 0.5, 1.0]) * (0.3 - 0.1 + 0.1 - 1.0)
    moved = steps(document, 0.5, 1.0, 1.0, randomness.system()).mean(axis=0)
    assert np.abs(moved - true * CLIP / np.linalg.norm(true)).max() < 6.5 * scale / math.sqrt(N)


def test_a_direction_leans_toward_its_owners_gradient_as_far_as_epsilon_says() -> None:
    document = checked()
    own = plan(document).hiding.unit
    true = np.array([1.0, 0.5, 1.0]) * (0.3 - 0.1 + 0.1 - 1.0)  # longer than the clip
    along = steps(document, 0.5, 1.0, 1.0, randomness.system()) @ (true / np.linalg.norm(true)) * own.m / CLIP

    def distance(factor: float) -> float:
        other = PrivUnit(3, Decimal("3.0") * Decimal(str(factor)), radius=CLIP)
        return abs(along.mean() - other.m) / math.sqrt((other.s - other.m**2) / N)

    assert distance(1.0) < 6.2
    assert distance(0.7) > 6.2
    assert distance(1.3) > 6.2


@pytest.mark.parametrize("mechanism", ["laplace", "laplace-l1", "gaussian", "privunit"])
def test_the_stated_variance_of_the_noise_is_the_one_seen(mechanism) -> None:
    by_weight = {"epsilon": None, "epsilon_per_weight": 1.5} if mechanism == "laplace" else {}
    document = checked(mechanism=mechanism, delta=1e-4, **by_weight)
    seen = steps(document, 0.0, 0.0, None, randomness.system()).var()
    assert seen == pytest.approx(plan(document).hiding.variance, rel=0.15)


# --- the laws of drawing and discarding ----------------------------------------------------------------------


def spread_kept(instances: int, in_flight: int, updates: int, seed: int) -> float:
    """The time average of the variance between instances, in units of an update's noise, from where it starts on."""
    source, draw = randomness.seeded_for_simulation(seed), np.random.default_rng(seed)
    kept = Instances.around(np.zeros(8), instances, 1.0, source)
    under_way, total, warm = deque(), 0.0, 20 * in_flight
    for number in range(warm + updates):
        under_way.append(kept.draw(source).weights + draw.normal(size=8))
        if len(under_way) == in_flight:
            kept.discard(under_way.popleft(), source)
        total += kept.variance().mean() if number >= warm else 0.0
    return total / updates


@pytest.mark.slow
@pytest.mark.parametrize(("instances", "updates"), [(2, 8_000), (5, 12_000), (10, 20_000)])
def test_one_update_at_a_time_the_variance_stays_k_over_two(instances, updates) -> None:
    """Theorem 1. Always replacing the instance that was drawn would let it grow by 1 / k with every update."""
    found = [spread_kept(instances, 1, updates, seed) for seed in range(2)]
    assert np.mean(found) == pytest.approx(instances / 2, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(("instances", "in_flight"), [(5, 20), (10, 30)])
def test_with_s_updates_in_flight_the_variance_is_about_k_plus_s_over_two(instances, in_flight) -> None:
    found = [spread_kept(instances, in_flight, 20_000, seed) for seed in range(2)]
    assert np.mean(found) == pytest.approx((instances + in_flight) / 2, rel=0.25)
    assert np.mean(found) > 1.5 * instances / 2


@pytest.mark.parametrize("instances", [3, 6])
def test_in_the_long_run_all_but_one_in_k_contributions_are_forgotten(instances) -> None:
    """Lemma 2: every update leaves a mark of its own on the model that it changes."""
    marked, source = 3000, randomness.seeded_for_simulation(instances)
    kept = Instances(np.zeros((instances, marked)))
    for number in range(marked + 60 * instances**2):
        weights = kept.draw(source).weights
        if number < marked:
            weights[number] = 1.0
        kept.discard(weights, source)
    left = kept.models.sum(axis=0)
    assert set(left.tolist()) <= {0.0, float(instances)}  # everybody's, or nobody's
    assert (left == 0).mean() == pytest.approx(1 - 1 / instances, abs=0.05)


HONEST = {"instances": 20, "learning_rate": 0.05}


@pytest.mark.slow
@pytest.mark.parametrize("in_flight", [1, 100])
@pytest.mark.parametrize("mechanism", ["laplace", "privunit"])
def test_honest_contributions_are_refused_less_often_than_stated(mechanism, in_flight) -> None:
    people = bench.people(15_000, seed=in_flight)
    more = {"epsilon": None, "epsilon_per_weight": math.log(32)} if mechanism == "laplace" else {"epsilon": 8.0}
    for rate in (0.01, 0.1):
        document = {**bench.DOCUMENT, **HONEST, "mechanism": mechanism, "false_positives": rate, **more}
        document = {name: value for name, value in document.items() if value is not None}
        release = thebes.simulate(document, people, seed=1, in_flight=in_flight)
        assert release.extra["refused"] <= rate * 15_000
        assert release.updates + release.extra["refused"] == 15_000
