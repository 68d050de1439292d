"""A growing data set joined with its ledger: blocks that open, are sealed, are charged and retire.

What must stay true: a block is sealed before its first charge, and its noisy size is bought once, in its own claim,
charged before noise is drawn; which blocks there are, and which are offered, follows from nothing private; a claim is
made in all of its blocks or in none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from thebes.curator.streams.block_budgets import BlockBudgets
from thebes.curator.streams.block_sizes import BlockSizes
from thebes.curator.streams.terms import DEVELOPER, Context, StreamBlock, Terms
from thebes.curator.streams.user_counts import UserCounts, paid_together, price_of
from thebes.data.growing.block_record import BlockRecord, BlockStage, Period
from thebes.data.growing.block_rule import ATTRIBUTE, TIME, USER, BlockBy
from thebes.data.growing.manifest import Manifest
from thebes.data.growing.reader import GrownTable
from thebes.data.growing.row_condition import Chosen, Users
from thebes.data.growing.source import IN_PROCESS, GrowingSource
from thebes.data.growing.writer import Ingested, Writer
from thebes.data.schema import Schema
from thebes.ledger import Block, Budget, BudgetExceeded, Ledger, LedgerClaim
from thebes.ledger.filters import FILTERS
from thebes.ledger.losses import loss_asked
from thebes.ledger.states import BlockState
from thebes.privacy import exact
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.losses import Loss
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import Randomness, system

__all__ = ["BlockStage", "Context", "Ingested", "Stream", "StreamBlock", "Terms"]

OURS = ("size ", "count ")  #: how keys of its claims begin; nobody who asks has made them
_Face = tuple[str, datetime | None, datetime | None]  # a block's name and its window
_NOTHING = Budget.of_steps(0, 0)


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
        source: GrowingSource = IN_PROCESS,
    ) -> None:
        terms.check(by)
        by = by if terms.separate in ("", DEVELOPER) else by.apart_by(terms.separate, schema)
        self.name, self.schema, self.by, self.terms, self.ledger = name, schema, by, terms, ledger
        self._budgets = BlockBudgets(name, schema, self.by, terms, ledger)
        self._folder, self._clock, self._randomness, self._source = folder, clock, randomness, source
        self._faces: dict[tuple[int, int], _Face] = {}
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chmod(folder, 0o700)
        self._manifest = Manifest(folder / "manifest.db", by)
        self._until = by.first  # the windows before it are there
        if by.kind == ATTRIBUTE:
            self._manifest.begin_with(by.places(0, len(by.values)))
        self._writer = Writer(folder, schema, by, self._manifest, clock, randomness)
        self._users = UserCounts(name, schema, by, terms, ledger, self._manifest, self._all_rows)
        self._sizes = BlockSizes(name, schema, ledger, self._manifest, self._budgets)
        self._open()
        self._by_clock()

    def close(self) -> None:
        self._manifest.close()

    # --- what is there ------------------------------------------------------------------------------------

    @property
    def contexts(self) -> tuple[str, ...]:
        """All that rows are kept apart by; none where they are not."""
        return self.by.names

    def blocks(self, *, context: Context = None) -> list[StreamBlock]:
        """All blocks that there are, by time, id or value; of users only those below the private maximum, of contexts
        only their own."""
        self._by_clock()
        held = self._held(context)
        return [
            self._shown(kept, held.get(self._budgets.payer(self._name(kept), context)))
            for kept in self._listed(context)
        ]

    def offered(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        complete: bool = True,
        loss: Loss | None = None,
        context: Context = None,
    ) -> list[StreamBlock]:
        """The blocks that may still be charged, and `loss` if one is named, oldest first; `since` and `until` bound
        their windows. `complete`: only windows that are over."""
        self._by_clock()
        held, now = self._held(context), self._clock()
        found = []
        for kept in self._listed(context):
            block = held.get(self._budgets.payer(self._name(kept), context))
            if kept.state not in (BlockStage.OPEN, BlockStage.SEALED) or block is None:
                continue
            if self.by.kind == TIME:
                _, first, last = self._face(kept)
                assert first is not None and last is not None  # noqa: S101, PT018
                early, late = since is not None and first < since, until is not None and last > until
                if early or late or (complete and last > now):
                    continue
            if self._budgets.pays(block, loss, sized=kept.size is not None):
                found.append(self._shown(kept, block))
        return found

    def size(self, names: Iterable[str]) -> float:
        """About how many rows these blocks have together, as everybody may know: at least 1."""
        found = self._known(names)
        if self.by.kind == USER:
            return max(1.0, self._users.rows(len(found) * self.by.users))
        unsized = next((kept for kept in found if kept.size is None), None)
        if unsized is not None:
            raise Mistake("blocks", f"{self._name(unsized)} has no size yet; seal it first")
        return max(1.0, float(sum(kept.size or 0 for kept in found)))

    def sizes(self, names: Iterable[str]) -> dict[str, float]:
        """About how many rows each of these blocks has, as far as that was bought."""
        return {self._name(kept): float(kept.size) for kept in self._known(names) if kept.size is not None}

    def earlier(self, names: Iterable[str]) -> Budget:
        """Return what was paid for the sizes of these blocks, whoever is in one of them; of blocks of users, for all
        counts so far. Whoever is told of the blocks is told that, too."""
        if self.by.kind == USER:
            return self._users.paid()
        bought = {kept.purchase for kept in self._known(names) if kept.size is not None}
        claims = (self.ledger.claimed(f"size {self.name} {purchase}") for purchase in bought)
        prices = {self._budgets.size_price if claim is None else price_of(claim) for claim in claims}
        each = [paid_together([price], self.terms.delta) for price in prices]
        return max(each, key=lambda one: (one.epsilon, one.delta), default=_NOTHING)

    def rows(self, names: Iterable[str], *, memory: str | None = None) -> GrownTable:
        """Exactly the rows of these blocks."""
        found = self._known(names)
        dropped = next((kept for kept in found if kept.state is BlockStage.DROPPED), None)
        if dropped is not None:
            raise Refusal(f"the rows of {self._name(dropped)} were deleted")
        more: dict[str, Any] = {} if memory is None else {"memory": memory}
        if self.by.kind == USER:
            more["chosen"] = Chosen(self._of_places([kept.place for kept in found]))
            return self._table(None, **more)
        return self._table([kept.number for kept in found], **more)

    def named(self, claim: LedgerClaim) -> list[str]:
        """The blocks that a claim is on."""
        return [self._budgets.block(name) for name in claim.blocks]

    @property
    def assumption(self) -> str:
        """The sentences that a certificate must say beside its epsilon."""
        return self.terms.assumption

    # --- rows come in and go ------------------------------------------------------------------------------

    def ingest(self, batch: Any, *, key: str | None = None) -> Ingested:
        """Keep more rows: a file, a data frame, rows as dictionaries, something of Arrow. All of them or none. `key`
        names the batch: the same again under it changes nothing. Without one the same again comes in again."""
        self._by_clock()
        came = self._writer.take(batch, key=key, now=self._clock())
        if not came.again:
            self._writer.join(self._clock())
        self._open()
        self.retire()
        return came

    def retire(self, names: Iterable[str] = ()) -> list[str]:
        """Take no more charges on these blocks, nor on those that are spent; those that retired now."""
        asked = {self._name(kept) for kept in self._known(names)}
        held = self._held()
        alive = [kept for kept in self._listed() if kept.state in (BlockStage.OPEN, BlockStage.SEALED)]
        gone = [kept for kept in alive if self._name(kept) in asked or self._budgets.spent(held.get(self._name(kept)))]
        if gone:
            payers = {self._name(kept) for kept in gone}
            self.ledger.retire_blocks(name for name in held if self._budgets.block(name) in payers)
            if self.by.kind == USER:
                self._manifest.begin_with(kept.place for kept in gone)
            fresh = {kept.place: kept.number for kept in self._manifest.blocks()} if self.by.kind == USER else {}
            self._manifest.move([fresh.get(kept.place, kept.number) for kept in gone], BlockStage.RETIRED)
        return [self._name(kept) for kept in gone]

    def drop(self, names: Iterable[str]) -> None:
        """Delete the rows of blocks that are retired."""
        found = self._known(names)
        for kept in found:
            if kept.state not in (BlockStage.RETIRED, BlockStage.DROPPED):
                raise Refusal(f"{self._name(kept)} is {kept.state}; only rows of retired blocks are deleted")
        wanted = {self._name(kept) for kept in found}
        working = [c for c in self.ledger.claims() if c.state.open and wanted & set(self.named(c))]
        if working:
            raise Refusal(f"claim {working[0].id} still works with these rows; wait for it, or release it")
        users = self._of_places([kept.place for kept in found])
        while self.by.kind == USER and (files := self._manifest.files()):
            if self._writer.without(files, users, self._clock()):
                break
        self._manifest.drop(kept.number for kept in found)
        self._writer.sweep()

    def count_users(self, period: str) -> Period:
        """Count users and their rows once for a named period, privately: from then on the blocks up to that many users
        are offered. The same period again gives the same counts."""
        if self.by.kind != USER:
            raise Mistake("period", "is for blocks of users; others buy their sizes when they are sealed")
        counted = self._users.count(period, self._randomness())
        self._open()
        return counted

    def count_widths(self) -> tuple[float, float] | None:
        """Within what counts of users and of their rows will lie of the truth, 19 times of 20; None where blocks are
        not of users."""
        return self._users.widths(0.95) if self.by.kind == USER else None

    # --- budget -------------------------------------------------------------------------------------------

    def seal(self, names: Iterable[str]) -> None:
        """Close these blocks to more rows, and buy their noisy sizes. Again changes nothing."""
        found = self._known(names)
        if self.by.sealed:
            fresh = [kept.number for kept in found if kept.state is BlockStage.OPEN]
            if fresh:
                self._manifest.seal(fresh)
            self._sizes.buy(self._name, self._held, self._randomness)

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
        context: Context = None,
    ) -> LedgerClaim:
        """Set a loss aside in all of these blocks, sealed first, or raise BudgetExceeded and charge none of them. Where
        rows are kept apart, in the blocks of `context` alone."""
        wanted = list(names)
        price = loss_asked(epsilon, delta, loss)
        whose = self._paying(wanted, spender, context)
        held = self._held(whose)
        for kept in self._known(wanted):
            block = held[self._budgets.payer(self._name(kept), whose)]
            if (
                kept.state is BlockStage.OPEN
                and block.state is BlockState.OPEN
                and not self._budgets.pays(block, price, sized=kept.size is not None)
            ):
                counting = FILTERS[block.filter]
                asked = counting.worth(counting.price(price, block.meters), 0)
                raise BudgetExceeded(block.name, asked, block.remaining)
        if key is None or self.ledger.claimed(key) is None:
            self.check(
                wanted, loss=price, spender=spender, context=context
            )  # who is refused makes no block buy its size
        self.seal(wanted)
        return self.ledger.reserve(
            [self._budgets.payer(self._name(kept), whose) for kept in self._known(wanted)],
            loss=price,
            purpose=purpose,
            spender=spender,
            key=key,
            unit=Unit(self.schema.unit),
            adjacency=Adjacency.ADD_REMOVE_ONE,
        )

    def check(self, names: Iterable[str], *, loss: Loss, spender: str, context: Context = None) -> None:
        """Raise what `reserve` would raise for these blocks once they are sealed; nothing is set aside."""
        wanted = list(names)
        whose = self._paying(wanted, spender, context)
        self.ledger.check(
            [self._budgets.payer(self._name(kept), whose) for kept in self._known(wanted)],
            loss=loss,
            spender=spender,
            unit=Unit(self.schema.unit),
            adjacency=Adjacency.ADD_REMOVE_ONE,
        )

    def payers(self, *, context: Context = None) -> list[Block]:
        """Return those in the ledger that pay for the blocks that are offered."""
        held = self._held(context)
        kept = self._known(block.name for block in self.offered(context=context))
        return [held[self._budgets.payer(self._name(one), context)] for one in kept]

    # --- which blocks -------------------------------------------------------------------------------------

    def _listed(self, context: Context = None) -> list[BlockRecord]:
        if self.by.kind != USER:
            inside, kept = self._budgets.inside(context), self._manifest.blocks()
            return kept if inside is None else [one for one in kept if self.by.context(one.place) in inside]
        known = {kept.place: kept for kept in self._manifest.blocks()}
        count = self._users.most() // self.by.users
        return [known.get(place) or BlockRecord(-1, place, 1, BlockStage.OPEN) for place in range(count)]

    def _name(self, kept: BlockRecord) -> str:
        return self._face(kept)[0]

    def _face(self, kept: BlockRecord) -> _Face:
        """Return what never changes of a block."""
        known = self._faces.get((kept.place, kept.copy))
        if known is None:
            timed = self.by.kind == TIME
            since, until = (self.by.since(kept.place), self.by.until(kept.place)) if timed else (None, None)
            known = f"{self.name}/{kept.label(self.by)}", since, until
            self._faces[kept.place, kept.copy] = known
        return known

    def _known(self, names: Iterable[str]) -> list[BlockRecord]:
        wanted = list(names)
        found = {self._name(kept): kept for kept in self._listed()} if wanted else {}
        for name in wanted:
            if name not in found:
                raise Mistake("blocks", f"there is no block {name!r}")
        return [found[name] for name in wanted]

    def _of_places(self, places: Sequence[int]) -> Users:
        """That a row is of one of these blocks of users."""
        return Users(self.by.column, self.by.users, tuple(places))

    def _table(self, numbers: Iterable[int] | None, **more: Any) -> GrownTable:
        paths = [self._folder / "rows" / file for file in self._manifest.files(numbers)]
        return GrownTable(self.schema, paths, scratch=self._folder / "scratch", source=self._source, **more)

    def _all_rows(self) -> GrownTable:
        return self._table(None)

    # --- who pays -----------------------------------------------------------------------------------------

    def _paying(self, names: Sequence[str], spender: str, context: Context) -> str | None:
        """Return the developer whose own budget pays for these blocks; None where everybody shares one. A Mistake where
        the blocks are of another context."""
        inside = self._budgets.inside(context)
        places = {self.by.context(kept.place) for kept in self._known(names)}
        if self.by.apart and (inside is None or not places <= inside):
            raise Mistake("context", f"must say whose rows: declared values of {self.by.apart}, those of the blocks")
        return self._budgets.whose(context if context is not None else spender) if self._budgets.each else None

    def _held(self, context: Context = None) -> dict[str, Block]:
        """This data set's blocks in the ledger, also those of a developer."""
        if context is not None and self._budgets.each:
            self._open(self._budgets.whose(context))
        return self._budgets.held()

    def _open(self, context: str | None = None) -> None:
        self._budgets.open(map(self._name, self._listed()), context)

    def _by_clock(self) -> None:
        """Make sure that, where the first window is declared, all up to the next one are there, whatever rows have
        come."""
        if self._until is None:
            return
        end = self.by.window(self._clock()) + 2
        if end > self._until:
            self._manifest.begin_with(self.by.places(self._until, end))
            self._until = end
            self._open()

    def _shown(self, kept: BlockRecord, block: Block | None) -> StreamBlock:
        if block is None:
            whose = "each context has a budget of its own" if self.terms.separate else "it has no budget yet"
            budget: tuple[Budget, float, str] = (_NOTHING, 0.0, whose)
        else:
            budget = (block.remaining, block.left, block.account)
        name, since, until = self._face(kept)
        value = None if since is not None else self.by.label(kept.place)
        return StreamBlock(name, kept.state, *budget, kept.size, since, until, value)
