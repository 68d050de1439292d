"""Choices among candidates: what is refused, and what a measurement says."""

from __future__ import annotations

import numpy as np
import pytest

from thebes.privacy import randomness
from thebes.privacy.events import ExponentialEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.exponential import exponential

GOOD = {"epsilon": 1.0, "adjacency": "replace-one", "randomness": randomness.seeded_for_simulation(0)}


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("epsilon", 0), ("epsilon", -1), ("epsilon", float("nan")), ("epsilon", float("inf")), ("epsilon", "much"),
        ("epsilon", 10**400), ("epsilon", True), ("adjacency", "both"), ("adjacency", None), ("sensitivity", 0),
        ("sensitivity", 1.5), ("sensitivity", 10**30), ("utilities", []), ("utilities", [[1, 2]]),
        ("utilities", [1.5, 2.0]), ("utilities", [float("nan")]), ("utilities", ["a"]), ("utilities", [10**30]),
        ("utilities", np.array([2**63], dtype=np.uint64)), ("utilities", [-(2**63)]), ("utilities", 7),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name(argument, value):
    arguments = {"utilities": [1, 2], "sensitivity": 1, **GOOD, argument: value}
    with pytest.raises(Mistake) as refused:
        exponential(arguments.pop("utilities"), **arguments)
    assert refused.value.argument == argument


def test_monotone_is_refused_under_replace_one():
    with pytest.raises(Mistake, match=r"^monotone:"):
        exponential([1, 2], sensitivity=1, monotone=True, **GOOD)


def test_events_say_what_has_to_be_paid():
    assert exponential([1, 2], sensitivity=1, **GOOD).event == ExponentialEvent(1)


def test_simulated_choices_say_so():
    assert exponential([1, 2], sensitivity=1, **GOOD).simulated
    assert not exponential([1, 2], sensitivity=1, **{**GOOD, "randomness": randomness.system()}).simulated


def test_one_candidate_is_always_chosen():
    assert exponential([-5], sensitivity=1, **GOOD).value == 0


@pytest.mark.slow
def test_the_shortfall_stated_holds_as_often_as_stated():
    source = randomness.seeded_for_simulation(1)
    utilities = np.arange(100)
    runs = [exponential(utilities, sensitivity=1, **{**GOOD, "randomness": source}) for _ in range(1000)]
    late = sum(99 - run.value > run.parameters["utility_shortfall_95"] for run in runs)
    assert late <= 100
