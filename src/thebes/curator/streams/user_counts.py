"""The number of users, and of the rows they have: counted now and then, for all of them at once.

What must stay true: whoever has an id is known to nobody; a period is paid once, by a block of its own in which
everybody's budget for this lies, before noise is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction

import numpy as np

from thebes.curator.streams.terms import Terms, count_within
from thebes.data.growing.block_record import Period
from thebes.data.growing.block_rule import BlockBy
from thebes.data.growing.manifest import Manifest
from thebes.data.growing.reader import GrownTable
from thebes.data.schema import Schema
from thebes.ledger import Budget, ClaimState, Ledger, LedgerClaim
from thebes.ledger.amounts import Amount
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.losses import Concentrated, Pure, compose, concentrated_to_approximate, pure_to_concentrated
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.mechanisms.concentrated import noise_of
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import Randomness
from thebes.privacy.transformations.counts import HistogramCounts

EVERYONE = "everyone"
SPENDER = "thebes"  #: who buys sizes, in the ledger


def price_of(claim: LedgerClaim) -> Pure | Concentrated:
    """The loss of a claim that buys sizes: what was set aside for it, also where that was done before a crash."""
    if not isinstance(claim.loss, Pure | Concentrated):
        raise Fault("a claim for sizes is paid in pure epsilon or in rho")
    return claim.loss


def paid_together(prices: Iterable[Pure | Concentrated], delta: Decimal) -> Budget:
    """Return what several counts of the same rows cost as (epsilon, delta): their epsilons' sum, or that of their rhos
    converted at `delta` where one of them was bought with Gaussian noise."""
    each = list(prices)
    pures = [one for one in each if isinstance(one, Pure)]
    if len(pures) == len(each):
        return Budget(Amount(sum((one.epsilon for one in pures), Decimal(0))), Amount(0))
    rho = compose([pure_to_concentrated(one) if isinstance(one, Pure) else one for one in each])
    return Budget(Amount(concentrated_to_approximate(rho, delta).epsilon), Amount(delta))


class UserCounts:
    """The counts of one growing data set."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        by: BlockBy,
        terms: Terms,
        ledger: Ledger,
        manifest: Manifest,
        rows: Callable[[], GrownTable],
    ) -> None:
        self._name, self._schema, self._by, self._terms = name, schema, by, terms
        self._ledger, self._manifest, self._rows = ledger, manifest, rows

    def most(self) -> int:
        """The private maximum: so many users there are, as far as was counted. Ids count up and users stay, so it
        never shrinks."""
        return max((period.users or 0 for period in self._manifest.periods()), default=0)

    def rows(self, users: int) -> float:
        """About how many rows so many users have, by the latest period."""
        counted = [period for period in self._manifest.periods() if period.users is not None]
        if not counted:
            raise Mistake("blocks", "users were never counted here; name a period first")
        return max(0, counted[-1].rows or 0) * users / max(1, counted[-1].users or 0)

    def count(self, name: str, randomness: Randomness) -> Period:
        """The counts of a period, bought the first time it is named."""
        if not name or len(name) > 100 or not name.isprintable():
            raise Mistake("period", "must be a name of 1 to 100 printable characters")
        period = self._manifest.name_period(name, most=self._terms.periods)
        if period.users is None:
            # By chance: a folder that was put back, or made anew, finds no charge that paid for other noise.
            key = " ".join(filter(None, ("count", self._name, str(period.number), period.purchase)))
            claim = self._ledger.claimed(key) or self._ledger.reserve(
                [self._payer],
                loss=self._price,
                purpose="counts of users",
                spender=SPENDER,
                key=key,
                unit=Unit.PERSON,
                adjacency=Adjacency.ADD_REMOVE_ONE,
            )
            price = price_of(claim)
            claim.consume(loss=price, part="count")
            self._manifest.keep_counts(name, *self.noisy(*self._true(), randomness, price=price))
        return next(kept for kept in self._manifest.periods() if kept.name == name)

    def paid(self) -> Budget:
        """Add up what all counts so far cost everybody, also those that a folder which came back has forgotten."""
        claims = self._ledger.claims(spender=SPENDER, block=self._payer)
        prices = [price_of(claim) for claim in claims if claim.state is not ClaimState.RELEASED]
        return paid_together(prices, self._ledger.block(self._payer).budget.delta)

    def noisy(self, users: int, rows: int, randomness: Randomness, *, price: Pure | Concentrated) -> tuple[int, int]:
        """So many users and rows as they are told."""
        most = self._schema.max_rows_per_unit
        there, beside = self._noise(price).add(np.array([rows, most * users - rows], dtype=np.int64), randomness)
        return max(0, round(float(there + beside) / most)), max(0, round(float(there)))

    def widths(self, level: float = 0.95) -> tuple[float, float]:
        """Within what a count of users, and one of their rows, lies of the truth with probability `level`."""
        noise = self._noise(self._price)
        return 2 * noise.pair_width(0.5, level) / self._schema.max_rows_per_unit, noise.width(level)

    @property
    def _payer(self) -> str:
        return f"{self._name}/{EVERYONE}"

    @property
    def _price(self) -> Pure | Concentrated:
        """The loss of the counts of one period: so much that the block which pays for them, as it counts, can pay for
        as many as there may be."""
        block = self._ledger.block(self._payer)
        return count_within(block.filter, block.budget.epsilon, block.budget.delta, Fraction(1, self._terms.periods))

    def _noise(self, price: Pure | Concentrated) -> Additive:
        """Of every one of the rows that could count of a user it is told whether it is there: a user is in as many
        places of two counts as rows may count, however many there are. So both counts together cost what one costs: in
        L1 as in L2 they move by the number of rows that may count, farthest where all lie in one count."""
        return noise_of(price).noise(HistogramCounts(2).sensitivity(self._schema.change))

    def _true(self) -> tuple[int, int]:
        """Count how many users and rows there really are, of each user at most as many rows as count."""
        table = self._rows()
        try:
            return table.people(self._schema.max_rows_per_unit)
        finally:
            table.close()
