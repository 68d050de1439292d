"""A distribution in which every column depends on one other column at most: a tree, or several.

Everything here is made of histograms that noise was added to before: post-processing, whatever it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from thebes.curator.cache.synthesis.domain import Measured, sized
from thebes.privacy.measurement import Floats
from thebes.privacy.randomness import Randomness

Integers = NDArray[np.int64]

_TURNS = 200  #: in which a pair's table is brought to its columns' shares
_CLOSE = 1e-12
_BESIDE = 1e-6  #: of a table, so that no row or column of it is empty


@dataclass(frozen=True)
class Tree:
    """`shares` of each column's cells, and of the cells of each of the `edges` (two columns, rising): the shares of an
    edge's rows and columns are those of its two columns, so that all of it is one distribution, in which
    P(all) = product of the edges / product of each column to the power of its edges less one."""

    shares: tuple[Floats, ...]
    edges: tuple[tuple[int, int], ...]
    tables: tuple[Floats, ...]

    @classmethod
    def fit(cls, shape: tuple[int, ...], histograms: Sequence[Measured]) -> Tree:
        """The distribution that noisy histograms of single columns and of the edges of a forest say.

        What several histograms say about one column is joined by its precision and brought to the nearest shares (none
        below 0, together 1); a pair's table likewise, and then to the shares of its columns by proportional fitting."""
        size = sized(histograms)
        shares = tuple(nearest(_joined(place, histograms), size) for place in range(len(shape)))
        pairs = [each for each in histograms if len(each.places) == 2]
        tables = [_fitted(nearest(each.counts, size), shares, each.places) for each in pairs]
        return cls(shares, tuple((each.places[0], each.places[1]) for each in pairs), tuple(tables))

    @cached_property
    def order(self) -> list[tuple[int, int, Floats]]:
        """(column, the one it depends on or -1, its shares for each cell of that one), each after what it depends
        on."""
        found: list[tuple[int, int, Floats]] = []
        reached: set[int] = set()
        beside: dict[int, list[tuple[int, Floats]]] = {}
        for (first, second), table in zip(self.edges, self.tables, strict=True):
            beside.setdefault(first, []).append((second, table))
            beside.setdefault(second, []).append((first, table.T))
        for root in range(len(self.shares)):
            if root in reached:
                continue
            reached.add(root)
            found.append((root, -1, self.shares[root][None, :]))
            waiting = [root]
            while waiting:
                parent = waiting.pop()
                for child, given in beside.get(parent, []):
                    if child in reached:
                        continue
                    reached.add(child)
                    waiting.append(child)
                    found.append((child, parent, _conditional(given, self.shares[child])))
        return found

    def dense(self, places: Sequence[int] | None = None) -> Floats:
        """The share of each cell of these columns together, by default of all, in row-major order: only where there are
        few enough."""
        asked = list(range(len(self.shares)) if places is None else places)
        children: dict[int, list[tuple[int, Floats]]] = {}
        roots = []
        for child, parent, given in self.order:
            if parent < 0:
                roots.append(child)
            else:
                children.setdefault(parent, []).append((child, given))

        def below(column: int) -> tuple[list[int], Floats]:
            """Of a column and all that depends on it: which are asked, and their shares for each cell of the column."""
            names: list[int] = []
            shares = np.ones((self.shares[column].size, 1))
            for child, given in children.get(column, []):
                deeper, own = below(child)
                if child in asked:
                    deeper, own = [child, *deeper], (given[:, :, None] * own).reshape(len(given), -1)
                elif deeper:
                    own = given @ own
                else:
                    continue
                names, shares = names + deeper, (shares[:, :, None] * own[:, None, :]).reshape(len(given), -1)
            return names, shares

        order: list[int] = []
        found = np.ones(1)
        for root in roots:
            names, shares = below(root)
            if root in asked:
                names, shares = [root, *names], (self.shares[root][:, None] * shares).reshape(-1)
            else:
                shares = self.shares[root] @ shares
            order, found = order + names, np.multiply.outer(found, shares).reshape(-1)
        cube = found.reshape([self.shares[column].size for column in order])
        return cube.transpose([order.index(column) for column in asked]).reshape(-1)

    def rows(self, count: int, randomness: Randomness) -> Integers:
        """So many rows, as the number of each column's cell: as close to the shares as whole rows can be. Cell by cell
        of what a column depends on, its cells get their share of rows rounded down; what is left is drawn."""
        found = np.zeros((count, len(self.shares)), dtype=np.int64)
        for child, parent, given in self.order:
            before = np.zeros(count, dtype=np.int64) if parent < 0 else found[:, parent]
            for cell in np.unique(before):
                mine = np.flatnonzero(before == cell)
                cells = np.repeat(np.arange(given.shape[1]), _wholes(given[cell], mine.size, randomness))
                found[mine[randomness.permutation(mine.size)], child] = cells
        return found[randomness.permutation(count)]


class Trees:
    """The trees that columns are in: which columns are in one tree."""

    def __init__(self, columns: int) -> None:
        self._of = np.arange(columns)

    def apart(self, pairs: Integers) -> NDArray[np.bool_]:
        """Mark which of these pairs, one in each row, are in two trees."""
        return np.asarray(self._of[pairs[:, 0]] != self._of[pairs[:, 1]])

    def join(self, first: int, second: int) -> bool:
        """Put two columns into one tree; return whether they were in two trees."""
        one, other = self._of[first], self._of[second]
        self._of[self._of == other] = one
        return bool(one != other)


def nearest(counts: Floats, size: float) -> Floats:
    """The shares (none below 0, together 1) nearest to noisy counts of about `size` rows, by squared distance."""
    flat = counts.reshape(-1) / size
    falling = np.sort(flat)[::-1]
    above = (np.cumsum(falling) - 1) / np.arange(1, flat.size + 1)
    kept = int(np.flatnonzero(falling > above)[-1])
    shares = np.maximum(flat - above[kept], 0.0)
    return np.asarray((shares / shares.sum()).reshape(counts.shape))


def _joined(place: int, histograms: Sequence[Measured]) -> Floats:
    """Return what all histograms with a column say about it, weighed by their precision."""
    total: Floats | float = 0.0
    weights = 0.0
    for each in histograms:
        if place not in each.places:
            continue
        others = tuple(axis for axis, one in enumerate(each.places) if one != place)
        said = each.counts.sum(axis=others) if others else each.counts
        weight = 1 / (each.deviation**2 * each.counts.size / said.size)
        total, weights = total + weight * said, weights + weight
    return np.asarray(total / weights)


def _fitted(table: Floats, shares: Sequence[Floats], places: tuple[int, ...]) -> Floats:
    """A table of a pair with its columns' shares, by proportional fitting."""
    first, second = (shares[place] for place in places)
    table = (1 - _BESIDE) * table + _BESIDE * np.outer(first + _BESIDE, second + _BESIDE)
    for _ in range(_TURNS):
        table = table * _quotient(first, table.sum(axis=1))[:, None]
        short = _quotient(second, table.sum(axis=0))
        table = table * short[None, :]
        if np.abs(short - 1)[second > 0].max(initial=0.0) < _CLOSE:
            break
    return np.asarray(table)


def _conditional(table: Floats, shares: Floats) -> Floats:
    """A table's rows as shares; one that is empty, on which nothing will depend, has those of the column."""
    sums = table.sum(axis=1, keepdims=True)
    return np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), shares[None, :])


def _quotient(wanted: Floats, found: Floats) -> Floats:
    return np.divide(wanted, found, out=np.zeros_like(wanted), where=found > 0)


def _wholes(shares: Floats, count: int, randomness: Randomness) -> Integers:
    """`count` rows dealt out by shares: each gets its share rounded down, the rest is drawn by what is left of them."""
    wanted = shares / shares.sum() * count
    wholes: Integers = np.floor(wanted).astype(np.int64)
    left = count - int(wholes.sum())
    if left > 0:
        rest = np.cumsum(wanted - wholes)
        at = (randomness.below(2**53, left).astype(np.float64) / 2**53) * rest[-1]
        places = np.minimum(np.searchsorted(rest, at, side="right"), shares.size - 1)
        wholes += np.bincount(places, minlength=shares.size)
    return wholes
