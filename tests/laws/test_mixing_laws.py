"""Laws of mixed reports: no figure is below the truth that can be enumerated or sampled, nor above the local one."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from tests.support.examples import examples
from thebes.privacy.accounting.mixing import MixedReports, ReportLaw, mixed_epsilon
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.local import (
    AsymmetricUnaryEncoding,
    HadamardResponse,
    RandomizedResponse,
    SubsetSelection,
    SymmetricUnaryEncoding,
)

EPSILONS = (0.01, 0.1, 0.5, 1.5)
DELTA = 1e-6


def odds_of(mechanism):
    """One row of report probabilities for each value, from the coins' own thresholds."""
    m, hold, stray = mechanism.size, mechanism.hold, mechanism.stray
    if isinstance(mechanism, RandomizedResponse):
        return [[float(hold if y == x else stray) for y in range(m)] for x in range(m)]
    if isinstance(mechanism, HadamardResponse):
        half = mechanism.rows // 2
        sign = [[(row & (x + 1)).bit_count() % 2 for row in range(mechanism.rows)] for x in range(m)]
        return [[float((1 - hold if odd else hold) / half) for odd in row] for row in sign]
    outs = list(itertools.product((0, 1), repeat=m))
    if isinstance(mechanism, SubsetSelection):
        w = mechanism.members
        with_own, without = hold / math.comb(m - 1, w - 1), (1 - hold) / math.comb(m - 1, w)
        return [[float(with_own if out[x] else without) for out in outs if sum(out) == w] for x in range(m)]
    rows = []
    for x in range(m):
        row = []
        for out in outs:
            chance = Fraction(1)
            for place, bit in enumerate(out):
                one = hold if place == x else stray
                chance *= one if bit else 1 - one
            row.append(float(chance))
        rows.append(row)
    return rows


def counts_of(rows, values):
    """The exact law of how often each report occurs."""
    law = {(0,) * len(rows[0]): 1.0}
    for value in values:
        more: dict = {}
        for counts, chance in law.items():
            for y, p in enumerate(rows[value]):
                at = (*counts[:y], counts[y] + 1, *counts[y + 1 :])
                more[at] = more.get(at, 0.0) + chance * p
        law = more
    return law


def delta_between(here, there, epsilon):
    return math.fsum(max(p - math.exp(epsilon) * there.get(k, 0.0), 0.0) for k, p in here.items())


def mechanisms():
    for local in (0.5, 1.0, 2.0, 3.0):
        for size in (2, 3, 5):
            for people in (2, 3, 5):
                if size * people < 25:
                    yield RandomizedResponse(size, local), people
        for people in (2, 3):
            yield SymmetricUnaryEncoding(3, local), people
            yield AsymmetricUnaryEncoding(3, local), people
            yield HadamardResponse(3, local), people
        yield SubsetSelection(4, local), 3


@pytest.mark.parametrize(
    ("mechanism", "people"),
    [pytest.param(*each, id=f"{each[0].name}-{each[0].size}-{each[0].epsilon}-{each[1]}") for each in mechanisms()],
)
def test_no_exact_enumeration_is_above_what_is_proved_whatever_the_others_have(mechanism, people):
    rows, local = odds_of(mechanism), float(mechanism.loss().epsilon)
    laws = [ReportLaw.of_any(local), ReportLaw.of_supports(local, mechanism.hold, mechanism.stray)]
    for others in itertools.combinations_with_replacement(range(mechanism.size), people - 1):
        here, there = counts_of(rows, [0, *others]), counts_of(rows, [1, *others])
        for epsilon in EPSILONS:
            truth = max(delta_between(here, there, epsilon), delta_between(there, here, epsilon))
            for law in laws:
                assert truth <= MixedReports(law, people, delta=DELTA).delta_at(epsilon) + 1e-15


def clones_for_both(people, local, hold, stray, epsilon):
    """The shorter formula, which is wrong: clones at (hold - stray)/(e^local - 1) for the owner and others alike."""
    grown = math.exp(local)
    p = float(hold - stray) / math.expm1(local)
    rest = 1 - p * (1 + grown)

    def others(u, v):
        n = people - 1
        if u < 0 or v < 0 or u + v > n:
            return 0.0
        return math.comb(n, u) * math.comb(n - u, v) * p ** (u + v) * (1 - 2 * p) ** (n - u - v)

    return sum(
        max(
            grown * p * others(u - 1, v) + p * others(u, v - 1) + rest * others(u, v)
            - math.exp(epsilon) * (p * others(u - 1, v) + grown * p * others(u, v - 1) + rest * others(u, v)),
            0.0,
        )
        for u in range(people + 1)
        for v in range(people + 1 - u)
    )  # fmt: skip


def test_the_shorter_formula_is_below_the_truth_and_ours_is_not():
    mechanism = RandomizedResponse(6, 2)
    rows = odds_of(mechanism)
    truth = max(
        delta_between(counts_of(rows, [0, *others]), counts_of(rows, [1, *others]), 1.5)
        for others in itertools.combinations_with_replacement(range(6), 2)
    )
    assert truth == pytest.approx(0.083, abs=5e-4)
    assert clones_for_both(3, 2.0, mechanism.hold, mechanism.stray, 1.5) == pytest.approx(0.039, abs=5e-4)
    law = ReportLaw.of_supports(float(mechanism.loss().epsilon), mechanism.hold, mechanism.stray)
    assert MixedReports(law, 3, delta=DELTA).delta_at(1.5) >= truth
    assert MixedReports(ReportLaw.of_any(2.0), 3, delta=DELTA).delta_at(1.5) >= truth


def two_values(people, local, epsilon):
    """The exact delta of randomised response over two values, where all others have the same one."""
    keep, n = 1 / (1 + math.exp(-local)), people - 1
    k = np.arange(people + 1)
    others = binom.pmf(k, n, 1 - keep), binom.pmf(k - 1, n, 1 - keep)
    here = keep * others[1] + (1 - keep) * others[0]
    there = (1 - keep) * others[1] + keep * others[0]
    return float(np.maximum(here - math.exp(epsilon) * there, 0).sum())


@pytest.mark.parametrize("people", [100, 1_000, 100_000])
@pytest.mark.parametrize("local", [0.5, 2.0, 4.0])
def test_what_is_proved_is_little_more_than_what_two_values_truly_cost(people, local):
    proved = float(mixed_epsilon(local, honest=people, delta=DELTA))
    assert two_values(people, local, proved) <= DELTA
    assert two_values(people, local, proved / 1.6) > DELTA or proved > local / 4


def exact_delta(people, own, other, stray, epsilon):
    """The exact delta of reports that speak for their owner's value, or for the other one of two, with these odds,
    where all others have a third value, so that their reports speak for either with odds `stray`."""
    others = people - 1
    counts = np.arange(int(others * stray + 10 * math.sqrt(others * stray)) + 10)

    def say(one, two):
        both = (one >= 0) & (two >= 0)
        one, two = np.maximum(one, 0), np.maximum(two, 0)
        return both * binom.pmf(one, others, stray) * binom.pmf(two, others - one, stray / (1 - stray))

    one, two = np.meshgrid(counts, counts, indexing="ij")
    with_one, with_two, with_none = say(one - 1, two), say(one, two - 1), (1 - own - other) * say(one, two)
    here = own * with_one + other * with_two + with_none
    there = other * with_one + own * with_two + with_none
    return float(np.maximum(here - math.exp(epsilon) * there, 0).sum())


@pytest.mark.parametrize(
    ("mechanism", "people", "epsilons"),
    [(RandomizedResponse(16, 2.0), 2_000, (0.05, 0.1, 0.2)), (AsymmetricUnaryEncoding(3, 2.0), 250, (0.05, 0.1))],
    ids=["randomized-response", "asymmetric-unary"],
)
def test_no_exact_sum_of_a_crowd_is_above_what_reports_that_tell_nothing_leave_of_it(mechanism, people, epsilons):
    """In crowds this large enough reports surely tell nothing, which enumeration of a few people never reaches."""
    hold, stray = float(mechanism.hold), float(mechanism.stray)
    odds = hold, stray, stray
    if isinstance(mechanism, AsymmetricUnaryEncoding):  # who has one of the two bits alone speaks for that value
        odds = hold * (1 - stray), stray * (1 - hold), stray * (1 - stray)
    law = ReportLaw.of_supports(float(mechanism.loss().epsilon), mechanism.hold, mechanism.stray)
    for epsilon in epsilons:
        truth = exact_delta(people, *odds, epsilon)
        reports = MixedReports(law, people, delta=truth)
        assert reports._least.max() > 0
        assert truth <= reports.delta_at(epsilon)


def slow_delta(people, local, epsilon):
    """The same bound summed over every number of telling reports and every split of them, without a shortcut."""
    grown, e = math.exp(local), math.exp(epsilon)
    telling = np.arange(1, people + 1)
    weights = binom.pmf(telling, people, 2 / (grown + 1))
    total = 0.0
    for t, weight in zip(telling.tolist(), weights.tolist(), strict=True):
        if weight > 1e-25:
            w = np.arange(t + 1)
            total += weight * float(binom.pmf(w, t, 0.5) @ np.maximum(w * (grown - e) - (t - w) * (e * grown - 1), 0))
    return total / people


@pytest.mark.parametrize(
    ("people", "local", "epsilon"), [(300, 1, 0.05), (300, 4, 0.3), (3000, 1, 0.05), (3000, 4, 0.3)]
)
def test_shortcuts_raise_the_bound_and_only_by_a_little(people, local, epsilon):
    exact = slow_delta(people, local, epsilon)
    assert (
        exact * (1 - 1e-9)
        <= MixedReports(ReportLaw.of_any(local), people, delta=DELTA).delta_at(epsilon)
        <= exact * 1.06
    )


locals_ = st.integers(1, 1000).map(lambda n: n / 100)
crowds = st.integers(2, 2_000_000)


@given(local=locals_, honest=crowds, more=st.integers(1, 1_000_000))
@examples(20)
def test_more_honest_people_never_cost_more_and_no_figure_is_above_the_local_one(local, honest, more):
    few, many = (float(mixed_epsilon(local, honest=n, delta=DELTA)) for n in (honest, honest + more))
    assert many <= few * 1.01
    assert few <= local


@given(local=st.integers(1, 900).map(lambda n: n / 100), honest=crowds, delta=st.sampled_from([1e-4, 1e-6, 1e-9]))
@examples(20)
def test_more_local_epsilon_never_costs_less_and_more_delta_never_more(local, honest, delta):
    figure = float(mixed_epsilon(local, honest=honest, delta=delta))
    assert figure <= float(mixed_epsilon(local * 1.3, honest=honest, delta=delta)) * 1.01
    assert float(mixed_epsilon(local, honest=honest, delta=delta * 10)) <= figure * 1.001


@given(local=st.integers(10, 500).map(lambda n: n / 100), honest=st.integers(2, 100_000), size=st.integers(2, 64))
@examples(15)
def test_a_mechanism_of_its_own_is_never_dearer(local, honest, size):
    mechanism = SubsetSelection(size, local)
    loss = mechanism.loss().epsilon
    own = mixed_epsilon(loss, honest=honest, delta=DELTA, supports=(mechanism.hold, mechanism.stray))
    assert own <= mixed_epsilon(loss, honest=honest, delta=DELTA)


@pytest.mark.parametrize(("local", "people", "delta"), [(1.0, 100, 1e-3), (2.0, 50, 1e-2), (4.0, 20, 5e-2)])
def test_no_lower_bound_from_a_million_mixed_runs_is_above_the_figure(local, people, delta):
    """The likeliest attack on randomised response over four values: how many more say the one than the other."""
    mechanism, draws = RandomizedResponse(4, local), 1_000_000
    generator = np.random.default_rng(7)
    rows, found = np.array(odds_of(mechanism)), []
    rest = generator.multinomial(people - 1, rows[3], size=draws)
    for own in (0, 1):
        counts = rest + generator.multinomial(1, rows[own], size=draws)
        found.append(counts[:, 0] - counts[:, 1])
    proved = float(mixed_epsilon(local, honest=people, delta=delta))
    for threshold in range(1, 8):
        hits, alarms = (int((side >= threshold).sum()) for side in found)
        least = beta.ppf(1e-8, hits, draws - hits + 1) if hits else 0.0
        most = beta.ppf(1 - 1e-8, alarms + 1, draws - alarms)
        assert least <= math.exp(proved) * most + delta


@pytest.mark.parametrize("packets", [2, 3])
@pytest.mark.parametrize("local", [0.5, 2.0])
def test_packets_that_are_mixed_apart_cost_what_enumeration_says_at_most(packets, local):
    rows = odds_of(RandomizedResponse(2, local))
    for others in ([0, 0], [0, 1], [1, 1]):
        here, there = {(): 1.0}, {(): 1.0}
        once, other = counts_of(rows, [0, *others]), counts_of(rows, [1, *others])
        for _ in range(packets):
            here = {(*k, c): v * p for k, v in here.items() for c, p in once.items()}
            there = {(*k, c): v * p for k, v in there.items() for c, p in other.items()}
        for delta in (0.3, 0.1, 0.02):
            figure = float(mixed_epsilon(local, honest=3, delta=delta, packets=packets))
            assert delta_between(here, there, figure) <= delta


@given(local=st.integers(5, 400).map(lambda n: n / 100), honest=st.integers(2, 50_000), packets=st.integers(2, 12))
@examples(12)
def test_composed_is_never_more_than_added_nor_less_than_one(local, honest, packets):
    together = mixed_epsilon(local, honest=honest, delta=DELTA, packets=packets)
    once = mixed_epsilon(local, honest=honest, delta=DELTA / packets)
    assert mixed_epsilon(local, honest=honest, delta=DELTA) <= together * 1
    assert float(together) <= packets * float(once) * (1 + 1e-9)


TABLE = {
    100: (0.214, 0.516, 1.67, 4, 6, 8),
    1_000: (0.0627, 0.149, 0.398, 1.85, 6, 8),
    10_000: (0.0181, 0.0432, 0.115, 0.412, 1.47, 8),
    100_000: (0.0052, 0.0124, 0.0332, 0.118, 0.358, 1.18),
    1_000_000: (0.0014, 0.0035, 0.0095, 0.0343, 0.103, 0.304),
}


@pytest.mark.parametrize("honest", list(TABLE))
def test_the_figures_that_were_worked_out_apart_from_this_come_out(honest):
    found = [float(mixed_epsilon(local, honest=honest, delta=DELTA)) for local in (0.5, 1, 2, 4, 6, 8)]
    assert found == pytest.approx(TABLE[honest], rel=0.03)


@pytest.mark.parametrize("honest", [10**4, 10**5, 10**6])
@pytest.mark.parametrize("local", [0.25, 0.5, 1, 2, 4])
def test_figures_are_below_every_published_closed_bound_that_holds_there(honest, local):
    """Erlingsson et al. 2019 (theorem 7), and Feldman, McMillan & Talwar 2023 (theorem 3.2)."""
    found, logs = float(mixed_epsilon(local, honest=honest, delta=DELTA)), math.log(1 / DELTA)
    if local < 0.5:
        assert found <= 12 * local * math.sqrt(logs / honest)
    if local <= math.log(honest / (8 * math.log(2 / DELTA)) - 1):
        grown = math.exp(local)
        wide = 4 * math.sqrt(2 * math.log(4 / DELTA) / ((grown + 1) * honest)) + 4 / honest
        assert found <= math.log1p((grown - 1) * wide)


def test_a_crowd_of_ten_million_is_found_in_the_search_of_a_few_steps():
    reports = MixedReports(ReportLaw.of_any(4.0), 10**7, delta=DELTA)
    asked, plain = [], reports.delta_at
    reports.delta_at = lambda epsilon: asked.append(epsilon) or plain(epsilon)
    assert reports.epsilon_at(DELTA) == pytest.approx(0.00985, rel=0.02)
    assert len(asked) <= 12


def test_alone_without_delta_or_with_a_huge_loss_only_the_local_promise_is_left():
    assert mixed_epsilon(2, honest=1, delta=DELTA) == 2
    assert mixed_epsilon(2, honest=10_000, delta=0) == 2
    assert mixed_epsilon(50, honest=10_000, delta=DELTA) == 50
    assert mixed_epsilon(2, honest=1, delta=DELTA, packets=3) == 6


@pytest.mark.parametrize("given", [{"honest": 0}, {"honest": 1.5}, {"packets": 0}, {"local": 0}])
def test_what_is_no_crowd_is_refused_by_name(given):
    with pytest.raises(Mistake) as refused:
        mixed_epsilon(**{"local": 1, "honest": 10, "delta": DELTA, **given})
    assert refused.value.argument == next(iter(given))
