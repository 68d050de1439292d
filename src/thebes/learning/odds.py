"""Two classes told apart by categories: how each value changes the odds, then how much each column is to be believed.

Two fifths of the budget (as 1 / ratio^2) buy one histogram for each column and class; every value becomes the logarithm
of what it does to the odds, and a column is then one number. Columns say much the same, so what they say together is
off: two more fifths buy how far, as a sum over each value's rows, and mend every value by it. The last fifth goes down
the logistic loss on these numbers, of which there are as many as columns, however many values they have.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thebes.learning.budget import FitBudget, Noisy, Reach
from thebes.learning.descent import Descent, descend
from thebes.learning.features import Features
from thebes.learning.rows import blocks, scores, shortened
from thebes.privacy.faults import Mistake

Floats = NDArray[np.float64]
Places = NDArray[np.int16]

_HISTOGRAMS, _MENDING = Fraction(2, 5), Fraction(2, 5)
_FARTHEST = 3.0  #: of log-odds
_BELIEVED = 0.3  #: of every column before anything is known: what they say overlaps
_LENGTH = 1.2  #: a row's greatest length over what rows usually have
STEPS = 80  #: of the descent
_PENALTY = 1e-3
_RATE, _CLIP = 2.0, 0.5
_PARTS = 10 * 2**16  #: a row's residual is a whole number of these
_CUT = 7 * 2**16  #: and at most so many
_SPREAD = 0.15  #: by how much values are usually off, in log-odds
_STEP = 2.5  #: over the square root of how many columns there are: all are mended at once
#: Counts are pulled toward the classes' own share as if so many deviations of the noise had been seen of it.
_DOUBT = 6.0


@dataclass(frozen=True, slots=True)
class OddsModel:
    """`tables` holds for each piece of the features what every cell of it does to the odds; `weights` how much each
    piece is believed; rows of these are at most `length` long. Says the odds of the second class as a probability."""

    features: Features
    tables: tuple[Floats, ...]
    weights: Floats
    intercept: float
    length: float

    def predict(self, rows: Any) -> Floats:
        """Predict how likely the second class is for the rows of a table, or as a batch has them (the features'
        `columns` in order)."""
        said = _numbers(self.features.cells(self.features.batch(rows)), self.tables, self.length)
        logit = np.clip(said[:, :-1] @ self.weights + self.intercept, -700, 700)
        return np.asarray(1 / (1 + np.exp(-logit)))

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": "OddsModel",
            "features": self.features.as_json(),
            "tables": [table.tolist() for table in self.tables],
            "weights": self.weights.tolist(),
            "intercept": self.intercept,
            "length": self.length,
        }

    @classmethod
    def of_json(cls, told: Any) -> Self:
        """Read what `as_json` gave; a Mistake where it is something else."""
        features = Features.of_json(told.get("features"))
        try:
            tables = tuple(np.array(table, dtype=np.float64) for table in told["tables"])
            weights = np.array(told["weights"], dtype=np.float64)
            intercept, length = float(told["intercept"]), float(told["length"])
        except (KeyError, TypeError, ValueError):
            raise Mistake("model", "is not as Thebes writes it") from None
        shapes = [(piece.cell_count,) for piece in features.pieces]
        numbers = np.concatenate([weights, [intercept, length], *tables])
        if [table.shape for table in tables] != shapes or weights.shape != (len(shapes),):
            raise Mistake("model", "has tables or weights that do not fit its features")
        if not np.isfinite(numbers).all() or length <= 0:
            raise Mistake("model", "must hold finite numbers")
        return cls(features, tables, weights, intercept, length)


def fitted(
    features: Features,
    batches: Iterable[tuple[Floats, Floats]],
    *,
    count: float,
    budget: FitBudget,
    steps: int = STEPS,
) -> OddsModel:
    """Learn from batches of (rows as a batch has them, the number of each one's class: 0 or 1); `count` is public.

    Reach of the histograms: a row adds 1 to one cell of one class for every piece, so it is the square root of their
    number long; another row differs in twice as many cells at most. Of the mending: see `_mended`. Of the descent: see
    `descend`. A row is kept as one small number for each piece.
    """
    kept, labels = [], []
    for rows, classes in batches:
        kept.append(features.cells(rows))
        labels.append(classes.astype(np.int8))
    cells: Places = np.concatenate(kept) if kept else np.zeros((0, len(features.pieces)), dtype=np.int16)
    truth = np.concatenate(labels) if labels else np.zeros(0, dtype=np.int8)
    pieces = len(features.pieces)
    released = budget.gaussian_counts(
        _counts(features, cells, truth),
        reach=Reach(math.sqrt(pieces), math.sqrt(2 * pieces)),
        share=_HISTOGRAMS,
    )
    tables, base = _tables(features, released), _base(features, released)
    tables = _mended(features, cells, truth, tables, base, released, budget)
    length = _length(features, tables, released)
    start = np.full((pieces + 1, 1), _BELIEVED)
    start[-1] = base
    plan = Descent(steps=steps, rate=_RATE, clip=_CLIP * length, length=length, penalty=_PENALTY, tail=0.5)
    weights = descend(
        cells,
        truth,
        _residual,
        1,
        plan=plan,
        count=count,
        budget=budget,
        share=1 - _HISTOGRAMS - _MENDING,
        seen=lambda part: _numbers(part, tables, length),
        start=start,
    )[:, 0]
    return OddsModel(features, tables, weights[:-1], float(weights[-1]), length)


def _counts(features: Features, cells: Places, truth: NDArray[np.int8]) -> NDArray[np.int64]:
    """Rows by piece, cell and class; what has no cell is left out."""
    found = []
    for place, piece in enumerate(features.pieces):
        own, there = cells[:, place].astype(np.int64), cells[:, place] >= 0
        both = np.bincount(2 * own[there] + truth[there], minlength=2 * piece.cell_count)
        found.append(both.astype(np.int64))
    return np.concatenate(found)


def _by_piece(features: Features, released: Noisy) -> list[Floats]:
    """Noisy counts, a line for each cell and a column for each class."""
    ends = np.cumsum([2 * piece.cell_count for piece in features.pieces])[:-1]
    return [part.reshape(-1, 2) for part in np.split(released.value, ends)]


def _base(features: Features, released: Noisy) -> float:
    """The log-odds of the second class among all rows, by all pieces together."""
    both = np.maximum(sum(part.sum(axis=0) for part in _by_piece(features, released)), 1.0)
    return float(np.clip(np.log(both[1] / both[0]), -_FARTHEST, _FARTHEST))


def _tables(features: Features, released: Noisy) -> tuple[Floats, ...]:
    """Return what every cell does to the odds."""
    base = _base(features, released)
    share = 1 / (1 + math.exp(-base))
    pull = _DOUBT * released.scale
    tables = []
    for part in _by_piece(features, released):
        seen = np.maximum(part, 0.0)
        odds = np.log((seen[:, 1] + pull * share) / (seen[:, 0] + pull * (1 - share))) - base
        tables.append(np.clip(odds, -_FARTHEST, _FARTHEST))
    return tuple(tables)


def _mended(
    features: Features,
    cells: Places,
    truth: NDArray[np.int8],
    tables: tuple[Floats, ...],
    base: float,
    released: Noisy,
    budget: FitBudget,
) -> tuple[Floats, ...]:
    """The tables, each cell moved by how many more of its rows are of the second class than all tables together say.

    Reach: a row adds one whole number, its residual cut at `_CUT`, to one cell of every piece; at worst another row
    has the opposite one in the same cells. A cell moves as far as Newton's step for it alone would, but for what
    noise may have made of it (its posterior mean, where cells are off by `_SPREAD`).
    """
    pieces = len(features.pieces)
    off = _off(features, cells, truth, tables, base, _length(features, tables, released))
    reach = Reach(_CUT * math.sqrt(pieces), 2 * _CUT * math.sqrt(pieces))
    noisy = budget.gaussian_counts(off, reach=reach, share=_MENDING)
    ends = np.cumsum([piece.cell_count for piece in features.pieces])[:-1]
    scale, step = noisy.scale / _PARTS, min(1.0, _STEP / math.sqrt(pieces))
    share = 1 / (1 + math.exp(-base))
    mended = []
    for table, part, own in zip(
        tables, _by_piece(features, released), np.split(noisy.value / _PARTS, ends), strict=True
    ):
        steep = np.maximum(part, 0.0).sum(axis=1) * share * (1 - share)
        own = own - steep * own.sum() / max(float(steep.sum()), 1.0)  # that all are off alike is the intercept's
        move = step * _SPREAD**2 * steep * own / ((_SPREAD * steep) ** 2 + scale**2 + steep)
        mended.append(np.clip(table + move / _BELIEVED, -_FARTHEST, _FARTHEST))
    return tuple(mended)


def _off(
    features: Features,
    cells: Places,
    truth: NDArray[np.int8],
    tables: tuple[Floats, ...],
    base: float,
    length: float,
) -> NDArray[np.int64]:
    """By piece and cell: the sum of its rows' residuals in `_PARTS`, where every table is believed alike."""
    weights = np.append(np.full(len(tables), _BELIEVED), base)[:, None]

    def residuals(part: Places, own: NDArray[np.int8]) -> Floats:
        said = scores(_numbers(part, tables, length), weights)
        return np.clip(np.rint(-_residual(said, own) * _PARTS), -_CUT, _CUT)

    found = [each[:, 0].astype(np.int64) for each in blocks(residuals, cells, truth)]
    residual = np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
    sums = []
    for place, piece in enumerate(features.pieces):
        own, there = np.zeros(piece.cell_count, dtype=np.int64), cells[:, place] >= 0
        np.add.at(own, cells[there, place], residual[there])
        sums.append(own)
    return np.concatenate(sums)


def _length(features: Features, tables: tuple[Floats, ...], released: Noisy) -> float:
    """The greatest length a row of these numbers is given: a little more than it usually has."""
    square = 0.0
    for table, part in zip(tables, _by_piece(features, released), strict=True):
        weight = np.maximum(part, 0.0).sum(axis=1)
        square += float(weight @ table**2) / max(float(weight.sum()), 1.0)
    return _LENGTH * math.sqrt(1.0 + square)


def _numbers(cells: Places, tables: tuple[Floats, ...], length: float) -> Floats:
    """Rows (what each piece's cell does to the odds, then 1), at most `length` long."""
    every = np.concatenate([part for table in tables for part in (np.zeros(1), table)])  # the first is for no cell
    starts = np.cumsum([1, *(len(table) + 1 for table in tables[:-1])])
    row = np.ones((len(cells), len(tables) + 1))
    row[:, :-1] = every[cells + starts]
    return shortened(row, length)


def _residual(logits: Floats, labels: NDArray[np.int8]) -> Floats:
    return 1 / (1 + np.exp(-np.clip(logits, -700, 700))) - labels[:, None]
