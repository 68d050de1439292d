"""A growing data set joined with its ledger: blocks that open, are sealed, are charged and retire.

What must stay true: a block is sealed before its first charge, and its noisy size is bought once, in its own claim,
charged before noise is drawn; which blocks there are, and which are offered, follows from nothing private; a claim is
made in all of its blocks or in none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any

import numpy as np

from thebes.data.growing.blocking import ATTRIBUTE, TIME, BlockBy
from thebes.data.growing.manifest import Kept, Manifest, State
from thebes.data.growing.reading import GrownTable
from thebes.data.growing.writing import Ingested, Writer
from thebes.data.schema import Schema
from thebes.ledger import Block, Budget, BudgetExceeded, Claim, Ledger
from thebes.ledger.asked import loss_asked
from thebes.ledger.filters import FILTERS
from thebes.ledger.states import BlockState
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Loss, Pure
from thebes.privacy.mechanisms.additive import Laplace
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import Randomness, system
from thebes.privacy.stability import Count

SPENDER = "thebes"  #: who buys sizes, in the ledger


@dataclass(frozen=True, slots=True)
class Terms:
    """Of every block: what everything ever charged to it stays within, how that is counted, which share of epsilon
    buys its size, and below which share that is left it retires."""

    epsilon: Decimal
    delta: Decimal = Decimal(0)
    filter: str = "basic"
    size_share: Decimal = Decimal("0.05")
    retire_below: Decimal = Decimal("0.01")

    @property
    def size_epsilon(self) -> Decimal:
        """What a size costs."""
        return (self.epsilon * self.size_share).quantize(exact.EPSILON_STEP, ROUND_FLOOR)


@dataclass(frozen=True, slots=True)
class StreamBlock:
    """A block as it is shown. `name` is that of its block in the ledger; `value` is what its rows have in common where
    they are not of one time. `size` is its noisy number of rows: public, and None before it is bought."""

    name: str
    state: State
    remaining: Budget
    size: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    value: str | None = None


class Stream:
    """One growing data set. Safe for the threads of a process, and for several processes by way of its files."""

    def __init__(
        self,
        name: str,
        *,
        schema: Schema,
        by: BlockBy,
        terms: Terms,
        ledger: Ledger,
        folder: Path,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        randomness: Callable[[], Randomness] = system,
    ) -> None:
        self.name, self.schema, self.by, self.terms, self.ledger = name, schema, by, terms, ledger
        self._folder, self._clock, self._randomness = folder, clock, randomness
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chmod(folder, 0o700)
        self._manifest = Manifest(folder / "manifest.db", by)
        if by.kind == ATTRIBUTE:
            self._manifest.begin_with(range(len(by.values)))
        self._writer = Writer(folder, schema, by, self._manifest)
        self._open()

    def close(self) -> None:
        self._manifest.close()

    # --- what is there ------------------------------------------------------------------------------------

    def blocks(self) -> list[StreamBlock]:
        """All blocks that there are, by time or value."""
        held = self._held()
        return [self._shown(kept, held.get(self._name(kept))) for kept in self._manifest.blocks()]

    def offered(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        complete: bool = True,
        loss: Loss | None = None,
    ) -> list[StreamBlock]:
        """The blocks that may still be charged, and `loss` if one is named, oldest first; `since` and `until` bound
        their windows. `complete`: only windows that are over."""
        held, now = self._held(), self._clock()
        found = []
        for kept in self._manifest.blocks():
            block = held.get(self._name(kept))
            shown = self._shown(kept, block)
            if kept.state not in (State.OPEN, State.SEALED) or block is None or not self._pays(kept, block, loss):
                continue
            if shown.since is not None and shown.until is not None:
                early, late = since is not None and shown.since < since, until is not None and shown.until > until
                if early or late or (complete and shown.until > now):
                    continue
            found.append(shown)
        return found

    def size(self, names: Iterable[str]) -> float:
        """About how many rows these blocks have together: the sum of their public noisy sizes, at least 1."""
        found = [self._known(name) for name in names]
        unsized = next((kept for kept in found if kept.size is None), None)
        if unsized is not None:
            raise Mistake("blocks", f"{self._name(unsized)} has no size yet; seal it first")
        return max(1.0, float(sum(kept.size or 0 for kept in found)))

    def rows(self, names: Iterable[str], *, memory: str | None = None) -> GrownTable:
        """Exactly the rows of these blocks."""
        numbers = [self._known(name).number for name in names]
        paths = [self._folder / "rows" / file for file in self._manifest.files(numbers)]
        more: dict[str, Any] = {} if memory is None else {"memory": memory}
        return GrownTable(self.schema, paths, scratch=self._folder / "scratch", **more)

    # --- rows come in -------------------------------------------------------------------------------------

    def ingest(self, batch: Any, *, key: str | None = None) -> Ingested:
        """Keep more rows: a file, a data frame, rows as dictionaries, something of Arrow. All of them or none."""
        came = self._writer.take(batch, key=key, now=self._clock())
        self._open()
        return came

    # --- budget -------------------------------------------------------------------------------------------

    def seal(self, names: Iterable[str]) -> None:
        """Close these blocks to more rows, and buy their noisy sizes. Again changes nothing."""
        fresh = [kept.number for kept in map(self._known, names) if kept.state is State.OPEN]
        if fresh:
            self._manifest.seal(fresh)
        self._buy_sizes()

    def reserve(
        self,
        names: Iterable[str],
        *,
        epsilon: exact.Number | None = None,
        delta: exact.Number | None = None,
        loss: Loss | None = None,
        purpose: str,
        spender: str,
        key: str | None = None,
    ) -> Claim:
        """Set a loss aside in all of these blocks, sealed first, or raise BudgetExceeded and charge none of them."""
        wanted = list(names)
        price = loss_asked(epsilon, delta, loss)
        held = self._held()
        for kept in map(self._known, wanted):
            block = held[self._name(kept)]
            if kept.state is State.OPEN and not self._pays(kept, block, price):
                counting = FILTERS[block.filter]
                asked = counting.reading(counting.price(price, block.meters), 0)
                raise BudgetExceeded(block.name, asked, block.remaining)
        self.seal(wanted)
        return self.ledger.reserve(
            wanted,
            loss=price,
            purpose=purpose,
            spender=spender,
            key=key,
            unit=Unit(self.schema.unit),
            adjacency=Adjacency.ADD_REMOVE_ONE,
        )

    # --- inside -------------------------------------------------------------------------------------------

    @property
    def _prefix(self) -> str:
        return f"{self.name}/"

    def _name(self, kept: Kept) -> str:
        return f"{self._prefix}{kept.label(self.by)}"

    def _known(self, name: str) -> Kept:
        found = {self._name(kept): kept for kept in self._manifest.blocks()}.get(name)
        if found is None:
            raise Mistake("blocks", f"there is no block {name!r}")
        return found

    def _held(self) -> dict[str, Block]:
        """This data set's blocks in the ledger."""
        return {block.name: block for block in self.ledger.blocks() if block.name.startswith(self._prefix)}

    def _open(self) -> None:
        """Every block has one in the ledger, on these terms."""
        held = self._held()
        for kept in self._manifest.blocks():
            if self._name(kept) not in held:
                self.ledger.open_block(
                    self._name(kept),
                    epsilon=self.terms.epsilon,
                    delta=self.terms.delta,
                    filter=self.terms.filter,
                    unit=Unit(self.schema.unit),
                    adjacency=Adjacency.ADD_REMOVE_ONE,
                )

    def _pays(self, kept: Kept, block: Block, loss: Loss | None) -> bool:
        """Whether a block could be charged this, beside its size if that is still to be bought."""
        if block.state is not BlockState.OPEN:
            return False
        counting = FILTERS[block.filter]
        meters = {place: m for place, m in block.meters.items() if counting.firm or m.spent <= (m.capacity or 0)}
        price: dict[str, int] = {}
        losses = [loss] if loss is not None else []
        if kept.size is None:
            losses.append(Pure(self.terms.size_epsilon))
        for one in losses:
            for place, amount in counting.price(one, meters).items():
                price[place] = price.get(place, 0) + amount
        if not price:
            return any(meter.left > 0 for meter in meters.values())
        return counting.fits(price, {place: m.left for place, m in meters.items()})

    def _shown(self, kept: Kept, block: Block | None) -> StreamBlock:
        name, remaining = self._name(kept), block.remaining if block is not None else Budget.of_steps(0, 0)
        if self.by.kind == TIME:
            return StreamBlock(
                name, kept.state, remaining, kept.size, self.by.since(kept.place), self.by.until(kept.place)
            )
        return StreamBlock(name, kept.state, remaining, kept.size, value=self.by.label(kept.place))

    def _buy_sizes(self) -> None:
        """The sizes of blocks that are sealed and have none: charged first, then drawn, then kept for ever."""
        for purchase, blocks in self._manifest.unsized().items():
            names = [self._name(kept) for kept in blocks]
            epsilon = self.terms.size_epsilon
            claim = self.ledger.reserve(
                names,
                epsilon=epsilon,
                purpose="sizes of blocks",
                spender=SPENDER,
                key=f"size {self.name} {purchase}",
                unit=Unit(self.schema.unit),
                adjacency=Adjacency.ADD_REMOVE_ONE,
            )
            claim.consume(part="size")
            true = self._manifest.true_rows(kept.number for kept in blocks)
            totals = np.array([true[kept.number] for kept in blocks], dtype=np.int64)
            noise = Laplace(epsilon).noise(Count().sensitivity(self.schema.change))
            noisy = noise.add(totals, self._randomness())
            self._manifest.keep_sizes(
                {kept.number: round(float(size)) for kept, size in zip(blocks, noisy, strict=True)}
            )
