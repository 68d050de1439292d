"""Handwritten digits by draw-discard, 6,000 people and 20 passes: what noise by weight costs if gradients are averaged
and if they are summed, and that k instances learn as fast as batches of k updates."""

from __future__ import annotations

import math
from functools import cache, partial

import pytest

from thebes.experiments import datasets
from thebes.experiments.draw_discard.alternatives import Batches, DrawAndDiscard
from thebes.experiments.draw_discard.digits import DOCUMENT, Digits, digits

pytestmark = pytest.mark.slow
PASSES = 20


@cache
def held() -> Digits:
    if not (datasets.data_folder() / "mnist").is_dir():
        pytest.skip("mnist is not in THEBES_DATA")
    return digits(6000)


def accuracy(server=DrawAndDiscard, *, epsilon: float | None = None, **more: object) -> float:
    noise = {}
    if epsilon is not None:
        noise = {"mechanism": "laplace", "epsilon_per_weight": PASSES * epsilon, "max_participations": PASSES}
    ((found,),) = held().curves({**DOCUMENT, "instances": 10, **noise, **more}, server, [0], [PASSES])
    return found


def test_without_noise_averaged_gradients_reach_their_floor() -> None:
    assert accuracy() > 0.865


def test_averaged_gradients_lose_much_to_noise() -> None:
    assert 0.82 < accuracy(epsilon=math.log(16)) < 0.855


@pytest.mark.parametrize(("x", "floor"), [(16, 0.89), pytest.param(3, 0.86, marks=pytest.mark.heavy)])
def test_summed_gradients_lose_little_to_noise(x: int, floor: float) -> None:
    assert accuracy(epsilon=math.log(x), reduce="sum") > floor


@pytest.mark.heavy
def test_k_instances_learn_as_fast_as_batches_of_k_updates_and_not_of_k_squared_digits() -> None:
    instances = accuracy(instances=20)
    assert accuracy(partial(Batches, size=20)) == pytest.approx(instances, abs=0.01)
    assert accuracy(partial(Batches, size=40)) < instances - 0.01
