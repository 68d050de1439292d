"""Made-up rows: several sets of them, each with weights of its own and a scale, that learn from released answers.

What must stay true: nothing here ever sees a row of anybody. Made from noised histograms, moved by released values
alone, everything in it is post-processing and public; chance enters through a seed that is public too, so that the
same releases give the same rows and the same weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from thebes.curator.cache.cuts import Cut
from thebes.curator.cache.smart.parameters import SmartParameters
from thebes.curator.cache.synthesis.tree import Tree
from thebes.curator.cache.vectors import Vectors
from thebes.curator.questions.plans import Plan
from thebes.privacy.distributions import normal_quantile
from thebes.privacy.measurement import Floats
from thebes.privacy.randomness import Randomness, seeded_for_simulation

Integers = NDArray[np.int64]

_FACTORS = 2  #: that columns have in common, by chance, in each set
_SCALE_RATE = 0.1  #: of a step, in which the scale moves
_STEADY = 3  #: epochs after which weights are brought back to the shares that were bought


@dataclass(frozen=True, slots=True)
class RowReading:
    """The part that every made-up row adds to a plan's totals: `values[p, i, k]` to the total number `places[p, i,
    k]`."""

    places: Integers
    values: Floats
    size: int
    span: float  #: the most that a row can add, in size


@dataclass(slots=True)
class MadeUp:
    """`codes[p, i, c]` is the cell of row i of set p in column c; weights have mean 1 in every set, and a row stands
    for `scale[p]` / rows times its weight of the rows there are."""

    cuts: tuple[Cut, ...]
    codes: NDArray[np.int32]
    weights: Floats
    scale: Floats
    size: float  #: of the data set, as it was bought
    tree: Tree  #: what was bought of how they are distributed

    @classmethod
    def of(cls, cuts: tuple[Cut, ...], tree: Tree, size: float, parameters: SmartParameters, seed: int) -> Self:
        """Rows whose columns, and pairs of columns that were measured, have the bought shares in every set, to within
        rounding. How other columns hang together differs from set to set by chance, so that sets agree about what was
        bought and, before they have learned, not about the rest."""
        chance = seeded_for_simulation(seed)
        codes = [_drawn(tree, parameters, chance) for _ in range(parameters.parts)]
        weights = np.ones((parameters.parts, parameters.rows))
        return cls(cuts, np.stack(codes), weights, np.full(parameters.parts, size), size, tree)

    def reads(self, plan: Plan) -> RowReading:
        """Return what the rows add to a plan that asks only columns with cells here. A row is judged by the middle of
        its bin."""
        vectors = Vectors.of(self.cuts, plan)
        at = tuple(
            self.codes[:, :, column] if cells > 1 else 0 for column, cells in enumerate(vectors.places.shape[1:])
        )
        shape = self.weights.shape
        places = [np.broadcast_to(each[at], shape) for each in vectors.places]
        values = [np.broadcast_to(each[at], shape) for each in vectors.weights]
        span = max(abs(vectors.low), abs(vectors.high), 1e-300)
        return RowReading(np.stack(places, axis=2), np.stack(values, axis=2), vectors.size, span)

    def answers(self, read: RowReading, parts: Sequence[int] | None = None) -> Floats:
        """The totals of every set, or of some."""
        some = list(range(len(self.weights)) if parts is None else parts)
        found = _summed(read.places[some], read.values[some] * self.weights[some][:, :, None], read.size)
        scaled: Floats = found * (self.scale[some] / self.weights.shape[1])[:, None]
        return scaled

    def learn(self, read: RowReading, released: Floats, parts: Sequence[int], parameters: SmartParameters) -> None:
        """Move weights and scale of some sets so that they answer what was released (the seed's algorithm 1, with
        released values only): `epochs` steps down the gradient of half the squared distance, of answers as shares of
        the most that all rows can add. Steps are `rate` times the longest that cannot overshoot."""
        some, rows = list(parts), self.weights.shape[1]
        places, values = read.places[some], read.values[some] / read.span
        target = np.asarray(released, dtype=np.float64) / (self.size * read.span)
        squares = _summed(places, values**2, read.size).max(axis=1)
        if not squares.any():  # no made-up row is asked about
            return
        flat = places + (np.arange(len(some)) * read.size)[:, None, None]
        for epoch in range(parameters.epochs):
            if epoch and epoch % _STEADY == 0:
                self.steadied(some)
            weights, factor = self.weights[some], self.scale[some] / self.size
            mean = _summed(places, values * weights[:, :, None], read.size) / rows
            off = factor[:, None] * mean - target
            # No second derivative along the weights is larger than `bend` (Gershgorin: as many entries as a row has
            # times the greatest squared length of a total).
            bend = (factor / rows) ** 2 * values.shape[2] * np.maximum(squares, 1e-300)
            slope = (values * off.reshape(-1)[flat]).sum(axis=2) * (factor / rows)[:, None]
            self.weights[some] = np.maximum(weights - parameters.rate * slope / bend[:, None], 0.0)
            along, length = (off * mean).sum(axis=1), np.maximum(1.0, (mean * mean).sum(axis=1))
            moved = factor - _SCALE_RATE * parameters.rate * along / length
            self.scale[some] = np.maximum(self.size * moved, 1.0)
        for part in some:
            self.normed(part)

    def steadied(self, parts: Sequence[int]) -> None:
        """Weights under which every column, or pair, has its bought shares again, one after another (iterative
        proportional fitting): what was bought stays true whatever is learned about the rest."""
        some, rows = list(parts), self.weights.shape[1]
        flat = self.codes[some].astype(np.int64)
        weights = self.weights[some]
        for columns, share in self._bought:
            cells = flat[:, :, columns[0]]
            for column in columns[1:]:
                cells = cells * self.cuts[column].count + flat[:, :, column]
            places = cells + (np.arange(len(some)) * share.size)[:, None]
            held = np.bincount(places.reshape(-1), weights=weights.reshape(-1), minlength=share.size * len(some))
            wanted = np.tile(share, len(some)) * rows
            factor = np.clip(wanted / np.maximum(held, 1e-9 * rows), 0.1, 10.0)
            weights = weights * factor[places]
        self.weights[some] = weights * (rows / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9))

    @property
    def _bought(self) -> list[tuple[tuple[int, ...], Floats]]:
        """The shares that were bought, pairs first: a column's shares are known better than those of a pair."""
        pairs = zip(self.tree.edges, self.tree.tables, strict=True)
        singles = ((place,) for place in range(len(self.cuts)))
        return [
            *((places, table.reshape(-1)) for places, table in pairs),
            *zip(singles, self.tree.shares, strict=True),
        ]

    def normed(self, part: int) -> None:
        """The same answers from weights of mean 1."""
        mean = float(self.weights[part].mean())
        if mean > 1e-12:
            self.weights[part] /= mean
            self.scale[part] *= mean
        else:  # nothing is left to weigh
            self.weights[part] = 1.0
            self.scale[part] = max(mean * self.scale[part], 1.0)


def chosen(seed: int, turn: int, parts: int, share: float) -> list[int]:
    """Choose which sets learn from an answer: a random part of them, decided by public things alone."""
    order = seeded_for_simulation((seed + turn) % 2**63).permutation(parts)
    return sorted(order[: max(1, round(share * parts))].tolist())


def _drawn(tree: Tree, parameters: SmartParameters, chance: Randomness) -> NDArray[np.int32]:
    """One set. Every column is cut out of the order of a latent number, so that its shares are as bought: among all
    rows, or among those that are alike in the column on which it depends. The latent numbers of different columns have
    chance factors in common."""
    rows, columns = parameters.rows, len(tree.shares)
    loads = _normals(chance, _FACTORS, columns) * (parameters.diversity / np.sqrt(_FACTORS))
    latent = _normals(chance, rows, columns) + _normals(chance, rows, _FACTORS) @ loads
    codes = np.empty((rows, columns), dtype=np.int32)
    for column, parent, given in tree.order:
        order = chance.permutation(given.shape[1])  # which cell comes first says nothing
        before = np.zeros(rows, dtype=np.int32) if parent < 0 else codes[:, parent]
        starts = np.full(len(given), 0.5) if parent < 0 else _uniform(chance, len(given))
        for cell in np.unique(before):
            mine = np.flatnonzero(before == cell)
            ranks = np.argsort(np.argsort(latent[mine, column], kind="stable"), kind="stable")
            place = (ranks + starts[cell]) / mine.size
            found = np.searchsorted(np.cumsum(given[cell][order]), place, side="right")
            codes[mine, column] = order[np.minimum(found, len(order) - 1)]
    return codes


def _normals(chance: Randomness, rows: int, columns: int) -> Floats:
    """Standard normal numbers: no noise, only made-up people."""
    return np.asarray(normal_quantile(_uniform(chance, rows * columns))).reshape(rows, columns)


def _uniform(chance: Randomness, count: int) -> Floats:
    """Between 0 and 1."""
    return np.asarray(((chance.words(count) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52)


def _summed(places: Integers, values: Floats, size: int) -> Floats:
    """Sum what the rows of each set add to each total."""
    sets = len(places)
    flat = places + (np.arange(sets) * size)[:, None, None]
    found = np.bincount(flat.reshape(-1), weights=values.reshape(-1), minlength=sets * size)
    return found.astype(np.float64).reshape(sets, size)
