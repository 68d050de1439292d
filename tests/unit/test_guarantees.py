"""A guarantee says whom it protects, against which change, and changes its adjacency only the valid way."""

import math
from decimal import Decimal

import pytest

from thebes.privacy.faults import Mistake
from thebes.privacy.guarantees import Guarantee, Price, as_replace_one
from thebes.privacy.losses import ORDERS, Approximate, Concentrated, Pure, Renyi
from thebes.privacy.promise import Adjacency, Unit, adjacency_of, unit_of


def test_nothing_can_be_promised_without_saying_to_whom_and_against_what():
    with pytest.raises(TypeError):
        Guarantee(Pure(1))
    with pytest.raises(Mistake) as refused:
        Guarantee(Pure(1), "person", "nearby")
    assert refused.value.argument == "adjacency"
    with pytest.raises(Mistake) as refused:
        Guarantee(Pure(1), "family", "replace-one")
    assert refused.value.argument == "unit"
    with pytest.raises(Mistake) as refused:
        Guarantee(1.0, "person", "replace-one")
    assert refused.value.argument == "loss"


def test_units_and_adjacencies_read_as_sentences():
    assert all(unit.sentence and unit_of(str(unit)) is unit for unit in Unit)
    assert all(adjacency.sentence and adjacency_of(str(adjacency)) is adjacency for adjacency in Adjacency)


def test_a_kind_is_the_word_on_the_certificate():
    curve = Renyi([1] * len(ORDERS))
    kinds = [
        Guarantee(loss, "event", "replace-one").kind for loss in (Pure(1), Approximate(1, 0), Concentrated(1), curve)
    ]
    assert kinds == ["pure", "approximate", "zcdp", "renyi"]


def test_replacing_is_removing_and_adding():
    assert as_replace_one(Guarantee(Pure(1), "event", "add-remove-one")).loss == Pure(2)
    assert as_replace_one(Guarantee(Concentrated(0.5), "event", "add-remove-one")).loss == Concentrated(2)
    doubled = as_replace_one(Guarantee(Approximate(1, 1e-6), "event", "add-remove-one"))
    assert doubled.adjacency is Adjacency.REPLACE_ONE
    assert doubled.loss.epsilon == 2
    assert float(doubled.loss.delta) == pytest.approx((1 + math.e) * 1e-6)
    assert doubled.loss.delta >= Decimal(1 + math.e) * Decimal("1e-6")


def test_replace_one_stays_as_it_is_and_never_becomes_the_other():
    already = Guarantee(Pure(1), "event", "replace-one")
    assert as_replace_one(already) is already


def test_a_large_epsilon_leaves_a_delta_of_one_at_most():
    assert as_replace_one(Guarantee(Approximate(5000, 0.1), "event", "add-remove-one")).loss.delta == 1


def test_a_curve_must_be_converted_before_its_adjacency_changes():
    with pytest.raises(Mistake):
        as_replace_one(Guarantee(Renyi([1] * len(ORDERS)), "event", "add-remove-one"))


def test_a_price_is_exact_and_has_a_unit():
    price = Price(0.1, 1e-6, "person")
    assert (price.epsilon, price.delta, price.unit) == (Decimal("0.1"), Decimal("0.000001"), Unit.PERSON)
    assert price.as_json() == {"epsilon": 0.1, "delta": 1e-6, "unit": "person"}


@pytest.mark.parametrize("epsilon", [-1, math.nan, "x"])
def test_a_price_that_is_no_price_is_refused(epsilon):
    with pytest.raises(Mistake) as refused:
        Price(epsilon, 0, "person")
    assert refused.value.argument == "epsilon"
