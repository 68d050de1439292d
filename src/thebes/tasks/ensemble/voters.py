"""From noisy histograms to members that vote: partition classifiers and their weights; and the labels' shares.

All of it is post-processing of what owners already perturbed, and costs nobody anything.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from thebes.privacy.distributions import student_quantile
from thebes.privacy.measurement import Interval
from thebes.privacy.mechanisms.histogram import on_simplex
from thebes.tasks.ensemble.ballot import Ballot
from thebes.tasks.ensemble.cells import SubsetCells
from thebes.tasks.ensemble.histogram import FOLDS, Floats, SupportHistogram
from thebes.tasks.ensemble.kind import EnsembleDocument
from thebes.tasks.ensemble.model import EnsembleMember

RARE = 1e-3  #: no base rate is taken to be lower, so that cutting at it stays possible


def base_rate(histograms: Sequence[SupportHistogram]) -> Floats:
    """The labels' shares over everybody who sent a report."""
    heard = [histogram for histogram in histograms if histogram.count]
    if not heard:
        size = histograms[0].cells.label.known
        return np.full(size, 1 / size)
    told = np.array([histogram.count for histogram in heard], dtype=np.float64)
    size = heard[0].cells.label.size
    each = np.array([h.shares().reshape(-1, size).sum(axis=0)[: h.cells.label.known] for h in heard])
    # a partition's own error grows with the cells its label's share is added up from
    weight = told / np.array([h.cells.size * h.noise() ** 2 / max(h.count, 1) + 0.25 for h in heard])
    together = np.maximum(on_simplex(np.average(each, axis=0, weights=weight), total=1.0), RARE)
    return np.asarray(together / together.sum())


def base_bars(packets: Sequence[Sequence[SupportHistogram]], level: float) -> tuple[Floats, Interval]:
    """The labels' shares with error bars, from the spread between folds and partitions: of noise and of who was asked.

    Packets of the same people are not independent, so the packets' variances are averaged, not divided.
    """
    centres, variances, least = [], [], 10**9
    for histograms in packets:
        each = np.concatenate([h.labels() for h in histograms if h.count])
        told = np.concatenate([h.told[h.told > 0] for h in histograms if h.count]).astype(np.float64)
        weight = told / told.sum()
        centre = weight @ each
        centres.append(centre)
        spread = weight @ (each - centre) ** 2 / max(1, len(each) - 1)
        variances.append(spread)
        least = min(least, len(each) - 1)
    centre = np.asarray(np.mean(centres, axis=0), dtype=np.float64)
    reach = student_quantile(max(1, least), (1 + level) / 2) * np.sqrt(np.mean(variances, axis=0))
    return centre, Interval(level, np.clip(centre - reach, 0, 1), np.clip(centre + reach, 0, 1))


# --- the vote of the paper ------------------------------------------------------------------------------------


def voter(document: EnsembleDocument, histogram: SupportHistogram, base: Floats) -> EnsembleMember:
    """A partition's classifier, weighted by its cross-validated score on the noisy data."""
    table = _probabilities(document, histogram.cells, histogram.table(), base)
    scores = []
    for fold in range(FOLDS):
        others = [other for other in range(FOLDS) if other != fold]
        if histogram.told[fold] and histogram.told[others].any():
            learned = _probabilities(document, histogram.cells, histogram.table(others), base)
            scores.append(score(document, learned, histogram.table([fold]), base))
    return EnsembleMember(histogram.cells, float(np.mean(scores)) if scores else 0.0, table)


def _probabilities(document: EnsembleDocument, cells: SubsetCells, counts: Floats, base: Floats) -> Floats:
    """A classifier's probabilities in each combination of bins, trained on the histogram itself: every cell is a row
    whose weight is its count ("sampled": as many rows as reports, drawn from the histogram, as in the paper)."""
    if document.training == "sampled" and counts.sum() > 0:
        seed = int.from_bytes(hashlib.sha256(document.digest.encode() + counts.tobytes()).digest()[:8], "big")
        draw = np.random.Generator(np.random.PCG64(seed))  # made-up rows from what is public, not noise
        drawn = draw.multinomial(round(counts.sum()), counts.ravel() / counts.sum())
        counts = drawn.reshape(counts.shape).astype(np.float64)
    places, labels = np.nonzero(counts > 0)
    if len(set(labels.tolist())) < 2:
        return np.tile(base if not len(labels) else np.eye(len(base))[labels[0]], (len(counts), 1))
    every = _one_hot(cells)
    fitted = _classifier(document.classifier, len(counts))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted.fit(every[places], labels, sample_weight=counts[places, labels])
    found = np.zeros((len(counts), len(base)))
    found[:, fitted.classes_] = fitted.predict_proba(every)
    return found


def _classifier(name: str, cells: int) -> Any:
    if name == "tree":
        from sklearn.tree import DecisionTreeClassifier

        return DecisionTreeClassifier(max_leaf_nodes=max(2, cells), random_state=0)
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(solver="newton-cholesky")  # a handful of steps on a handful of columns


def _one_hot(cells: SubsetCells) -> Floats:
    """Every combination of bins as indicator columns, each feature's first bin being the reference."""
    sizes = [cut.size for cut in cells.cuts]
    index = np.indices(sizes).reshape(len(sizes), -1)
    return np.column_stack([index[i][:, None] == np.arange(1, size) for i, size in enumerate(sizes)]).astype(float)


def score(document: EnsembleDocument, table: Floats, counts: Floats, base: Floats) -> float:
    """f1 of the rarer label (of several: their mean) for labels cut at the base rate, or AUC (one against the rest)."""
    wanted = [int(np.argmin(base))] if len(base) == 2 else list(range(len(base)))
    if document.score == "f1":
        votes = np.argmax(table / base, axis=1)
        return float(np.mean([_f1(votes == label, counts, label) for label in wanted]))
    return float(np.mean([_auc(table[:, label], counts, label) for label in wanted]))


def _f1(voted: Any, counts: Floats, label: int) -> float:
    hit = counts[voted, label].sum()
    named = counts[voted].sum() + counts[:, label].sum()
    return float(2 * hit / named) if named > 0 else 0.0


def _auc(score: Floats, counts: Floats, label: int) -> float:
    """The chance that somebody with the label scores higher than somebody without; ties count half."""
    with_, without = counts[:, label], counts.sum(axis=1) - counts[:, label]
    if with_.sum() <= 0 or without.sum() <= 0:
        return 0.5
    wins = (score[:, None] > score[None, :]) + 0.5 * (score[:, None] == score[None, :])
    return float(with_ @ wins @ without / (with_.sum() * without.sum()))


def ballots(members: Sequence[EnsembleMember], base: Floats) -> tuple[list[Ballot], list[int]]:
    """Every different ballot, and which of them each member casts: members that vote alike are scored as one."""
    found: dict[Ballot, int] = {}
    cast = []
    for member in members:
        votes = np.argmax(member.table / base, axis=1)
        cast.append(found.setdefault(Ballot(member.cells, tuple(votes.tolist())), len(found)))
    return list(found), cast


def rescored(
    document: EnsembleDocument, member: EnsembleMember, heard: SupportHistogram, base: Floats
) -> EnsembleMember:
    """A member with the score of its ballot by those who scored it; the one it had where nobody did."""
    if not heard.count:
        return member
    return replace(member, weight=score(document, np.eye(heard.cells.label.known), heard.table(), base))
