"""The stability maps against brute force: every pair of neighbours over a small universe of rows."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thebes.privacy.events import LaplaceEvent
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.grid import Grid
from thebes.privacy.mechanisms.additive import Gaussian, Laplace
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import seeded_for_simulation
from thebes.privacy.stability import LARGEST_TOTAL, Change, change_of
from thebes.privacy.transformations.counts import Count, HistogramCounts, LevelCounts, MarginalCounts
from thebes.privacy.transformations.groups import Grouped
from thebes.privacy.transformations.moments import BernsteinProducts, BernsteinSums, CentredMoments
from thebes.privacy.transformations.sums import BoundedSum, ShiftedSum, VectorSum

NUMBERS = [-np.inf, -7.0, -1.0, -0.3, 0.0, 0.49, 0.5, 1.1, 1.9, 2.0, 2.0000001, 9.0, np.inf]
VECTORS = [(0.0, 0.0), (1.0, 0.0), (-1.0, 0.0), (0.0, -9.0), (3.0, 4.0), (-3.0, -4.0), (0.3, -0.4), (1e-9, 1e300)]

PAIRS = [(x, y) for x in (-9.0, -0.3, 0.6, 2.0) for y in (-1.0, 0.5, 9.0)]
GROUPED = [(place, x) for place in (-1, 0, 1) for x in (-9.0, 0.4, 2.0)]

#: transformation, universe of rows, whether the map's figures are reached exactly by some pair of neighbours
CASES = {
    "count": (Count(), [True, False], True),
    "sum across 0": (BoundedSum(-1.0, 2.0, 4), NUMBERS, True),
    "sum above 0": (BoundedSum(0.5, 2.0, 5), NUMBERS, True),
    "sum below 0": (BoundedSum(-2.0, -0.3, 5), NUMBERS, True),
    "two cells": (BernsteinSums(Grid(-1.0, 2.0, 4), 1), NUMBERS, True),
    "three cells": (BernsteinSums(Grid(-1.0, 2.0, 5), 2), NUMBERS, True),
    "centred moments": (CentredMoments(Grid(-1.0, 2.0, 4)), [*NUMBERS, *np.linspace(-1, 2, 33)], False),
    "histogram": (HistogramCounts(3), [0, 1, 2, -1], True),
    "shifted sum": (ShiftedSum(Grid(-1.0, 2.0, 4), -5), NUMBERS, True),
    "shifted sum above 0": (ShiftedSum(Grid(1.0, 2.0, 4), 16), NUMBERS, True),
    "nine cells": (BernsteinProducts(Grid(-1.0, 2.0, 3), Grid(-1.0, 1.0, 4)), PAIRS, True),
    "levels": (LevelCounts((2, 4, 12)), [-1, 0, 1, 5, 11], True),
    "one level": (LevelCounts((3,)), [-1, 0, 1, 2], True),
    "marginals": (MarginalCounts((2, 3)), [(-1, -1), (0, 0), (1, 2), (0, 2), (-1, 1)], True),
    "counts of groups": (Grouped(HistogramCounts(2), 2), [(-1, 0), (0, 0), (0, 1), (1, 0), (1, -1)], True),
    "sums of groups": (Grouped(BoundedSum(-1.0, 2.0, 4), 2), GROUPED, True),
    "cells of groups": (Grouped(BernsteinSums(Grid(-1.0, 2.0, 5), 2), 2), GROUPED, True),
    "one group": (Grouped(BernsteinSums(Grid(-1.0, 2.0, 5), 1), 1), [(0, x) for x in NUMBERS], True),
    "vectors in L1": (VectorSum(2.0, 1, 2, 4), VECTORS, True),
    "vectors in L2": (VectorSum(2.0, 2, 2, 4), VECTORS, False),
}


def total(transformation, rows):
    if isinstance(transformation, Grouped):
        values = np.array(
            [value for _, value in rows], dtype=np.int64 if "HistogramC" in str(transformation) else float
        )
        return transformation.total((np.array([group for group, _ in rows], dtype=np.int64), values))
    if isinstance(transformation, BernsteinProducts) and not rows:
        return transformation.total(np.zeros((0, 2)))
    return transformation.total(np.array(rows)) if rows else transformation.total(np.array([], dtype=np.int64))


def neighbours(universe, change):
    """Pairs (D, D') over all data sets of at most two rows beside the unit's own (a fixed other row each)."""
    others = [[], [universe[0]], [universe[-1], universe[1]]]
    units = [[list(c) for c in product(universe, repeat=k)] for k in range(change.rows + 1)]
    nobody, somebody = units[0], [u for some in units[1:] for u in some]
    for rest in others:
        if change.adjacency is Adjacency.ADD_REMOVE_ONE:
            pairs = product(nobody, somebody)
        elif change.public_size:
            pairs = product(units[1], units[1])
        else:
            pairs = product(nobody + somebody, nobody + somebody)
        for one, other in pairs:
            yield rest + one, rest + other


CHANGES = {
    "add-remove": Change(Adjacency.ADD_REMOVE_ONE),
    "add-remove, two rows": Change(Adjacency.ADD_REMOVE_ONE, 2, Unit.PERSON),
    "replace": Change(Adjacency.REPLACE_ONE),
    "replace, size public": Change(Adjacency.REPLACE_ONE, public_size=True),
}


@pytest.mark.few(10)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("case", CASES)
def test_no_neighbours_are_further_apart_than_the_map_says_and_some_are_as_far(case, change):
    transformation, universe, tight = CASES[case]
    change = CHANGES[change]
    sensitivity = transformation.sensitivity(change)
    l1 = l2_squared = 0
    for one, other in neighbours(universe, change):
        far = total(transformation, one) - total(transformation, other)
        l1, l2_squared = max(l1, int(np.abs(far).sum())), max(l2_squared, int((far * far).sum()))
        assert far.size == sensitivity.coordinates
    assert l1 <= sensitivity.l1
    assert l2_squared <= sensitivity.l2_squared
    if tight:
        assert (l1, l2_squared) == (sensitivity.l1, sensitivity.l2_squared)
    else:
        assert l1 >= 0.7 * sensitivity.l1
        assert l2_squared >= 0.6 * sensitivity.l2_squared


@pytest.mark.parametrize("bits", [3, 5, 8, 11])
def test_centred_moments_hold_for_every_pair_of_rows_and_are_nearly_reached(bits):
    transformation = CentredMoments(Grid(0.0, 1.0, bits))
    cells = transformation.cells(np.arange(2**bits + 1) / 2**bits).astype(np.int64)
    l1 = l2 = 0
    for row in cells:
        far = np.abs(cells - row)
        l1, l2 = max(l1, far.sum(axis=1).max()), max(l2, (far * far).sum(axis=1).max())
    assert 0.99 * 25 / 8 * 2**bits <= l1 <= transformation.diameter.l1
    assert 0.95 * 5.1 * 4**bits <= l2 <= transformation.diameter.l2_squared
    assert np.abs(cells).sum(axis=1).max() <= transformation.reach.l1
    assert (cells * cells).sum(axis=1).max() <= transformation.reach.l2_squared


@pytest.mark.parametrize(
    ("low", "high", "add_remove", "replace"),
    [(0, 100, 2**19, 2**19), (-50, 50, 2**19, 2**20), (-100, 0, 2**19, 2**19), (50, 100, 2**19, 2**18)],
)
def test_sums_of_numbers_are_calibrated_to_bounds_and_adjacency(low, high, add_remove, replace):
    transformation = BoundedSum(low, high, 20)
    assert transformation.sensitivity(Change(Adjacency.ADD_REMOVE_ONE)).l1 == add_remove
    assert transformation.sensitivity(Change(Adjacency.REPLACE_ONE, public_size=True)).l1 == replace
    # A row that may also be absent counts as 0, which may lie outside the bounds.
    assert transformation.sensitivity(Change(Adjacency.REPLACE_ONE)).l1 == max(add_remove, replace)


def test_a_unit_with_several_rows_moves_the_answer_several_times_as_far():
    change = Change("add-remove-one", 7, "person")
    assert Count().sensitivity(change).l1 == 7
    assert HistogramCounts(4).sensitivity(change).l2_squared == 49
    assert HistogramCounts(4).sensitivity(Change("replace-one", 7, "person")).l2_squared == 2 * 49


def test_the_l2_norm_is_rounded_up():
    assert HistogramCounts(4).sensitivity(Change("replace-one")).l2 > np.sqrt(2)
    assert HistogramCounts(4).sensitivity(Change("replace-one")).l2 == pytest.approx(np.sqrt(2))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("add-remove-one", 0), "rows"),
        (("add-remove-one", 2.5), "rows"),
        (("add-remove-one", True), "rows"),
        (("add-remove-one", 2), "unit"),
        (("add-remove-one", 2, "household"), "unit"),
        (("add-remove-one", 1, "person", True), "adjacency"),
        (("replace-one", 2, "person", True), "adjacency"),
        (("neither",), "adjacency"),
    ],
)
def test_an_impossible_change_is_refused_by_name(arguments, named):
    with pytest.raises(Mistake) as caught:
        Change(*arguments)
    assert caught.value.argument == named


def test_a_bare_adjacency_claims_the_least_unit():
    assert change_of("replace-one") == Change(Adjacency.REPLACE_ONE, 1, Unit.EVENT)
    assert change_of(Change("replace-one", 3, "person")).rows == 3


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: BoundedSum(1.0, 1.0), "bounds"),
        (lambda: BoundedSum(float("nan"), 1.0), "low"),
        (lambda: BoundedSum(0.0, float("inf")), "high"),
        (lambda: BoundedSum(0.0, 1.0, 0), "bits"),
        (lambda: HistogramCounts(1), "cells"),
        (lambda: HistogramCounts(2.0), "cells"),
        (lambda: VectorSum(0.0, 2, 3), "bound"),
        (lambda: VectorSum(5e-324, 2, 3), "bound"),
        (lambda: VectorSum(float("inf"), 2, 3), "bound"),
        (lambda: VectorSum("1", 2, 3), "bound"),
        (lambda: VectorSum(1.0, 3, 3), "norm"),
        (lambda: VectorSum(1.0, 2, 0), "coordinates"),
        (lambda: VectorSum(1.0, 2, 3, 60), "bits"),
        (lambda: BernsteinSums(Grid(0, 1, 20), 3), "degree"),
        (lambda: CentredMoments(Grid(0, 1, 40)), "bits"),
        (lambda: Count().total([1, 2]), "values"),
        (lambda: BoundedSum(0, 1).total(["a"]), "values"),
        (lambda: BoundedSum(0, 1).total([[1.0]]), "values"),
        (lambda: BoundedSum(0, 1).total([float("nan")]), "values"),
        (lambda: VectorSum(1.0, 2, 2).total([[1.0]]), "values"),
        (lambda: VectorSum(1.0, 2, 2).total([[1.0, float("inf")]]), "values"),
    ],
)
def test_impossible_transformations_and_rows_are_refused_by_name(make, named):
    with pytest.raises(Mistake) as caught:
        make()
    assert caught.value.argument == named


@pytest.mark.parametrize("rows", [[3], [-2], [0.5]])
def test_a_cell_that_does_not_exist_is_our_own_fault(rows):
    with pytest.raises(Fault):
        HistogramCounts(3).total(rows)


@given(
    st.lists(st.lists(st.floats(-1e308, 1e308), min_size=3, max_size=3), min_size=1, max_size=20),
    st.floats(1e-6, 1e6),
    st.sampled_from([1, 2]),
)
def test_every_shrunk_row_keeps_its_norm_exactly_and_its_direction_nearly(rows, bound, norm):
    transformation = VectorSum(bound, norm, 3)
    whole = transformation.integers(np.array(rows))
    most = 1 << transformation.bits
    for row, image in zip(rows, whole.tolist(), strict=True):
        assert (sum(map(abs, image)) if norm == 1 else sum(v * v for v in image)) <= (most if norm == 1 else most**2)
        assert all(v * i >= 0 for v, i in zip(row, image, strict=True))


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=2))
def test_a_row_within_the_norm_is_moved_by_rounding_only(row):
    transformation = VectorSum(20.0, 2, 2)
    np.testing.assert_allclose(transformation.integers(np.array([row]))[0] * transformation.step, row, atol=2.1e-5)


@given(st.lists(st.floats(allow_nan=False), max_size=50))
def test_cells_hand_out_exactly_one_unit_for_each_row(values):
    for degree in (1, 2):
        cells = BernsteinSums(Grid(-1.0, 2.0, 20), degree).cells(np.array(values, dtype=np.float64))
        assert (cells >= 0).all()
        assert (cells.sum(axis=1) == 2**20).all()


def test_totals_are_exact_over_many_blocks_and_clamped_at_the_end_of_64_bits():
    values = np.linspace(0, 1, 100_003)
    transformation = BoundedSum(0.0, 1.0, 40)
    expected = sum(int(transformation.total(part)[0]) for part in np.array_split(values, 5_000))
    assert transformation.total(values)[0] == expected
    assert expected == pytest.approx(values.sum() * 2**39)
    assert BoundedSum(0.0, 1.0, 40).total(np.ones(5_000_000))[0] == LARGEST_TOTAL


def test_a_chain_is_a_mechanism_calibrated_by_the_map():
    mechanism = HistogramCounts(3) >> Laplace(0.5)
    rows = np.array([0, 0, 2])
    one = mechanism(rows, adjacency="add-remove-one", randomness=seeded_for_simulation(1))
    two = mechanism(rows, adjacency="replace-one", randomness=seeded_for_simulation(1))
    assert (one.parameters["scale"], two.parameters["scale"]) == (2.0, 4.0)
    assert (one.event, two.event) == (LaplaceEvent(2.0, 1), LaplaceEvent(2.0, 2))  # a row moves so many counts
    assert (one.adjacency, one.simulated, one.value.shape) == (Adjacency.ADD_REMOVE_ONE, True, (3,))
    smooth = (VectorSum(1.0, 2, 4) >> Gaussian(1, 1e-6))(
        np.zeros((2, 4)), adjacency="replace-one", randomness=seeded_for_simulation(1)
    )
    assert smooth.parameters["scale"] == pytest.approx(2 * 2**20 * smooth.event.ratio)
