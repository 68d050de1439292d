"""The noisy sizes of sealed blocks: each is bought once, in a claim of its own.

What must stay true: a size is charged before noise is drawn, and kept for ever once it is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from thebes.curator.streams.block_budgets import BlockBudgets
from thebes.curator.streams.user_counts import SPENDER, price_of
from thebes.data.growing.block_record import BlockRecord
from thebes.data.growing.manifest import Manifest
from thebes.data.schema import Schema
from thebes.ledger import Block, Ledger
from thebes.ledger.states import BlockState
from thebes.privacy.mechanisms.concentrated import noise_of
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import Randomness
from thebes.privacy.transformations.counts import Count


class BlockSizes:
    """Buys the sizes of one data set's blocks."""

    def __init__(self, name: str, schema: Schema, ledger: Ledger, manifest: Manifest, budgets: BlockBudgets) -> None:
        self._name, self._schema, self._ledger = name, schema, ledger
        self._manifest, self._budgets = manifest, budgets

    def buy(
        self,
        named: Callable[[BlockRecord], str],
        held_now: Callable[[], dict[str, Block]],
        randomness: Callable[[], Randomness],
    ) -> None:
        """The sizes of blocks that are sealed and have none: charged first, then drawn, then kept for ever. One that
        retired before it could pay never has a size."""
        unsized = self._manifest.unsized()
        held = held_now() if unsized else {}
        for purchase, sealed in unsized.items():
            key = f"size {self._name} {purchase}"
            claim = self._ledger.claimed(key)
            if claim is None:
                able = [name for name in map(named, sealed) if held[name].state is BlockState.OPEN]
                if not able:
                    continue
                claim = self._ledger.reserve(
                    able,
                    loss=self._budgets.size_price,
                    purpose="sizes of blocks",
                    spender=SPENDER,
                    key=key,
                    unit=Unit(self._schema.unit),
                    adjacency=Adjacency.ADD_REMOVE_ONE,
                )
            price = price_of(claim)
            claim.consume(loss=price, part="size")
            blocks = [kept for kept in sealed if named(kept) in claim.blocks]
            true = self._manifest.true_rows(kept.number for kept in blocks)
            totals = np.array([true[kept.number] for kept in blocks], dtype=np.int64)
            noise = noise_of(price).noise(Count().sensitivity(self._schema.change))
            noisy = noise.add(totals, randomness())
            sizes = {kept.number: round(float(size)) for kept, size in zip(blocks, noisy, strict=True)}
            self._manifest.keep_sizes(sizes)
