"""The recipe by which a distribution is learned from rows: which histograms are measured, which of them are chosen,
what that costs.

What must stay true: what is spent follows from the schema, the columns and the budget alone; it is charged before
anything is drawn; what comes after the noise looks at nothing but noisy histograms.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thebes.curator.cache.synthesis.allowance import SynthesisAllowance
from thebes.curator.cache.synthesis.domain import Domain, Measured, Places, Told, measured, quiet, sized
from thebes.curator.cache.synthesis.tree import Tree, Trees
from thebes.data.table import Table
from thebes.privacy.events import Composed, Event, Repeated
from thebes.privacy.measurement import Floats
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.mechanisms.exponential import exponential
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness

Integers = NDArray[np.int64]
Pay = Callable[[], None]

_RELATION = Adjacency.ADD_REMOVE_ONE
_THIRD = Fraction(1, 3)
MEAN_SIZE = math.sqrt(2 / math.pi)  #: of Gaussian noise, in deviations


class RowDistribution(Protocol):
    """The distribution that rows are drawn from."""

    def rows(self, count: int, randomness: Randomness) -> Integers:
        """So many rows, as the number of each column's cell."""
        ...

    def dense(self) -> Floats:
        """The share of each cell of all columns together: only where there are few enough."""
        ...


@dataclass(frozen=True)
class LearnedDistribution:
    """A distribution over a domain, and what everybody may know of how it was found: about how many rows it was learned
    from, and by `parameters` which histograms with how much noise."""

    domain: Domain
    distribution: RowDistribution
    size: float
    parameters: dict[str, Any] = field(default_factory=dict)

    def drawn(self, count: int, randomness: Randomness) -> dict[str, NDArray[Any]]:
        """So many rows, by column. Drawing them tells no more than the distribution does."""
        return self.domain.drawn(self.distribution.rows(count, randomness), randomness)


class Recipe(ABC):
    """One way to learn the distribution of a domain's columns within a budget."""

    name: str

    def __init__(self, domain: Domain, allowance: SynthesisAllowance, *, told: Told = quiet) -> None:
        self.domain, self.allowance, self.told = domain, allowance, told

    @property
    @abstractmethod
    def event(self) -> Event:
        """All that it does to the rows; public, and within the budget."""

    @abstractmethod
    def histograms(self, table: Table, pay: Pay, randomness: Randomness) -> tuple[list[Measured], dict[str, Any]]:
        """All that is ever told of the rows: noisy histograms, and what a certificate says about them. `pay` charges
        the event durably and comes before any noise is drawn."""

    def learned(self, table: Table, pay: Pay, randomness: Randomness) -> LearnedDistribution:
        """The distribution that agrees best with them."""
        found, told = self.histograms(table, pay, randomness)
        return LearnedDistribution(self.domain, Tree.fit(self.domain.shape, found), sized(found), told)

    def _noise(self, share: Fraction, chosen: Sequence[Places]) -> Additive:
        transformation = self.domain.transformation(chosen)
        return self.allowance.measuring(share, transformation.sensitivity(self.domain.schema.change))

    def _measured(
        self, table: Table, chosen: Sequence[Places], noise: Additive, randomness: Randomness
    ) -> list[Measured]:
        exact = list(self.domain.histograms(table, chosen, self.told))
        return measured(self.domain, exact, noise, randomness)

    def _named(self, chosen: Sequence[Places]) -> list[list[str]]:
        return [[self.domain.names[place] for place in places] for places in chosen]


class Independent(Recipe):
    """Every column by itself: one noisy histogram of each, together one release (`MarginalCounts`). What columns have
    to do with each other is lost."""

    name = "independent"

    @property
    def event(self) -> Event:
        return self.allowance.within(self._noise(Fraction(1), self.domain.singles).event)

    def histograms(self, table: Table, pay: Pay, randomness: Randomness) -> tuple[list[Measured], dict[str, Any]]:
        noise = self._noise(Fraction(1), self.domain.singles)
        self.allowance.within(noise.event)
        pay()
        singles = self._measured(table, self.domain.singles, noise, randomness)
        return singles, {"noise": noise.kind, "scale": noise.scale}


class SpanningTree(Recipe):
    """Columns in a tree, each pair in it by a noisy histogram: MST (McKenna, Miklau & Sheldon 2021, "Winning the NIST
    contest"), with the size of the noise taken off a pair's score as in AIM.

    A third of the budget measures every column by itself. A third chooses pairs one after another by the exponential
    mechanism, each among those that join two trees. A pair's utility is how far its exact counts are, in L1, from what
    the two columns by themselves say (whole numbers, made of noisy ones before), less the size that noise would have: a
    unit with r rows moves the counts by r in L1, so by the triangle inequality any utility by r. The last third
    measures the pairs that were chosen, together. All three compose; how many pairs there are follows from the domain.
    """

    name = "mst"

    @cached_property
    def edges(self) -> int:
        """The number of pairs that a forest of all columns has, as far as histograms of two are not too large."""
        trees = Trees(len(self.domain.shape))
        return sum(trees.join(*pair) for pair in self.domain.pairs)

    @property
    def event(self) -> Event:
        if not self.edges:
            return Independent(self.domain, self.allowance).event
        single = self._noise(_THIRD, self.domain.singles).event
        choices = Repeated(self.allowance.choosing(_THIRD, self.edges), self.edges)
        pair = self._noise(_THIRD, self.domain.pairs[: self.edges]).event
        return self.allowance.within(Composed((single, choices, pair)))

    def histograms(self, table: Table, pay: Pay, randomness: Randomness) -> tuple[list[Measured], dict[str, Any]]:
        if not self.edges:
            return Independent(self.domain, self.allowance).histograms(table, pay, randomness)
        self.allowance.within(self.event)
        single, pair = (self._noise(_THIRD, some) for some in (self.domain.singles, self.domain.pairs[: self.edges]))
        pay()
        singles = self._measured(table, self.domain.singles, single, randomness)
        alone = Tree.fit(self.domain.shape, singles)
        exact = self.domain.histograms(table, self.domain.pairs, self.told)
        chosen = self._chosen(self.utilities(exact, alone, sized(singles), pair.deviation), randomness)
        pairs = self._measured(table, chosen, pair, randomness)
        told = {"noise": pair.kind, "scale": single.scale, "scale_of_pairs": pair.scale, "pairs": self._named(chosen)}
        return [*singles, *pairs], told

    def utilities(
        self, exact: Iterable[tuple[Places, Integers]], alone: Tree, size: float, deviation: float
    ) -> dict[Places, int]:
        """Return how much each pair's exact counts would tell beyond noise of this deviation. SECRET."""
        found: dict[Places, int] = {}
        for (first, second), counts in exact:
            guess = np.rint(size * np.outer(alone.shares[first], alone.shares[second])).astype(np.int64)
            found[first, second] = int(np.abs(counts - guess).sum()) - round(MEAN_SIZE * deviation * counts.size)
        return found

    def _chosen(self, utilities: Mapping[Places, int], randomness: Randomness) -> list[Places]:
        """The pairs of a forest, by the exponential mechanism one after another."""
        trees, found = Trees(len(self.domain.shape)), list[Places]()
        choice = self.allowance.choosing(_THIRD, self.edges)
        pairs, useful = np.array(list(utilities)), np.array(list(utilities.values()), dtype=np.int64)
        for turn in range(self.edges):
            self.told(f"choosing pair {turn + 1} of {self.edges}")
            apart = np.flatnonzero(trees.apart(pairs))
            taken = exponential(
                useful[apart],
                sensitivity=self.domain.schema.change.rows,
                epsilon=choice.epsilon,
                adjacency=_RELATION,
                randomness=randomness,
            ).value
            first, second = pairs[apart[taken]].tolist()
            found.append((first, second))
            trees.join(first, second)
        return sorted(found)
