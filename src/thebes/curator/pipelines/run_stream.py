"""The parts of a growing data set and of its rules that a run of a pipeline needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from thebes.curator.pipelines.data import BlockRows
from thebes.curator.streams.terms import Context
from thebes.data.schema import Schema
from thebes.ledger import Budget, Ledger, LedgerClaim
from thebes.privacy.losses import Loss


class OfferedBlock(Protocol):
    """A block of a stream."""

    @property
    def name(self) -> str: ...


class Counting(Protocol):
    """The terms in which blocks count."""

    @property
    def filter(self) -> str:
        """The name of one of `ledger.filters`."""
        ...

    @property
    def epsilon(self) -> Decimal: ...
    @property
    def delta(self) -> Decimal: ...
    @property
    def separate(self) -> str:
        """The thing that budgets are separate by: nothing where all share one."""
        ...


class RunStream(Protocol):
    """The part of a growing data set and its ledger that a run needs."""

    name: str
    schema: Schema
    ledger: Ledger

    @property
    def terms(self) -> Counting: ...
    def offered(
        self, *, since: datetime | None = None, loss: Loss | None = None, context: Context = None
    ) -> Sequence[OfferedBlock]:
        """The blocks of time that is over which can still be charged this, oldest first."""
        ...

    def size(self, names: Iterable[str]) -> float: ...
    def reserve(
        self, names: Iterable[str], *, loss: Loss, purpose: str, spender: str, key: str, context: Context = None
    ) -> LedgerClaim: ...
    @property
    def assumption(self) -> str:
        """The sentences that a certificate must say beside its epsilon."""
        ...

    def earlier(self, names: Iterable[str]) -> Budget:
        """Return what the sizes of these blocks cost whoever is in one of them, beside all that is reserved."""
        ...

    def rows(self, names: Iterable[str]) -> BlockRows: ...


class SpendingRights(Protocol):
    """The check whether a developer may spend this on each of these blocks: a Refusal where not, BudgetExceeded where
    they might but for what was spent there before. It only looks: it is asked of every block that is offered, and of
    all together before they are charged."""

    def __call__(self, blocks: Sequence[str], epsilon: Decimal, delta: Decimal) -> None: ...
