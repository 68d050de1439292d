"""The test of a fitted model on rows that it was not made from: one noisy table, at the whole epsilon.

Must stay true: what a row adds to the table depends on that row and the released model alone, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.learning.budget import Floats
from thebes.learning.rows import blocks
from thebes.privacy import auc_quality, held_out
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.loss_quality import of_losses
from thebes.privacy.mechanisms.additive import Additive, Laplace
from thebes.privacy.model_quality import Quality, of_table
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness
from thebes.privacy.stability import Change, Transformation
from thebes.privacy.transformations.counts import HistogramCounts
from thebes.privacy.transformations.losses import LossBesideGuess

ROWS = "rows that it was not made from"


@dataclass(frozen=True, slots=True)
class TrialTerms:
    """The terms of one test: what each of its rows pays, against which change, and who they are."""

    epsilon: Decimal
    adjacency: Adjacency
    share: float | None
    randomness: Randomness
    of: str = ROWS

    def noise(self, sums: Transformation) -> Additive:
        """Return noise that hides a row in these sums."""
        return Laplace(self.epsilon).noise(sums.sensitivity(Change(self.adjacency)))


def metric_of(asked: Any, classes: int | None) -> str:
    """Judge how a model of so many classes (None: not known yet; 0: of numbers) is to be tested, and return the metric
    that was asked for by name, if any."""
    if isinstance(asked, bool):
        return ""
    if (asked, classes) in (("auc", None), ("auc", 2), ("r2", 0)):
        return str(asked)
    also = ', or "r2"' if classes == 0 else ', or "auc" for a classifier of two classes'
    raise Mistake("quality", f"must be True, to test the model on rows that are set aside for that{also}, or False")


def note(share: float, whom: str) -> str:
    """Say on a certificate that a part was set aside, and that this costs nobody more."""
    return (
        f"A coin set {figure(100 * share, 3)} % of the {whom} aside before anything was fitted, and the model was "
        "tested on these, with the same epsilon. Nobody is in both parts, so both together cost no more than either."
    )


def set_aside(rows: int, share: float, adjacency: Adjacency, randomness: Randomness) -> NDArray[np.bool_]:
    """Choose the rows that a model is tested on: this share of the places where their number is public, else by a coin
    of each one's own (`privacy.held_out`)."""
    if adjacency is Adjacency.REPLACE_ONE:
        return held_out.places(rows, share, randomness)
    return held_out.tossed(rows, randomness)


def of_labels(
    scores: Callable[[Floats], Floats],
    units: Floats,
    places: Floats,
    classes: int,
    terms: TrialTerms,
) -> Quality:
    """Test a classifier, which scores rows in [-1, 1], on true places among the classes. A row whose label is none of
    them (NaN) is in no cell. Pure epsilon: a row is in one cell at most, so replacing it moves two by 1 each."""
    told = ~np.isnan(places)
    said = _each(scores, units[told]).reshape(-1, classes).argmax(axis=1)
    label = places[told].astype(np.int64)
    counts = HistogramCounts(2 * classes)
    noise = terms.noise(counts)
    table = noise.add(counts.total(2 * label + (said != label)), terms.randomness).reshape(-1, 2)
    return of_table(table, noise, share=terms.share, epsilon=float(terms.epsilon), of=terms.of)


def of_ranks(
    scores: Callable[[Floats], Floats],
    units: Floats,
    places: Floats,
    terms: TrialTerms,
) -> Quality:
    """Test a classifier of two classes by the order of its scores, as `of_labels` does by what it tells right, and for
    the same price: a row is in one cell at most, of its class and the bin of its score."""
    told = ~np.isnan(places)
    odds = _each(scores, units[told]).reshape(-1, 2)
    counts = HistogramCounts(2 * auc_quality.BINS)
    noise = terms.noise(counts)
    cell = places[told].astype(np.int64) * auc_quality.BINS + auc_quality.bins_of(odds[:, 1] - odds[:, 0])
    table = noise.add(counts.total(cell), terms.randomness).reshape(2, -1)
    return auc_quality.of_bins(table, noise, share=terms.share, epsilon=float(terms.epsilon), of=terms.of)


def of_numbers(
    said: Callable[[Floats], Floats],
    units: Floats,
    targets: Floats,
    width: float,
    terms: TrialTerms,
    *,
    explained: bool = False,
) -> Quality:
    """Test a regression, which says a number in [-1, 1] of each row in [-1, 1], on true targets there. A row without a
    target (NaN) adds nothing. `width` is the range of the targets in their own unit; `explained` asks for R2 instead
    of the squared error. Pure epsilon, by the sensitivity of `LossBesideGuess`."""
    there = ~np.isnan(targets)
    guess = (np.clip(_each(said, units[there]).reshape(-1), -1, 1) + 1) / 2
    truth = (np.clip(targets[there], -1, 1) + 1) / 2
    sums = LossBesideGuess()
    noise = terms.noise(sums)
    cells = noise.add(sums.total(np.column_stack([np.square(truth - guess), truth])), terms.randomness)
    told: dict[str, Any] = {"share": terms.share, "epsilon": float(terms.epsilon), "of": terms.of}
    return of_losses(cells, noise, steps=sums.steps, width=width, explained=explained, **told)


def _each(of: Callable[[Floats], Floats], units: Floats) -> Any:
    """Apply a model to every row in a full lane (`learning.rows`)."""
    found = list(blocks(of, units))
    return np.concatenate(found) if found else np.empty(0)
