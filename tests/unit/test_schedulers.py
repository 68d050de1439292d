"""Schedulers: who is granted when not everybody can be, and what even shares are."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from thebes.ledger.schedulers import (
    BlockAmounts,
    EvenSplit,
    Waiting,
    dpack,
    dpf,
    fcfs,
    unlocked_by_arrivals,
    unlocked_by_time,
    waiting,
)
from thebes.privacy.faults import Mistake

Scheduler = Callable[[BlockAmounts, Waiting], list[int]]
ORDERS = np.array([1.5, 1.75, 2, 2.5, 3, 4, 5, 6, 8, 16, 32, 64])
STEP = 10**12
CAPACITY = (np.maximum(10 + np.log(1e-7) / (ORDERS - 1), 0) * STEP).astype(np.int64)  # of (10, 1e-7)


def blocks(*capacities: Any, firm: bool = True, **more: Any) -> BlockAmounts:
    rows = np.array(capacities, dtype=np.int64).reshape(len(capacities), -1)
    return BlockAmounts(rows, np.zeros_like(rows), firm=firm, **more)


# --- orders ---------------------------------------------------------------------------------------------------


def test_first_come_first_served_serves_whoever_fits() -> None:
    assert fcfs(blocks(10), waiting([[0], [0], [0]], [[7], [5], [3]])) == [0, 2]


def test_the_smallest_dominant_share_goes_first() -> None:
    assert dpf(blocks(10), waiting([[0], [0], [0]], [[7], [5], [3]])) == [2, 1]
    assert dpf(blocks(10, 100), waiting([[0], [1]], [[5], [20]])) == [1, 0]  # a fifth before a half


def test_dominant_is_the_largest_share_of_any_block_at_any_place() -> None:
    assert dpf(blocks([10, 10], [10, 2]), waiting([[0], [1], [0, 1]], [[6, 1], [1, 1], [5, 1]])) == [1, 2]


def test_of_two_alike_the_next_largest_share_decides_and_then_who_came_first() -> None:
    field = blocks(10, 10, 20)
    assert dpf(field, waiting([[0, 1], [0, 2]], [[8], [8]])) == [1]
    assert dpf(field, waiting([[0, 1], [0]], [[8], [8]])) == [1]
    assert dpf(field, waiting([[0, 1], [1, 0]], [[8], [8]])) == [0]


def test_weight_counts_as_so_much_less_share() -> None:
    assert dpf(blocks(10), waiting([[0], [0]], [[4], [8]], [1.0, 4.0])) == [1]


def test_packing_counts_all_blocks_a_claim_takes() -> None:
    """A claim on every block is fair by its dominant share and costs most by what it takes in all."""
    field = blocks(*[10] * 5)
    claims = waiting([[0, 1, 2, 3, 4], [0], [1], [2], [3], [4]], [[6], [7], [7], [7], [7], [7]])
    assert dpf(field, claims) == [0]
    assert sorted(dpack(field, claims)) == [1, 2, 3, 4, 5]


def test_packing_looks_at_the_best_place_of_a_block() -> None:
    """At the first order one claim fits, at the second many: what is small there goes first."""
    field = blocks([10, 10], firm=False)
    claims = waiting([[0]] * 4, [[2, 9], [9, 3], [9, 3], [9, 3]])
    assert sorted(dpack(field, claims)) == [1, 2, 3]


def test_any_order_with_room_left_is_enough() -> None:
    field = BlockAmounts(np.array([[10, 5]], dtype=np.int64), np.array([[12, 1]], dtype=np.int64), firm=False)
    assert fcfs(field, waiting([[0], [0]], [[0, 4], [0, 1]])) == [0]  # the first order is overdrawn, the second fills
    assert fcfs(BlockAmounts(field.capacity, field.held, firm=True), waiting([[0]], [[0, 4]])) == []


def test_nothing_waits_and_nothing_is_granted() -> None:
    for scheduler in (fcfs, dpf, dpack):
        assert scheduler(blocks(10), Waiting([], np.zeros((0, 1), dtype=np.int64))) == []
        assert scheduler(blocks(0), waiting([[0]], [[1]])) == []


# --- what is unlocked -----------------------------------------------------------------------------------------


def test_every_claim_that_asks_unlocks_its_fair_part() -> None:
    capacity = np.array([[10, 7], [10, 7], [10, 7]], dtype=np.int64)
    assert unlocked_by_arrivals(capacity, np.array([0, 1, 5]), 3).tolist() == [[0, 0], [3, 2], [10, 7]]


def test_time_unlocks_a_block_to_the_end_of_its_life() -> None:
    capacity = np.array([[10], [10], [10]], dtype=np.int64)
    assert unlocked_by_time(capacity, np.array([0.0, 2.5, 9.0]), 5.0).ravel().tolist() == [0, 5, 10]


def test_a_fair_claim_is_granted_when_it_comes_whoever_waits() -> None:
    """Sharing: of 20 claims a block shall serve fairly, none for up to a twentieth waits, however many elephants do."""
    draw, fair = np.random.default_rng(0), 20
    capacity = np.tile(CAPACITY, (4, 1))
    held, arrived = np.zeros_like(capacity), np.zeros(4, dtype=np.int64)
    queue: list[tuple[Any, Any]] = []
    served = 0
    for _ in range(60):
        own = draw.choice(4, size=draw.integers(1, 5), replace=False)
        is_fair = bool(draw.random() < 0.5) and arrived.max() < fair
        price = capacity[0] // fair if is_fair else capacity[0] // 2
        arrived[own] += 1
        queue.append((own, price))
        field = BlockAmounts(capacity, held, firm=False, unlocked=unlocked_by_arrivals(capacity, arrived, fair))
        granted = dpf(field, waiting([own for own, _ in queue], np.array([price for _, price in queue])))
        if is_fair:
            assert len(queue) - 1 in granted
            served += 1
        for number in sorted(granted, reverse=True):
            own, price = queue.pop(number)
            held[own] += price
    assert served >= 8
    assert queue


# --- workloads ------------------------------------------------------------------------------------------------


def gaussian(ratio: float) -> Any:
    return ORDERS / (2 * ratio**2)


def laplace(scale: float) -> Any:
    a = ORDERS
    inside = a / (2 * a - 1) * np.exp((a - 1) / scale) + (a - 1) / (2 * a - 1) * np.exp(-a / scale)
    return np.log(inside) / (a - 1)


def mice_and_elephants(draw: np.random.Generator) -> tuple[Any, int]:
    if draw.random() < 0.6:
        return laplace(1 / draw.uniform(0.02, 0.8)), 1
    return gaussian(draw.uniform(3, 40)), int(draw.choice([1, 2, 5, 8]))


def many_blocks(draw: np.random.Generator) -> tuple[Any, int]:
    if draw.random() < 0.6:
        return gaussian(draw.uniform(3, 6)), 1
    return gaussian(draw.uniform(4, 7)), int(draw.choice([5, 10, 20]))


def granted(scheduler: Scheduler, make: Any, claims: int, *, days: int = 8, passes: int = 4, life: int = 16) -> int:
    """Count the granted ones of the claims on the newest blocks, `claims` a day; no block ever pays too much."""
    draw, total = np.random.default_rng(0), 0
    capacity = np.tile(CAPACITY, (days, 1))
    held, born = np.zeros_like(capacity), np.full(days, np.inf)
    queue: list[tuple[Any, Any]] = []
    for now in range(days * passes + life):
        if now < days * passes:
            today = now // passes
            born[today] = min(born[today], now)
            for _ in range(claims // passes):
                price, most = make(draw)
                many = min(most, today + 1)
                queue.append((np.arange(today + 1 - many, today + 1), np.ceil(price * STEP).astype(np.int64)))
        age = np.maximum(now - born + 1, 0.0)
        unlocked = None if scheduler is fcfs else unlocked_by_time(capacity, age, life)
        field = BlockAmounts(capacity, held, firm=False, unlocked=unlocked)
        found = set(scheduler(field, waiting([own for own, _ in queue], [price for _, price in queue])))
        for number in found:
            held[queue[number][0]] += queue[number][1]
        total += len(found)
        queue = [one for number, one in enumerate(queue) if number not in found]
    assert ((held <= capacity) & (capacity > 0)).any(axis=1).all()
    return total


@pytest.mark.slow
def test_dpf_serves_mice_where_elephants_come_first() -> None:
    assert granted(dpf, mice_and_elephants, 600) >= 2 * granted(fcfs, mice_and_elephants, 600)


@pytest.mark.slow
def test_dpack_grants_more_than_dpf_where_claims_take_many_blocks() -> None:
    packed, fair = (granted(one, many_blocks, 100, days=20, life=40) for one in (dpack, dpf))
    assert packed >= 1.3 * fair


def test_choosing_best_places_anew_grants_within_the_same_bounds() -> None:
    def often(field: BlockAmounts, claims: Waiting) -> list[int]:
        return dpack(field, claims, again=10)

    assert granted(often, many_blocks, 40, days=6) >= 0.9 * granted(dpack, many_blocks, 40, days=6)


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", [dpf, dpack])
def test_a_year_of_hours_and_a_thousand_claims_take_less_than_a_second(scheduler: Scheduler) -> None:
    """Of the processor, whatever else it does meanwhile: that slows it down now and then, and not every time."""
    draw, many = np.random.default_rng(0), 10_000
    own = []
    for window in draw.choice([24, 168, 720, 5000], size=1000).tolist():
        first = int(draw.integers(0, many - window + 1))
        own.append(np.arange(first, first + window))
    prices = [np.ceil(gaussian(ratio) * STEP).astype(np.int64) for ratio in draw.uniform(3, 30, size=1000)]
    field = BlockAmounts(np.tile(CAPACITY, (many, 1)), np.zeros((many, len(CAPACITY)), dtype=np.int64), firm=False)
    claims = waiting(own, prices)
    took: list[float] = []
    while not took or (took[-1] >= 1 and len(took) < 8):
        started = time.process_time()
        assert 0 < len(scheduler(field, claims)) < 1000
        took.append(time.process_time() - started)
    assert took[-1] < 1


# --- even split -----------------------------------------------------------------------------------------------


def split(*who: str, blocks: int = 0, places: int = 1) -> EvenSplit:
    made = EvenSplit(places)
    for one in who:
        made.arrive(one)
    made.add(np.full((blocks, places), 1000))
    return made


def test_a_new_block_is_divided_among_those_who_wait() -> None:
    shares = split("a", "b", "c", "d", blocks=2)
    assert shares.shares("a").tolist() == [EvenSplit.WHOLE // 4] * 2
    assert shares.offered("b", [250]).tolist() == [0, 1]
    assert shares.offered("b", [251]).tolist() == []


def test_whoever_comes_later_has_a_share_of_later_blocks() -> None:
    shares = split("a", blocks=1)
    shares.arrive("b")
    assert shares.shares("b").tolist() == [0]
    shares.add([[1000]])
    assert shares.shares("a").tolist() == [EvenSplit.WHOLE, EvenSplit.WHOLE // 2]
    assert shares.shares("b").tolist() == [0, EvenSplit.WHOLE // 2]


def test_what_is_left_behind_goes_to_those_who_wait() -> None:
    shares = split("a", "b", "c", blocks=1)
    assert shares.spend("a", [0], [100])
    shares.leave("a")
    third, tenth = EvenSplit.WHOLE // 3, EvenSplit.WHOLE // 10
    assert shares.shares("b").tolist() == pytest.approx([third + (third - tenth) / 2], abs=2)
    assert shares.waiting == ["b", "c"]
    shares.leave("b")
    shares.leave("c")
    shares.arrive("d")
    assert shares.shares("d").tolist() == pytest.approx([EvenSplit.WHOLE - tenth], abs=2)


def test_a_block_that_came_while_nobody_waited_is_for_those_who_wait_next() -> None:
    shares = split(blocks=1)
    shares.arrive("a")
    assert shares.shares("a").tolist() == [EvenSplit.WHOLE]


def test_a_share_is_spent_in_all_blocks_or_in_none() -> None:
    shares = split("a", "b", blocks=2)
    assert shares.spend("a", [0], [400])
    before = shares.shares("a").tolist()
    assert not shares.spend("a", [0, 1], [400])
    assert shares.shares("a").tolist() == before
    assert shares.spend("a", [1], [400])


def test_a_price_is_as_large_a_part_as_its_dearest_place() -> None:
    firm, any_place = EvenSplit(2), EvenSplit(2, firm=False)
    for shares in (firm, any_place):
        shares.add([[1000, 100]])
    assert firm.parts([100, 50]).tolist() == [EvenSplit.WHOLE // 2]
    assert any_place.parts([100, 50]).tolist() == [EvenSplit.WHOLE // 10]


def test_shares_of_a_block_never_add_up_to_more_than_it() -> None:
    draw, shares = np.random.default_rng(0), EvenSplit(1)
    paid: dict[int, int] = {}
    for number in range(300):
        kind = draw.integers(4)
        if kind == 0:
            shares.add([[1000]])
        elif kind == 1 or not shares.waiting:
            shares.arrive(number)
        else:
            who = shares.waiting[int(draw.integers(len(shares.waiting)))]
            if kind == 2:
                shares.leave(who)
                continue
            price = int(draw.integers(1, 200))
            chosen = shares.offered(who, [price])[-3:]
            if len(chosen):
                assert shares.spend(who, chosen, [price])
                for block in chosen.tolist():
                    paid[block] = paid.get(block, 0) + price
    assert paid
    assert max(paid.values()) <= 1000


# --- mistakes -------------------------------------------------------------------------------------------------


def test_mistakes_are_named() -> None:
    whole = np.ones((1, 1), dtype=np.int64)
    refused: list[tuple[str, Callable[[], Any]]] = [
        ("blocks", lambda: BlockAmounts(whole, np.ones((2, 1), dtype=np.int64))),
        ("blocks", lambda: BlockAmounts(np.ones((1, 1)), np.ones((1, 1)))),  # type: ignore[arg-type]
        ("prices", lambda: waiting([[0]], [[-1]])),
        ("blocks", lambda: waiting([[]], [[1]])),
        ("weights", lambda: waiting([[0]], [[1]], [0.0])),
        ("prices", lambda: dpf(blocks(10), waiting([[0]], [[1, 2]]))),
        ("fair", lambda: unlocked_by_arrivals(whole, np.array([1]), 0)),
        ("lifetime", lambda: unlocked_by_time(whole, np.array([1.0]), 0.0)),
    ]
    for named, call in refused:
        with pytest.raises(Mistake) as mistake:
            call()
        assert mistake.value.argument == named
