"""The store that a ledger needs from whatever keeps it: transactions over a few plain rows.

What must stay true: `write` is all or nothing and durable when it returns; rows read inside it stay as
read until it ends. The rules of spending live above, in one place, whatever the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from thebes.ledger.journal import Head
from thebes.ledger.states import BlockState, ClaimState

T = TypeVar("T")

#: Stands for "every block" in a cap, and for "the block itself" where a meter names its spender.
ALL = ""
ITSELF = ""


class WriteConflict(Exception):
    """Another transaction wrote the same key first; the work can be done again from the start."""


@dataclass(slots=True)
class Meter:
    """One count of a block, in whole steps. `firm`: reserved + spent never exceed capacity, the store checks it."""

    capacity: int | None
    reserved: int
    spent: int
    firm: bool

    @property
    def left(self) -> int:
        return (self.capacity or 0) - self.reserved - self.spent


@dataclass(slots=True)
class BlockRow:
    """A block's terms and balances. `usage`: the part of one spender who has a cap here; else empty."""

    name: str
    unit: str
    adjacency: str
    filter: str
    epsilon: int
    delta: int
    state: BlockState
    meters: dict[str, Meter] = field(default_factory=dict)
    usage: dict[str, Meter] = field(default_factory=dict)


@dataclass(slots=True)
class ClaimRow:
    """A claim's terms. `loss` is what was asked, `left` what its parts may still take: exact, as text."""

    id: int
    key: str | None
    spender: str
    purpose: str
    unit: str
    adjacency: str
    state: ClaimState
    loss: str
    left: str


@dataclass(slots=True)
class BlockCharge:
    """The amounts that one claim holds (`reserved`) and has consumed (`spent`) at one place of one block, in steps."""

    block: str
    place: str
    reserved: int
    spent: int


@dataclass(frozen=True, slots=True)
class JournalHead:
    """The head of the journal, the ledger's own identity and whether it is frozen."""

    ledger: str
    head: Head
    frozen: bool


@dataclass
class Books:
    """Everything but the journal, by natural keys: what a replay of the journal must give again."""

    ledger: str = ""
    frozen: bool = False
    blocks: dict[str, tuple[str, str, str, int, int, str]] = field(default_factory=dict)
    meters: dict[tuple[str, str, str], tuple[int | None, int, int, bool]] = field(default_factory=dict)
    caps: dict[tuple[str, str], tuple[int, int | None]] = field(default_factory=dict)
    claims: dict[int, tuple[str | None, str, str, str, str, str, str, str]] = field(default_factory=dict)
    charges: dict[tuple[int, str, str], tuple[int, int]] = field(default_factory=dict)
    parts: dict[tuple[int, str], str] = field(default_factory=dict)


class Transaction(Protocol):
    """One unit of work. Locks, where a store has them, are taken in the order claim, blocks by name, standing."""

    def standing(self) -> JournalHead | None: ...
    def peek(self) -> JournalHead | None:
        """Like `standing`, without its lock."""

    def claim(self, number: int) -> ClaimRow | None: ...
    def claim_of_key(self, key: str) -> ClaimRow | None: ...
    def charges(self, claim: int) -> list[BlockCharge]: ...
    def part(self, claim: int, part: str) -> str | None: ...
    def blocks(self, names: Iterable[str], spender: str) -> dict[str, BlockRow]: ...
    def caps(self, spender: str) -> dict[str, tuple[int, int | None]]: ...
    def usage(self, block: str, spender: str) -> dict[str, tuple[int, int]]: ...
    def open_claims(self) -> list[int]: ...
    def block_names(self) -> list[str]: ...
    def books(self) -> Books: ...
    def entries(self, after: int = 0) -> Iterator[tuple[int, str, str]]: ...

    def begin(self, ledger: str) -> None: ...
    def add_block(self, block: BlockRow) -> None: ...
    def set_block(self, name: str, state: BlockState) -> None: ...
    def add_meters(self, block: str, spender: str, meters: dict[str, Meter]) -> None: ...
    def move(self, moves: Iterable[tuple[str, str, str, int, int]]) -> None:
        """Add to meters: (block, spender, place, to reserved, to spent)."""

    def set_cap(self, spender: str, block: str, epsilon: int, delta: int | None) -> None: ...
    def add_claim(self, claim: ClaimRow) -> int: ...
    def set_claim(self, number: int, state: ClaimState, left: str) -> None: ...
    def add_charges(self, claim: int, charges: Iterable[BlockCharge]) -> None: ...
    def set_charges(self, claim: int, charges: Iterable[BlockCharge]) -> None: ...
    def add_part(self, claim: int, part: str, loss: str) -> None: ...
    def append(self, body: str, head: Head) -> None: ...
    def set_frozen(self, frozen: bool) -> None: ...


class LedgerStore(Protocol):
    """Keeps one ledger. All implementations pass tests/contract/test_ledger_store.py."""

    @property
    def name(self) -> str:
        """The place where the ledger is, fit to be shown (no password)."""

    @property
    def in_file(self) -> bool:
        """Return whether somebody could put an older copy in its place without the ledger's knowledge."""

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Do `work` in one transaction: all of it, durably, or none of it. Done again after a `WriteConflict`."""

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Do `work` on one consistent picture, changing nothing."""

    def close(self) -> None: ...
