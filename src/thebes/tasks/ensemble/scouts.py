"""The choice of single features that the "odds" method asks about, where a document wants scouts: from what they said
privately.

Of each feature it is estimated how much it tells about the label, freed of what noise alone would seem to tell; bins
that tell the same are put together; and as many features are asked about as pay for sharing the peers among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from thebes.tasks.ensemble.cells import FeatureCut
from thebes.tasks.ensemble.histogram import Floats, SupportHistogram

ALIKE = 0.5  #: so many standard errors between two bins' labels do not tell them apart


def told_about_label(counts: Floats, noise: float) -> tuple[float, float]:
    """(association between bins and label, what noise alone would seem to make of it): phi squared, the sum over cells
    of (observed - independent)^2 / independent over the count, both of the same table of counts."""
    total = counts.sum()
    if total <= 0:
        return 0.0, 0.0
    independent = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total
    seen = independent > 0
    if not seen.any():
        return 0.0, 0.0
    association = ((counts - independent)[seen] ** 2 / independent[seen]).sum() / total
    # each cell's count has this variance from the noise, beside its own; below one noise's worth nothing is known
    floor = np.maximum(independent[seen], noise)
    alone = ((noise**2 + independent[seen]) / floor).sum() / total
    freedom = (counts.shape[0] - 1) * (counts.shape[1] - 1) / max(1, counts.size)
    return float(association), float(alone * freedom)


def chosen(histograms: Sequence[SupportHistogram], peers: int) -> list[FeatureCut]:
    """The cuts of the single features to ask `peers` about, most telling first; at least one."""
    cuts, tells, costs = [], [], []
    for histogram in histograms:
        cut, counts = merged(histogram)
        association, alone = told_about_label(counts, histogram.noise())
        cuts.append(cut)
        tells.append(max(0.0, association - alone))
        costs.append(alone * histogram.count)  # noise's share falls as one over the number of reports
    order = np.argsort(tells)[::-1]
    worth = []
    for number in range(1, len(order) + 1):
        each = peers / number
        worth.append(sum(max(0.0, tells[i] - costs[i] / each) for i in order[:number]))
    best = int(np.argmax(worth)) + 1
    return [cuts[i] for i in order[:best]]


def merged(histogram: SupportHistogram) -> tuple[FeatureCut, Floats]:
    """A feature's cut with bins put together that the scouts could not tell apart, and the counts that belong to it.

    Ranges keep the order of their bins; of sets any two groups may become one.
    """
    cut, counts = histogram.cells.cuts[0], histogram.table()
    ranged = bool(cut.thresholds)
    last = [counts.shape[0] - 1] if cut.bound.default is None else []  # what is missing stays by itself
    groups = [[i] for i in range(counts.shape[0]) if i not in last]
    noise = histogram.noise()

    def lines(pieces: Sequence[Sequence[int]]) -> Floats:
        return np.array([counts[list(piece)].sum(axis=0) for piece in pieces])

    while len(groups) > 2:
        pairs = [(i, j) for i in range(len(groups)) for j in range(i + 1, len(groups)) if not ranged or j == i + 1]
        gaps = [_apart(lines([groups[i], groups[j]]), noise, len(groups[i]), len(groups[j])) for i, j in pairs]
        nearest = int(np.argmin(gaps))
        if gaps[nearest] > ALIKE:
            break
        i, j = pairs[nearest]
        groups = [*(g for k, g in enumerate(groups) if k not in (i, j)), sorted(groups[i] + groups[j])]
        groups.sort()
    table = lines([*groups, *([i] for i in last)])
    if ranged:
        return replace(cut, thresholds=tuple(cut.thresholds[group[0] - 1] for group in groups[1:])), table
    return replace(cut, groups=tuple(tuple(i for b in g for i in cut.groups[b]) for g in groups)), table


def _apart(pair: Floats, noise: float, left: int, right: int) -> float:
    """Return how many standard errors the labels' shares of two bins lie apart."""
    sums = np.maximum(pair.sum(axis=1, keepdims=True), 1e-9)
    shares = pair / sums
    labels = pair.shape[1]
    pooled = pair.sum(axis=0) / pair.sum() if pair.sum() > 0 else np.full(labels, 1 / labels)
    own = pooled * (1 - pooled)
    size = np.array([left, right])
    error = (own / sums + (size * noise**2)[:, None] / np.maximum(sums, noise) ** 2).sum(axis=0)
    return float(np.sqrt((((shares[0] - shares[1]) ** 2) / np.maximum(error, 1e-12)).mean()))
