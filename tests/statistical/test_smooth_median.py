"""The smooth-sensitivity median: its noise has the scale that the definition gives, and it is useful."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement

import numpy as np
import pytest

from thebes.privacy import randomness
from thebes.privacy.events import ApproximateEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.smooth import smooth_median
from thebes.testing.statistics import assert_scale, laplace_cdf
from thebes.testing.transcripts import Transcript

ROWS = np.linspace(40, 60, 201)
BETA = math.log(1 + 1 / (2 * math.log(2 / 1e-3)))


def plain_scale(adjacency: str) -> float:
    """2 S / epsilon in units of the data, by the definition over the extended order statistics."""
    n = len(ROWS)
    x = np.concatenate([np.zeros(n + 2), ROWS, np.full(n + 2, 100.0)])
    at = lambda rank: x[n + 1 + rank]  # noqa: E731
    if adjacency == "replace-one":
        gap = [max(at(101 + t) - at(101 + t - k - 1) for t in range(k + 2)) for k in range(n + 1)]
    else:
        gap = [at((n - k) // 2 + k + 1) - at((n - k) // 2) for k in range(n + 1)]
    return 2 * max(g * math.exp(-BETA * k) for k, g in enumerate(gap))


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove-one"])
def test_the_noise_has_the_scale_of_the_definition(adjacency):
    source = randomness.seeded_for_simulation(1)
    found = [
        smooth_median(
            ROWS, bounds=(0, 100), epsilon=1, delta=1e-3, adjacency=adjacency, randomness=source, bits=30
        ).value
        for _ in range(7000)
    ]
    assert_scale(np.array(found) - 50, laplace_cdf, plain_scale(adjacency))


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-2), (3.0, 1e-2), (8.0, 1e-4)])
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove-one"])
def test_of_every_few_rows_and_their_neighbours_the_outcomes_differ_by_no_more_than_is_claimed(
    adjacency, epsilon, delta
):
    """Exactly: by centre and scale of what is drawn. With half the scale more than delta goes beyond e^epsilon."""
    values, found, worst, halved = (0.0, 3.0, 7.0, 10.0), {}, {}, {}
    for count in range(1, 7):
        for rows in combinations_with_replacement(values, count):
            said = Transcript()
            smooth_median(
                list(rows), bounds=(0, 10), epsilon=epsilon, delta=delta, adjacency=adjacency, randomness=said, bits=5
            )
            (noise,) = said.noises
            found[rows] = int(noise.before[0]), noise.scale
    for rows, (centre, scale) in found.items():
        less = {rows[:place] + rows[place + 1 :] for place in range(len(rows))}
        more = {tuple(sorted((*fewer, value))) for fewer in less for value in values}
        for other in more if adjacency == "replace-one" else less & found.keys():
            there, wide = found[other]
            for pair in ((there - centre, scale, wide), (centre - there, wide, scale)):
                if pair not in worst:
                    worst[pair] = _beyond(*pair, epsilon)
                    halved[pair] = _beyond(pair[0], pair[1] / 2, pair[2] / 2, epsilon)
    assert max(worst.values()) <= delta
    assert max(halved.values()) > delta


def _beyond(away, scale, other, epsilon):
    """How much of noise around 0 is likelier by more than e^epsilon than other noise around `away`."""
    reach = int(45 * max(scale, other)) + abs(away)
    steps = np.arange(-reach, reach + 1)
    own = math.log(math.tanh(1 / (2 * scale))) - np.abs(steps) / scale
    theirs = math.log(math.tanh(1 / (2 * other))) - np.abs(steps - away) / other
    return float(np.maximum(np.exp(own) - np.exp(epsilon + theirs), 0).sum())


@pytest.mark.parametrize("source", [randomness.system(), randomness.bulk()])
def test_the_median_age_of_ten_thousand_people_is_close(source):
    ages = np.random.default_rng(0).integers(18, 91, 10_000)
    found = smooth_median(ages, bounds=(0, 128), epsilon=1, delta=1e-6, adjacency="replace-one", randomness=source)
    assert abs(found.value - np.median(ages)) < 10
    assert found.event == ApproximateEvent(1, 1e-6)


def test_neither_the_scale_nor_an_interval_is_released():
    source = randomness.seeded_for_simulation(2)
    found = smooth_median(ROWS, bounds=(0, 100), epsilon=1, delta=1e-3, adjacency="replace-one", randomness=source)
    assert found.interval() is None
    assert set(found.parameters) == {"bounds", "bits"}


def test_values_stay_within_the_bounds():
    source = randomness.seeded_for_simulation(3)
    found = [
        smooth_median(
            [0.0, 1.0], bounds=(0, 1), epsilon=0.01, delta=1e-3, adjacency="replace-one", randomness=source
        ).value
        for _ in range(50)
    ]
    assert all(0 <= v <= 1 for v in found)
    assert min(found) == 0
    assert max(found) == 1


GOOD = {
    "values": [1.0, 2.0],
    "bounds": (0, 10),
    "epsilon": 1,
    "delta": 1e-6,
    "adjacency": "replace-one",
    "randomness": randomness.seeded_for_simulation(0),
}


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("values", [float("nan")]), ("values", []), ("values", ["x"]), ("delta", 0), ("delta", 1), ("delta", 0.6),
        ("delta", -0.1), ("delta", float("nan")), ("epsilon", 0), ("epsilon", 1e-7), ("epsilon", float("inf")),
        ("bounds", (2, 1)), ("bits", 0), ("adjacency", ""),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name(argument, value):
    with pytest.raises(Mistake) as refused:
        smooth_median(**{**GOOD, argument: value})
    assert refused.value.argument == argument


def test_a_grid_too_fine_for_so_small_an_epsilon_is_refused():
    with pytest.raises(Mistake, match=r"^bits"):
        smooth_median(**{**GOOD, "bits": 40, "epsilon": 1e-5})
