"""Blocks and caps: what may be spent at all, and by whom. Each function is one step within a transaction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from thebes.ledger import rules
from thebes.ledger.amounts import Amount, Budget
from thebes.ledger.filters import filter_of
from thebes.ledger.losses import text
from thebes.ledger.states import BlockState
from thebes.ledger.store import ALL, ITSELF, BlockRow, Meter, Transaction
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import at_most, figure, percent
from thebes.privacy.promise import Adjacency, Unit, adjacency_of, unit_of


@dataclass(frozen=True, slots=True)
class Block:
    """The promise of a block and how it stands. `meters` count in whole steps, by the place its filter counts at."""

    name: str
    unit: Unit
    adjacency: Adjacency
    filter: str
    budget: Budget  #: the (epsilon, delta) that everything ever charged to it stays within
    state: BlockState
    remaining: Budget  #: see Ledger.remaining
    meters: dict[str, Meter]

    @property
    def left(self) -> float:
        """The share of the budget that is neither spent nor set aside, where it is least; where one place
        of several suffices, at the one that has most."""
        shares = [max(0, meter.left) / meter.capacity for meter in self.meters.values() if meter.capacity]
        return (min if filter_of(self.filter).firm else max)(shares, default=0.0)

    @property
    def account(self) -> str:
        """The account of what is spent of the budget, and of what one answer may cost at once: the same sentence
        wherever it is told.

        Where costs do not add up as epsilons, the most that one answer may cost is less than the budget though nothing
        is spent: so it is never called what is left of it.
        """
        gone = "nothing spent" if self.left == 1 else f"{percent(1 - self.left)} spent or set aside"
        delta = f", delta {figure(float(self.budget.delta))}" if self.budget.delta else ""
        return f"of epsilon {figure(float(self.budget.epsilon))}{delta}: {gone}; {self._next}"

    @property
    def _next(self) -> str:
        if self.state is not BlockState.OPEN:
            return f"it is {self.state} and pays for nothing more"
        if not self.remaining.epsilon:
            return "no answer can be paid for"
        most = at_most(float(self.remaining.epsilon), 4)
        return filter_of(self.filter).most_of_an_answer(most, {place: m.left for place, m in self.meters.items()})


@dataclass(frozen=True, slots=True)
class SpenderCap:
    """The most that one spender may have of `block`, or of each block without a cap of its own where that is None."""

    spender: str
    block: str | None
    epsilon: Amount
    delta: Amount | None  #: None: the block's own


# --- blocks ---------------------------------------------------------------------------------------------------


def row_of(
    name: str,
    *,
    epsilon: exact.Number,
    delta: exact.Number,
    unit: str | Unit,
    adjacency: str | Adjacency,
    filter: str,
    orders: Iterable[float] | None,
) -> BlockRow:
    """A block as somebody asks for it, with nothing spent."""
    text("block", name)
    counting = filter_of(filter)
    e, d = exact.epsilon(epsilon), exact.delta(delta)
    if exact.steps_down(e, exact.EPSILON_STEP) == 0:
        raise Mistake("epsilon", "is smaller than the smallest step a ledger counts (1e-12)")
    capacity = counting.capacity(e, d, orders)
    return BlockRow(
        name=name,
        unit=unit_of(unit),
        adjacency=adjacency_of(adjacency),
        filter=counting.name,
        epsilon=exact.steps_down(e, exact.EPSILON_STEP),
        delta=exact.steps_down(d, exact.DELTA_STEP),
        state=BlockState.OPEN,
        meters={place: Meter(steps, 0, 0, counting.firm) for place, steps in capacity.items()},
    )


def opened(t: Transaction, now: str, row: BlockRow) -> Block:
    """A new block; one that is there already must be on the same terms."""
    earlier = t.blocks([row.name], ITSELF).get(row.name)
    if earlier is not None:
        _same_terms(earlier, row)
        return shown(t, earlier)
    t.add_block(row)
    facts = {
        "block": row.name,
        "unit": str(row.unit),
        "adjacency": str(row.adjacency),
        "filter": row.filter,
        "epsilon": str(row.epsilon),
        "delta": str(row.delta),
        "capacity": {place: str(m.capacity) for place, m in row.meters.items()},
    }
    rules.record(t, rules.standing_of(t), now, "open", facts)
    return shown(t, row)


def retired(t: Transaction, now: str, name: str) -> Block:
    """The block, taking no new claims from now on."""
    block = found(t, name)
    if block.state is not BlockState.RETIRED:
        standing = rules.standing_of(t)
        block.state = BlockState.RETIRED
        t.set_block(name, block.state)
        rules.record(t, standing, now, "retire", {"block": name})
    return shown(t, block)


def every(t: Transaction, within: str = "") -> list[Block]:
    """All blocks whose names begin so, by name."""
    names = [name for name in t.block_names() if name.startswith(within)]
    known, frozen = t.blocks(names, ITSELF), rules.is_frozen(t)
    return [shown(t, known[name], frozen) for name in names]


def found(t: Transaction, name: str, spender: str | None = None) -> BlockRow:
    """The block of that name, or a Mistake."""
    block = t.blocks([text("block", name)], spender or ITSELF).get(name)
    if block is None:
        raise Mistake("block", f"there is no block {name!r}")
    return block


def shown(t: Transaction, row: BlockRow, frozen: bool | None = None) -> Block:
    """A block as it stands, for whoever asks."""
    held = rules.is_frozen(t) if frozen is None else frozen
    return Block(
        name=row.name,
        unit=Unit(row.unit),
        adjacency=Adjacency(row.adjacency),
        filter=row.filter,
        budget=Budget.of_steps(row.epsilon, row.delta),
        state=row.state,
        remaining=rules.remaining(t, row, held, None),
        meters=row.meters,
    )


def _same_terms(earlier: BlockRow, row: BlockRow) -> None:
    for argument in ("unit", "adjacency", "filter", "epsilon", "delta"):
        if getattr(earlier, argument) != getattr(row, argument):
            raise Mistake(argument, f"block {row.name!r} was opened before on other terms")
    if {p: m.capacity for p, m in earlier.meters.items()} != {p: m.capacity for p, m in row.meters.items()}:
        raise Mistake("orders", f"block {row.name!r} was opened before on other terms")


# --- caps -----------------------------------------------------------------------------------------------------


def capped(t: Transaction, now: str, spender: str, block: str | None, epsilon: int, delta: int | None) -> None:
    """A cap in whole steps, from now on."""
    if block is not None:
        found(t, block)
    standing = rules.standing_of(t)
    t.set_cap(spender, ALL if block is None else block, epsilon, delta)
    facts = {
        "spender": spender,
        "block": block,
        "epsilon": str(epsilon),
        "delta": None if delta is None else str(delta),
    }
    rules.record(t, standing, now, "cap", facts)


def caps(t: Transaction) -> list[SpenderCap]:
    """All caps, by spender."""
    told = []
    for (spender, block), (epsilon, delta) in sorted(t.books().caps.items()):
        budget = Budget.of_steps(epsilon, delta or 0)
        told.append(SpenderCap(spender, block or None, budget.epsilon, None if delta is None else budget.delta))
    return told
