"""Time to choose who is granted of 1,000 waiting claims on 10,000 blocks, hours of more than a year: the goal is under
a second.

Beside it what a plain loop over claims and their blocks takes for first come, first served, in the same run.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from thebes.ledger.schedulers import BlockAmounts, EvenSplit, Waiting, dpack, dpf, fcfs, waiting

BLOCKS, CLAIMS, ROUNDS = 10_000, 1_000, 5
WINDOWS = (24, 168, 720, 5000)
ORDERS = np.array([1.5, 1.75, 2, 2.5, 3, 4, 5, 6, 8, 16, 32, 64])
STEP = 10**12
CAPACITY = (np.maximum(10 + np.log(1e-7) / (ORDERS - 1), 0) * STEP).astype(np.int64)


def run() -> dict[str, dict[str, float]]:
    """Seconds of a pass with each scheduler, by how blocks count, and of what even shares take."""
    measured = {name: _passes(firm) for name, firm in (("renyi, 12 orders", False), ("basic", True))}
    measured["even split, basic"] = _even()
    return measured


def _passes(firm: bool) -> dict[str, float]:
    field, claims = _made(firm)
    figures = {one.__name__: _seconds(partial(one, field, claims)) for one in (fcfs, dpf, dpack)}
    plain = figures["plain loop"] = _seconds(lambda: _plain(field, claims))
    return {**figures, **{f"{one}, times the plain loop": figures[one] / plain for one in ("fcfs", "dpf", "dpack")}}


def _made(firm: bool) -> tuple[BlockAmounts, Waiting]:
    """Models over the last day, week, month or half a year, at some time."""
    draw = np.random.default_rng(0)
    one = np.array([10 * STEP, STEP]) if firm else CAPACITY
    capacity = np.tile(one, (BLOCKS, 1))
    own, prices = [], []
    for _ in range(CLAIMS):
        window = int(draw.choice(WINDOWS))
        first = int(draw.integers(0, BLOCKS - window + 1))
        own.append(np.arange(first, first + window))
        share = draw.uniform(0.001, 0.2)
        prices.append((one * share).astype(np.int64) if firm else (ORDERS / (2 * draw.uniform(3, 30) ** 2) * STEP))
    return BlockAmounts(capacity, np.zeros_like(capacity), firm=firm), waiting(own, np.array(prices).astype(np.int64))


def _plain(field: BlockAmounts, claims: Waiting) -> int:
    left, granted = field.left, 0
    for own, price in zip(claims.blocks, claims.prices, strict=True):
        rows = left[own]
        enough = price <= rows
        if enough.all() if field.firm else (enough & (rows > 0)).any(axis=1).all():
            left[own] -= price
            granted += 1
    return granted


def _even() -> dict[str, float]:
    shares = EvenSplit(1)
    for who in range(CLAIMS):
        shares.arrive(who)
    started = time.perf_counter()
    shares.add(np.full((BLOCKS, 1), STEP))
    added = time.perf_counter() - started
    return {
        "10,000 new blocks shared out": added,
        "one more block": _seconds(lambda: shares.add([[STEP]])),
        "what one is offered": _seconds(lambda: shares.offered(0, [STEP // 2000])),
        "one leaves": _seconds(lambda: shares.leave(shares.waiting[0])),
    }


def _seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return round(statistics.median(taken), 4)
