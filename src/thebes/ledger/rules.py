"""The rules of spending, once for every store: reserve, acquire, consume, release, each one transaction.

What must stay true: a claim is granted in all its blocks or in none; reserved + spent never pass a firm
capacity; what is consumed was reserved before, and never comes back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from thebes.ledger import journal, losses
from thebes.ledger.amounts import NOTHING, Budget, Steps
from thebes.ledger.filter_protocol import Filter
from thebes.ledger.filters import FILTERS
from thebes.ledger.freezing import why_frozen
from thebes.ledger.refusals import BlockRetired, BudgetExceeded, ClaimEnded, Frozen
from thebes.ledger.states import BlockState, ClaimState
from thebes.ledger.store import (
    ALL,
    ITSELF,
    BlockCharge,
    BlockRow,
    ClaimRow,
    JournalHead,
    Meter,
    Transaction,
    WriteConflict,
)
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.losses import Loss

#: in one place of a block, in steps: the largest number that every database holds, with room to spare
_MOST_HELD = 2**62


@dataclass(frozen=True, slots=True)
class LossRequest:
    """The request that somebody makes: the same loss from each of `blocks` (sorted, no two alike)."""

    blocks: tuple[str, ...]
    loss: Loss
    spender: str
    purpose: str
    unit: str | None
    adjacency: str | None
    key: str | None


def reserve(t: Transaction, now: str, request: LossRequest) -> ClaimRow:
    """Set the loss aside in every block, or refuse and leave everything as it was."""
    text = losses.text_of(request.loss)
    if request.key is not None and (earlier := t.claim_of_key(request.key)) is not None:
        _same_request(t, earlier, request, text)
        return earlier
    blocks = _asked(t, request)
    unit, adjacency = _one_promise(blocks.values(), request)
    standing, known = standing_of(t), {name for name, block in blocks.items() if block.usage}
    charges: list[BlockCharge] = []
    moves: list[tuple[str, str, str, int, int]] = []
    for name, price in _prices(t, request, blocks, frozen=standing.frozen).items():
        block = blocks[name]
        if block.usage and name not in known:
            t.add_meters(name, request.spender, block.usage)
        for place, amount in price.items():
            charges.append(BlockCharge(name, place, amount, 0))
            moves.append((name, ITSELF, place, amount, 0))
            if block.usage:
                moves.append((name, request.spender, place, amount, 0))
    row = ClaimRow(0, request.key, request.spender, request.purpose, unit, adjacency, ClaimState.RESERVED, text, text)
    row.id = t.add_claim(row)
    t.add_charges(row.id, charges)
    t.move(moves)
    facts = {
        "claim": row.id,
        "key": row.key,
        "spender": row.spender,
        "purpose": row.purpose,
        "unit": unit,
        "adjacency": adjacency,
        "loss": text,
        "charges": grouped((c.block, c.place, c.reserved) for c in charges),
    }
    record(t, standing, now, "reserve", facts)
    return row


def check(t: Transaction, request: LossRequest) -> None:
    """Refuse what `reserve` would refuse of a request that is new; nothing is changed either way."""
    blocks = _asked(t, request)
    _one_promise(blocks.values(), request)
    _prices(t, request, blocks, frozen=is_frozen(t))


def acquire(t: Transaction, now: str, number: int) -> ClaimRow:
    """Say that work with the data has begun."""
    row = _open_claim(t, number)
    if row.state is ClaimState.RESERVED:
        standing = _thawed(t, t.charges(number))
        row.state = ClaimState.ACQUIRED
        t.set_claim(number, row.state, row.left)
        record(t, standing, now, "acquire", {"claim": number})
    return row


def consume(t: Transaction, now: str, number: int, loss: Loss | None, part: str | None) -> ClaimRow:
    """Take a part of the claim, or all that is left, for good. A part taken before under its name costs nothing."""
    row = t.claim(number)
    text = "rest" if loss is None else losses.text_of(loss)
    if part is not None and (earlier := t.part(number, part)) is not None:
        if earlier != text:
            raise Mistake("part", f"{part!r} was taken before with another amount")
        return row or _open_claim(t, number)
    row = _open_claim(t, number, row)
    charges = t.charges(number)
    left = losses.loss_of_text(row.left)
    taken = left if loss is None else loss
    rest = losses.after(left, taken)
    if rest is None:
        raise ClaimEnded(number, f"has {row.left} left and cannot pay {text}")
    blocks = t.blocks(sorted({c.block for c in charges}), row.spender)
    standing = _thawed(t, charges)
    whole = loss is None and row.left == row.loss
    done = loss is None or losses.exhausted(rest)
    prices: dict[tuple[str, tuple[str, ...]], Steps] = {}
    consumed: list[tuple[str, str, int]] = []
    returned: list[tuple[str, str, int]] = []
    moves: list[tuple[str, str, str, int, int]] = []
    for charge in charges:
        amount = charge.reserved
        if not whole:
            block = blocks[charge.block]
            kind = (block.filter, tuple(block.meters))
            if kind not in prices:
                prices[kind] = FILTERS[block.filter].price(taken, block.meters)
            # The exact parts never pass what was asked, so only rounding can pass what was reserved.
            amount = min(prices[kind].get(charge.place, 0), charge.reserved)
        back = charge.reserved - amount if done else 0
        if amount:
            consumed.append((charge.block, charge.place, amount))
        if back:
            returned.append((charge.block, charge.place, back))
        charge.reserved -= amount + back
        charge.spent += amount
        moves.append((charge.block, ITSELF, charge.place, -amount - back, amount))
        if blocks[charge.block].usage:
            moves.append((charge.block, row.spender, charge.place, -amount - back, amount))
    row.state = ClaimState.CLOSED if done else ClaimState.ACQUIRED
    row.left = losses.text_of(rest)
    t.set_claim(number, row.state, row.left)
    t.set_charges(number, charges)
    t.move(moves)
    if part is not None:
        t.add_part(number, part, text)
    facts: dict[str, Any] = {
        "claim": number,
        "part": part,
        "loss": text,
        "left": row.left,
        "state": str(row.state),
        "charges": grouped(consumed),
        "returned": grouped(returned),
    }
    record(t, standing, now, "consume", facts)
    return row


def release(t: Transaction, now: str, number: int) -> ClaimRow:
    """Give back what is left; what was consumed stays. A claim that has ended is left as it is."""
    row = t.claim(number)
    if row is None:
        raise Mistake("claim", f"there is no claim {number}")
    if not row.state.open:
        return row
    charges = t.charges(number)
    blocks = t.blocks(sorted({c.block for c in charges}), row.spender)
    standing = _thawed(t, charges)
    row.state = ClaimState.CLOSED if any(c.spent for c in charges) else ClaimState.RELEASED
    returned = [(c.block, c.place, c.reserved) for c in charges if c.reserved]
    moves = [(block, ITSELF, place, -amount, 0) for block, place, amount in returned]
    moves += [(block, row.spender, place, -amount, 0) for block, place, amount in returned if blocks[block].usage]
    for charge in charges:
        charge.reserved = 0
    t.set_claim(number, row.state, row.left)
    t.set_charges(number, charges)
    t.move(moves)
    record(t, standing, now, "release", {"claim": number, "state": str(row.state), "returned": grouped(returned)})
    return row


def freeze(t: Transaction, now: str, why: str) -> None:
    """Count every open block as spent until `thaw`. A copy of a frozen ledger that is restored says so as well: what
    froze it last is why it is frozen."""
    standing = standing_of(t)
    if not standing.frozen:
        t.set_frozen(True)
    elif why == why_frozen(t):
        return
    record(t, standing, now, "freeze", {"why": why})


def thaw(t: Transaction, now: str) -> list[int]:
    """Let the ledger spend again. Claims still open count as consumed whole: in the time that the copy has
    forgotten they may have been, and nobody can tell."""
    before = t.peek()
    if before is None or not before.frozen:
        return []
    settled = []
    numbers = t.open_claims()
    for number in numbers:
        row = _open_claim(t, number)
        charges = t.charges(number)
        blocks = t.blocks(sorted({c.block for c in charges}), row.spender)
        held = [(c.block, c.place, c.reserved) for c in charges if c.reserved]
        moves = [(block, ITSELF, place, -amount, amount) for block, place, amount in held]
        moves += [(block, row.spender, place, -amount, amount) for block, place, amount in held if blocks[block].usage]
        for charge in charges:
            charge.spent, charge.reserved = charge.spent + charge.reserved, 0
        row.left = losses.text_of(losses.nothing_of(losses.loss_of_text(row.left)))
        t.set_claim(number, ClaimState.CLOSED, row.left)
        t.set_charges(number, charges)
        t.move(moves)
        settled.append({"claim": number, "left": row.left, "charges": grouped(held)})
    standing = standing_of(t)
    if not standing.frozen:
        raise WriteConflict
    t.set_frozen(False)
    record(t, standing, now, "thaw", {"settled": settled})
    return numbers


def remaining(t: Transaction, block: BlockRow, frozen: bool, spender: str | None) -> Budget:
    """Return what a new claim on the block could still get, of the block and under the spender's cap."""
    if frozen or block.state is not BlockState.OPEN:
        return NOTHING
    counting = FILTERS[block.filter]
    left = {place: m.left for place, m in block.meters.items() if counting.firm or m.spent <= (m.capacity or 0)}
    readings = [counting.reading(left, block.delta)]
    if spender is not None:
        caps = t.caps(spender)
        cap = caps.get(block.name, caps.get(ALL))
        if cap is not None:
            usage = block.usage or {
                place: Meter(None, r, s, False) for place, (r, s) in t.usage(block.name, spender).items()
            }
            under = _under_cap(block, counting, cap, usage)
            readings.append(counting.reading({place: under[place] for place in left}, block.delta))
    return Budget(min(r.epsilon for r in readings), min(r.delta for r in readings))


def record(t: Transaction, standing: JournalHead, now: str, event: str, facts: dict[str, Any]) -> None:
    """Append one entry to the journal."""
    body, head = journal.written(standing.head, now, event, facts)
    t.append(body, head)


def grouped(charges: Iterable[tuple[str, str, int]]) -> list[dict[str, Any]]:
    """Charges (block, place, steps) with the blocks that are charged alike written together."""
    by_block: dict[str, dict[str, str]] = {}
    for block, place, steps in charges:
        by_block.setdefault(block, {})[place] = str(steps)
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for block, amounts in by_block.items():
        alike.setdefault(tuple(amounts.items()), []).append(block)
    return [{"blocks": blocks, "amounts": dict(amounts)} for amounts, blocks in alike.items()]


def standing_of(t: Transaction) -> JournalHead:
    """Return where the ledger stands."""
    standing = t.standing()
    if standing is None:
        raise Fault("the ledger has no beginning")
    return standing


def is_frozen(t: Transaction) -> bool:
    """Return whether every open block counts as spent."""
    standing = t.peek()
    return standing is not None and standing.frozen


def _thawed(t: Transaction, charges: list[BlockCharge]) -> JournalHead:
    standing = standing_of(t)
    if standing.frozen:
        raise Frozen(charges[0].block if charges else "", NOTHING, NOTHING)
    return standing


def _open_claim(t: Transaction, number: int, row: ClaimRow | None = None) -> ClaimRow:
    row = t.claim(number) if row is None else row
    if row is None:
        raise Mistake("claim", f"there is no claim {number}")
    if not row.state.open:
        raise ClaimEnded(number, f"is {row.state} and pays for nothing more")
    return row


def _same_request(t: Transaction, earlier: ClaimRow, request: LossRequest, text: str) -> None:
    blocks = tuple(sorted({c.block for c in t.charges(earlier.id)}))
    same = (earlier.spender, earlier.purpose, earlier.loss, blocks)
    if (
        same != (request.spender, request.purpose, text, request.blocks)
        or request.unit not in (None, earlier.unit)
        or request.adjacency not in (None, earlier.adjacency)
    ):
        raise Mistake("key", f"{request.key!r} was used before for another request")


def _one_promise(blocks: Iterable[BlockRow], request: LossRequest) -> tuple[str, str]:
    """The unit and adjacency that all blocks and the request share; a loss means nothing under another."""
    units, adjacencies = {b.unit for b in blocks}, {b.adjacency for b in blocks}
    for argument, found, stated in (("unit", units, request.unit), ("adjacency", adjacencies, request.adjacency)):
        if len(found) > 1:
            raise Mistake(argument, f"differs between these blocks ({', '.join(sorted(found))}); claim them separately")
        if stated is not None and stated not in found:
            raise Mistake(argument, f"is {next(iter(found))} for these blocks, the claim was priced for {stated}")
    return units.pop(), adjacencies.pop()


def _asked(t: Transaction, request: LossRequest) -> dict[str, BlockRow]:
    """Return the blocks of a request, or a Mistake that names one that is not there."""
    blocks = t.blocks(request.blocks, request.spender)
    for name in request.blocks:
        if name not in blocks:
            raise Mistake("blocks", f"there is no block {name!r}")
    return blocks


def _prices(t: Transaction, request: LossRequest, blocks: dict[str, BlockRow], *, frozen: bool) -> dict[str, Steps]:
    """Return the price of a request in each of its blocks, where each of them grants it and every cap of its spender;
    else refuse. Of a block with a cap `usage` is known from then on. Nothing is written."""
    caps = t.caps(request.spender)
    prices: dict[tuple[str, tuple[str, ...]], Steps] = {}
    found: dict[str, Steps] = {}
    for name in request.blocks:
        block = blocks[name]
        counting = FILTERS[block.filter]
        # An order whose spent losses have passed its capacity is dead for good and no longer counted.
        meters = {place: m for place, m in block.meters.items() if counting.firm or m.spent <= (m.capacity or 0)}
        kind = (block.filter, tuple(meters))
        if kind not in prices:
            prices[kind] = counting.price(request.loss, meters)
        price = prices[kind]
        _granted(block, counting, price, {place: m.left for place, m in meters.items()}, request, frozen=frozen)
        cap = caps.get(name, caps.get(ALL))
        if cap is not None:
            block.usage = block.usage or _usage(t, block, request.spender)
            left = _under_cap(block, counting, cap, block.usage)
            within = {place: left[place] for place in meters}
            if not counting.fits(price, within):
                raise _exceeded(block, counting, price, within, request, request.spender)
        if not counting.firm:  # all of a place and a step more is as much as anything larger
            price = {place: min(amount, (meters[place].capacity or 0) + 1) for place, amount in price.items()}
            if any(m.reserved + m.spent + price.get(place, 0) > _MOST_HELD for place, m in meters.items()):
                raise _exceeded(block, counting, price, dict.fromkeys(meters, 0), request, None)
        found[name] = price
    return found


def _granted(
    block: BlockRow, counting: Filter, price: Steps, left: Steps, request: LossRequest, *, frozen: bool
) -> None:
    if frozen:
        raise Frozen(block.name, _requested(counting, price, block), NOTHING)
    if block.state is not BlockState.OPEN:
        raise BlockRetired(block.name, _requested(counting, price, block), NOTHING)
    if not counting.fits(price, left):
        raise _exceeded(block, counting, price, left, request, None)


def _exceeded(
    block: BlockRow, counting: Filter, price: Steps, left: Steps, request: LossRequest, spender: str | None
) -> BudgetExceeded:
    return BudgetExceeded(block.name, _requested(counting, price, block), counting.reading(left, block.delta), spender)


def _requested(counting: Filter, price: Steps, block: BlockRow) -> Budget:
    return counting.worth(price, block.delta)


def _usage(t: Transaction, block: BlockRow, spender: str) -> dict[str, Meter]:
    """Return how much of the block the spender holds, counted from the claims: the first time a cap asks for it."""
    counted = t.usage(block.name, spender)
    return {place: Meter(None, *counted.get(place, (0, 0)), firm=False) for place in block.meters}


def _under_cap(
    block: BlockRow, counting: Filter, cap: tuple[int, int | None], usage: dict[str, Meter]
) -> dict[str, int]:
    epsilon, delta = cap
    budget = Budget.of_steps(epsilon, block.delta if delta is None else delta)
    allowed = counting.allowance(budget.epsilon, budget.delta, block.meters)
    held = {place: m.reserved + m.spent for place, m in usage.items()}
    # Never more of a place than the block has there: what costs more than that is held as if it cost a step more.
    return {
        place: min(allowed.get(place, 0), meter.capacity or 0) - held.get(place, 0)
        for place, meter in block.meters.items()
    }
