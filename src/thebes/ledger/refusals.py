"""The refusals of a ledger, what it says when it says no. Every refusal leaves every balance, claim and journal entry
as it was."""

from __future__ import annotations

from typing import Any

from thebes.ledger.amounts import Budget
from thebes.ledger.block_name import base_name
from thebes.privacy.faults import Fault, Refusal, ThebesError


class BudgetExceeded(Refusal):
    """`block` has only `remaining` of what was `requested`; `spender` is set when that spender's cap said no."""

    def __init__(self, block: str, requested: Budget, remaining: Budget, spender: str | None = None) -> None:
        called = f"block {base_name(block)!r}"
        whose = called if spender is None else f"the cap of {spender!r} on {called}"
        super().__init__(f"{whose} has {remaining} left for one answer, {requested} was requested; nothing was charged")
        self.block = block
        self.requested = requested
        self.remaining = remaining
        self.spender = spender

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.block, self.requested, self.remaining, self.spender))


class Frozen(BudgetExceeded):
    """The ledger was restored from a copy, or its home moved elsewhere, so every open block counts as spent until its
    owner thaws it."""

    def __str__(self) -> str:
        return (
            f"the ledger is frozen, because it was restored from a copy or its home moved elsewhere: block "
            f"{base_name(self.block)!r} counts as spent; its owner can run `thebes ledger thaw` where no other copy is "
            "in use"
        )


class BlockRetired(BudgetExceeded):
    """The block takes no new claims."""

    def __str__(self) -> str:
        return f"block {base_name(self.block)!r} is retired and takes no new claims; nothing was charged"


class ClaimEnded(Refusal):
    """The claim cannot pay for this part: it is closed or released, or the part is larger than what is left of it."""

    def __init__(self, claim: int, message: str) -> None:
        super().__init__(f"claim {claim} {message}; nothing was charged")
        self.claim = claim
        self._message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.claim, self._message))


class LedgerUnavailable(ThebesError):
    """The ledger cannot be read or written just now. Treat what was asked as not granted."""


class Tampered(Fault):
    """Journal and balances do not agree, or the journal was changed; `findings` lists every difference found."""

    def __init__(self, findings: tuple[str, ...]) -> None:
        super().__init__("; ".join(findings))
        self.findings = findings

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.findings,))
