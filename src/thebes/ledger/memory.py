"""A ledger in memory: for tests, simulations and trying things out. It is gone with its process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from thebes.ledger.journal import BEGINNING, Head
from thebes.ledger.states import BlockState, ClaimState
from thebes.ledger.store import (
    ITSELF,
    BlockCharge,
    BlockRow,
    Books,
    ClaimRow,
    JournalHead,
    Meter,
    Transaction,
    WriteConflict,
)
from thebes.privacy.faults import Fault

T = TypeVar("T")
MeterValues = tuple[int | None, int, int, bool]


@dataclass
class _Tables:
    standing: dict[str, JournalHead] = field(default_factory=dict)
    blocks: dict[str, tuple[str, str, str, int, int, str]] = field(default_factory=dict)
    meters: dict[str, dict[tuple[str, str], MeterValues]] = field(default_factory=dict)
    caps: dict[str, dict[str, tuple[int, int | None]]] = field(default_factory=dict)
    claims: dict[int, tuple[str | None, str, str, str, str, str, str, str]] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    charges: dict[int, dict[tuple[str, str], tuple[int, int]]] = field(default_factory=dict)
    parts: dict[tuple[int, str], str] = field(default_factory=dict)
    journal: dict[int, tuple[int, str, str]] = field(default_factory=dict)


class MemoryStore:
    """Plain dictionaries behind one lock; what a failed transaction changed is put back."""

    name = "memory://"
    in_file = False

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._tables = _Tables()

    def write(self, work: Callable[[Transaction], T]) -> T:
        with self._lock:
            while True:
                transaction = MemoryTransaction(self._tables)
                try:
                    return work(transaction)
                except BaseException as error:
                    transaction.undo()
                    if not isinstance(error, WriteConflict):
                        raise

    def read(self, work: Callable[[Transaction], T]) -> T:
        with self._lock:
            return work(MemoryTransaction(self._tables))

    def close(self) -> None:
        return None


class MemoryTransaction:
    """Changes at once and remembers how to change back."""

    def __init__(self, tables: _Tables) -> None:
        self._tables = tables
        self._before: list[Callable[[], object]] = []

    def undo(self) -> None:
        for step in reversed(self._before):
            step()

    def _put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        if key in table:
            old = table[key]
            self._before.append(lambda: table.__setitem__(key, old))
        else:
            self._before.append(lambda: table.pop(key))
        table[key] = value

    # --- reading

    def standing(self) -> JournalHead | None:
        return self._tables.standing.get("")

    peek = standing

    def claim(self, number: int) -> ClaimRow | None:
        fields = self._tables.claims.get(number)
        return None if fields is None else ClaimRow(number, *fields[:5], ClaimState(fields[5]), *fields[6:])

    def claim_of_key(self, key: str) -> ClaimRow | None:
        return self.claim(self._tables.keys.get(key, 0))

    def charges(self, claim: int) -> list[BlockCharge]:
        return [BlockCharge(b, p, *amounts) for (b, p), amounts in self._tables.charges.get(claim, {}).items()]

    def part(self, claim: int, part: str) -> str | None:
        return self._tables.parts.get((claim, part))

    def blocks(self, names: Iterable[str], spender: str) -> dict[str, BlockRow]:
        found = {}
        for name in names:
            terms = self._tables.blocks.get(name)
            if terms is not None:
                found[name] = row = BlockRow(name, *terms[:5], BlockState(terms[5]))
                for (whose, place), values in self._tables.meters[name].items():
                    if whose == ITSELF:
                        row.meters[place] = Meter(*values)
                    elif whose == spender:
                        row.usage[place] = Meter(*values)
        return found

    def caps(self, spender: str) -> dict[str, tuple[int, int | None]]:
        return self._tables.caps.get(spender, {})

    def usage(self, block: str, spender: str) -> dict[str, tuple[int, int]]:
        sums: dict[str, tuple[int, int]] = {}
        for claim, charges in self._tables.charges.items():
            if self._tables.claims[claim][1] == spender:
                for (name, place), (reserved, spent) in charges.items():
                    if name == block:
                        before = sums.get(place, (0, 0))
                        sums[place] = (before[0] + reserved, before[1] + spent)
        return sums

    def open_claims(self) -> list[int]:
        return sorted(n for n, fields in self._tables.claims.items() if ClaimState(fields[5]).open)

    def block_names(self) -> list[str]:
        return sorted(self._tables.blocks)

    def books(self) -> Books:
        tables, standing = self._tables, self.standing()
        return Books(
            ledger=standing.ledger if standing else "",
            frozen=standing.frozen if standing else False,
            blocks=dict(tables.blocks),
            meters={(b, *key): values for b, meters in tables.meters.items() for key, values in meters.items()},
            caps={(spender, b): cap for spender, caps in tables.caps.items() for b, cap in caps.items()},
            claims=dict(tables.claims),
            charges={(c, *key): values for c, charges in tables.charges.items() for key, values in charges.items()},
            parts=dict(tables.parts),
        )

    def entries(self, after: int = 0) -> Iterator[tuple[int, str, str]]:
        return (row for number, row in sorted(self._tables.journal.items()) if number > after)

    # --- writing

    def begin(self, ledger: str) -> None:
        self._put(self._tables.standing, "", JournalHead(ledger, Head(0, BEGINNING), False))

    def add_block(self, block: BlockRow) -> None:
        terms = (block.unit, block.adjacency, block.filter, block.epsilon, block.delta, str(block.state))
        self._put(self._tables.blocks, block.name, terms)
        self._put(self._tables.meters, block.name, {})
        self.add_meters(block.name, ITSELF, block.meters)

    def set_block(self, name: str, state: BlockState) -> None:
        self._put(self._tables.blocks, name, (*self._tables.blocks[name][:5], str(state)))

    def add_meters(self, block: str, spender: str, meters: dict[str, Meter]) -> None:
        for place, m in meters.items():
            self._put(self._tables.meters[block], (spender, place), (m.capacity, m.reserved, m.spent, m.firm))

    def move(self, moves: Iterable[tuple[str, str, str, int, int]]) -> None:
        for block, spender, place, to_reserved, to_spent in moves:
            capacity, reserved, spent, firm = self._tables.meters[block][spender, place]
            reserved, spent = reserved + to_reserved, spent + to_spent
            if reserved < 0 or spent < 0 or (firm and capacity is not None and reserved + spent > capacity):
                raise Fault("a balance would leave its bounds")
            self._put(self._tables.meters[block], (spender, place), (capacity, reserved, spent, firm))

    def set_cap(self, spender: str, block: str, epsilon: int, delta: int | None) -> None:
        if spender not in self._tables.caps:
            self._put(self._tables.caps, spender, {})
        self._put(self._tables.caps[spender], block, (epsilon, delta))

    def add_claim(self, claim: ClaimRow) -> int:
        number = len(self._tables.claims) + 1
        terms = (claim.key, claim.spender, claim.purpose, claim.unit, claim.adjacency)
        self._put(self._tables.claims, number, (*terms, str(claim.state), claim.loss, claim.left))
        self._put(self._tables.charges, number, {})
        if claim.key is not None:
            self._put(self._tables.keys, claim.key, number)
        return number

    def set_claim(self, number: int, state: ClaimState, left: str) -> None:
        fields = self._tables.claims[number]
        self._put(self._tables.claims, number, (*fields[:5], str(state), fields[6], left))

    def add_charges(self, claim: int, charges: Iterable[BlockCharge]) -> None:
        for c in charges:
            self._put(self._tables.charges[claim], (c.block, c.place), (c.reserved, c.spent))

    set_charges = add_charges

    def add_part(self, claim: int, part: str, loss: str) -> None:
        self._put(self._tables.parts, (claim, part), loss)

    def append(self, body: str, head: Head) -> None:
        self._put(self._tables.journal, head.length, (head.length, body, head.hash))
        standing = self._tables.standing[""]
        self._put(self._tables.standing, "", JournalHead(standing.ledger, head, standing.frozen))

    def set_frozen(self, frozen: bool) -> None:
        standing = self._tables.standing[""]
        self._put(self._tables.standing, "", JournalHead(standing.ledger, standing.head, frozen))
