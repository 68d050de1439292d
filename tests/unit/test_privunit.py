"""PrivUnit: the promise from its cap and its coin, the grid of its reports, and what is refused."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from thebes.privacy.events import PureEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Pure
from thebes.privacy.mechanisms.local import LocalMechanism, PrivUnit, coins
from thebes.privacy.mechanisms.local.cap import SphericalCap, depth_at, mass_at
from thebes.privacy.mechanisms.local.privunit import STEPS, normals, uniforms
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import seeded_for_simulation, system

EPSILONS = ["0.5", "1", "2", "4", "8", "16", "64"]


def exact_mass(dimensions: int, depth: float) -> Fraction:
    """The share of a cap for odd dimensions, where it is a polynomial: a binomial tail."""
    a, x = (dimensions - 1) // 2, Fraction(depth)
    n = 2 * a - 1
    return sum((math.comb(n, j) * x**j * (1 - x) ** (n - j) for j in range(a, n + 1)), Fraction(0))


def even_mass(dimensions: int, height: float) -> float:
    """The share of a cap on the circle and in four dimensions, from its angle."""
    angle = math.acos(height)
    return {2: angle / math.pi, 4: (angle - math.sin(angle) * math.cos(angle)) / math.pi}[dimensions]


@pytest.mark.parametrize("dimension", [2, 4, 10, 20, 60])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_epsilon_holds_with_the_exact_cap_mass(dimension, epsilon):
    mechanism = PrivUnit(dimension, epsilon)
    mass = exact_mass(mechanism.dimensions, mechanism.cap.depth)
    worst = coins.odds_of(mechanism.coin) * (1 - mass) / mass
    log = coins.ratio(worst).ln(coins.WIDE)
    loss = mechanism.loss()
    assert isinstance(loss, Pure)
    assert log + mechanism.reserve <= loss.epsilon <= Decimal(epsilon)
    assert float(log) == pytest.approx(float(epsilon), abs=2e-4)  # nearly all of it is used


@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.parametrize("epsilon", ["0.5", "2", "8"])
def test_epsilon_holds_on_the_circle_and_in_four_dimensions(dimension, epsilon):
    mechanism = PrivUnit(dimension, epsilon)
    mass = even_mass(mechanism.dimensions, mechanism.cap.height)
    assert mechanism.cap.mass == pytest.approx(mass, rel=1e-11)
    odds = float(coins.odds_of(mechanism.coin)) * (1 - mass) / mass
    assert math.log(odds) <= float(epsilon) - float(mechanism.reserve) + 1e-9


@pytest.mark.parametrize("dimensions", [3, 5, 21, 101])
@pytest.mark.parametrize("share", [0.5, 0.1, 1e-3, 1e-8, 1e-20])
def test_cap_masses_are_far_closer_than_the_one_in_a_billion_that_is_charged(dimensions, share):
    depth = float(depth_at(dimensions, np.asarray(share)))
    exact = exact_mass(dimensions, depth)
    assert abs(Fraction(mass_at(dimensions, depth)) / exact - 1) < Fraction(1, 10**11)
    assert abs(exact / Fraction(share) - 1) < Fraction(1, 10**10)


def test_heights_err_by_far_less_than_what_the_reserve_covers():
    for dimensions in (3, 11, 51, 201):
        for share in (0.5, 0.25, 1e-2, 1e-6, 1e-15, 1e-40):
            depth = float(depth_at(dimensions, np.asarray(share)))
            # The exact share grows with the depth, so a sign change brackets the true depth.
            slack = Fraction(depth) + Fraction(1, 2**41), max(Fraction(depth) - Fraction(1, 2**41), Fraction(0))
            above, below = (exact_mass(dimensions, s) for s in slack)  # type: ignore[arg-type]
            assert below <= Fraction(share) <= above


def test_normal_quantiles_err_by_far_less_than_what_the_reserve_covers():
    from scipy.special import ndtri

    for share in (0.5, 0.4999, 0.3, 1e-3, 1e-9, 1e-15, 1e-20):
        z = float(ndtri(share))
        # Newton's step from the complementary error function: the distance to the true quantile.
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        assert abs(0.5 * math.erfc(-z / math.sqrt(2)) - share) / density < 2.0**-41


@pytest.mark.parametrize("dimension", [1, 2, 5, 40])
@pytest.mark.parametrize("hold", [0.5, 0.9, 0.999])
@pytest.mark.parametrize("depth", [0.5, 0.3, 0.05])
def test_moments_agree_with_integrals(dimension, hold, depth):
    from scipy.integrate import quad

    dimensions = dimension + 1
    cap = SphericalCap(dimensions, depth, mass_at(dimensions, depth))

    def integral(power: int, low: float, high: float) -> float:
        # In the angle t = cos(a), where the density is sin(a)^(D-2): smooth even on the circle.
        ends = math.acos(high), math.acos(low)
        found = quad(lambda a: math.cos(a) ** power * math.sin(a) ** (dimensions - 2), *ends, epsabs=1e-14)
        return float(found[0])

    whole = integral(0, -1, 1)
    for power, value in ((1, cap.first_moment(hold)), (2, cap.second_moment(hold))):
        inside, outside = integral(power, cap.height, 1) / whole, integral(power, -1, cap.height) / whole
        expected = hold * inside / cap.mass + (1 - hold) * outside / (1 - cap.mass)
        assert value == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("dimension", [1, 5, 20])
@pytest.mark.parametrize("epsilon", [0.5, 4.0, 16.0])
def test_no_other_split_of_epsilon_carries_more_signal(dimension, epsilon):
    mechanism = PrivUnit(dimension, epsilon)
    for share in np.linspace(0.05, 0.99, 37):
        odds = epsilon * share
        depth = float(depth_at(dimension + 1, np.asarray(1 / (1 + math.exp(epsilon - odds)))))
        other = SphericalCap(dimension + 1, depth, mass_at(dimension + 1, depth))
        assert other.first_moment(1 / (1 + math.exp(-odds))) <= mechanism.m * (1 + 1e-4)


def test_the_aim_decides_which_moment_is_served_best():
    first, second = PrivUnit(10, 8), PrivUnit(10, 8, aim="second-moment")
    assert first.m > second.m
    assert second.s - second.c > first.s - first.c


def test_error_falls_exponentially_where_a_split_laplace_falls_like_one_over_epsilon():
    errors = [PrivUnit(10, epsilon).expected_error(1) for epsilon in (8, 16, 32, 64)]
    assert errors[1] < errors[0] / 5
    assert errors[3] < errors[2] / 50
    split = 10 * 2 * (10 * 2 / 8) ** 2
    assert errors[0] < split / 100


def test_it_says_what_it_promises():
    mechanism = PrivUnit(3, 2, radius=5.0)
    assert isinstance(mechanism, LocalMechanism)
    assert mechanism.adjacency is Adjacency.REPLACE_ONE
    assert mechanism.event() == PureEvent(mechanism.loss().epsilon)
    assert mechanism.delta == 0
    assert json.loads(json.dumps(mechanism.parameters())) == mechanism.parameters()
    assert "epsilon=2" in repr(mechanism)
    assert mechanism.expected_error(200) == pytest.approx(25 * PrivUnit(3, 2).expected_error(1) / 200)


@pytest.mark.parametrize("randomness", [system(), seeded_for_simulation(2)], ids=["system", "seeded"])
@pytest.mark.parametrize("dimension", [1, 2, 9, 300])
def test_every_report_lies_on_the_public_grid(randomness, dimension):
    mechanism = PrivUnit(dimension, 4)
    rows = np.eye(dimension + 5)[:, :dimension] - 0.2  # among them zero-like, axis and diagonal rows
    reports = mechanism.perturb(rows, randomness)
    assert reports.dtype == np.int16
    assert reports.shape == (dimension + 5, dimension + 1)
    assert (np.abs(reports.astype(int)).max(axis=1) == STEPS).all()
    assert (mechanism.check(reports.tolist()) == reports).all()
    assert mechanism.decode(reports).shape == rows.shape
    assert np.linalg.norm(mechanism.directions(reports), axis=1) == pytest.approx(1)
    estimate = mechanism.estimate(reports)
    assert estimate.value.shape == (dimension,)
    assert mechanism.second_moment(reports).value.shape == (dimension, dimension)


def test_a_person_is_a_batch_of_one():
    mechanism = PrivUnit(4, 1)
    reports = mechanism.perturb([[0.1, 0.2, 0.3, 0.4]], system())
    estimate = mechanism.estimate(reports)
    assert estimate.contributors == 1
    assert np.isfinite(estimate.standard_error).all()
    assert np.isfinite(mechanism.second_moment(reports).standard_error).all()


def test_a_seed_repeats_and_the_system_does_not():
    mechanism, rows = PrivUnit(6, 3), np.full((20, 6), 0.2)
    first, again = (mechanism.perturb(rows, seeded_for_simulation(9)) for _ in range(2))
    assert (first == again).all()
    assert (mechanism.perturb(rows, system()) != mechanism.perturb(rows, system())).any()


def test_rows_in_one_batch_and_in_blocks_lie_on_the_same_grid(monkeypatch):
    from thebes.privacy.mechanisms.local import privunit

    monkeypatch.setattr(privunit, "_BLOCK", 64)
    reports = PrivUnit(6, 3).perturb(np.zeros((100, 6)), system())
    assert PrivUnit(6, 3).check(reports).shape == (100, 7)


def test_what_is_drawn_ahead_of_rows_makes_the_reports_that_are_drawn_with_them():
    mechanism, rows = PrivUnit(6, 3), np.random.default_rng(1).normal(size=(100, 6))
    ahead = mechanism.ahead(100, seeded_for_simulation(2))
    assert (mechanism.joined(rows, ahead) == mechanism.perturb(rows, seeded_for_simulation(2))).all()


@pytest.mark.parametrize(
    "row",
    [[3.0, 4.0], [3e300, 4e300], [3e-300, 4e-300], [0.0, 0.0], [-1e308, 1e308], [0.6, 0.8], [5e-324, 0.0]],
    ids=str,
)
def test_rows_are_lifted_to_unit_length_and_shortened_to_the_radius(row):
    mechanism = PrivUnit(2, 1, radius=2.0)
    signs = mechanism.ahead(50, seeded_for_simulation(1))[:, 0]
    lifted = mechanism.lift(np.array([row] * 50), signs)
    assert np.linalg.norm(lifted, axis=1) == pytest.approx(1, abs=1e-15)
    length = math.hypot(*(c / 4 for c in row)) * 4 if max(map(abs, row)) < 1e307 else math.inf
    assert np.linalg.norm(lifted[:, :2], axis=1) == pytest.approx(min(1.0, length / 2), abs=1e-15)
    if length < 2:
        assert (np.sign(lifted[:, 2]) == signs).all()
        assert set(signs) == {-1.0, 1.0}  # a fair coin chose the side
    if 1e-150 < length < math.inf:
        assert lifted[0, :2] / np.linalg.norm(lifted[0, :2]) == pytest.approx(np.array(row) / length)


def test_small_uniform_numbers_are_as_fine_as_large_ones():
    class Small:
        count = 0

        def words(self, count: int):
            return (
                np.full(count, 3, dtype=np.uint64) if count == 4 else np.arange(count, dtype=np.uint64) << np.uint64(60)
            )

    found = uniforms(Small(), 4)  # type: ignore[arg-type]
    assert found == pytest.approx(3.5 * 2.0**-64)
    assert uniforms(seeded_for_simulation(1), 100_000).max() <= 1


def test_normal_numbers_are_never_zero_and_never_infinite():
    class Extreme:
        def __init__(self, word: int) -> None:
            self.word = word

        def words(self, count: int):
            return np.full(count, self.word, dtype=np.uint64)

    for word in (0, 1, 2**64 - 1, 2**64 - 2):
        found = normals(Extreme(word), 2)  # type: ignore[arg-type]
        assert np.isfinite(found).all()
        assert (found != 0).all()
        assert (np.sign(found) == (1 if word % 2 else -1)).all()


@pytest.mark.parametrize("dimension", [0, -1, 2.0, True, "3", None, 10**9, float("nan")])
def test_a_bad_dimension_is_a_mistake(dimension):
    with pytest.raises(Mistake) as error:
        PrivUnit(dimension, 1)
    assert error.value.argument == "dimension"


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), "much", None, True, 1e-300, 10**400, "1e-6"])
def test_a_bad_epsilon_is_a_mistake(epsilon):
    with pytest.raises(Mistake) as error:
        PrivUnit(5, epsilon)
    assert error.value.argument == "epsilon"


@pytest.mark.parametrize("radius", [0, -1.0, float("nan"), float("inf"), "x", None])
def test_a_bad_radius_is_a_mistake(radius):
    with pytest.raises(Mistake) as error:
        PrivUnit(5, 1, radius=radius)
    assert error.value.argument == "radius"


def test_an_unknown_aim_is_a_mistake():
    with pytest.raises(Mistake, match="aim"):
        PrivUnit(5, 1, aim="median")


@pytest.mark.parametrize("epsilon", ["1", "200", "1000", "1000000"])
@pytest.mark.parametrize("dimension", [1, 2, 3, 50, 3000])
def test_huge_epsilons_and_dimensions_still_work(dimension, epsilon):
    mechanism = PrivUnit(dimension, epsilon)
    assert 0 < mechanism.loss().epsilon <= Decimal(epsilon)
    assert 0 < mechanism.m <= 1 + 1e-12
    reports = mechanism.perturb(np.full((3, dimension), 0.01), system())
    assert np.isfinite(mechanism.estimate(reports).value).all()


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [[]],
        [[1.0]],
        [[1.0, float("nan")]],
        [[1.0, float("inf")]],
        [1.0, 2.0],
        [["a", "b"]],
        [[None, 1]],
        [[1, 2], [3]],
    ],
    ids=str,
)
def test_bad_rows_are_a_mistake(rows):
    with pytest.raises(Mistake) as error:
        PrivUnit(2, 1).perturb(rows, system())
    assert error.value.argument == "values"


@pytest.mark.parametrize(
    "reports",
    [
        [],
        [[4096, 0]],
        [[4095, 0, 0]],
        [[0, 0, 0]],
        [[4097, 0, 0]],
        [[4096, -4097, 0]],
        [[2**40, 0, 0]],
        [[4096.0, 0.0, 0.0]],
        [[10**30, 0, 0]],
        [[4096, 0, None]],
        "no",
    ],
    ids=str,
)
def test_hostile_reports_are_refused(reports):
    mechanism = PrivUnit(2, 1)
    for read in (mechanism.check, mechanism.estimate, mechanism.second_moment, mechanism.decode):
        with pytest.raises(Mistake) as error:
            read(reports)
        assert error.value.argument == "reports"
