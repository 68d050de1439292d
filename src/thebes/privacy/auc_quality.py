"""The figure of a classifier of two classes by the order of its scores: the area under the curve (AUC), which is the
chance that of two rows, one of either class, that of the second has the higher score; ties count half."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy import quality
from thebes.privacy.faults import Mistake
from thebes.privacy.measurement import Interval
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.model_quality import CLAIM, LEVEL, NO_BETTER, Quality, ends, verdict_of

#: Edges between bins of the log-odds that a model gives the second class: public, so nothing of the rows is in them.
EDGES = (-5.0, -3.0, -2.0, -1.5, -1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
BINS = len(EDGES) + 1


def bins_of(log_odds: ArrayLike) -> NDArray[np.int64]:
    """Return the bin of each score."""
    return np.searchsorted(np.array(EDGES), np.asarray(log_odds, dtype=np.float64)).astype(np.int64)


def of_bins(table: ArrayLike, noise: Additive, *, share: float | None, epsilon: float, of: str) -> Quality:
    """Read the figure off the noisy table class x bin of scores, of rows that the model was not made from. Each cell
    has independent Laplace `noise`; a row is in one cell, so the table costs what that of right and wrong does.

    With n0 and n1 the counts of both classes by bin, m0 and m1 their sums, and K[b, c] half the sign of b - c, the area
    over these rows is 1/2 + n1 K n0 / (m0 m1).

    *Noise.* Of the noisy counts n + e, (n1 + e1) K (n0 + e0) = n1 K n0 + e1 K (n0 + e0) + n1 K e0. The second term
    is, whatever e0 is, a sum of independent noises with known weights; the third one with weights of at most m1 / 2. By
    Markov's inequality a weighted sum of Laplace noises of scale b passes x with a chance of at most the product of
    1 / (1 - (b t w)^2) over weights w, times exp(-t x), for every t; that grows with each |w|, and Laplace noise
    on a grid has no larger moments (sinh u / sinh v <= u / v for u <= v). Sums m0 and m1 lie within their ends.

    *Rows.* Given the classes, the area is the mean of a value from 0 to 1 over pairs of rows, one of either class.
    It is an average over orders of the rows, each the mean of k = min(m0, m1) independent pairs, so by Jensen's
    inequality Chernoff's bound holds for it with k draws (Hoeffding 1963, section 5).

    An end fails in half of its chance for the rows, and in a twelfth for each of both terms and of the four ends of m0
    and m1. The model is better than guessing, which reaches 1/2, if the end below passes that but for `CLAIM`.
    """
    cells = np.asarray(table, dtype=np.float64)
    if cells.shape != (2, BINS) or not np.isfinite(cells).all():
        raise Mistake("table", f"must have {BINS} finite numbers for each of two classes")
    low, high = _ends(cells, noise, (1 - LEVEL) / 2)
    least, most = _ends(cells, noise, CLAIM)[0], _ends(cells, noise, NO_BETTER)[1]
    zero, one = np.maximum(cells.sum(axis=1), 1.0)
    value = 0.5 + float(cells[1] @ _half_signs() @ cells[0]) / (zero * one)
    return Quality(
        metric="auc",
        value=float(np.clip(value, low, high)),
        interval=Interval(LEVEL, low, high),
        guessing=0.5,
        verdict=verdict_of(least - 0.5, most - 0.5),
        people=max(0, round(float(cells.sum()))),
        share=share,
        epsilon=epsilon,
        of=of,
    )


def _half_signs() -> Any:
    return np.sign(np.subtract.outer(np.arange(BINS), np.arange(BINS))) / 2


def _ends(cells: Any, noise: Additive, failing: float) -> tuple[float, float]:
    """(least, most) that the area over everybody may be, each wrong with odds of `failing`."""
    each = failing / 12
    (least_zero, most_zero), (least_one, most_one) = (ends(float(row.sum()), noise, BINS, each) for row in cells)
    pairs = min(least_zero, least_one)
    if pairs < 1:
        return 0.0, 1.0
    weights = _half_signs() @ cells[0]
    off = _farthest(weights, noise, each) + _farthest(np.full(BINS, most_one / 2), noise, each)
    found = float(cells[1] @ weights)

    def area(numerator: float, farther: bool) -> float:
        """The area over these rows, at the least number of pairs where that is farther from 1/2."""
        held = least_zero * least_one if farther else most_zero * most_one
        return min(max(0.5 + numerator / held, 0.0), 1.0)

    low, high = area(found - off, found < off), area(found + off, found > -off)
    return (
        quality.chernoff_below(low * pairs, (1 - low) * pairs, failing / 2),
        quality.chernoff(high * pairs, (1 - high) * pairs, failing / 2),
    )


def _farthest(weights: Any, noise: Additive, failing: float) -> float:
    """Return what a sum of independent noises with these weights passes with odds of at most `failing`."""
    largest = float(np.abs(weights).max())
    if largest == 0:
        return 0.0
    scale = noise.drawn_scale / noise.finer
    part = np.linspace(0.01, 0.999, 200)  # of where moments end; every one of them is a bound
    moments = -np.log1p(-np.square(np.outer(part, weights / largest))).sum(axis=1)
    return float(((moments + math.log(1 / failing)) / part).min()) * scale * largest
