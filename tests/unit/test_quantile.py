"""Quantiles: what is refused, what a measurement says, what ties and ends mean."""

from __future__ import annotations

import numpy as np
import pytest

from thebes.privacy import randomness
from thebes.privacy.accounting import pure
from thebes.privacy.events import Composed, ExponentialEvent, LaplaceEvent, Repeated
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.quantile import median, quantile, quantiles

GOOD = {
    "values": [1.0, 2.0, 3.0],
    "alpha": 0.5,
    "bounds": (0.0, 10.0),
    "epsilon": 1.0,
    "adjacency": "replace-one",
    "randomness": randomness.seeded_for_simulation(0),
}
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("argument", "value", "named"),
    [
        ("values", [1, NAN], "values"), ("values", [], "values"), ("values", [[1, 2]], "values"),
        ("values", ["a"], "values"), ("values", [None], "values"), ("values", [1, "2"], "values"),
        ("values", [10**400], "values"), ("values", 5, "values"), ("values", [1j], "values"),
        ("alpha", 0, "alpha"), ("alpha", 1, "alpha"), ("alpha", NAN, "alpha"), ("alpha", "1/3", "alpha"),
        ("alpha", 0.1234567, "alpha"), ("alpha", -0.5, "alpha"),
        ("bounds", (1, 0), "bounds"), ("bounds", (1, 1), "bounds"), ("bounds", (NAN, 1), "low"),
        ("bounds", (0, INF), "high"), ("bounds", (-1.7e308, 1.7e308), "bounds"), ("bounds", 3, "bounds"),
        ("bounds", "ab", "bounds"), ("bounds", (0, 10**400), "bounds"), ("bounds", (0, 1, 2), "bounds"),
        ("bits", 0, "bits"), ("bits", 41, "bits"), ("bits", 2.5, "bits"), ("bits", True, "bits"),
        ("epsilon", 0, "epsilon"), ("epsilon", NAN, "epsilon"), ("epsilon", INF, "epsilon"),
        ("epsilon", 10**400, "epsilon"), ("adjacency", "either", "adjacency"),
        ("n", 4, "n"),
        ("level", 1.0, "level"), ("level", 0.0, "level"), ("level", 95, "level"), ("level", NAN, "level"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name_and_without_a_value(argument, value, named):
    with pytest.raises(Mistake) as refused:
        quantile(**{**GOOD, argument: value})
    assert refused.value.argument == named
    assert "Error" not in str(refused.value)


@pytest.mark.parametrize("alphas", [[], "0.5", 0.5, [0.5, 1.0]])
def test_quantiles_need_a_list_of_shares(alphas):
    with pytest.raises(Mistake, match=r"^alpha"):
        quantiles(**{k: v for k, v in GOOD.items() if k != "alpha"}, alphas=alphas)


def test_whether_there_are_rows_is_private_under_add_remove_one():
    """No error for an empty table: it would tell that nobody is there."""
    found = median([], bounds=(0, 1), epsilon=1, adjacency="add-remove-one", randomness=randomness.system())
    assert 0 <= found.value <= 1


def test_infinite_rows_count_at_the_ends():
    rows = [-INF] * 50 + [4.0] * 200 + [INF] * 50
    assert quantile(**{**GOOD, "values": rows, "epsilon": 100}).value == pytest.approx(4, abs=1e-5)


def test_what_is_paid_with_and_without_an_interval():
    plain = quantile(**GOOD)
    assert plain.event == ExponentialEvent(1)
    assert plain.interval() is None
    assert plain.simulated
    bought = quantile(**GOOD, level=0.9)
    assert bought.event == Composed((ExponentialEvent("0.5"), LaplaceEvent(2.0, 2)))
    assert pure.price(bought.event, adjacency="replace-one").epsilon == 1
    assert bought.parameters["interval_counts"]["scale"] == 4  # rows that change move two counts, for half of epsilon
    assert bought.interval(0.9) == bought.interval(0.5) == bought.bought
    assert bought.interval(0.95) is None
    assert bought.bought.low <= bought.value <= bought.bought.high


def test_a_released_zero_is_a_value():
    assert (
        median([0] * 500, bounds=(0, 1), epsilon=10, adjacency="replace-one", randomness=randomness.system()).value == 0
    )


def test_equal_alphas_and_any_order_keep_their_places():
    rows = np.arange(1000)
    found = quantiles(
        rows,
        alphas=[0.9, 0.1, 0.9],
        bounds=(0, 1024),
        bits=10,
        epsilon=30,
        adjacency="replace-one",
        randomness=randomness.seeded_for_simulation(1),
    )
    assert found.value == pytest.approx([900, 100, 900], abs=15)
    assert found.event == Repeated(ExponentialEvent(10), 3)


def test_nothing_released_besides_the_value_depends_on_the_rows():
    few, many = (
        quantile(**{**GOOD, "values": rows, "adjacency": "add-remove-one"}, level=0.5) for rows in ([1.0], [7.0] * 999)
    )
    assert few.parameters == many.parameters
    assert few.event == many.event
