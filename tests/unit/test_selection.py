"""Choices among candidates: what is refused, and what a measurement says."""

from __future__ import annotations

import numpy as np
import pytest

from thebes.privacy import randomness
from thebes.privacy.events import ExponentialEvent, PureEvent, Repeated
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.exponential import exponential, permute_and_flip
from thebes.privacy.mechanisms.selection import noisy_max, top_k

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
@pytest.mark.parametrize("mechanism", [exponential, permute_and_flip])
def test_bad_input_is_refused_by_name(mechanism, argument, value):
    arguments = {"utilities": [1, 2], "sensitivity": 1, **GOOD, argument: value}
    with pytest.raises(Mistake) as refused:
        mechanism(arguments.pop("utilities"), **arguments)
    assert refused.value.argument == argument


@pytest.mark.parametrize(("k", "counts"), [(0, [1, 2]), (3, [1, 2]), (1.0, [1, 2]), (True, [1, 2])])
def test_top_k_needs_a_k_within_the_candidates(k, counts):
    with pytest.raises(Mistake, match=r"^k:"):
        top_k(counts, k=k, **GOOD)


def test_shares_that_vanish_are_refused():
    with pytest.raises(Mistake, match=r"^epsilon:"):
        top_k([1, 2, 3], k=3, **{**GOOD, "epsilon": "2e-12"})


def test_monotone_is_refused_under_replace_one():
    with pytest.raises(Mistake, match=r"^monotone:"):
        exponential([1, 2], sensitivity=1, monotone=True, **GOOD)


def test_events_say_what_has_to_be_paid():
    assert exponential([1, 2], sensitivity=1, **GOOD).event == ExponentialEvent(1)
    assert noisy_max([1, 2], **GOOD).event == PureEvent(1)
    assert top_k([1, 2, 3], k=2, **GOOD).event == Repeated(ExponentialEvent("0.5"), 2)


def test_simulated_choices_say_so():
    assert exponential([1, 2], sensitivity=1, **GOOD).simulated
    assert not noisy_max([1, 2], **{**GOOD, "randomness": randomness.system()}).simulated


def test_one_candidate_is_always_chosen():
    assert noisy_max([-5], **GOOD).value == 0
    assert top_k([3, 1], k=2, **{**GOOD, "epsilon": 1000}).value == [0, 1]


def test_the_shortfall_stated_holds_as_often_as_stated():
    source = randomness.seeded_for_simulation(1)
    utilities = np.arange(100)
    runs = [exponential(utilities, sensitivity=1, **{**GOOD, "randomness": source}) for _ in range(1000)]
    late = sum(99 - run.value > run.parameters["utility_shortfall_95"] for run in runs)
    assert late <= 100
