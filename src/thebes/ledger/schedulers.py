"""Schedulers, which say which of many waiting claims a ledger's blocks should grant now: pure functions over whole
steps, in numpy arrays.

A scheduler decides an order and nothing else: whatever it grants fits what every block has left by the block's own
filter, so that no choice of a scheduler can spend more than a block promises. A claim asks the same price of each of
its blocks, and gets it in all of them or in none.

Sources: even split, Sage (Lecuyer et al. 2019); DPF, PrivateKube (Luo et al. 2021); DPack (Tholoniat et al. 2025).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy.faults import Mistake

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

#: the order in which a pass goes through the claims: a permutation of their numbers
Order = Callable[["_Field"], Integers]


@dataclass(frozen=True, slots=True)
class BlockAmounts:
    """The amounts that blocks can pay and that they spent or hold, in whole steps: a row for each, a column for each
    place of the filter.

    `firm` as in `ledger.filters`: every place must have room, or any one (then one with room left counts). `unlocked`
    is how much of the capacity may be granted yet; None: all of it.
    """

    capacity: Integers
    held: Integers
    firm: bool = True
    unlocked: Integers | None = None

    def __post_init__(self) -> None:
        for array in (self.capacity, self.held, *(() if self.unlocked is None else (self.unlocked,))):
            if array.ndim != 2 or array.dtype != np.int64 or array.shape != self.capacity.shape:
                raise Mistake("blocks", "must be whole numbers of 64 bits, a row for each block and a column a place")

    @property
    def left(self) -> Integers:
        """The amounts that may be granted now; negative at a place that has been overdrawn."""
        return (self.capacity if self.unlocked is None else np.minimum(self.unlocked, self.capacity)) - self.held


@dataclass(frozen=True, slots=True)
class Waiting:
    """Claims in the order in which they came: the numbers of each one's blocks, its price at every place, and how much
    its being granted is worth (1 where nothing is said)."""

    blocks: Sequence[Integers]
    prices: Integers
    weights: Floats | None = None

    def __post_init__(self) -> None:
        if self.prices.ndim != 2 or self.prices.dtype != np.int64 or len(self.prices) != len(self.blocks):
            raise Mistake("prices", "must be whole numbers of 64 bits, a row for each claim and a column a place")
        if (self.prices < 0).any():
            raise Mistake("prices", "must not be negative")
        if any(len(numbers) == 0 for numbers in self.blocks):
            raise Mistake("blocks", "of a claim must be at least one")
        if self.weights is not None and (self.weights.shape != (len(self.blocks),) or not (self.weights > 0).all()):
            raise Mistake("weights", "must be greater than 0, one for each claim")


def waiting(blocks: Sequence[ArrayLike], prices: ArrayLike, weights: ArrayLike | None = None) -> Waiting:
    """The same from lists."""
    given = np.asarray(prices, dtype=np.int64)
    return Waiting(
        [np.asarray(numbers, dtype=np.int64) for numbers in blocks],
        given.reshape(len(blocks), -1) if len(blocks) else np.zeros((0, 0), dtype=np.int64),
        None if weights is None else np.asarray(weights, dtype=np.float64),
    )


# --- the three orders -----------------------------------------------------------------------------------------


def fcfs(blocks: BlockAmounts, claims: Waiting) -> list[int]:
    """First come, first served: every claim that fits, in the order in which they came."""
    return _walk(blocks, claims, lambda field: np.arange(len(field.prices)))


def dpf(blocks: BlockAmounts, claims: Waiting) -> list[int]:
    """Dominant private-block fairness: the smallest dominant share first, the largest part of any one block's capacity
    at any one place that a claim asks for, by its weight.

    Of two that are alike the one whose next largest share is smaller; then the one that came first. With
    `unlocked_by_arrivals(n)` a claim for no more than an n-th of each of its blocks is granted when it arrives: its
    arrival unlocks as much, of which no claim before it can have taken any, and every claim that goes before it now
    asks for no more than a fair share either and so was granted when it came.
    """
    return _walk(blocks, claims, _by_dominant_share)


def dpack(blocks: BlockAmounts, claims: Waiting, *, again: int | None = None) -> list[int]:
    """Packing: the most worth for the sum of shares over all blocks first, each block counted at its best place only.

    The best place of a block is where most worth fits into what it has left, taken by itself (for claims of one worth
    the number that fits, smallest first; else the relaxed knapsack's greedy value). `again`: choose the best places
    anew after so many grants; None: once a pass.
    """
    return _walk(blocks, claims, _by_efficiency, again=again)


# --- what may be granted yet ----------------------------------------------------------------------------------


def unlocked_by_arrivals(capacity: Integers, arrived: Integers, fair: int) -> Integers:
    """An n-th of a block for every claim that ever asked for it, up to all of it (DPF-N, n = `fair`)."""
    if fair < 1:
        raise Mistake("fair", "must be at least 1")
    share = capacity // fair
    whole = arrived[:, None] >= fair
    return np.asarray(np.where(whole, capacity, share * np.minimum(arrived, fair)[:, None]))


def unlocked_by_time(capacity: Integers, age: Floats, lifetime: float) -> Integers:
    """As much of a block as has passed of `lifetime` since it opened (DPF-T); rounded down."""
    if not lifetime > 0:
        raise Mistake("lifetime", "must be greater than 0")
    passed = np.clip(age / lifetime, 0.0, 1.0)[:, None]
    return np.asarray(np.where(passed >= 1, capacity, np.floor(capacity * passed).astype(np.int64)))


# --- even split -----------------------------------------------------------------------------------------------


class EvenSplit:
    """Sage's reservation: a new block is divided evenly among those who wait, and what one leaves behind among the
    others.

    Shares are counted in parts of a block, `WHOLE` of which are all of it; a price is the largest part that it is of
    any place (the smallest where any one may pay), rounded. A block that came while nobody waited is divided among
    those who wait next. This says who goes first and protects nobody: the ledger decides what a block can pay.
    """

    WHOLE = 10**12

    def __init__(self, places: int, *, firm: bool = True) -> None:
        self._firm = firm
        self._capacity = np.zeros((0, places), dtype=np.int64)
        self._free = np.zeros(0, dtype=np.int64)
        self._shares: Integers = np.zeros((0, 0), dtype=np.int64)  # a row for each who waits, and spare ones
        self._rows: dict[Hashable, int] = {}

    @classmethod
    def restored(
        cls, capacities: ArrayLike, free: ArrayLike, shares: Mapping[Hashable, ArrayLike], *, firm: bool
    ) -> EvenSplit:
        """As it stood: what every block's places hold, what of it nobody has, and what each who waits may spend."""
        capacity, rest = np.asarray(capacities, dtype=np.int64), np.asarray(free, dtype=np.int64)
        made = cls(capacity.shape[1], firm=firm)
        made._capacity, made._free = capacity.copy(), rest.copy()
        rows = [np.asarray(own, dtype=np.int64) for own in shares.values()]
        made._shares = np.array(rows, dtype=np.int64).reshape(len(rows), len(rest))
        made._rows = {who: row for row, who in enumerate(shares)}
        return made

    @property
    def waiting(self) -> list[Hashable]:
        return list(self._rows)

    @property
    def free(self) -> Integers:
        """The amount of each block that nobody has a share of."""
        return self._free.copy()

    def add(self, capacities: ArrayLike) -> None:
        """New blocks, with the next numbers."""
        fresh = np.asarray(capacities, dtype=np.int64).reshape(-1, self._capacity.shape[1])
        first, count = len(self._free), len(fresh)
        self._capacity = np.concatenate([self._capacity, fresh])
        self._free = np.concatenate([self._free, np.full(count, self.WHOLE, dtype=np.int64)])
        room = self._shares.shape[1]
        if first + count > room:
            grown = np.zeros((len(self._shares), max(first + count, 2 * room)), dtype=np.int64)
            grown[:, :room] = self._shares
            self._shares = grown
        self._divide()

    def arrive(self, who: Hashable) -> None:
        """Somebody begins to wait, with a share of every block that nobody has one of."""
        if who in self._rows:
            return
        taken = set(self._rows.values())
        row = next((number for number in range(len(self._shares)) if number not in taken), len(self._shares))
        if row == len(self._shares):
            more = np.zeros((max(8, row), self._shares.shape[1]), dtype=np.int64)
            self._shares = np.concatenate([self._shares, more])
        self._rows[who] = row
        self._divide()

    def parts(self, price: ArrayLike) -> Integers:
        """Return what part a price is of each block."""
        amounts = np.asarray(price, dtype=np.float64).reshape(1, -1)
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(amounts > 0, amounts / self._capacity, 0.0)
        of_block = each.max(axis=1) if self._firm else each.min(axis=1)
        return np.asarray(np.rint(np.minimum(of_block, 2.0) * self.WHOLE), dtype=np.int64)

    def shares(self, who: Hashable) -> Integers:
        """Return what somebody may still spend of each block."""
        return self._shares[self._rows[who], : len(self._free)].copy()

    def offered(self, who: Hashable, price: ArrayLike) -> Integers:
        """The blocks of which somebody's share covers a price."""
        return np.flatnonzero(self.shares(who) >= self.parts(price)).astype(np.int64)

    def spend(self, who: Hashable, blocks: ArrayLike, price: ArrayLike) -> bool:
        """Take a price of one's share of each block; False, and nothing is taken, where one does not cover it."""
        numbers, parts = np.asarray(blocks, dtype=np.int64), self.parts(price)
        own = self._shares[self._rows[who]]
        if (own[numbers] < parts[numbers]).any():
            return False
        own[numbers] -= parts[numbers]
        return True

    def leave(self, who: Hashable) -> None:
        """Somebody is done: what they did not spend is divided among those who still wait."""
        row = self._rows.pop(who)
        self._free += self._shares[row, : len(self._free)]
        self._shares[row] = 0
        self._divide()

    def _divide(self) -> None:
        if not self._rows:
            return
        each = self._free // len(self._rows)
        given = np.flatnonzero(each)
        if len(given):
            rows = np.array(list(self._rows.values()))
            self._shares[np.ix_(rows, given)] += each[given]
            self._free[given] -= each[given] * len(rows)


# --- inside ---------------------------------------------------------------------------------------------------


class _Field:
    """A pass. Blocks that stand alike and are asked for by the same claims are one segment: whatever is granted takes
    the same from each of them, so they stay alike."""

    def __init__(self, blocks: BlockAmounts, claims: Waiting) -> None:
        asked = np.zeros((len(claims.blocks), len(blocks.capacity)), dtype=np.bool_)
        for number, own in enumerate(claims.blocks):
            asked[number, own] = True
        wanted = np.flatnonzero(asked.any(axis=0))
        left, capacity = blocks.left[wanted], np.ascontiguousarray(blocks.capacity[wanted])
        columns = np.packbits(asked[:, wanted], axis=0).T
        first, self.count = _alike(columns, left, capacity)
        self.asked: Flags = np.ascontiguousarray(asked[:, wanted[first]])
        self.left, self.capacity, self.firm = left[first].copy(), capacity[first], blocks.firm
        # More than any capacity is the same as any other more: it fits nowhere, and sums stay within 64 bits.
        most = int(blocks.capacity.max(initial=0)) + 1
        self.prices, self.stated = np.minimum(claims.prices, most), claims.prices
        self.weights = np.ones(len(claims.blocks)) if claims.weights is None else claims.weights
        self._own = [np.flatnonzero(row) for row in self.asked]

    def fits(self, claim: int) -> bool:
        left, price = self.left[self._own[claim]], self.prices[claim]
        enough = price <= left
        if self.firm:
            return bool(enough.all())
        return bool((enough & (left > 0)).any(axis=1).all())

    def grant(self, claim: int) -> None:
        self.left[self._own[claim]] -= self.prices[claim]


def _alike(columns: NDArray[np.uint8], left: Integers, capacity: Integers) -> tuple[Integers, Integers]:
    """The first of each kind of row, and how many there are of it."""
    if not len(columns):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    parts = [np.ascontiguousarray(part).view(np.uint8).reshape(len(columns), -1) for part in (columns, left, capacity)]
    rows = np.ascontiguousarray(np.hstack(parts))
    whole = rows.view(np.dtype((np.void, rows.shape[1]))).reshape(-1)
    _, first, count = np.unique(whole, return_index=True, return_counts=True)
    return first.astype(np.int64), count.astype(np.int64)


def _walk(blocks: BlockAmounts, claims: Waiting, order: Order, *, again: int | None = None) -> list[int]:
    if len(claims.blocks) == 0:
        return []
    if claims.prices.shape[1] != blocks.capacity.shape[1]:
        raise Mistake("prices", "must have as many places as the blocks")
    field, granted, refused = _Field(blocks, claims), list[int](), set[int]()
    while True:
        since = 0
        for claim in order(field).tolist():
            if claim in refused:
                continue
            refused.add(claim)  # looked at: what does not fit now fits at no later moment of this pass
            if field.fits(claim):
                field.grant(claim)
                granted.append(claim)
                since += 1
                if again is not None and since >= again:
                    break
        else:
            return granted


def _by_dominant_share(field: _Field) -> Integers:
    kinds, which = np.unique(field.capacity, axis=0, return_inverse=True)
    which = which.reshape(-1)
    # how many blocks of each capacity a claim asks for
    many = np.stack([field.asked[:, which == kind] @ field.count[which == kind] for kind in range(len(kinds))], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_kind = field.stated[:, None, :] / kinds[None, :, :]
    usable = (kinds > 0)[None, :, :] & (many > 0)[:, :, None]
    shares = np.where(usable, per_kind, 0.0) / field.weights[:, None, None]
    most = shares.max(axis=(1, 2))
    order = np.argsort(most, kind="stable")
    ordered = most[order]
    begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    for start, stop in zip(begins, [*begins[1:], len(order)], strict=True):
        if stop - start > 1:
            alike = order[start:stop].tolist()
            order[start:stop] = sorted(alike, key=lambda claim: (_expanded(shares[claim], many[claim]), claim))
    return order.astype(np.int64)


def _expanded(shares: Floats, many: Integers) -> tuple[tuple[float, int], ...]:
    """All shares of a claim, largest first, each with how often it occurs: compared like the whole list."""
    counted: dict[float, int] = {}
    for share, times in zip(shares.reshape(-1), np.repeat(many, shares.shape[1]), strict=True):
        if share > 0:
            counted[float(share)] = counted.get(float(share), 0) + int(times)
    return tuple(sorted(counted.items(), reverse=True))


def _by_efficiency(field: _Field) -> Integers:
    asked, claims = field.asked.astype(np.float32), len(field.prices)
    cost = np.zeros(claims)
    with np.errstate(divide="ignore", invalid="ignore"):
        per = np.where(field.capacity > 0, field.count[:, None] / field.capacity, 0.0)
    if field.firm:
        places = field.prices.astype(np.float64)
        # the scarcest place of each kind of block
        for kind in np.unique(per, axis=0):
            here = (per == kind).all(axis=1)
            cost += asked[:, here].sum(axis=1) * (places * kind).max(axis=1)
    else:
        best = _best_places(field, asked)
        for place in range(field.capacity.shape[1]):
            here = best == place
            cost += (asked[:, here] @ per[here, place].astype(np.float32)) * field.prices[:, place]
    with np.errstate(divide="ignore"):
        worth = np.where(cost > 0, field.weights / cost, np.inf)
    return np.argsort(-worth, kind="stable").astype(np.int64)


def _best_places(field: _Field, asked: NDArray[np.float32]) -> Integers:
    """Of each segment, the place where most worth fits into what is left."""
    segments, places = field.left.shape
    worth = np.full((segments, places), -1.0)
    for place in range(places):
        price = field.prices[:, place].astype(np.float64)
        order = np.argsort(price / field.weights, kind="stable")
        filled = asked[order] * price[order, None].astype(np.float32)
        np.cumsum(filled, axis=0, out=filled)
        inside = filled <= field.left[None, :, place].astype(np.float32)
        inside &= field.asked[order]
        value = field.weights[order].astype(np.float32) @ inside
        worth[:, place] = np.where((field.left[:, place] > 0) & (field.capacity[:, place] > 0), value, -1.0)
    # of places where as much fits, the one with the largest part left
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(field.capacity > 0, field.left / field.capacity, -1.0)
    return np.lexsort((part.T, worth.T), axis=0)[-1] if places > 1 else np.zeros(segments, dtype=np.int64)
