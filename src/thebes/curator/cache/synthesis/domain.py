"""The columns that synthetic rows have, each cut into cells."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.curator.cache.cuts import Cut, cuts_of, listable
from thebes.data.schema import Schema
from thebes.data.table import CelledTable, Sums, Table, Term
from thebes.privacy.measurement import Floats
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.randomness import Randomness
from thebes.privacy.transformations.counts import MarginalCounts

Integers = NDArray[np.int64]
Places = tuple[int, ...]  #: of columns, rising

Told = Callable[[str], None]  #: is told again and again what is being done, never anything of the rows

MOST_PAIR = 50_000  #: cells of a histogram of several columns
_HELD = 2**25  #: cells of histograms that are counted in one look at the rows


def quiet(_doing: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Domain:
    """Columns with declared values or bounds, in cells as `Cells` has them; here they may be many, because no histogram
    of all of them is ever made."""

    schema: Schema
    cuts: tuple[Cut, ...]

    @classmethod
    def of(
        cls,
        schema: Schema,
        columns: Sequence[str] | None = None,
        bins: Mapping[str, int | Sequence[float]] | None = None,
        *,
        missing: bool | Collection[str] = True,
    ) -> Domain:
        """These columns, by default all that have declared values or bounds."""
        cuts = cuts_of(schema, columns, bins, missing=missing)
        for cut in cuts:
            listable(cut.count)
        return cls(schema, cuts)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(cut.count for cut in self.cuts)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(cut.name for cut in self.cuts)

    def cells(self, places: Places) -> int:
        """Of a histogram of these columns."""
        return prod(self.shape[place] for place in places)

    @property
    def singles(self) -> list[Places]:
        return [(place,) for place in range(len(self.shape))]

    @cached_property
    def pairs(self) -> list[Places]:
        """Every two columns whose histogram is not too large."""
        return [pair for pair in combinations(range(len(self.shape)), 2) if self.cells(pair) <= MOST_PAIR]

    def counts(self, table: Table, places: Places) -> Integers:
        """Count the rows in each cell of these columns together. EXACT, to be hidden."""
        axes = tuple(self.cuts[place].axis for place in places)
        found = table.sums(Sums((Term(),), axes=axes))[:, 0]
        return found.reshape([self.shape[place] for place in places])

    def histograms(
        self, table: Table, chosen: Sequence[Places], told: Told = quiet
    ) -> Iterator[tuple[Places, Integers]]:
        """Count the rows for several histograms, in as few looks at the rows as their cells fit into memory. EXACT.

        Of a person with too many rows the same ones count in all histograms of a look: at most `max_rows_per_unit` in
        each, as when each is asked for by itself."""
        if len(chosen) < 2 or not isinstance(table, CelledTable):
            yield from ((places, self.counts(table, places)) for places in chosen)
            return
        for some in self._looks(chosen):
            yield from self._counted(table, some, told)

    def _looks(self, chosen: Sequence[Places]) -> Iterator[list[Places]]:
        """Part histograms so that their cells are few enough to be held at once."""
        some, held = list[Places](), 0
        for places in chosen:
            if some and held + self.cells(places) > _HELD:
                yield some
                some, held = [], 0
            some.append(places)
            held += self.cells(places)
        if some:
            yield some

    def _counted(self, table: CelledTable, chosen: Sequence[Places], told: Told) -> Iterator[tuple[Places, Integers]]:
        sizes = [count + (not cut.missing) for count, cut in zip(self.shape, self.cuts, strict=True)]  # one for nowhere
        asked = sorted({place for places in chosen for place in places})
        totals = [np.zeros(prod(sizes[place] for place in places), dtype=np.int64) for places in chosen]
        for rows in table.cells([self.cuts[place].axis for place in asked]):
            cells = {place: np.ascontiguousarray(rows[:, at]) for at, place in enumerate(asked)}
            for place, own in cells.items():
                own[own < 0] = self.shape[place]
            told(f"counting {len(chosen)} histograms")
            for total, places in zip(totals, chosen, strict=True):
                at = cells[places[0]]
                for place in places[1:]:
                    at = at * sizes[place] + cells[place]
                total += np.bincount(at, minlength=total.size)
        for total, places in zip(totals, chosen, strict=True):
            cube = total.reshape([sizes[place] for place in places])
            yield places, np.ascontiguousarray(cube[tuple(slice(self.shape[place]) for place in places)])

    def transformation(self, chosen: Sequence[Places]) -> MarginalCounts:
        """Return what has to be hidden of several histograms."""
        return MarginalCounts(tuple(self.cells(places) for places in chosen))

    def drawn(self, cells: Integers, randomness: Randomness) -> dict[str, NDArray[Any]]:
        """Columns of values for rows in these cells, one column of `cells` each; uniform within a bin."""
        return {cut.name: cut.drawn(own, randomness) for cut, own in zip(self.cuts, cells.T, strict=True)}


@dataclass(frozen=True)
class Measured:
    """A histogram of some columns as noise left it; `deviation` is that of the noise in one cell."""

    places: Places
    counts: Floats
    deviation: float


def measured(
    domain: Domain, exact: Sequence[tuple[Places, Integers]], noise: Additive, randomness: Randomness
) -> list[Measured]:
    """Histograms that are noised together; `noise` is that of their `transformation`."""
    together = noise.add(np.concatenate([counts.reshape(-1) for _, counts in exact]), randomness)
    found, start = [], 0
    for places, counts in exact:
        part = together[start : start + counts.size].reshape(counts.shape)
        found.append(Measured(places, part, noise.deviation))
        start += counts.size
    return found


def sized(histograms: Sequence[Measured]) -> float:
    """About how many rows there are: what the histograms' totals say together, each by its precision; at least 1."""
    weights = np.array([1 / (each.counts.size * each.deviation**2) for each in histograms])
    totals = np.array([each.counts.sum() for each in histograms])
    return max(1.0, float(weights @ totals / weights.sum()))
