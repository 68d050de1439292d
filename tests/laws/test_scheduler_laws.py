"""Whatever a scheduler grants, a ledger grants too, and no block ever pays more than it promised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.ledger import BudgetExceeded, Ledger
from thebes.ledger.filters import FILTERS
from thebes.ledger.schedulers import BlockAmounts, Waiting, dpack, dpf, fcfs, waiting
from thebes.privacy.losses import Concentrated, Loss, Pure

Scheduler = Callable[[BlockAmounts, Waiting], list[int]]
SCHEDULERS: list[Scheduler] = [fcfs, dpf, dpack, lambda field, claims: dpack(field, claims, again=2)]


@st.composite
def fields(draw: st.DrawFn) -> tuple[BlockAmounts, Waiting]:
    """Blocks that spent something already, and claims on some of them."""
    count, places, claims = draw(st.integers(1, 6)), draw(st.integers(1, 3)), draw(st.integers(1, 8))
    row = st.lists(st.integers(0, 20), min_size=places, max_size=places)
    capacity = np.array([draw(row) for _ in range(count)], dtype=np.int64)
    held = np.array([draw(row) for _ in range(count)], dtype=np.int64)
    own = [draw(st.lists(st.integers(0, count - 1), min_size=1, unique=True)) for _ in range(claims)]
    prices = [draw(row) for _ in range(claims)]
    weights = draw(st.none() | st.lists(st.floats(0.1, 10), min_size=claims, max_size=claims))
    return BlockAmounts(capacity, held, firm=draw(st.booleans())), waiting(own, prices, weights)


def fits(field: BlockAmounts, left: Any, own: Any, price: Any) -> bool:
    """The rule of a block's filter, one block and place at a time."""
    for block in own:
        enough = [
            price[place] <= left[block][place] for place in range(len(price)) if field.firm or left[block][place] > 0
        ]
        if not (all(enough) if field.firm else any(enough)):
            return False
    return True


@given(fields(), st.sampled_from(SCHEDULERS))
def test_every_grant_fits_and_nothing_that_fits_is_left(
    made: tuple[BlockAmounts, Waiting], scheduler: Scheduler
) -> None:
    field, claims = made
    left = (field.capacity - field.held).tolist()
    granted = scheduler(field, claims)
    assert len(set(granted)) == len(granted)
    for number in granted:
        own, price = claims.blocks[number].tolist(), claims.prices[number].tolist()
        assert fits(field, left, own, price)
        for block in own:
            left[block] = [a - b for a, b in zip(left[block], price, strict=True)]
    for number in set(range(len(claims.blocks))) - set(granted):
        assert not fits(field, left, claims.blocks[number].tolist(), claims.prices[number].tolist())


@given(fields())
def test_dpf_goes_by_the_largest_part_of_any_block(made: tuple[BlockAmounts, Waiting]) -> None:
    field, claims = made
    granted = dpf(field, claims)

    def share(number: int) -> float:
        ratios = [
            claims.prices[number][place] / field.capacity[block][place]
            for block in claims.blocks[number]
            for place in range(field.capacity.shape[1])
            if field.capacity[block][place] > 0
        ]
        return max(ratios, default=0.0) / (1.0 if claims.weights is None else claims.weights[number])

    shares = [share(number) for number in granted]
    assert shares == sorted(shares)


@pytest.mark.slow
@examples(12)
@given(st.integers(0, 2**32), st.sampled_from(["basic", "zcdp", "either", "renyi"]), st.sampled_from(SCHEDULERS))
def test_adaptive_streams_of_claims_never_exceed_a_block(seed: int, counting: str, scheduler: Scheduler) -> None:
    """Blocks and claims come by chance, prices chosen by what was granted before; each grant is reserved in a ledger,
    which must not refuse it, and reads the same budgets."""
    draw, kind = np.random.default_rng(seed), FILTERS[counting]
    ledger = Ledger("memory://")
    names: list[str] = []
    queue: list[tuple[list[int], Loss]] = []
    lucky = 1.0
    for now in range(12):
        names.append(f"day {now:02}")
        ledger.open_block(names[-1], epsilon=1, delta=1e-6, filter=counting)
        for _ in range(int(draw.integers(1, 4))):
            own = sorted(draw.choice(len(names), size=draw.integers(1, len(names) + 1), replace=False).tolist())
            epsilon = str(round(float(draw.uniform(0.02, 0.3)) * lucky + 0.001, 6))
            loss: Loss = Pure(epsilon) if counting == "basic" or draw.random() < 0.5 else Concentrated(epsilon)
            queue.append((own, loss))
        shown = [ledger.block(name).meters for name in names]
        places = list(shown[0])
        field = BlockAmounts(
            np.array([[meters[place].capacity for place in places] for meters in shown], dtype=np.int64),
            np.array([[meters[p].reserved + meters[p].spent for p in places] for meters in shown], dtype=np.int64),
            firm=kind.firm,
        )
        prices = [kind.price(loss, places) for _, loss in queue]
        claims = waiting([own for own, _ in queue], [[price.get(p, 0) for p in places] for price in prices])
        granted = scheduler(field, claims)
        for number in granted:
            own, loss = queue[number]
            claim = ledger.reserve([names[n] for n in own], loss=loss, purpose="a model", spender="ana")
            if draw.random() < 0.8:
                claim.consume()
        lucky = 0.5 if granted else 2.0
        queue = [one for number, one in enumerate(queue) if number not in granted]
    for own, loss in queue:  # what is still waiting does not fit, in the ledger's own words
        with pytest.raises(BudgetExceeded):
            ledger.reserve([names[n] for n in own], loss=loss, purpose="a model", spender="ana")
    for name in names:
        meters = list(ledger.block(name).meters.values())
        within = [meter.reserved + meter.spent <= (meter.capacity or 0) for meter in meters]
        assert all(within) if kind.firm else any(within)
