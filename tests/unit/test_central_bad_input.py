"""Every central mechanism refuses every kind of bad input by the argument's name, before anything is drawn."""

from itertools import product

import numpy as np
import pytest

from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.count import count
from thebes.privacy.mechanisms.histogram import histogram, histogram_of_unknown_keys, on_simplex
from thebes.privacy.mechanisms.mean import mean
from thebes.privacy.mechanisms.sum import sum_
from thebes.privacy.mechanisms.variance import variance
from thebes.privacy.randomness import Randomness, seeded_for_simulation
from thebes.privacy.stability import Change


class Untouched(Randomness):
    """No refused call may draw anything."""

    def _drawn(self, *_, **__):
        raise AssertionError("something was drawn")

    words = laplace = gaussian = _drawn


MARKS, NUMBERS, TEXTS = [True, False, True], [1.0, 2.0, 3.0], ["a", "b", "a"]
GOOD = {
    count: {"values": np.array(MARKS), "epsilon": 1, "delta": 0, "adjacency": "add-remove-one"},
    sum_: {
        "values": NUMBERS,
        "bounds": (0, 5),
        "epsilon": 1,
        "delta": 0,
        "adjacency": "replace-one",
        "n": 3,
        "bits": 20,
    },
    mean: {
        "values": NUMBERS,
        "bounds": (0, 5),
        "epsilon": 1,
        "delta": 0,
        "adjacency": "replace-one",
        "n": 3,
        "bits": 20,
    },
    variance: {
        "values": NUMBERS,
        "bounds": (0, 5),
        "epsilon": 1,
        "delta": 0,
        "adjacency": "replace-one",
        "n": 3,
        "bits": 20,
    },
    histogram: {"values": TEXTS, "keys": ["a", "b"], "epsilon": 1, "delta": 0, "adjacency": "add-remove-one"},
    histogram_of_unknown_keys: {"values": TEXTS, "epsilon": 1, "delta": 1e-6, "adjacency": "add-remove-one"},
}
NOT_A_NUMBER = float("nan")
BAD = {
    "epsilon": [0, -1, NOT_A_NUMBER, float("inf"), "much", None, True, 1e9, [1]],
    "delta": [-1e-9, 1, 1.5, NOT_A_NUMBER, float("inf"), "some", None, False],
    "adjacency": [None, "", "neighbours", 1, "replace_one"],
    "bounds": [
        (5, 0),
        (1, 1),
        (0, float("inf")),
        (NOT_A_NUMBER, 1),
        (0,),
        (0, 1, 2),
        None,
        "05",
        ("a", "b"),
        7,
        (0, 10**400),
    ],
    "bits": [0, -3, 41, 2.5, "20", None, True],
    "n": [0, 2, 4, -1, 3.0, "3", True, 10**30],
    "keys": [[], ["a"], ["a", "a"], "ab", None, [["a"], ["b"]], [NOT_A_NUMBER, "a"], {"a": 1, "b": 2}, 3],
}
BAD_VALUES = {
    count: [[1, 2, 3], ["a"], [[True], [False]], None, [[True], [True, False]], "TFT", 3],
    sum_: [["1", "2", "3"], [1.0, NOT_A_NUMBER, 2.0], [[1.0], [2.0], [3.0]], [1, 2, 10**400], None, [1j, 2, 3], "123"],
    histogram: [None, "aba", 7, [["a"], ["b"]]],
    histogram_of_unknown_keys: [[1, 2, 3], [["a"], ["b"]], [None, "a"], 5, [["a"], ["a", "b"]]],
}
BAD_VALUES[mean] = BAD_VALUES[variance] = BAD_VALUES[sum_]

CASES = [
    (mechanism, argument, bad)
    for mechanism, good in GOOD.items()
    for argument in good
    for bad in (BAD_VALUES[mechanism] if argument == "values" else BAD[argument])
]


@pytest.mark.parametrize(("mechanism", "argument", "bad"), CASES, ids=lambda v: getattr(v, "__name__", None))
def test_bad_input_is_refused_by_name_and_nothing_is_drawn(mechanism, argument, bad):
    with pytest.raises(Mistake) as caught:
        mechanism(**{**GOOD[mechanism], argument: bad}, randomness=Untouched())
    named = {"bounds": {"bounds", "low", "high"}}.get(argument, {argument})
    assert caught.value.argument in named
    assert "NaN" in str(caught.value) or "nan" not in str(caught.value)


def test_a_good_call_would_have_drawn():
    for mechanism, good in GOOD.items():
        with pytest.raises(AssertionError, match="something was drawn"):
            mechanism(**good, randomness=Untouched())


@pytest.mark.parametrize("mechanism", [sum_, mean, variance])
def test_a_private_number_of_rows_cannot_be_declared(mechanism):
    with pytest.raises(Mistake) as caught:
        mechanism(**{**GOOD[mechanism], "adjacency": "add-remove-one"}, randomness=Untouched())
    assert caught.value.argument == "n"


@pytest.mark.parametrize("mechanism", GOOD)
def test_adjacency_has_no_default(mechanism):
    good = {k: v for k, v in GOOD[mechanism].items() if k != "adjacency"}
    with pytest.raises(TypeError, match="adjacency"):
        mechanism(**good, randomness=Untouched())


def test_unknown_keys_need_a_delta_and_one_row_for_each_unit():
    for change, named in (("replace-one", "delta"), (Change("add-remove-one", 2, "person"), "adjacency")):
        with pytest.raises(Mistake) as caught:
            histogram_of_unknown_keys(
                TEXTS, epsilon=1, delta=0 if named == "delta" else 1e-6, adjacency=change, randomness=Untouched()
            )
        assert caught.value.argument == named


@pytest.mark.parametrize("counts", [[], [NOT_A_NUMBER], [float("inf"), 1.0], [[1.0]]])
def test_impossible_counts_cannot_be_projected(counts):
    with pytest.raises(Mistake) as caught:
        on_simplex(np.array(counts), total=1.0)
    assert caught.value.argument == "counts"


def test_an_impossible_total_cannot_be_projected_to():
    for total in (-1.0, NOT_A_NUMBER, float("inf")):
        with pytest.raises(Mistake) as caught:
            on_simplex(np.array([1.0]), total=total)
        assert caught.value.argument == "total"


def test_infinite_and_far_values_are_clamped_like_any_other():
    far, near = [-np.inf, np.inf, 1e308, -1e308, 10**300, 6, -0.5], [0, 5, 5, 0, 5, 5, 0]
    for mechanism, adjacency in product((sum_, mean, variance), ("add-remove-one", "replace-one")):
        values = {
            mechanism(v, bounds=(0, 5), epsilon=100, adjacency=adjacency, randomness=seeded_for_simulation(1)).value
            for v in (far, near)
        }
        assert len(values) == 1
        assert np.isfinite(values.pop())
