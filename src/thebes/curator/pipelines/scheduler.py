"""The turns of several pipelines that wait for the same blocks, who of them may spend next: one SQLite file for each
stream.

What must stay true: nothing is reserved here and nothing granted that a block could not pay; whoever is told that it
is their turn still asks the ledger, which decides. What is decided follows from public things only: blocks, prices and
when somebody came. Somebody who does not ask again for a while stands in nobody's way.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from thebes.curator.streams.user_counts import EVERYONE
from thebes.database.private import opened
from thebes.ledger import Block, Ledger
from thebes.ledger.filters import FILTERS
from thebes.ledger.losses import loss_of_text, text_of
from thebes.ledger.schedulers import (
    BlockAmounts,
    EvenSplit,
    Integers,
    Waiting,
    dpack,
    dpf,
    fcfs,
    unlocked_by_arrivals,
    unlocked_by_time,
)
from thebes.ledger.states import BlockState
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Loss

_TABLES = """
CREATE TABLE IF NOT EXISTS demand (
    who TEXT PRIMARY KEY, blocks TEXT NOT NULL, loss TEXT NOT NULL, weight REAL NOT NULL, came_at REAL NOT NULL,
    asked_at REAL NOT NULL, turn_at REAL, fcfs_at REAL);
CREATE TABLE IF NOT EXISTS past (
    number INTEGER PRIMARY KEY AUTOINCREMENT, who TEXT NOT NULL, blocks INTEGER NOT NULL, loss TEXT NOT NULL,
    came_at REAL NOT NULL, turn_at REAL, fcfs_at REAL, ended_at REAL NOT NULL, spent INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS arrived (block TEXT PRIMARY KEY, claims INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS wanted (block TEXT PRIMARY KEY, since REAL NOT NULL);
CREATE TABLE IF NOT EXISTS block (number INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, free INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS share (who TEXT PRIMARY KEY, parts BLOB NOT NULL);
"""
_PAST = "who, blocks, loss, came_at, turn_at, fcfs_at, ended_at, spent"
_DEMAND = "who, blocks, loss, weight, came_at, turn_at, fcfs_at"


class SchedulingRule(StrEnum):
    """The rule that says who goes first."""

    EVEN = "even"  #: every new block is divided evenly among those who wait (Sage)
    DPF = "dpf"  #: the smallest dominant share; others' claims and time unlock a block that several want
    DPACK = "dpack"  #: the most claims for the blocks together; without regard to who came first
    FCFS = "fcfs"  #: who came first


@dataclass(frozen=True, slots=True)
class Demand:
    """The claim that somebody waits for. `turn_at` is when it was first their turn, `fcfs_at` when it would have been,
    as blocks stood then, if who comes first were served first."""

    who: str
    blocks: tuple[str, ...]
    loss: Loss
    weight: float
    came_at: float
    turn_at: float | None
    fcfs_at: float | None


@dataclass(frozen=True, slots=True)
class PastDemand:
    """A demand that has ended: `spent` says whether its claim was made. The log of what another order had granted."""

    who: str
    blocks: int
    loss: Loss
    came_at: float
    turn_at: float | None
    fcfs_at: float | None
    ended_at: float
    spent: bool


#: with DPF: in how many parts a block is unlocked, and within how many seconds at the latest
FAIR, LIFETIME = 20, 30 * 86_400.0


class Turns:
    """The waiting room of one stream, whose blocks in the ledger all begin with `prefix`.

    With DPF a block that several wait for is unlocked by 1 / `fair` for each claim that ever asked for it, and evenly
    over `lifetime` seconds from the first of them, whichever is more; one that a single claim waits for is unlocked
    whole. Safe for several threads and processes. `stands` is how many seconds a demand stands after it was last asked
    for; `clock` is seconds since 1970.
    """

    def __init__(
        self,
        path: Path,
        ledger: Ledger,
        *,
        prefix: str,
        policy: str | SchedulingRule = SchedulingRule.EVEN,
        fair: int = FAIR,
        lifetime: float = LIFETIME,
        stands: float = 3600.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        try:
            self.policy = SchedulingRule(policy)
        except ValueError:
            raise Mistake("schedule", f"must be {', '.join(SchedulingRule)}") from None
        if isinstance(fair, bool) or not isinstance(fair, int) or fair < 1:
            raise Mistake("fair", "must be a whole number of at least 1")
        if not 0 < lifetime < float("inf"):
            raise Mistake("lifetime", "must be a time greater than 0")
        self._ledger, self._prefix, self._stands, self._clock = ledger, prefix, stands, clock
        self._fair, self._lifetime = fair, lifetime
        self._lock = threading.RLock()
        self._db = opened(path, _TABLES, patience=30)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    # --- those who wait -------------------------------------------------------------------------------

    def arrive(self, who: str) -> None:
        """Somebody begins to wait, and has a share of what comes from now on. Again changes nothing."""
        with self._writing():
            if self.policy is SchedulingRule.EVEN:
                shares, names = self._even()
                shares.arrive(who)
                self._keep(shares, names)

    def leave(self, who: str) -> None:
        """Somebody is done: what they had a share of is the others'. Again changes nothing."""
        with self._writing():
            self._end(who, spent=False)
            if self.policy is SchedulingRule.EVEN:
                shares, names = self._even()
                if who in shares.waiting:
                    shares.leave(who)
                    self._keep(shares, names)

    def offered(self, who: str, names: Sequence[str], loss: Loss) -> tuple[str, ...]:
        """Those of these blocks of which somebody may spend this much at all, in their order."""
        if self.policy is not SchedulingRule.EVEN:
            return tuple(names)
        with self._writing():
            shares, numbers = self._even()
            if who not in shares.waiting:
                shares.arrive(who)
                self._keep(shares, numbers)
            mine, parts = shares.shares(who), shares.parts(self._price(loss))
            enough = {name for name, number in numbers.items() if mine[number] >= parts[number]}
        return tuple(name for name in names if name in enough)

    def due(self, who: str, names: Sequence[str], loss: Loss, *, weight: float = 1.0) -> bool:
        """Return whether somebody may spend this of all these blocks now, before all others who wait. What they asked
        for before is forgotten; when they came is not."""
        now, wanted = self._clock(), json.dumps(list(names))
        with self._writing():
            earlier = self._db.execute("SELECT blocks, loss FROM demand WHERE who = ?", (who,)).fetchone()
            if earlier is None or earlier != (wanted, text_of(loss)):
                counted = "INSERT INTO arrived VALUES (?, 1) ON CONFLICT (block) DO UPDATE SET claims = claims + 1"
                self._db.executemany(counted, [(name,) for name in names])
            self._db.execute(
                "INSERT INTO demand VALUES (?, ?, ?, ?, ?, ?, NULL, NULL) ON CONFLICT (who) DO UPDATE SET "
                "blocks = excluded.blocks, loss = excluded.loss, weight = excluded.weight, "
                "asked_at = excluded.asked_at",
                (who, wanted, text_of(loss), weight, now, now),
            )
            gone = "SELECT who FROM demand WHERE asked_at < ?"
            for (late,) in self._db.execute(gone, (now - self._stands,)).fetchall():
                self._end(late, spent=False)
            return who in self._look(now)

    def spent(self, who: str, names: Sequence[str], loss: Loss) -> None:
        """The ledger made somebody's claim: the demand has ended, and their shares are so much smaller."""
        with self._writing():
            self._end(who, spent=True)
            if self.policy is SchedulingRule.EVEN:
                shares, numbers = self._even()
                if who in shares.waiting:
                    shares.spend(who, [numbers[name] for name in names if name in numbers], self._price(loss))
                    self._keep(shares, numbers)

    # --- what is shown --------------------------------------------------------------------------------

    def queue(self) -> list[Demand]:
        """Return what is waited for, in the order in which they came."""
        with self._lock:
            rows = self._db.execute(f"SELECT {_DEMAND} FROM demand ORDER BY came_at, who").fetchall()  # noqa: S608
        return [_demand(row) for row in rows]

    def past(self, most: int = 1000) -> list[PastDemand]:
        """Demands that have ended, newest first."""
        asked = f"SELECT {_PAST} FROM past ORDER BY number DESC LIMIT ?"  # noqa: S608
        with self._lock:
            rows = self._db.execute(asked, (most,)).fetchall()
        return [PastDemand(w, b, loss_of_text(loss), c, t, f, e, bool(s)) for w, b, loss, c, t, f, e, s in rows]

    def shares(self, who: str) -> dict[str, float]:
        """Return what part of each block somebody may still spend, where blocks are divided evenly."""
        if self.policy is not SchedulingRule.EVEN:
            return {}
        with self._writing():
            shares, numbers = self._even()
            if who not in shares.waiting:
                return {}
            mine = shares.shares(who)
        return {name: float(mine[number]) / EvenSplit.WHOLE for name, number in numbers.items() if mine[number]}

    # --- inside ---------------------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _look(self, now: float) -> set[str]:
        """Return whose turn it is, all that wait taken together; and note whose it would have been by who came
        first."""
        waiting, held = self.queue(), self._held()
        waiting = [one for one in waiting if all(name in held for name in one.blocks)]
        if not waiting:
            return set()
        names = sorted({name for one in waiting for name in one.blocks})
        numbers = {name: number for number, name in enumerate(names)}
        first = held[names[0]]
        counting, places = FILTERS[first.filter], list(first.meters)
        capacity = np.array([[held[n].meters[p].capacity or 0 for p in places] for n in names], dtype=np.int64)
        taken = np.array(
            [[held[n].meters[p].reserved + held[n].meters[p].spent for p in places] for n in names], dtype=np.int64
        )
        priced = [counting.price(one.loss, places) for one in waiting]
        claims = Waiting(
            [np.array([numbers[name] for name in one.blocks], dtype=np.int64) for one in waiting],
            np.array([[min(price.get(p, 0), 2**62) for p in places] for price in priced], dtype=np.int64),
            np.array([one.weight for one in waiting]),
        )
        field = BlockAmounts(capacity, taken, firm=counting.firm)
        served = {waiting[number].who for number in fcfs(field, claims)}
        if self.policy is SchedulingRule.DPF:
            unlocked = self._unlocked(names, capacity, claims, now)
            found = dpf(BlockAmounts(capacity, taken, firm=counting.firm, unlocked=unlocked), claims)
        elif self.policy is SchedulingRule.DPACK:
            found = dpack(field, claims)
        else:  # shares that are even were looked at before; they cannot get into each other's way
            found = fcfs(field, claims)
        turn = {waiting[number].who for number in found}
        for column, whose in (("turn_at", turn), ("fcfs_at", served)):
            noted = f"UPDATE demand SET {column} = ? WHERE who = ? AND {column} IS NULL"  # noqa: S608
            self._db.executemany(noted, [(now, who) for who in sorted(whose)])
        return turn

    def _unlocked(self, names: Sequence[str], capacity: Integers, claims: Waiting, now: float) -> Integers:
        """Return how much of each block may be granted yet. What is unlocked protects nobody: the ledger decides."""
        self._db.executemany("INSERT OR IGNORE INTO wanted VALUES (?, ?)", [(name, now) for name in names])
        counts = dict(self._db.execute("SELECT block, claims FROM arrived").fetchall())
        since = dict(self._db.execute("SELECT block, since FROM wanted").fetchall())
        arrived = np.array([counts.get(name, 0) for name in names], dtype=np.int64)
        age = np.array([now - since[name] for name in names])
        unlocked = np.maximum(
            unlocked_by_arrivals(capacity, arrived, self._fair), unlocked_by_time(capacity, age, self._lifetime)
        )
        wanted = np.bincount(np.concatenate(claims.blocks), minlength=len(names))
        return np.where((wanted == 1)[:, None], capacity, unlocked)

    def _end(self, who: str, *, spent: bool) -> None:
        row = self._db.execute(f"SELECT {_DEMAND} FROM demand WHERE who = ?", (who,)).fetchone()  # noqa: S608
        if row is None:
            return
        kept = (
            "INSERT INTO past (who, blocks, loss, came_at, turn_at, fcfs_at, ended_at, spent) VALUES (?,?,?,?,?,?,?,?)"
        )
        count = len(json.loads(row[1]))
        self._db.execute(kept, (who, count, row[2], row[4], row[5], row[6], self._clock(), spent))
        self._db.execute("DELETE FROM demand WHERE who = ?", (who,))

    def _held(self) -> dict[str, Block]:
        """The stream's blocks that take claims; not that of everybody, which pays for counts alone."""
        mine = (block for block in self._ledger.blocks(self._prefix) if block.name != f"{self._prefix}{EVERYONE}")
        return {block.name: block for block in mine if block.state is BlockState.OPEN}

    def _price(self, loss: Loss) -> list[int]:
        block = next(iter(self._held().values()), None)
        if block is None:
            return [0]
        price = FILTERS[block.filter].price(loss, block.meters)
        return [min(price.get(place, 0), 2**62) for place in block.meters]

    def _even(self) -> tuple[EvenSplit, dict[str, int]]:
        """The shares as they stand, and blocks' numbers by name; blocks that are new are divided."""
        held = self._held()
        known = self._db.execute("SELECT number, name, free FROM block ORDER BY number").fetchall()
        numbers = {name: number for number, name, _ in known}
        places = list(next(iter(held.values())).meters) if held else ["none"]

        def capacity(name: str) -> list[int]:
            meters: Mapping[str, object] = held[name].meters if name in held else {}
            return [held[name].meters[p].capacity or 0 if p in meters else 0 for p in places]

        parts = dict(self._db.execute("SELECT who, parts FROM share ORDER BY rowid").fetchall())
        firm = FILTERS[next(iter(held.values())).filter].firm if held else True
        shares = EvenSplit.restored(
            np.array([capacity(name) for name in numbers], dtype=np.int64).reshape(len(numbers), len(places)),
            np.array([free for _, _, free in known], dtype=np.int64),
            {who: _widened(np.frombuffer(blob, dtype=np.int64), len(numbers)) for who, blob in parts.items()},
            firm=firm,
        )
        fresh = [name for name in held if name not in numbers]
        if fresh:
            numbers |= {name: len(numbers) + place for place, name in enumerate(fresh)}
            shares.add([capacity(name) for name in fresh])
            self._keep(shares, numbers)
        return shares, numbers

    def _keep(self, shares: EvenSplit, numbers: Mapping[str, int]) -> None:
        free = shares.free
        rows = [(number, name, int(free[number])) for name, number in numbers.items()]
        self._db.executemany(
            "INSERT INTO block VALUES (?, ?, ?) ON CONFLICT (number) DO UPDATE SET free = excluded.free", rows
        )
        waiting = [str(who) for who in shares.waiting]
        for (who,) in self._db.execute("SELECT who FROM share").fetchall():
            if who not in waiting:
                self._db.execute("DELETE FROM share WHERE who = ?", (who,))
        kept = "INSERT INTO share VALUES (?, ?) ON CONFLICT (who) DO UPDATE SET parts = excluded.parts"
        self._db.executemany(kept, [(who, shares.shares(who).tobytes()) for who in waiting])


def _widened(parts: np.ndarray[tuple[int, ...], np.dtype[np.int64]], size: int) -> list[int]:
    """Blocks that came since have no part yet."""
    return [*parts.tolist(), *[0] * (size - len(parts))]


def _demand(row: Sequence[object]) -> Demand:
    who, blocks, loss, weight, came, turn, first = row
    return Demand(str(who), tuple(json.loads(str(blocks))), loss_of_text(str(loss)), weight, came, turn, first)  # type: ignore[arg-type]
