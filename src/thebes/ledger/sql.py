"""The transaction of both databases: every statement written once, in SQLAlchemy Core.

What must stay true: reads that a decision rests on hold their rows until the transaction ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam, func, select

from thebes.ledger.journal import BEGINNING, Head
from thebes.ledger.schema import BLOCK, CAP, CHARGE, CLAIM, JOURNAL, METER, PART, STANDING
from thebes.ledger.states import BlockState, ClaimState
from thebes.ledger.store import ITSELF, BlockCharge, BlockRow, Books, ClaimRow, JournalHead, Meter

_CLAIM_FIELDS = [column for column in CLAIM.c if column.name != "id"]


class Say:
    """The statements, by what they do."""

    standing = select(STANDING.c.ledger, STANDING.c.length, STANDING.c.hash, STANDING.c.frozen).where(
        STANDING.c.id == sa.literal_column("1")
    )
    claim = select(CLAIM).where(CLAIM.c.id == bindparam("n"))
    claim_of_key = select(CLAIM).where(CLAIM.c.key == bindparam("k"))
    charges = (
        select(CHARGE.c.block, CHARGE.c.place, CHARGE.c.reserved, CHARGE.c.spent)
        .where(CHARGE.c.claim == bindparam("n"))
        .order_by(CHARGE.c.block, CHARGE.c.place)
    )
    part = select(PART.c.loss).where(PART.c.claim == bindparam("n"), PART.c.part == bindparam("p"))
    caps = select(CAP.c.block, CAP.c.epsilon, CAP.c.delta).where(CAP.c.spender == bindparam("s"))
    usage = (
        select(CHARGE.c.place, func.sum(CHARGE.c.reserved), func.sum(CHARGE.c.spent))
        .join(CLAIM, CLAIM.c.id == CHARGE.c.claim)
        .where(CHARGE.c.block == bindparam("b"), CLAIM.c.spender == bindparam("s"))
        .group_by(CHARGE.c.place)
    )
    open_claims = select(CLAIM.c.id).where(
        sa.or_(*(CLAIM.c.state == sa.literal_column(f"'{state}'") for state in ClaimState if state.open))
    )
    block_names = select(BLOCK.c.name)
    entries = (
        select(JOURNAL.c.number, JOURNAL.c.body, JOURNAL.c.hash)
        .where(JOURNAL.c.number > bindparam("n"))
        .order_by(JOURNAL.c.number)
    )
    all_blocks = select(BLOCK)
    all_meters = select(METER)
    all_caps = select(CAP)
    all_claims = select(CLAIM)
    all_charges = select(CHARGE)
    all_parts = select(PART)

    begin = STANDING.insert()
    add_block = BLOCK.insert()
    set_block = BLOCK.update().where(BLOCK.c.name == bindparam("b")).values(state=bindparam("s"))
    add_meter = METER.insert()
    move = (
        METER.update()
        .where(METER.c.block == bindparam("b"), METER.c.spender == bindparam("s"), METER.c.place == bindparam("p"))
        .values(reserved=METER.c.reserved + bindparam("r"), spent=METER.c.spent + bindparam("t"))
    )
    remove_cap = CAP.delete().where(CAP.c.spender == bindparam("s"), CAP.c.block == bindparam("b"))
    add_cap = CAP.insert()
    add_claim = CLAIM.insert().values({c.name: bindparam(c.name) for c in _CLAIM_FIELDS}).returning(CLAIM.c.id)
    set_claim = CLAIM.update().where(CLAIM.c.id == bindparam("n")).values(state=bindparam("s"), left=bindparam("l"))
    add_charge = CHARGE.insert()
    set_charge = (
        CHARGE.update()
        .where(CHARGE.c.claim == bindparam("n"), CHARGE.c.block == bindparam("b"), CHARGE.c.place == bindparam("p"))
        .values(reserved=bindparam("r"), spent=bindparam("t"))
    )
    add_part = PART.insert()
    append = JOURNAL.insert()
    set_head = STANDING.update().values(length=bindparam("length_"), hash=bindparam("hash_"))
    set_frozen = STANDING.update().values(frozen=bindparam("frozen_"))


class SqlTransaction(ABC):
    """Rows of a database as the ledger's rows. Each database says how a statement is run and blocks are read."""

    @abstractmethod
    def _run(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        """Run once; the rows it returns, if it returns rows."""

    def _run_locked(self, statement: sa.Select[Any], values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        """Run once and hold the rows until the transaction ends; nothing more to do where there is one writer."""
        return self._run(statement, values)

    @abstractmethod
    def _stream(self, statement: sa.Executable, values: Mapping[str, Any]) -> Iterator[Any]:
        """Run once; rows as they come, however many."""

    @abstractmethod
    def _run_each(self, statement: sa.Executable, values: list[dict[str, Any]]) -> None:
        """Run once for each of `values`."""

    @abstractmethod
    def blocks(self, names: Iterable[str], spender: str) -> dict[str, BlockRow]:
        """The blocks with their meters and those of the spender, locked in the order of their names."""

    # --- reading

    def standing(self) -> JournalHead | None:
        return _standing(self._run_locked(Say.standing))

    def peek(self) -> JournalHead | None:
        return _standing(self._run(Say.standing))

    def claim(self, number: int) -> ClaimRow | None:
        return _claim(self._run_locked(Say.claim, {"n": number}))

    def claim_of_key(self, key: str) -> ClaimRow | None:
        return _claim(self._run_locked(Say.claim_of_key, {"k": key}))

    def charges(self, claim: int) -> list[BlockCharge]:
        return [BlockCharge(*row) for row in self._run(Say.charges, {"n": claim})]

    def part(self, claim: int, part: str) -> str | None:
        return next((row[0] for row in self._run(Say.part, {"n": claim, "p": part})), None)

    def caps(self, spender: str) -> dict[str, tuple[int, int | None]]:
        return {block: (epsilon, delta) for block, epsilon, delta in self._run(Say.caps, {"s": spender})}

    def usage(self, block: str, spender: str) -> dict[str, tuple[int, int]]:
        return {place: (int(r), int(s)) for place, r, s in self._run(Say.usage, {"b": block, "s": spender})}

    def open_claims(self) -> list[int]:
        return sorted(row[0] for row in self._run(Say.open_claims))

    def block_names(self) -> list[str]:
        return sorted(row[0] for row in self._run(Say.block_names))

    def books(self) -> Books:
        standing = next(iter(self._run(Say.standing)), None)
        return Books(
            ledger=standing[0] if standing else "",
            frozen=_flag(standing[3]) if standing else False,
            blocks={row[0]: tuple(row[1:]) for row in self._run(Say.all_blocks)},
            meters={tuple(row[:3]): (*row[3:6], _flag(row[6])) for row in self._run(Say.all_meters)},
            caps={tuple(row[:2]): tuple(row[2:]) for row in self._run(Say.all_caps)},
            claims={row[0]: tuple(row[1:]) for row in self._run(Say.all_claims)},
            charges={tuple(row[:3]): tuple(row[3:]) for row in self._run(Say.all_charges)},
            parts={tuple(row[:2]): row[2] for row in self._run(Say.all_parts)},
        )

    def entries(self, after: int = 0) -> Iterator[tuple[int, str, str]]:
        yield from self._stream(Say.entries, {"n": after})

    # --- writing

    def begin(self, ledger: str) -> None:
        self._run(Say.begin, {"id": 1, "ledger": ledger, "length": 0, "hash": BEGINNING, "frozen": 0})

    def add_block(self, block: BlockRow) -> None:
        fields = ("name", "unit", "adjacency", "filter", "epsilon", "delta", "state")
        values = {f: getattr(block, f) for f in fields}
        self._run(Say.add_block, {f: v if isinstance(v, int) else str(v) for f, v in values.items()})
        self.add_meters(block.name, ITSELF, block.meters)

    def set_block(self, name: str, state: BlockState) -> None:
        self._run(Say.set_block, {"b": name, "s": str(state)})

    def add_meters(self, block: str, spender: str, meters: dict[str, Meter]) -> None:
        key = {"block": block, "spender": spender}
        self._run_each(
            Say.add_meter,
            [
                {
                    **key,
                    "place": p,
                    "capacity": m.capacity,
                    "reserved": m.reserved,
                    "spent": m.spent,
                    "firm": int(m.firm),
                }
                for p, m in meters.items()
            ],
        )

    def move(self, moves: Iterable[tuple[str, str, str, int, int]]) -> None:
        self._run_each(Say.move, [{"b": b, "s": s, "p": p, "r": r, "t": t} for b, s, p, r, t in moves])

    def set_cap(self, spender: str, block: str, epsilon: int, delta: int | None) -> None:
        self._run(Say.remove_cap, {"s": spender, "b": block})
        self._run(Say.add_cap, {"spender": spender, "block": block, "epsilon": epsilon, "delta": delta})

    def add_claim(self, claim: ClaimRow) -> int:
        values = {
            "key": claim.key,
            "spender": claim.spender,
            "purpose": claim.purpose,
            "unit": str(claim.unit),
            "adjacency": str(claim.adjacency),
            "state": str(claim.state),
            "loss": claim.loss,
            "left": claim.left,
        }
        return int(self._run(Say.add_claim, values)[0][0])

    def set_claim(self, number: int, state: ClaimState, left: str) -> None:
        self._run(Say.set_claim, {"n": number, "s": str(state), "l": left})

    def add_charges(self, claim: int, charges: Iterable[BlockCharge]) -> None:
        rows = [
            {"claim": claim, "block": c.block, "place": c.place, "reserved": c.reserved, "spent": c.spent}
            for c in charges
        ]
        self._run_each(Say.add_charge, rows)

    def set_charges(self, claim: int, charges: Iterable[BlockCharge]) -> None:
        rows = [{"n": claim, "b": c.block, "p": c.place, "r": c.reserved, "t": c.spent} for c in charges]
        self._run_each(Say.set_charge, rows)

    def add_part(self, claim: int, part: str, loss: str) -> None:
        self._run(Say.add_part, {"claim": claim, "part": part, "loss": loss})

    def append(self, body: str, head: Head) -> None:
        self._run(Say.append, {"number": head.length, "body": body, "hash": head.hash})
        self._run(Say.set_head, {"length_": head.length, "hash_": head.hash})

    def set_frozen(self, frozen: bool) -> None:
        self._run(Say.set_frozen, {"frozen_": int(frozen)})


def _standing(rows: Sequence[Any]) -> JournalHead | None:
    for ledger, length, digest, frozen in rows:
        return JournalHead(ledger, Head(length, digest), bool(frozen))
    return None


def _flag(held: int) -> bool:
    """A yes or no as the database holds it; anything else stays what it is, so that a check of the books sees it."""
    return bool(held) if held in (0, 1) else held  # type: ignore[return-value]


def _claim(rows: Sequence[Any]) -> ClaimRow | None:
    for number, key, spender, purpose, unit, adjacency, state, loss, left in rows:
        return ClaimRow(number, key, spender, purpose, unit, adjacency, ClaimState(state), loss, left)
    return None


def block_of(row: Sequence[Any]) -> BlockRow:
    """A row that begins with the columns of a block, as a block without meters."""
    name, unit, adjacency, counting, epsilon, delta, state = row[:7]
    return BlockRow(name, unit, adjacency, counting, epsilon, delta, BlockState(state))
