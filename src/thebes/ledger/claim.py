"""A claim in the hands of whoever spends it: consume before the noise leaves, release what was not needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thebes.ledger import losses
from thebes.ledger.amounts import NOTHING, Amount, Budget
from thebes.ledger.states import ClaimState
from thebes.ledger.store import ClaimRow
from thebes.privacy import exact
from thebes.privacy.losses import Approximate, Loss, Pure

if TYPE_CHECKING:
    from thebes.ledger.ledger import Ledger


class LedgerClaim:
    """A loss set aside in every one of `blocks`. What this object shows is as of its last own step."""

    def __init__(self, ledger: Ledger, row: ClaimRow, blocks: tuple[str, ...]) -> None:
        self._ledger = ledger
        self._row = row
        self.blocks = blocks

    @property
    def id(self) -> int:
        """Its number in this ledger; `ledger.claim(id)` finds it again after a restart."""
        return self._row.id

    @property
    def key(self) -> str | None:
        return self._row.key

    @property
    def spender(self) -> str:
        return self._row.spender

    @property
    def purpose(self) -> str:
        return self._row.purpose

    @property
    def unit(self) -> str:
        return self._row.unit

    @property
    def adjacency(self) -> str:
        return self._row.adjacency

    @property
    def state(self) -> ClaimState:
        return self._row.state

    @property
    def loss(self) -> Loss:
        """The loss that was asked for."""
        return losses.loss_of_text(self._row.loss)

    @property
    def left(self) -> Loss:
        """The exact rest that parts may still take; without meaning once the claim has ended."""
        return losses.loss_of_text(self._row.left)

    @property
    def remaining(self) -> Budget:
        """The rest as (epsilon, delta); nothing when the claim has ended or was asked as another kind of loss."""
        left = self.left
        if not self.state.open or not isinstance(left, (Pure, Approximate)):
            return NOTHING
        return Budget(Amount(left.epsilon), Amount(left.delta if isinstance(left, Approximate) else 0))

    def acquire(self) -> LedgerClaim:
        """Say that work with the data has begun. Optional: the first `consume` says so too."""
        self._row = self._ledger._acquire(self.id)
        return self

    def consume(
        self,
        *,
        epsilon: exact.Number | None = None,
        delta: exact.Number | None = None,
        loss: Loss | None = None,
        part: str | None = None,
    ) -> LedgerClaim:
        """Charge a part for good, durably, before its noise leaves; by default all that is left.

        `part` names the part: charging the same name again changes nothing, so a retry after a crash is safe.
        Raises ClaimEnded, and charges nothing, when the part is more than what is left.
        """
        self._row = self._ledger._consume(self.id, losses.part_asked(epsilon, delta, loss), part)
        return self

    def release(self) -> LedgerClaim:
        """Give back what was not consumed. Doing it again changes nothing."""
        self._row = self._ledger._release(self.id)
        return self

    def __repr__(self) -> str:
        return f"<claim {self.id} of {self.spender!r} for {self.purpose!r}: {self.state}, asked {self._row.loss}>"
