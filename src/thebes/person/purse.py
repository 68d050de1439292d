"""The person's ledger as budget periods: what may be spent this period and ever, kept apart by whom one has to trust.

What must stay true: every claim is set aside in its period and in the overall block together, so neither is passed;
a changed limit, or another length of periods, carries over all that was claimed before.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from thebes.ledger import Block, BlockState, Budget, Claim, ClaimState, Ledger
from thebes.ledger.amounts import Amount
from thebes.person.settings import Settings
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.losses import Approximate, Loss, Pure
from thebes.privacy.promise import Adjacency, Unit

CARRIED = "carried over"
OVERALL = ", overall"  #: how the name of a block ends that holds for ever
_GENERATION = re.compile(r" #(\d+)$")
_PERIOD = re.compile(r"(\w+), (\d{4}-\d\d-\d\d) to (\d{4}-\d\d-\d\d)")  #: how the name of a period's block is made


class Purse:
    """`settings` are read anew for every claim, `clock` gives today."""

    def __init__(
        self, ledger: Ledger, settings: Callable[[], Settings], clock: Callable[[], datetime] | None = None
    ) -> None:
        self.ledger = ledger
        self._settings = settings
        self._clock = clock or (lambda: datetime.now(UTC))
        self._lock = threading.RLock()

    def reserve(self, key: str, *, trust: str, epsilon: Decimal, delta: Decimal, requestor: str, purpose: str) -> Claim:
        """Set the price aside, or raise BudgetExceeded and change nothing. The same key gives the same claim."""
        with self._lock:
            earlier = self.claim(key)
            if earlier is not None:
                return earlier
            blocks = self.blocks(trust)
            self._cap(requestor, blocks[0])
            return self.ledger.reserve(
                [block.name for block in blocks],
                epsilon=epsilon,
                delta=delta,
                purpose=purpose,
                spender=requestor,
                key=key,
                unit=Unit.DEVICE,
                adjacency=Adjacency.REPLACE_ONE,
            )

    def claim(self, key: str) -> Claim | None:
        """The claim under a key, if there is one."""
        try:
            return self.ledger.claim(key=key)
        except Mistake:
            return None

    def release(self, key: str) -> None:
        """Give back what was not consumed."""
        claim = self.claim(key)
        if claim is not None:
            claim.release()

    def blocks(self, trust: str) -> tuple[Block, Block]:
        """This period's block and the overall one, with the limits the person set."""
        allowed, settings = self._settings().allowance(trust), self._settings()
        start, end = period(self._clock(), settings.period_days)
        return (
            self._block(f"{trust}, {start} to {end}", allowed.epsilon, allowed.delta),
            self._block(f"{trust}{OVERALL}", allowed.overall_epsilon, allowed.overall_delta),
        )

    def view(self) -> dict[str, Any]:
        """What was spent, is set aside and is left, by trust."""
        with self._lock:
            return {trust: self._standing(trust) for trust in ("local", "trusted")}

    def _standing(self, trust: str) -> dict[str, Any]:
        now, ever = self.blocks(trust)
        start, end = period(self._clock(), self._settings().period_days)
        view: dict[str, Any] = {
            "period": {"start": start.isoformat(), "end": end.isoformat(), **_amounts(now)},
            "overall": _amounts(ever),
        }
        if trust == "trusted":
            view["promise"] = "if the server keeps its promise"
        return view

    # --- limits that change ---------------------------------------------------------------------------------

    def _block(self, base: str, epsilon: Decimal, delta: Decimal) -> Block:
        """The newest block of that name with this limit. A block's terms never change, so another limit means
        another block, into which everything claimed in the one before is carried; so is what was claimed in periods of
        another length that this one has days of."""
        with self._lock:
            blocks = self.ledger.blocks()
            generations = sorted((_generation(b.name), b) for b in blocks if base_name(b.name) == base)
            # A frozen ledger carries nothing, and spends nothing; what is to be carried is found once it is thawed.
            beside = [] if self.ledger.frozen else [b for b in blocks if _overlap(base, b)]
            if not generations and not beside:
                return self._open(base, epsilon, delta)
            if len(generations) > 1 and generations[-2][1].state is BlockState.OPEN:
                self._carry(generations[-2][1], generations[-1][1])  # a crash came in between
            number = generations[-1][0] if generations else 0
            former = [self.ledger.block(block.name) for _, block in generations[-1:]]
            carried = beside
            if former and (former[0].state is BlockState.OPEN or not beside):  # else it was carried itself
                carried = [*former, *beside]
            held = [_held(block) for block in carried]
            wanted = (
                max(epsilon, sum((each.epsilon for each in held), Decimal(0))),
                max(delta, sum((each.delta for each in held), Decimal(0))),
            )
            if former and not beside and (former[0].budget.epsilon, former[0].budget.delta) == wanted:
                return former[0]
            fresh = self._open(f"{base} #{number + 1}" if number else base, *wanted)
            for block in carried:
                self._carry(block, fresh)
            return self.ledger.block(fresh.name)

    def _open(self, name: str, epsilon: Decimal, delta: Decimal) -> Block:
        return self.ledger.open_block(
            name, epsilon=epsilon, delta=delta, unit=Unit.DEVICE, adjacency=Adjacency.REPLACE_ONE
        )

    def _carry(self, old: Block, new: Block) -> None:
        # Claims still open in the old block count whole, so what they give back later is lost to the new one.
        for who, (epsilon, delta) in _by_spender(self.ledger.claims(block=old.name)).items():
            key = f"{CARRIED} from {old.name} to {new.name} for {who}"
            claim = self.claim(key) or self.ledger.reserve(
                [new.name],
                loss=Approximate(epsilon, delta) if delta else Pure(epsilon),
                purpose=CARRIED,
                spender=who,
                key=key,
            )
            if claim.state.open:
                claim.consume()
        self.ledger.retire_block(old.name)

    def _cap(self, requestor: str, block: Block) -> None:
        caps = self._settings().caps
        wanted = caps.get(requestor, caps.get("*"))
        held = {(cap.spender, cap.block): (cap.epsilon, cap.delta) for cap in self.ledger.caps()}
        current = held.get((requestor, block.name))
        if wanted is None:
            if current is not None and current[0] != block.budget.epsilon:
                self.ledger.cap(requestor, block.budget.epsilon, block.budget.delta, block=block.name)
        elif current != (wanted.epsilon, wanted.delta):
            self.ledger.cap(requestor, wanted.epsilon, wanted.delta, block=block.name)


class Waiting:
    """What an owner's half is given as its claim: it takes a note of what will be consumed, within what is left. The
    ledger is charged when the bytes are about to leave, so that bytes that never leave cost nothing."""

    def __init__(self, claim: Claim) -> None:
        self._left = claim.remaining
        self.epsilon = Decimal(0)
        self.delta = Decimal(0)
        #: so much later than otherwise what is made must leave
        self.held = 0.0

    def hold(self, moment: float) -> None:
        """Keep what is made until `moment` (of `time.monotonic`) or later: until then, how long it took may be the
        data's doing. When this is called is the data's doing, too, so only how long it is from now on counts."""
        self.held = max(self.held, moment - time.monotonic())

    def consume(self, *, epsilon: Any, delta: Any = 0) -> None:
        from thebes.privacy import exact

        self.epsilon += exact.declared("epsilon", epsilon)
        self.delta += exact.declared("delta", delta)
        if self.epsilon > self._left.epsilon or self.delta > self._left.delta:
            raise Refusal("this contribution would cost more than was set aside for it; nothing is sent")


def period(now: datetime, days: int) -> tuple[date, date]:
    """The first day of the budget period and the first day after it; periods are counted from 1970."""
    today = now.astimezone(UTC).date().toordinal() - date(1970, 1, 1).toordinal()
    start = date(1970, 1, 1) + timedelta(days=today - today % days)
    return start, start + timedelta(days=days)


def loss_as_budget(loss: Loss) -> Budget:
    """A person's claims are pure or approximate."""
    return Budget(Amount(loss.epsilon), Amount(getattr(loss, "delta", 0)))  # type: ignore[union-attr]


def consumed(claim: Claim) -> Budget:
    """What a claim has consumed for good."""
    if claim.state in (ClaimState.RESERVED, ClaimState.RELEASED):
        return Budget(Amount(0), Amount(0))
    asked, left = loss_as_budget(claim.loss), loss_as_budget(claim.left)
    return Budget(asked.epsilon - left.epsilon, asked.delta - left.delta)


def _by_spender(claims: Iterable[Claim]) -> dict[str, tuple[Decimal, Decimal]]:
    held: dict[str, tuple[Decimal, Decimal]] = {}
    for claim in claims:
        amount = loss_as_budget(claim.loss) if claim.state.open else consumed(claim)
        epsilon, delta = held.get(claim.spender, (Decimal(0), Decimal(0)))
        if amount.epsilon or amount.delta:
            held[claim.spender] = (epsilon + amount.epsilon, delta + amount.delta)
    return held


def _held(block: Block) -> Budget:
    """What is spent or set aside in a block."""
    steps = {place: meter.reserved + meter.spent for place, meter in block.meters.items()}
    return Budget.of_steps(steps.get("epsilon", 0), steps.get("delta", 0))


def _overlap(base: str, other: Block) -> bool:
    """Whether an open block is another period's that shares a day with this one: periods had another length then."""
    own, its = (_PERIOD.fullmatch(name) for name in (base, base_name(other.name)))
    if own is None or its is None or own[0] == its[0] or own[1] != its[1] or other.state is not BlockState.OPEN:
        return False
    return its[2] < own[3] and own[2] < its[3]  # days are written so that they compare as text


def _amounts(block: Block) -> dict[str, Any]:
    spent = {place: meter.spent for place, meter in block.meters.items()}
    reserved = {place: meter.reserved for place, meter in block.meters.items()}
    return {
        "epsilon": float(block.budget.epsilon),
        "delta": float(block.budget.delta),
        "spent": Budget.of_steps(spent.get("epsilon", 0), spent.get("delta", 0)).as_json(),
        "reserved": Budget.of_steps(reserved.get("epsilon", 0), reserved.get("delta", 0)).as_json(),
        "remaining": block.remaining.as_json(),
    }


def _generation(name: str) -> int:
    found = _GENERATION.search(name)
    return int(found.group(1)) if found else 1


def base_name(name: str) -> str:
    """A block's name without the number of its generation."""
    return _GENERATION.sub("", name)
