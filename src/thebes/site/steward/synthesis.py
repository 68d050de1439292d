"""Synthetic rows of a site's data set, for its steward: paid in its ledger, and certified, like everything that leaves.

What must stay true: what it costs is charged before any noise is drawn; rows that cannot be reached, and a request that
cannot work, cost nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from thebes.curator.cache.synthesis.allowance import SynthesisAllowance
from thebes.curator.cache.synthesis.domain import Domain, Told, quiet
from thebes.curator.cache.synthesis.recipes import recipe
from thebes.curator.questions.groups import bounds_of
from thebes.curator.streams.stream import Stream
from thebes.data.table import Table
from thebes.ledger import Ledger, LedgerClaim
from thebes.privacy import exact
from thebes.privacy.certificate import Certificate
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.losses import Loss
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import Randomness, system
from thebes.site.budget.blocks import block_of
from thebes.site.dataset import DataSet

SPENDER = "steward"
PURPOSE = "synthetic rows"
MOST_ROWS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The rows that are wanted: by default of all columns with declared values or bounds. `complete`: no row that lacks
    one of these values is learned from, and none is made."""

    rows: int
    epsilon: exact.Number
    delta: exact.Number = 0
    method: str = "mst"
    columns: Sequence[str] | None = None
    bins: Mapping[str, int | Sequence[float]] | None = None
    complete: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.rows, bool) or not 0 < self.rows <= MOST_ROWS:
            raise Mistake("--rows", f"must be from 1 to {MOST_ROWS}")


@dataclass(frozen=True, slots=True)
class SyntheticRows:
    """Rows that are nobody's, by column, and their certificate."""

    columns: dict[str, NDArray[Any]]
    certificate: Certificate


def synthesized(
    dataset: DataSet,
    wish: Wish,
    *,
    ledger: Ledger,
    opened: Callable[[], Table],
    stream: Stream | None = None,
    randomness: Randomness | None = None,
    told: Told = quiet,
) -> SyntheticRows:
    """Learn a distribution within the wish's budget and draw rows from it. `opened` reaches the rows of a data set that
    does not grow; of one that does, every block that can pay is learned from. `told` hears what is being done."""
    source = randomness or system()
    domain = Domain.of(dataset.schema, wish.columns, wish.bins, missing=not wish.complete)
    allowance = SynthesisAllowance(wish.epsilon, wish.delta)
    made = recipe(wish.method)(domain, allowance, told=told)
    price = allowance.loss(made.event, dataset.budget.filter)
    with _charged(dataset, price, ledger, opened, stream) as (table, claim):
        learned = made.learned(table, lambda: _pay(claim), source)
    notes = ["A row belongs to nobody: it was drawn from a distribution that was learned with noise."]
    if stream is not None:
        notes.append(f"Learned from {len(claim.blocks)} blocks of {dataset.name}. {stream.assumption}")
    kept = {name: list(cut) if isinstance(cut, Sequence) else cut for name, cut in (wish.bins or {}).items()}
    certificate = Certificate(
        unit=Unit(dataset.schema.unit),
        adjacency=Adjacency.ADD_REMOVE_ONE,
        epsilon=float(allowance.epsilon),
        delta=float(allowance.delta),
        guarantee="approximate" if allowance.delta else "pure",
        mechanism=f"synthetic rows ({made.name})",
        parameters={"rows": wish.rows, "bins": kept, "drawn_by": source.drawn_by, **learned.parameters},
        bounds=bounds_of(dataset.schema, domain.names),
        trust="site",
        estimated=("how many rows there are",),
        simulated=source.simulated,
        notes=tuple(notes),
    )
    return SyntheticRows(learned.drawn(wish.rows, source), certificate)


@contextmanager
def _charged(
    dataset: DataSet, price: Loss, ledger: Ledger, opened: Callable[[], Table], stream: Stream | None
) -> Iterator[tuple[Table, LedgerClaim]]:
    """The rows, and the claim that pays for looking at them: what of it is not consumed in the end is given back."""
    key = f"synthesis {secrets.token_hex(8)}"
    with ExitStack() as ending:
        if stream is None:
            block = block_of(ledger, dataset)
            table = opened()
            ending.callback(table.close)  # type: ignore[attr-defined]
            claim = ledger.reserve(
                [block.name],
                loss=price,
                purpose=PURPOSE,
                spender=SPENDER,
                key=key,
                unit=block.unit,
                adjacency=block.adjacency,
            )
            ending.callback(lambda: claim.release() if claim.state.open else None)
        else:
            if stream.terms.separate:
                raise Mistake("NAME", "has a budget for each of those who ask; synthetic rows need a data set with one")
            names = [block.name for block in stream.offered(loss=price)]
            if not names:
                raise Refusal("no block of this data set can pay for this now: it is not over yet, or has too little")
            claim = stream.reserve(names, loss=price, purpose=PURPOSE, spender=SPENDER, key=key)
            ending.callback(lambda: claim.release() if claim.state.open else None)
            table = stream.rows(stream.named(claim))
            ending.callback(table.close)
        yield table, claim


def _pay(claim: LedgerClaim) -> None:
    claim.consume(part="all of it")


def as_frame(columns: Mapping[str, NDArray[Any]], dataset: DataSet) -> Any:
    """Rows as a data frame with the types that the schema declares; what is missing is missing."""
    from thebes.data.engines.frames import frame_of

    return frame_of(dataset.schema, columns)
