"""The ledger as its users see it: blocks, claims, caps, a journal, and whether it all still fits together."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TypeVar

from thebes.ledger import blocks, journal, losses, rules, verification
from thebes.ledger.address import open_store
from thebes.ledger.amounts import Budget, Steps
from thebes.ledger.blocks import Block, SpenderCap
from thebes.ledger.claim import LedgerClaim
from thebes.ledger.filters import BASIC
from thebes.ledger.freezing import MOVED, why_frozen
from thebes.ledger.journal import BEGINNING, Head, JournalEntry
from thebes.ledger.keeper import HeadKeeper, NoKeeper, system_keeper
from thebes.ledger.overview import Use, uses
from thebes.ledger.refusals import LedgerUnavailable, Tampered
from thebes.ledger.request import request_of
from thebes.ledger.states import ClaimState
from thebes.ledger.store import ClaimRow, JournalHead, LedgerStore, Transaction
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Loss
from thebes.privacy.promise import Adjacency, Unit

T = TypeVar("T")


class Ledger:
    """The ledger of who may still spend what.

    `where` is "memory://", "sqlite:///FILE" or "postgresql://..."; a new ledger is made where there is none
    (unless `create=False`). `keeper` remembers the head outside a file ledger; by default the system keyring
    where there is one. `clock` gives the time written into the journal; no rule depends on it.
    """

    def __init__(
        self,
        where: str | LedgerStore,
        *,
        create: bool = True,
        keeper: HeadKeeper | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._clock = clock or (lambda: datetime.now(UTC))
        self._store = open_store(where, create=create) if isinstance(where, str) else where
        self._keeper = keeper or (system_keeper() if self._store.in_file else NoKeeper())
        self._keeping, self._kept_at = False, 0.0
        self._noticing: bool | None = None
        standing = self._store.read(lambda t: t.peek())
        if standing is None:
            if not create:
                raise LedgerUnavailable(f"there is no ledger at {self._store.name}")
            standing = self._write(self._begin)
        self._id = standing.ledger
        self._keeping = not isinstance(self._keeper, NoKeeper)
        if self._keeping and self._rolled_back():
            self._keeping = False
            why = "this copy is older than the head remembered outside it"
            self._store.write(lambda t: rules.freeze(t, self._now(), why))

    # --- blocks -----------------------------------------------------------------------------------

    def open_block(
        self,
        name: str,
        *,
        epsilon: exact.Number,
        delta: exact.Number = 0,
        unit: str | Unit = Unit.EVENT,
        adjacency: str | Adjacency = Adjacency.ADD_REMOVE_ONE,
        filter: str = BASIC.name,
        orders: Iterable[float] | None = None,
    ) -> Block:
        """A new block that everything charged to it keeps within (epsilon, delta), for `unit` under `adjacency`.

        `filter` is the name of one of `ledger.filters`; `orders` are the Renyi orders to watch, fixed for good.
        Opening a block again on the same terms changes nothing; on other terms it is a Mistake.
        """
        row = blocks.row_of(
            name, epsilon=epsilon, delta=delta, unit=unit, adjacency=adjacency, filter=filter, orders=orders
        )
        return self._write(lambda t: blocks.opened(t, self._now(), row))

    def open_blocks(
        self,
        names: Iterable[str],
        *,
        epsilon: exact.Number,
        delta: exact.Number = 0,
        unit: str | Unit = Unit.EVENT,
        adjacency: str | Adjacency = Adjacency.ADD_REMOVE_ONE,
        filter: str = BASIC.name,
    ) -> None:
        """Many blocks on the same terms, all of them or none."""
        rows = [
            blocks.row_of(
                name, epsilon=epsilon, delta=delta, unit=unit, adjacency=adjacency, filter=filter, orders=None
            )
            for name in names
        ]
        if rows:
            self._write(lambda t: [blocks.opened(t, self._now(), row) for row in rows])

    def retire_block(self, name: str) -> Block:
        """Take no new claims on the block, for good. Claims made before may finish."""
        return self._write(lambda t: blocks.retired(t, self._now(), name))

    def retire_blocks(self, names: Iterable[str]) -> None:
        """Take no new claims on any of these blocks."""
        wanted = list(names)
        if wanted:
            self._write(lambda t: [blocks.retired(t, self._now(), name) for name in wanted])

    def block(self, name: str) -> Block:
        """One block as it stands."""
        return self._store.read(lambda t: blocks.shown(t, blocks.found(t, name)))

    def blocks(self, within: str = "") -> list[Block]:
        """All blocks, by name, or those whose names begin with `within`."""
        return self._store.read(lambda t: blocks.every(t, within))

    def remaining(self, block: str, spender: str | None = None) -> Budget:
        """Return what a new claim could still get of a block, and under the cap of `spender` if one is named.

        For blocks that charge what was released: the largest pure epsilon that still fits, beside the block's delta.
        Nothing for a retired block or a frozen ledger.
        """
        return self._store.read(
            lambda t: rules.remaining(t, blocks.found(t, block, spender), rules.is_frozen(t), spender)
        )

    def cap(
        self, spender: str, epsilon: exact.Number, delta: exact.Number | None = None, block: str | None = None
    ) -> None:
        """Let `spender` have no more than (epsilon, delta) of `block`, or of each block that has no cap of its own.

        Counted like the block itself, over everything the spender ever claimed there; epsilon 0 allows nothing
        more. Without a delta the block's own stands. A later cap replaces an earlier one.
        """
        losses.text("spender", spender)
        e = exact.declared("epsilon", epsilon)
        if e < 0:
            raise Mistake("epsilon", "must not be negative")
        steps = exact.steps_down(e, exact.EPSILON_STEP)
        delta_steps = None if delta is None else exact.steps_down(exact.delta(delta), exact.DELTA_STEP)
        self._write(lambda t: blocks.capped(t, self._now(), spender, block, steps, delta_steps))

    def caps(self) -> list[SpenderCap]:
        """All caps, by spender."""
        return self._store.read(blocks.caps)

    # --- claims -----------------------------------------------------------------------------------

    def reserve(
        self,
        blocks: Iterable[str],
        *,
        epsilon: exact.Number | None = None,
        delta: exact.Number | None = None,
        loss: Loss | None = None,
        purpose: str,
        spender: str,
        key: str | None = None,
        unit: str | Unit | None = None,
        adjacency: str | Adjacency | None = None,
    ) -> LedgerClaim:
        """Set a loss aside in all of `blocks`, or raise BudgetExceeded and change nothing.

        The loss is (epsilon, delta) or, for a block that charges events, any `loss` its filter can price. `key`
        makes the request safe to repeat: the same key gives the same claim. `unit` and `adjacency`, where
        stated, must be the blocks'.
        """
        request = request_of(
            blocks,
            losses.loss_asked(epsilon, delta, loss),
            spender=spender,
            purpose=purpose,
            unit=unit,
            adjacency=adjacency,
            key=key,
        )
        row = self._write(lambda t: rules.reserve(t, self._now(), request))
        return LedgerClaim(self, row, request.blocks)

    def check(
        self,
        blocks: Iterable[str],
        *,
        loss: Loss,
        spender: str,
        unit: str | Unit | None = None,
        adjacency: str | Adjacency | None = None,
    ) -> None:
        """Raise what `reserve` would raise for a new claim now; nothing is set aside and nothing is written."""
        request = request_of(
            blocks, loss, spender=spender, purpose="asked beforehand", unit=unit, adjacency=adjacency, key=None
        )
        self._store.read(lambda t: rules.check(t, request))

    def claim(self, number: int | None = None, *, key: str | None = None) -> LedgerClaim:
        """A claim made before, by its number or its request key."""
        if (number is None) == (key is None):
            raise Mistake("claim", "give either its number or its key")
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            raise Mistake("claim", "must be a whole number")

        def work(t: Transaction) -> LedgerClaim:
            row = t.claim(number) if number is not None else t.claim_of_key(key or "")
            if row is None:
                raise Mistake("claim", f"there is no claim {number if number is not None else repr(key)}")
            return LedgerClaim(self, row, _blocks_of(t, row.id))

        return self._store.read(work)

    def claimed(self, key: str) -> LedgerClaim | None:
        """The claim under a request key; None where nothing was claimed under it."""

        def work(t: Transaction) -> LedgerClaim | None:
            row = t.claim_of_key(key)
            return None if row is None else LedgerClaim(self, row, _blocks_of(t, row.id))

        return self._store.read(work)

    def claims(
        self, *, spender: str | None = None, block: str | None = None, state: ClaimState | str | None = None
    ) -> list[LedgerClaim]:
        """All claims, oldest first, or those of a spender, on a block, in a state."""
        wanted = None if state is None else ClaimState(state)

        def work(t: Transaction) -> list[LedgerClaim]:
            books = t.books()
            on: dict[int, set[str]] = {}
            for number, name, _ in books.charges:
                on.setdefault(number, set()).add(name)
            rows = [ClaimRow(n, *f[:5], ClaimState(f[5]), *f[6:]) for n, f in sorted(books.claims.items())]
            return [
                LedgerClaim(self, row, tuple(sorted(on.get(row.id, ()))))
                for row in rows
                if (spender is None or row.spender == spender)
                and (wanted is None or row.state is wanted)
                and (block is None or block in on.get(row.id, ()))
            ]

        return self._store.read(work)

    def held(self, block: str) -> dict[int, Steps]:
        """Return what every claim has spent or still holds of a block, in whole steps by place, by the claim's
        number."""
        return self.holdings().get(block, {})

    def holdings(self) -> dict[str, dict[int, Steps]]:
        """The same of every block."""

        def work(t: Transaction) -> dict[str, dict[int, Steps]]:
            held: dict[str, dict[int, Steps]] = {}
            for (number, name, place), (reserved, spent) in t.books().charges.items():
                if reserved + spent:
                    held.setdefault(name, {}).setdefault(number, {})[place] = reserved + spent
            return held

        return self._store.read(work)

    def uses(self) -> list[Use]:
        """All claims summed up by spender and purpose."""
        return self._store.read(lambda t: uses(t.books()))

    def _acquire(self, number: int) -> ClaimRow:
        return self._write(lambda t: rules.acquire(t, self._now(), number))

    def _consume(self, number: int, loss: Loss | None, part: str | None) -> ClaimRow:
        if part is not None:
            losses.text("part", part)
        return self._write(lambda t: rules.consume(t, self._now(), number, loss, part))

    def _release(self, number: int) -> ClaimRow:
        return self._write(lambda t: rules.release(t, self._now(), number))

    # --- the ledger as a whole ----------------------------------------------------------------------

    @property
    def id(self) -> str:
        """Its own random name, the same in every copy of it."""
        return self._id

    @property
    def place(self) -> str:
        """The place where it is kept, without any password."""
        return self._store.name

    @property
    def frozen(self) -> bool:
        """Return whether every open block counts as spent, because this ledger was restored from a copy."""
        return self._store.read(rules.is_frozen)

    @property
    def moved(self) -> bool:
        """Return whether it is frozen because its home moved to another device, where it may be spending."""
        return self._store.read(why_frozen) == MOVED

    def freeze(self, why: str = "restored from a copy") -> None:
        """Count every open block as spent, and refuse all claims, until `thaw`: call it on whatever was restored."""
        losses.text("why", why)
        self._write(lambda t: rules.freeze(t, self._now(), why))

    def thaw(self) -> list[int]:
        """The owner's word that spending may go on. Claims that were open count as consumed whole; their numbers."""
        settled = self._store.write(lambda t: rules.thaw(t, self._now()))
        self._keeping = not isinstance(self._keeper, NoKeeper)
        self._keep(now=True)
        return settled

    def head(self) -> Head:
        """The head of the journal: write it down, and no later rewriting of what came before goes unseen."""
        return self._store.read(rules.standing_of).head

    @property
    def notices_older_copies(self) -> bool:
        """Return whether an older copy in this ledger's place would be noticed when it is opened: for a file only where
        something outside it gives the head back, which is tried once. Who puts back that, too, is not noticed."""
        if self._noticing is None:
            self._keep(now=True)
            self._noticing = not self._store.in_file or self.kept_head() is not None
        return self._noticing

    def kept_head(self) -> Head | None:
        """The head remembered outside, where there is such a place."""
        return self._keeper.kept(self._id)

    def journal(self, after: int = 0) -> Iterator[JournalEntry]:
        """Entries in order, from the one after number `after`."""
        return iter(self._store.read(lambda t: list(journal.read(t.entries(after)))))

    def verify(self, *known: Head) -> Head:
        """Check the whole chain, every balance against a replay of it, and heads remembered outside.

        Returns the head when all is well; raises Tampered with every difference found. A chain that somebody
        recomputed as a whole, balances and all, differs only from a head that was remembered: pass those as `known`.
        """
        kept = self.kept_head()
        heads = [*known, kept] if kept is not None else list(known)
        findings, head = self._store.read(lambda t: verification.findings(t, heads))
        if findings:
            raise Tampered(findings)
        return head

    def close(self) -> None:
        """Let go of the store."""
        self._keep(now=True)
        self._store.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- inside -----------------------------------------------------------------------------------

    def _now(self) -> str:
        return self._clock().astimezone(UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"

    def _write(self, work: Callable[[Transaction], T]) -> T:
        result = self._store.write(work)
        self._keep(now=False)
        return result

    def _keep(self, *, now: bool) -> None:
        # Once a second is enough: what is remembered is then at most a second older than the ledger.
        if self._keeping and (now or time.monotonic() - self._kept_at > 1):
            self._kept_at = time.monotonic()
            self._keeper.keep(self._id, self.head())

    def _rolled_back(self) -> bool:
        kept = self._keeper.kept(self._id)
        if kept is None or kept.length == 0:
            return False
        entry = self._store.read(lambda t: next(iter(t.entries(kept.length - 1)), None))
        return entry is None or entry[2] != kept.hash

    def _begin(self, t: Transaction) -> JournalHead:
        standing = t.standing()
        if standing is None:
            ledger = secrets.token_hex(16)
            t.begin(ledger)
            standing = JournalHead(ledger, Head(0, BEGINNING), False)
            rules.record(t, standing, self._now(), "begin", {"ledger": ledger})
        return standing


def _blocks_of(t: Transaction, claim: int) -> tuple[str, ...]:
    return tuple(sorted({charge.block for charge in t.charges(claim)}))
