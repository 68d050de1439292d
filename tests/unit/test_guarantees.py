"""A guarantee says whom it protects, against which change, and changes its adjacency only the valid way."""

import math
from decimal import Decimal, localcontext

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


def test_at_several_sites_epsilons_and_deltas_add_up_where_each_draws_its_own_noise():
    price = Price("0.1", "1e-7", Unit.PERSON)
    assert price.at_sites(3, one_noise=False) == (Decimal("0.3"), Decimal("3e-7"))
    assert price.at_sites(1, one_noise=True) == price.at_sites(1, one_noise=False) == (price.epsilon, price.delta)


@pytest.mark.parametrize(("epsilon", "sites"), [(0.1, 2), (1, 5), (3, 4)])
def test_one_noise_for_several_sites_costs_what_group_privacy_says_and_never_less(epsilon: float, sites: int):
    told, delta = Price(epsilon, 1e-9, Unit.PERSON).at_sites(sites, one_noise=True)
    group = 1e-9 * math.expm1(sites * epsilon) / math.expm1(epsilon)
    assert float(told) == pytest.approx(sites * epsilon)
    assert float(delta) == pytest.approx(group, rel=1e-12)
    assert delta > Decimal(sites) * Decimal("1e-9")
    with localcontext(prec=80):
        assert delta >= Decimal("1e-9") * sum((i * Decimal(str(epsilon))).exp() for i in range(sites))


def test_a_delta_of_many_sites_ends_at_one_and_a_pure_price_stays_pure():
    assert Price(50, 1e-6, Unit.PERSON).at_sites(100, one_noise=True) == (Decimal(5000), Decimal(1))
    assert Price(2, 0, Unit.PERSON).at_sites(4, one_noise=True) == (Decimal(8), Decimal(0))
