"""Handwritten digits by draw-discard, thousands of people and many passes: what noise by weight costs if gradients are
averaged and if they are summed, and that k instances learn as fast as batches of k updates."""

from __future__ import annotations

import math
from functools import cache, partial

import pytest

from papers import datasets
from papers.draw_discard.alternatives import Batches, DrawAndDiscard
from papers.draw_discard.digits import DOCUMENT, Digits, digits

pytestmark = pytest.mark.slow

#: how many people, how many times each: the first in every run, the second takes minutes
SMALL, FULL = (3000, 10), (6000, 20)


@cache
def held(people: int) -> Digits:
    if not (datasets.data_folder() / "mnist").is_dir():
        pytest.skip("mnist is not in THEBES_DATA")
    return digits(people)


def accuracy(size=FULL, server=DrawAndDiscard, *, epsilon: float | None = None, **more: object) -> float:
    (people, passes), noise = size, {}
    if epsilon is not None:
        noise = {"mechanism": "laplace", "epsilon_per_weight": passes * epsilon, "max_participations": passes}
    ((found,),) = held(people).curves({**DOCUMENT, "instances": 10, **noise, **more}, server, [0], [passes])
    return found


def floors(small, full):
    return pytest.mark.parametrize(
        ("size", "floor"), [(SMALL, small), pytest.param(FULL, full, marks=pytest.mark.heavy)], ids=["small", "full"]
    )


@pytest.mark.heavy
@floors(0.82, 0.865)
def test_without_noise_averaged_gradients_reach_their_floor(size, floor) -> None:
    assert accuracy(size) > floor


@pytest.mark.heavy
@floors((0.78, 0.82), (0.82, 0.855))
def test_averaged_gradients_lose_much_to_noise(size, floor) -> None:
    assert floor[0] < accuracy(size, epsilon=math.log(16)) < floor[1]


@floors(0.87, 0.89)
def test_summed_gradients_lose_little_to_noise(size, floor) -> None:
    assert accuracy(size, epsilon=math.log(16), reduce="sum") > floor


@pytest.mark.heavy
def test_summed_gradients_lose_little_even_to_much_noise() -> None:
    assert accuracy(epsilon=math.log(3), reduce="sum") > 0.86


@pytest.mark.heavy
def test_k_instances_learn_as_fast_as_batches_of_k_updates_and_not_of_k_squared_digits() -> None:
    instances = accuracy(instances=20)
    assert accuracy(server=partial(Batches, size=20)) == pytest.approx(instances, abs=0.01)
    assert accuracy(server=partial(Batches, size=40)) < instances - 0.01
