"""How many rows there are in each cell of each column, with noise: all that made-up rows are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from thebes.curator.cache.cuts import Cut
from thebes.curator.cache.purchase import Purchase
from thebes.curator.cache.smart.parameters import Parameters
from thebes.data.schema import Schema
from thebes.data.table import Sums, Table, Term
from thebes.privacy.faults import Mistake
from thebes.privacy.measurement import Floats
from thebes.privacy.mechanisms.additive import Additive, LeastNoise
from thebes.privacy.mechanisms.histogram import on_simplex
from thebes.privacy.randomness import Randomness
from thebes.privacy.stability import Sensitivity


@dataclass(frozen=True, slots=True)
class Marginals:
    """Noised counts, column after column. Columns were not counted together: nothing says how they hang together."""

    counts: tuple[Floats, ...]

    @property
    def size(self) -> float:
        """How many rows there are, at least 1: every column counts them all, one with fewer cells more exactly."""
        weights = np.array([1 / column.size for column in self.counts])
        sums = np.array([column.sum() for column in self.counts])
        return max(1.0, float(weights @ sums / weights.sum()))

    @property
    def shares(self) -> tuple[Floats, ...]:
        """The nearest distribution to each column's counts."""
        return tuple(on_simplex(column / self.size, total=1.0) for column in self.counts)

    @classmethod
    def added(cls, parts: Iterable[Marginals]) -> Self:
        """Those of several blocks together."""
        return cls(tuple(np.sum(columns, axis=0) for columns in zip(*(part.counts for part in parts), strict=True)))


def priced(cuts: Sequence[Cut], schema: Schema, parameters: Parameters) -> tuple[Additive, Purchase]:
    """The noise on every count, and what all of them cost together.

    A row is in one cell of every column, and a unit has at most `max_rows_per_unit` rows in each column's counts:
    together they move by at most columns x rows in L1, and by rows x sqrt(columns) in L2.
    """
    rows = schema.max_rows_per_unit
    sensitivity = Sensitivity(len(cuts) * rows, len(cuts) * rows**2, sum(cut.count for cut in cuts))
    try:
        noise = LeastNoise(parameters.epsilon, parameters.delta).noise(sensitivity)
    except Mistake:
        raise Mistake("cache.epsilon", "is too small for this many columns and rows of one person") from None
    return noise, Purchase.of_noise(noise, epsilon=parameters.epsilon, delta=parameters.delta)


def bought(cuts: Sequence[Cut], table: Table, noise: Additive, randomness: Randomness) -> Marginals:
    """The marginals of a table's rows, which were paid for."""
    exact = [table.sums(Sums((Term(),), axes=(cut.axis,)))[:, 0] for cut in cuts]
    noisy = noise.add(np.concatenate(exact), randomness)
    ends = np.cumsum([cut.count for cut in cuts])[:-1]
    return Marginals(tuple(np.split(noisy, ends)))
