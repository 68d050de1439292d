"""The log-odds that a histogram adds to each label: of each of its features by itself, and of what they say only
together.

All of it is post-processing of what owners already perturbed, and costs nobody anything. A table is believed as far as
it says more than noise would: what noise and chance explain is taken off, so that a feature that tells nothing hardly
speaks, and a joint whose features tell nothing together adds up like single ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thebes.privacy.mechanisms.histogram import on_simplex
from thebes.tasks.ensemble.histogram import Floats, SupportHistogram
from thebes.tasks.ensemble.model import EnsembleMember

PSEUDO = 1.5  #: standard deviations of a cell's noise that are added to every cell before its odds are taken
LEAST = 0.3  #: of what single features say is believed however much of it noise could have made: it is noisy, too


@dataclass(frozen=True)
class OddsTable:
    """The table that `count` reports make: `shares` by (combination of bins, label), unbiased, of which the last column
    may be for missing labels; and in each row the standard deviation that `noise` left in a cell."""

    shares: Floats
    noise: Floats
    count: int
    labels: int

    def odds(self, expected: Floats, base: Floats) -> Floats:
        """Log-odds against the base rate. Noise is met by pseudo-counts in the `expected` shares of the labels in each
        row, so that a row about which nothing is known says what was expected."""
        counts = on_simplex(self.shares.ravel(), total=1.0).reshape(self.shares.shape)[:, : self.labels] * self.count
        added = PSEUDO * self.noise[:, None] * self.count + 0.5
        smoothed = counts + added * self.labels * expected
        return np.asarray(np.log(smoothed / smoothed.sum(axis=1, keepdims=True) / base))

    def belief(self, expected: Floats, freedom: int) -> float:
        """Return how much of the distance from `expected` is more than noise and chance make: 1 less their part in
        it."""
        told, many = self.shares[:, : self.labels], self.labels
        mass = told.sum(axis=1, keepdims=True)
        noise = (self.noise[:, None] ** 2) * ((1 - expected) ** 2 + (many - 1) * expected**2)
        chance = np.maximum(mass, 0) * expected * (1 - expected) / max(self.count, 1)
        seen = ((told - mass * expected) ** 2 / np.maximum(noise + chance, 1e-300)).sum() * (many - 1) / many
        return max(0.0, 1.0 - freedom * (many - 1) / seen) if seen > 0 else 0.0


def member(histogram: SupportHistogram, scouted: Sequence[SupportHistogram], base: Floats) -> EnsembleMember:
    """The log-odds of each combination of bins and label."""
    cells = histogram.cells
    sizes = [cut.size for cut in cells.cuts]
    alone = np.zeros((*sizes, len(base)))
    for place, size in enumerate(sizes):
        one = of_feature(histogram, place, scouted if len(sizes) == 1 else ())
        expected = np.tile(base, (size, 1))
        told = max(LEAST, one.belief(expected, size - 1)) * one.odds(expected, base)
        alone += told.reshape([size if axis == place else 1 for axis in range(len(sizes))] + [len(base)])
    table = alone.reshape(-1, len(base))
    if len(sizes) > 1:
        expected = base * np.exp(table - table.max(axis=1, keepdims=True))
        expected /= expected.sum(axis=1, keepdims=True)
        whole = of_all(histogram)
        together = whole.odds(expected, base) - np.log(expected / base)
        table = table + whole.belief(expected, len(table) - 1) * together
    return EnsembleMember(cells, 1.0, table)


def of_all(histogram: SupportHistogram) -> OddsTable:
    """The table of every combination of bins."""
    rows = histogram.cells.size // histogram.cells.label.size
    noise = histogram.noise() / max(histogram.count, 1)
    return OddsTable(histogram.shares().reshape(rows, -1), np.full(rows, noise), histogram.count, _labels(histogram))


def of_feature(histogram: SupportHistogram, place: int, scouted: Sequence[SupportHistogram] = ()) -> OddsTable:
    """The table of one of the features, added up over the others. What scouts said about it in these or finer bins
    counts too: of honest peers, they were others."""
    shape = histogram.cells.shape
    others = tuple(axis for axis in range(len(shape) - 1) if axis != place)
    shares = histogram.shares().reshape(shape).sum(axis=others)
    count, added = histogram.count, histogram.cells.size / shares.size
    variance = np.full(len(shares), added * (histogram.noise() / max(count, 1)) ** 2)
    for other in scouted:
        bins = other.cells.cuts[0].within(histogram.cells.cuts[place])
        if bins is None or not other.count:
            continue
        whole = count + other.count
        shares, variance = shares * (count / whole), variance * (count / whole) ** 2
        np.add.at(shares, bins, other.shares().reshape(len(bins), -1) * (other.count / whole))
        np.add.at(variance, bins, (other.noise() / whole) ** 2)
        count = whole
    return OddsTable(shares, np.sqrt(variance), count, _labels(histogram))


def _labels(histogram: SupportHistogram) -> int:
    return histogram.cells.label.known
