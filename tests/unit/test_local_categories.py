"""Local mechanisms for categories: exact odds, formulas of their sources, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from thebes.privacy.events import ApproximateEvent, PureEvent, RandomizedResponseEvent
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.losses import Approximate, Pure
from thebes.privacy.mechanisms.local import (
    AsymmetricUnaryEncoding,
    CategoryMechanism,
    HadamardResponse,
    LocalMechanism,
    RandomizedResponse,
    SubsetSelection,
    SymmetricUnaryEncoding,
    choose_categorical,
    coins,
)
from thebes.privacy.mechanisms.local.unary import UnaryEncoding, best_own
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import Coin, seeded_for_simulation, system

ALL = [RandomizedResponse, SymmetricUnaryEncoding, AsymmetricUnaryEncoding, SubsetSelection, HadamardResponse]
EPSILONS = ["1e-9", "0.001", "0.1", "0.7", "1", "2.5", "8", "30", "1000000"]

Likelihoods = dict[tuple[int, ...], Fraction]


def likelihoods(mechanism: CategoryMechanism, category: int) -> Likelihoods:
    """The exact chance of every report, from the coins' thresholds and nothing else."""
    size = mechanism.size
    if isinstance(mechanism, RandomizedResponse):
        keep = mechanism.coin.probability
        return {(y,): keep if y == category else (1 - keep) / (size - 1) for y in range(size)}
    if isinstance(mechanism, UnaryEncoding):
        odds = [mechanism.one if i == category else mechanism.other for i in range(size)]

        def chance(bits: tuple[int, ...]) -> Fraction:
            pairs = zip(bits, odds, strict=True)
            return math.prod((c.probability if b else 1 - c.probability for b, c in pairs), start=Fraction(1))

        return {bits: chance(bits) for bits in itertools.product((0, 1), repeat=size)}
    if isinstance(mechanism, SubsetSelection):
        keep, members = mechanism.coin.probability, mechanism.members
        with_own, without = math.comb(size - 1, members - 1), math.comb(size - 1, members)
        return {
            tuple(int(i in chosen) for i in range(size)): keep / with_own
            if category in chosen
            else (1 - keep) / without
            for chosen in itertools.combinations(range(size), members)
        }
    assert isinstance(mechanism, HadamardResponse)
    keep, half = mechanism.coin.probability, Fraction(2, mechanism.rows)
    minus = [bin(y & (category + 1)).count("1") % 2 for y in range(mechanism.rows)]
    return {(y,): half * (1 - keep if minus[y] else keep) for y in range(mechanism.rows)}


def largest_ratio(mechanism: CategoryMechanism) -> Fraction:
    tables = [likelihoods(mechanism, x) for x in range(mechanism.size)]
    return max(a[y] / b[y] for a, b in itertools.permutations(tables, 2) for y in a)


@pytest.mark.few(56)
@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_loss_is_the_largest_log_ratio_of_all_reports_and_never_above_epsilon(kind, size, epsilon):
    mechanism = kind(size, Decimal(epsilon))
    for category in range(size):
        assert sum(likelihoods(mechanism, category).values()) == 1
    worst = coins.ratio(largest_ratio(mechanism)).ln(coins.WIDE)
    loss = mechanism.loss()
    assert isinstance(loss, Pure)
    assert worst <= loss.epsilon <= Decimal(epsilon)
    assert loss.epsilon - worst <= Decimal("1e-12")


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("epsilon", ["0.01", "1", "6"])
def test_nearly_all_of_epsilon_is_used(kind, epsilon):
    assert kind(16, epsilon).loss().epsilon >= Decimal(epsilon) - Decimal("1e-11")


@pytest.mark.parametrize("kind", ALL)
def test_support_probabilities_are_those_of_the_exact_table(kind):
    mechanism = kind(5, 1)
    reports = list(likelihoods(mechanism, 2))
    counts = {
        report: mechanism._support(mechanism.check([report] if len(report) > 1 else report)) for report in reports
    }
    for category in range(5):
        chance = sum((p for y, p in likelihoods(mechanism, 2).items() if counts[y][category]), Fraction(0))
        assert chance == (mechanism.hold if category == 2 else mechanism.stray)


@pytest.mark.parametrize("size", [2, 4, 50])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "5"])
@pytest.mark.parametrize("delta", ["1e-9", "0.001", "0.3"])
def test_approximate_response_spends_exactly_its_delta(size, epsilon, delta):
    mechanism = RandomizedResponse(size, Decimal(epsilon), Decimal(delta))
    hold = (math.exp(float(epsilon)) + float(delta) * (size - 1)) / (size + math.exp(float(epsilon)) - 1)
    assert float(mechanism.hold) == pytest.approx(hold, rel=1e-12)  # Tiresias, eq. 4.10
    growth = coins.exponential(Decimal(epsilon))
    worst = coins.ratio(mechanism.hold) - growth * coins.ratio(mechanism.stray)
    loss = mechanism.loss()
    assert isinstance(loss, Approximate)
    assert worst <= loss.delta <= Decimal(delta)
    assert float(loss.delta) == pytest.approx(float(delta), rel=1e-8)
    assert mechanism.event() == ApproximateEvent(loss.epsilon, loss.delta)


def test_approximate_response_keeps_its_promise_for_every_set_of_answers():
    mechanism = RandomizedResponse(4, 1, Decimal("0.01"))
    p, q = likelihoods(mechanism, 0), likelihoods(mechanism, 1)
    growth = Fraction(str(coins.exponential(Decimal(1))))
    for size in range(1, 5):
        for answers in itertools.combinations(p, size):
            assert sum(p[y] for y in answers) - growth * sum(q[y] for y in answers) <= Fraction(1, 100)


def test_random_response_follows_the_corrected_formula():
    # ln((m - 1) p / (1 - p)), not ln(m p / (1 - p)) as printed.
    mechanism = RandomizedResponse(7, 2)
    p = float(mechanism.hold)
    assert math.log(6 * p / (1 - p)) == pytest.approx(2, abs=1e-12)


@pytest.mark.parametrize("size", [2, 3, 4, 8, 16, 64, 256])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_best_own_bit_minimises_the_error_of_theorem_2(size, epsilon):
    from scipy.optimize import minimize_scalar

    growth = math.exp(epsilon)

    def error(p: float) -> float:
        q = p / (p + growth * (1 - p))
        return ((size - 1) * q * (1 - q) + p * (1 - p)) / (p - q) ** 2

    found = minimize_scalar(error, bounds=(1e-6, 1 - 1e-6), method="bounded", options={"xatol": 1e-12})
    best = float(best_own(size, coins.exponential(Decimal(str(epsilon)))))
    assert error(best) <= found.fun * (1 + 1e-12)
    assert best == pytest.approx(found.x, abs=1e-5)
    assert float(AsymmetricUnaryEncoding(size, epsilon).hold) == pytest.approx(best, abs=1e-15)


def test_best_own_bit_is_right_for_every_number_of_categories_up_to_256():
    for size in range(2, 257):
        best = best_own(size, coins.exponential(Decimal(1)))

        def error(p: Decimal, size: int = size) -> Decimal:
            q = p / (p + coins.exponential(Decimal(1)) * (1 - p))
            return ((size - 1) * q * (1 - q) + p * (1 - p)) / (p - q) ** 2

        step = Decimal("1e-6")
        assert error(best) < min(error(best - step), error(best + step))


def test_symmetric_unary_is_the_best_unary_for_two_categories():
    assert AsymmetricUnaryEncoding(2, 1).hold == pytest.approx(SymmetricUnaryEncoding(2, 1).hold, abs=1e-15)


@pytest.mark.parametrize("kind", ALL)
def test_expected_error_is_theorem_2_squared(kind):
    mechanism = kind(16, 1)
    p, q = float(mechanism.hold), float(mechanism.stray)
    root = math.sqrt(15 * q * (1 - q) + p * (1 - p)) / ((p - q) * math.sqrt(1000))
    assert mechanism.expected_error(1000) == pytest.approx(root**2, rel=1e-12)
    per_category = 15 * mechanism.variance(1000, 0.0) + mechanism.variance(1000, 1.0)
    assert mechanism.expected_error(1000) == pytest.approx(per_category, rel=1e-12)
    assert mechanism.variance(1000) >= max(mechanism.variance(1000, f) for f in (0.0, 0.3, 1.0)) * (1 - 1e-12)


def test_the_chooser_takes_the_least_expected_error():
    for size, epsilon in itertools.product((2, 3, 16, 200), (0.1, 1, 3, 8)):
        chosen = choose_categorical(size, epsilon, 1000)
        least = min(kind(size, epsilon).expected_error(1000) for kind in ALL)
        assert chosen.expected_error(1000) == least
    assert choose_categorical(4, 3, 1000).name == "randomized-response"
    assert choose_categorical(100, 1, 1000).name == "subset-selection"
    paper = ("randomized-response", "symmetric-unary", "asymmetric-unary")
    assert choose_categorical(100, 1, 1000, among=paper).name == "asymmetric-unary"


def test_the_chooser_spends_delta_only_where_it_helps():
    assert choose_categorical(2, 1, 100, delta="0.01").delta == Decimal("0.01")
    assert choose_categorical(500, "0.1", 100, delta="1e-9").delta == 0


def test_subset_selection_is_never_worse_than_the_others():
    for size, epsilon in itertools.product((2, 3, 7, 16, 33, 200), (0.01, 0.5, 1, 2, 4, 8)):
        error = SubsetSelection(size, epsilon).expected_error(1)
        for kind in ALL:
            assert error <= kind(size, epsilon).expected_error(1) * (1 + 1e-9)


@pytest.mark.parametrize("kind", ALL)
def test_every_mechanism_says_what_it_promises(kind):
    mechanism = kind(6, "0.5")
    assert isinstance(mechanism, LocalMechanism)
    assert mechanism.adjacency is Adjacency.REPLACE_ONE
    guarantee = mechanism.guarantee("device")
    assert guarantee.unit is Unit.DEVICE
    assert guarantee.adjacency is Adjacency.REPLACE_ONE
    assert guarantee.loss == mechanism.loss()
    assert json.loads(json.dumps(mechanism.parameters())) == mechanism.parameters()
    assert "0.5" in repr(mechanism)


def test_events_say_what_happened():
    event = RandomizedResponse(6, 1).event()
    assert isinstance(event, RandomizedResponseEvent)
    assert event.categories == 6
    assert Fraction(event.keep) >= RandomizedResponse(6, 1).hold
    assert SubsetSelection(6, 1).event() == PureEvent(SubsetSelection(6, 1).loss().epsilon)
    assert isinstance(RandomizedResponse(6, 1000).event(), PureEvent)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("randomness", [system(), seeded_for_simulation(5)], ids=["system", "seeded"])
def test_honest_reports_pass_the_check_and_give_an_estimate(kind, randomness):
    mechanism = kind(9, 2)
    reports = mechanism.perturb([0, 1, 8, 8, 3], randomness)
    assert (mechanism.check(reports.tolist()) == reports).all()
    estimate = mechanism.estimate(reports)
    assert estimate.contributors == 5
    assert estimate.value.shape == estimate.standard_error.shape == (9,)
    interval = estimate.interval(0.9)
    assert (interval.low < estimate.value).all()
    assert (estimate.value < interval.high).all()


@pytest.mark.parametrize("kind", ALL)
def test_a_seed_repeats_and_the_system_does_not(kind):
    mechanism, values = kind(50, 1), np.arange(50)
    first, again = (mechanism.perturb(values, seeded_for_simulation(3)) for _ in range(2))
    assert (first == again).all()
    assert (mechanism.perturb(values, system()) != mechanism.perturb(values, system())).any()


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("size", [0, 1, -3, 2.0, True, "4", None, 10**30, float("nan")])
def test_a_bad_number_of_categories_is_a_mistake(kind, size):
    with pytest.raises(Mistake) as error:
        kind(size, 1)
    assert error.value.argument == "size"


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), "much", None, True, 1e-300, 10**400])
def test_a_bad_epsilon_is_a_mistake(kind, epsilon):
    with pytest.raises(Mistake) as error:
        kind(4, epsilon)
    assert error.value.argument == "epsilon"


@pytest.mark.parametrize("delta", [-0.1, 1, 2, float("nan"), "x"])
def test_a_bad_delta_is_a_mistake(delta):
    with pytest.raises(Mistake) as error:
        RandomizedResponse(4, 1, delta)
    assert error.value.argument == "delta"


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    "values",
    [[], [4], [-1], [0.5], [float("nan")], ["a"], [None], [[0]], 3, [10**30], [2**63], [True], [[0, 1], [2]]],
    ids=str,
)
def test_values_outside_the_categories_are_a_mistake_that_does_not_repeat_them(kind, values):
    with pytest.raises(Mistake) as error:
        kind(4, 1).perturb(values, system())
    assert error.value.argument == "values"
    assert "9223372036854775808" not in str(error.value)


@pytest.mark.parametrize("reports", [[], [4], [-1], [0.5], ["a"], [[0]], [2**63], [10**30], None, [True]], ids=str)
def test_hostile_answers_are_refused(reports):
    with pytest.raises(Mistake) as error:
        RandomizedResponse(4, 1).estimate(reports)
    assert error.value.argument == "reports"


@pytest.mark.parametrize("reports", [[8], [-1], [2**40]])
def test_hostile_hadamard_rows_are_refused(reports):
    with pytest.raises(Mistake, match="reports"):
        HadamardResponse(4, 1).check(reports)


@pytest.mark.parametrize("kind", [SymmetricUnaryEncoding, AsymmetricUnaryEncoding, SubsetSelection])
@pytest.mark.parametrize(
    "reports",
    [
        [],
        [0, 1, 0, 0],
        [[0, 1]],
        [[0, 1, 2, 0]],
        [[-1, 1, 0, 0]],
        [[0.0, 1.0, 0.0, 0.0]],
        [[0, 1, 0, None]],
        [[0], [0, 1]],
    ],
    ids=str,
)
def test_hostile_sets_are_refused(kind, reports):
    with pytest.raises(Mistake) as error:
        kind(4, 1).check(reports)
    assert error.value.argument == "reports"


def test_a_set_of_the_wrong_size_is_refused():
    mechanism = SubsetSelection(8, 1)
    assert mechanism.members == 2
    with pytest.raises(Mistake, match="exactly 2 ones"):
        mechanism.check([[1, 1, 1, 0, 0, 0, 0, 0]])


def test_bits_may_come_as_truth_values():
    assert SymmetricUnaryEncoding(2, 1).check([[True, False]]).tolist() == [[1, 0]]


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_the_ends_of_an_interval_are_where_the_estimate_would_just_be_surprising(kind, level):
    from scipy.stats import norm

    mechanism, n = kind(5, 2), 500
    estimate = mechanism.estimate(mechanism.perturb(np.repeat([0, 1, 2, 3], 125), seeded_for_simulation(1)))
    interval = estimate.interval(level)
    z, odds = norm.ppf((1 + level) / 2), (mechanism.hold, mechanism.stray)
    leaning = max(0, (z**2 - 1) / 6) * max(abs(1 - 2 * float(each)) for each in odds)
    counts = (0.5 + leaning) / (n * float(mechanism.hold - mechanism.stray))
    base, slope = mechanism.variance(n, 0.0), mechanism.variance(n, 1.0) - mechanism.variance(n, 0.0)
    for ends in (interval.low, interval.high):
        spread = z * np.sqrt(base + slope * ends)
        assert np.abs(estimate.value - ends) - counts == pytest.approx(spread, rel=1e-9)


@pytest.mark.parametrize("level", [0, 1, -1, 2, float("nan")])
def test_a_bad_level_is_a_mistake(level):
    estimate = RandomizedResponse(2, 1).estimate([0, 1])
    with pytest.raises(Mistake, match="level"):
        estimate.interval(level)


@pytest.mark.parametrize("contributors", [0, -1, 2.5, True, "3"])
def test_a_bad_number_of_contributors_is_a_mistake(contributors):
    with pytest.raises(Mistake) as error:
        RandomizedResponse(2, 1).expected_error(contributors)
    assert error.value.argument == "contributors"


def test_a_name_that_nobody_knows_cannot_be_chosen():
    for among in ((), ("guess",), ("randomized-response", "guess")):
        with pytest.raises(Mistake, match="among"):
            choose_categorical(4, 1, 10, among=among)


def test_odds_above_the_promise_are_our_bug():
    with pytest.raises(Fault):
        coins.loss_of(Fraction(3), Decimal(1))


@pytest.mark.parametrize("odds", ["1e-30", "0.001", "1", "2.718281828459045", "1e10", "1e40"])
def test_coins_are_rounded_toward_privacy(odds):
    exact = Fraction(odds)
    below, above = coins.at_most(Decimal(odds)), coins.at_least(Decimal(odds))
    if below.heads > 1:
        assert coins.odds_of(below) <= exact
    if above.heads < coins.WORD - 1:
        assert coins.odds_of(above) >= exact
    for coin in (below, above):
        assert 0 < coin.heads < coins.WORD


class _Words:
    """Words that somebody wrote down."""

    def __init__(self, *answers: list[int]) -> None:
        self.answers = list(answers)

    def words(self, count: int):
        answer = self.answers.pop(0)
        assert len(answer) == count
        return np.array(answer, dtype=np.uint64)


def test_a_toss_compares_all_64_bits_exactly():
    coin = Coin((5 << 48) + 1000)
    first = 4 | 5 << 16 | 6 << 32 | 5 << 48  # four 16-bit numbers, lowest first
    assert coins.toss(_Words([first], [999 << 16, 1000 << 16]), coin, 4).tolist() == [True, True, False, False]  # type: ignore[arg-type]


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("epsilon", ["1", "4", "8"])
def test_a_bar_holds_as_often_as_it_says_however_rare_lies_are(epsilon, level):
    """By the exact law of the count: of a hundred people at epsilon 8 one in seventeen hundred lies."""
    mechanism, n = RandomizedResponse(5, epsilon), 100
    bars = [mechanism.estimate(np.repeat([0, 1], [count, n - count])).interval(level) for count in range(n + 1)]
    ends = np.array([(np.asarray(bar.low)[0], np.asarray(bar.high)[0]) for bar in bars])
    for own in (0, 5, 20, 50, 100):
        kept = binom.pmf(np.arange(own + 1), own, float(mechanism.hold))
        odds = np.convolve(kept, binom.pmf(np.arange(n - own + 1), n - own, float(mechanism.stray)))
        held = (ends[:, 0] <= own / n + 1e-12) & (own / n - 1e-12 <= ends[:, 1])
        assert odds[held].sum() >= level


def test_the_bar_of_a_value_that_all_have_holds_it_where_nobody_lies():
    for kind in ALL:
        mechanism = kind(2, "12")
        bar = mechanism.estimate(mechanism.perturb(np.zeros(20, dtype=np.int64), seeded_for_simulation(1))).interval()
        assert np.asarray(bar.low)[0] <= 1 <= np.asarray(bar.high)[0], kind
