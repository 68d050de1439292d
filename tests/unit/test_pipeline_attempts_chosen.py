"""The share of an attempt, and what the next one gets: bounds on what a run costs, whatever happens to it."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.curator.pipelines.adaptation import PastAttempt, RunLimits, Strategy, eta_of, next_attempt, paid_by_block
from thebes.curator.pipelines.allowance import Allowance
from thebes.privacy import exact
from thebes.privacy.faults import Mistake


def limits(
    epsilon: str = "1", start: str = "0.125", least: int = 1, strategy: Strategy = Strategy.CONSERVE
) -> RunLimits:
    return RunLimits(Decimal(epsilon), Decimal("1e-6"), Decimal(start), least, strategy)


def days(count: int) -> list[str]:
    return [f"taxi/{day:04}" for day in range(count)]


class World:
    """Blocks that appear one by one and can each pay so much in all, to this run and to others."""

    def __init__(self, count: int, capacity: str = "10") -> None:
        self.left = dict.fromkeys(days(count), Decimal(capacity))
        self.capacity = Decimal(capacity)

    def grow(self, count: int) -> None:
        for name in days(len(self.left) + count):
            self.left.setdefault(name, self.capacity)

    def offered(self, epsilon: Decimal) -> list[str]:
        return [name for name, left in self.left.items() if left >= epsilon]

    def charge(self, epsilon: Decimal, blocks: tuple[str, ...]) -> None:
        for name in blocks:
            self.left[name] -= epsilon
            assert self.left[name] >= 0


def run(terms: RunLimits, world: World, *, enough: Decimal | None, grow: int = 0, most: int = 60) -> list[PastAttempt]:
    """Attempts until one costs `enough` or nothing more can be tried and nothing grows."""
    past: list[PastAttempt] = []
    for _ in range(most):
        found = next_attempt(terms, past, world.offered)
        if found is None:
            if not grow:
                break
            world.grow(grow)
            continue
        world.charge(found.epsilon, found.blocks)
        one = PastAttempt(found.epsilon, found.blocks)
        past.append(one)
        if enough is not None and one.cost >= enough:
            break
    return past


# --- allowances -------------------------------------------------------------------------------------------


def test_an_allowance_never_hands_out_more_than_it_has() -> None:
    budget = Allowance(1, 1e-6)
    half = budget.take(0.5)
    assert (half.epsilon, half.delta) == (Decimal("0.5"), Decimal("5e-7"))
    budget.spend(0.25)
    with pytest.raises(Mistake, match=r"epsilon 0\.25"):
        budget.spend(0.26)
    with pytest.raises(Mistake):
        budget.spend(0.25, 6e-7)
    assert budget.epsilon == Decimal("0.25")
    assert budget.delta == Decimal("5e-7")
    rest = budget.spend()
    assert (rest.epsilon, rest.delta) == (Decimal("0.25"), Decimal("5e-7"))
    assert budget.epsilon == 0
    assert budget.spent.epsilon == 1
    with pytest.raises(Mistake):
        budget.take(0.1)


@pytest.mark.slow
@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=20))
def test_whatever_shares_are_asked_for_their_sum_stays_within(shares: list[float]) -> None:
    budget, handed = Allowance("0.7", "1e-6"), Decimal(0)
    for share in shares:
        try:
            handed += budget.take(share).spend().epsilon
        except Mistake:
            continue
    assert handed <= Decimal("0.7")
    assert handed + budget.epsilon == Decimal("0.7")


def test_ten_tenths_are_one() -> None:
    budget = Allowance(1)
    for _ in range(10):
        budget.take(0.1)
    assert budget.epsilon == 0


def test_a_delta_alone_and_shares_beyond_one_are_mistakes() -> None:
    budget = Allowance(1, 1e-6)
    for wrong in (lambda: budget.spend(delta=1e-7), lambda: budget.take(0), lambda: budget.take(1.1)):
        with pytest.raises(Mistake):
            wrong()
    assert budget.epsilon == 1


# --- the next attempt ---------------------------------------------------------------------------------------


def test_a_first_attempt_that_conserves_takes_little_of_both() -> None:
    found = next_attempt(limits(least=2), [], World(8).offered)
    assert found is not None
    assert found.epsilon == Decimal("0.125")
    assert found.blocks == ("taxi/0006", "taxi/0007")
    assert found.delta == Decimal("1.25e-7")


def test_data_double_while_there_are_more_then_the_epsilon() -> None:
    past = run(limits(), World(4), enough=None)
    assert [(float(one.epsilon), len(one.blocks)) for one in past] == [(0.125, 1), (0.125, 2), (0.125, 4), (0.25, 4)]
    paid = paid_by_block(past)
    assert max(paid.values()) <= 1


def test_all_blocks_that_can_pay_share_an_attempt_where_there_are_not_twice_as_many() -> None:
    past = run(limits(), World(7), enough=None)
    assert [(float(one.epsilon), len(one.blocks)) for one in past[:3]] == [(0.125, 1), (0.125, 2), (0.125, 4)]
    assert (len(past[3].blocks), past[3].cost) == (7, Decimal("1.000000000006"))  # 1/7 of it each, rounded up
    assert max(paid_by_block(past).values()) <= 1


def test_the_papers_way_doubles_one_of_both_and_leaves_the_other_blocks() -> None:
    past = run(limits(strategy=Strategy.DOUBLE), World(7), enough=None)
    assert [(float(one.epsilon), len(one.blocks)) for one in past[2:]] == [(0.125, 4), (0.25, 4), (0.5, 4)]


def test_a_block_more_is_used_where_the_others_could_not_bear_twice_the_epsilon() -> None:
    failed, world = PastAttempt(Decimal("0.4"), ("taxi/0000", "taxi/0001")), World(3, "0.6")
    assert next_attempt(limits(), [failed], World(2, "0.6").offered) is None
    assert next_attempt(limits(strategy=Strategy.DOUBLE), [failed], world.offered) is None
    found = next_attempt(limits(), [failed], world.offered)
    assert found is not None
    assert (float(found.epsilon), len(found.blocks)) == (pytest.approx(0.533333333334), 3)


def test_what_pays_for_fewer_rows_than_the_last_attempt_had_is_waited_for() -> None:
    failed = PastAttempt(Decimal("0.125"), tuple(days(4)))
    assert next_attempt(limits(), [failed], World(3).offered) is None


def test_without_enough_blocks_it_waits_and_goes_on_once_there_are() -> None:
    world = World(0)
    assert next_attempt(limits(), [], world.offered) is None
    world.grow(1)
    found = next_attempt(limits(), [], world.offered)
    assert found is not None
    assert len(found.blocks) == 1


def test_an_aggressive_run_takes_all_that_is_offered_at_once() -> None:
    found = next_attempt(limits(strategy=Strategy.AGGRESSIVE), [], World(5).offered)
    assert found is not None
    assert (found.epsilon, len(found.blocks), found.delta) == (Decimal(1), 5, Decimal("1e-6"))


def test_an_aggressive_run_makes_do_with_less_where_blocks_have_less() -> None:
    found = next_attempt(limits(strategy=Strategy.AGGRESSIVE), [], World(5, "0.3").offered)
    assert found is not None
    assert (found.epsilon, len(found.blocks)) == (Decimal("0.25"), 5)


def test_an_aggressive_run_that_failed_waits_for_twice_as_much() -> None:
    world, terms = World(2), limits(strategy=Strategy.AGGRESSIVE)
    past = run(terms, world, enough=None)
    assert len(past) == 1
    world.grow(3)
    assert next_attempt(terms, past, world.offered) is None
    world.grow(1)
    found = next_attempt(terms, past, world.offered)
    assert found is not None
    assert found.epsilon == 1
    assert len(found.blocks) == 4


def test_an_attempt_that_was_lost_is_paid_for_but_decides_nothing() -> None:
    lost = PastAttempt(Decimal("0.125"), ("taxi/0003",), failed=False)
    found = next_attempt(limits(), [lost] * 7, World(4).offered)
    assert found is not None
    assert (found.epsilon, found.blocks) == (Decimal("0.125"), ("taxi/0003",))
    found = next_attempt(limits(), [lost] * 8, World(4).offered)
    assert found is not None
    assert found.blocks == ("taxi/0002",)  # the other one has paid all that it may


@examples(50)
@given(
    blocks=st.integers(1, 40),
    grow=st.integers(0, 3),
    start=st.sampled_from(["1", "0.5", "0.125", "0.03", "0.001"]),
    least=st.integers(1, 4),
    capacity=st.sampled_from(["0.2", "1", "3.3", "10"]),
    strategy=st.sampled_from(list(Strategy)),
    enough=st.decimals("0.001", "100", allow_nan=False, places=3),
)
def test_no_block_pays_more_than_the_limits_and_what_failed_costs_less_than_what_did_not(
    blocks: int, grow: int, start: str, least: int, capacity: str, strategy: Strategy, enough: Decimal
) -> None:
    terms = limits(start=start, least=least, strategy=strategy)
    past = run(terms, World(blocks, capacity), enough=enough, grow=grow)
    assert all(paid <= terms.epsilon for paid in paid_by_block(past).values())
    deltas: dict[str, Decimal] = {}
    for one in past:
        for name in one.blocks:
            deltas[name] = deltas.get(name, Decimal(0)) + terms.delta_for(one.epsilon)
    assert all(delta <= terms.delta for delta in deltas.values())
    if not past:
        return
    total, last = sum(one.cost for one in past), past[-1].cost
    assert total - last <= last  # what failed costs at most what did not
    if strategy is not Strategy.AGGRESSIVE:
        for one, before in zip(past[1:], past, strict=False):  # each twice the last, but for what is rounded up
            assert 2 * before.cost <= one.cost < 2 * before.cost + len(one.blocks) * exact.EPSILON_STEP
            assert len(one.blocks) >= len(before.blocks)
        if last >= enough > past[0].cost:  # accepted, and not at the first attempt
            assert total < 4 * enough + 2 * len(past[-1].blocks) * exact.EPSILON_STEP


def test_a_run_that_never_succeeds_ends_and_has_paid_no_more_than_its_limits() -> None:
    for strategy in Strategy:
        past = run(limits(start="0.001", strategy=strategy), World(64), enough=None)
        assert 0 < len(past) < 20
        assert max(paid_by_block(past).values()) <= 1


def test_the_odds_of_all_attempts_add_up_to_what_was_promised() -> None:
    assert eta_of(1, 0.05) == pytest.approx(0.0304, abs=1e-4)
    total = sum(eta_of(i, 0.05) for i in range(1, 100_000))
    assert 0.0499 < total <= 0.05


def test_limits_that_make_no_sense_are_mistakes() -> None:
    for start, least in (("0", 1), ("2", 1), ("0.1", 0)):
        with pytest.raises(Mistake):
            limits(start=start, least=least)
