"""The histograms that a synopsis begins with: the distribution of a data set's rows, from noisy histograms of each of
its blocks.

What must stay true: it is bought once for each block, paid before any of its rows is read, and public from then on;
everything that is made of it is post-processing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256

import numpy as np

from thebes.curator.cache.purchase import Purchase
from thebes.curator.cache.synopsis import Pay, SynopsisPart, View, ViewRows
from thebes.curator.cache.synthesis.allowance import SynthesisAllowance
from thebes.curator.cache.synthesis.domain import Domain, Measured, Places, sized
from thebes.curator.cache.synthesis.recipe import Independent, Recipe, SpanningTree
from thebes.curator.cache.synthesis.tree import Tree, Trees
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import Randomness

SOURCES: Mapping[str, type[Recipe]] = {made.name: made for made in (Independent, SpanningTree)}
_PIECE = "groundwork "
WHOLE = ""  #: the one block of a data set that does not grow


@dataclass(frozen=True, slots=True)
class _Block:
    """The purchase about one block: its histograms, and a public number from which chance may start."""

    histograms: tuple[Measured, ...]
    seed: int


class Groundwork:
    """One data set's, of the columns of a domain. `source` is the recipe by which histograms are chosen; they cost
    `epsilon` and `delta`, once for each block."""

    def __init__(self, domain: Domain, *, source: str, epsilon: Decimal, delta: Decimal) -> None:
        self.domain = domain
        self.recipe = SOURCES[source](domain, SynthesisAllowance(epsilon, delta))
        try:
            self.purchase = Purchase(self.recipe.event, self.recipe.allowance.epsilon, self.recipe.allowance.delta)
        except Mistake:
            raise Mistake("cache.epsilon", "is too small for this many columns and rows of one person") from None
        self._blocks: dict[str, _Block] = {}
        self._changed: set[str] = set()
        self._fitted: tuple[View, Tree] | None = None

    def lacking(self, view: View) -> View:
        """The blocks of which nothing was bought yet."""
        return tuple(block for block in view or (WHOLE,) if block not in self._blocks)

    def held(self, view: View) -> View:
        """The blocks of which something was."""
        return tuple(block for block in view or (WHOLE,) if block in self._blocks)

    @property
    def blocks(self) -> View:
        """All of which something was bought."""
        return tuple(self._blocks)

    def buy(self, rows: ViewRows, pay: Pay, randomness: Randomness) -> None:
        """The histograms of the blocks that have none; blocks have no rows in common, so those of several cost as much
        as of one."""
        unpaid = True

        def once() -> None:
            nonlocal unpaid
            if unpaid:
                pay(self.purchase)
            unpaid = False

        for block in self.lacking(rows.view):
            once()
            table = rows.table((block,) if rows.view else None)
            seed = int(randomness.below(2**62, 1)[0])
            histograms, _ = self.recipe.histograms(table, once, randomness)
            self._blocks[block] = _Block(tuple(histograms), seed)
            self._changed.add(block)

    # --- what it says -----------------------------------------------------------------------------------------

    def tree(self, blocks: View) -> Tree:
        """The distribution of the rows of some blocks of which it was bought."""
        if self._fitted is None or self._fitted[0] != blocks:
            self._fitted = blocks, Tree.fit(self.domain.shape, self._added(blocks))
        return self._fitted[1]

    def histograms(self, block: str) -> tuple[Measured, ...]:
        """Return what was bought of one block."""
        return self._blocks[block].histograms

    def size(self, blocks: View) -> float:
        """About how many rows these have; at least 1."""
        return sized(self._added(blocks))

    def seed(self, block: str) -> int:
        return self._blocks[block].seed

    @property
    def seeds(self) -> set[int]:
        return {held.seed for held in self._blocks.values()}

    def _added(self, blocks: View) -> list[Measured]:
        return added(len(self.domain.shape), [self._blocks[block].histograms for block in blocks or (WHOLE,)])

    # --- kept -------------------------------------------------------------------------------------------------

    def changed(self) -> dict[str, SynopsisPart]:
        """Return what was bought since the last call, as it is written."""
        told = {name: piece for name, piece in self.pieces().items() if piece.public["block"] in self._changed}
        self._changed.clear()
        return told

    def pieces(self) -> dict[str, SynopsisPart]:
        """All that was bought, as it is written."""
        told = {}
        for block, held in self._blocks.items():
            public = {
                "block": block,
                "seed": held.seed,
                "cells": self._cells,
                "places": [list(each.places) for each in held.histograms],
                "deviations": [each.deviation for each in held.histograms],
            }
            told[_PIECE + block] = SynopsisPart(public, {str(n): each.counts for n, each in enumerate(held.histograms)})
        return told

    def restore(self, pieces: Mapping[str, SynopsisPart]) -> None:
        """Histograms of other cells, or another recipe's, than are declared now are of no use, and are bought anew."""
        self._blocks, self._fitted = {}, None
        self._changed.clear()
        for name, piece in pieces.items():
            public = piece.public
            if not name.startswith(_PIECE) or public["cells"] != self._cells:
                continue
            said = enumerate(zip(public["places"], public["deviations"], strict=True))
            histograms = [Measured(tuple(at), np.array(piece.arrays[str(n)], np.float64), off) for n, (at, off) in said]
            self._blocks[public["block"]] = _Block(tuple(histograms), int(public["seed"]))

    @property
    def _cells(self) -> str:
        """The name that says which histograms of which cells these are."""
        said = self.recipe.name, [(cut.name, cut.axis) for cut in self.domain.cuts]
        return sha256(repr(said).encode()).hexdigest()[:32]


def added(columns: int, parts: Sequence[Iterable[Measured]]) -> list[Measured]:
    """Histograms of several tables as those of one with all of their rows.

    Of each table every column was measured, and some pairs. A pair's histograms are added up, and scaled by sizes from
    the tables in which it was measured to all; where pairs of different tables do not make a forest, those behind which
    there are most rows do."""
    if len(parts) == 1:
        return list(parts[0])
    tables = [list(part) for part in parts]
    sizes = [sized(table) for table in tables]
    behind: dict[Places, float] = {}
    for table, size in zip(tables, sizes, strict=True):
        for each in table:
            behind[each.places] = behind.get(each.places, 0.0) + size
    trees, found = Trees(columns), list[Measured]()
    for places in sorted(behind, key=lambda at: (len(at), -behind[at], at)):
        if len(places) == 1 or trees.join(places[0], places[1]):
            own = [each for table in tables for each in table if each.places == places]
            scale = sum(sizes) / behind[places]
            counts = np.sum([each.counts for each in own], axis=0) * scale
            spread = float(np.sqrt(sum(each.deviation**2 for each in own))) * scale
            found.append(Measured(places, counts, spread))
    return found
