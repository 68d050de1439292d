"""In which direction a row would have a model change, and how badly the model fits it: row by row.

What must stay true: what is computed of a row depends on that row and the weights alone, bit for bit, whatever other
rows are there. A sensitivity per person rests on it, so there is no matrix product here (see `rows`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thebes.learning.rows import blocks, scores

Floats = NDArray[np.float64]


class Slopes(Protocol):
    """Gradients of one model's loss."""

    @property
    def count(self) -> int:
        """The number of weights that the model has."""
        ...

    def of(self, weights: Floats, inputs: Floats, targets: Floats) -> tuple[Floats, Floats]:
        """(one gradient for each row, one loss for each row); entries may be infinite or NaN. Nothing is clipped."""
        ...


def steepest(width: int, *, logistic: bool) -> float:
    """The greatest length (Frobenius) that the second derivatives of one row's loss have, inputs being in [-1, 1]."""
    return (width + 1) / (4 if logistic else 1)


def triangle(width: int) -> int:
    """Count the different second derivatives that a model of one score has."""
    return (width + 1) * (width + 2) // 2


def curvatures(inputs: Floats, weights: Floats, *, logistic: bool) -> Floats:
    """The second derivatives of each row's loss, for a model of one score: the upper triangle, row after row, what lies
    off the diagonal times sqrt 2, so that a line is as long as the matrix."""

    def build(rows: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            one = np.hstack([rows, np.ones((len(rows), 1))])
            steep = np.ones((len(rows), 1))
            if logistic:
                said = scores(rows, weights[:-1, None]) + weights[-1]
                likely = 1 / (1 + np.exp(-np.clip(said, -700, 700)))
                steep = likely * (1 - likely)
            first, second = np.triu_indices(one.shape[1])
            return steep * one[:, first] * one[:, second] * np.where(first == second, 1.0, np.sqrt(2.0))

    found = list(blocks(build, inputs))
    return np.concatenate(found) if found else np.zeros((0, triangle(inputs.shape[1])))


def squared(line: Floats) -> Floats:
    """The matrix of such a line."""
    size = (int(np.sqrt(8 * len(line) + 1)) - 1) // 2
    first, second = np.triu_indices(size)
    matrix = np.zeros((size, size))
    matrix[first, second] = line / np.where(first == second, 1.0, np.sqrt(2.0))
    return np.asarray(matrix + matrix.T - np.diag(np.diag(matrix)))


def linear_outputs(weights: Floats, inputs: Floats) -> Floats:
    """Return what a model of one score or more says of each row: the weights of an input after another's, the
    intercepts last."""
    columns = weights.reshape(inputs.shape[1] + 1, -1)
    found = list(blocks(lambda part: scores(part, columns[:-1]) + columns[-1], inputs))
    return np.concatenate(found) if found else np.zeros((0, columns.shape[1]))


class LinearSlopes:
    """Least squares: half the squared distance of inputs times weights, the last being the intercept, to the target."""

    def __init__(self, width: int) -> None:
        self.width = width

    @property
    def count(self) -> int:
        return self.width + 1

    def of(self, weights: Floats, inputs: Floats, targets: Floats) -> tuple[Floats, Floats]:
        columns = weights.reshape(self.width + 1, 1)

        def both(rows: Floats, truth: Floats) -> Floats:
            with np.errstate(over="ignore", invalid="ignore"):
                residual = scores(rows, columns[:-1]) + columns[-1] - truth[:, None]
                return np.hstack([residual * rows, residual, residual * residual / 2])

        return _apart(blocks(both, inputs, targets), self.count)


class LogisticSlopes:
    """Logistic regression over classes 0, 1, ...: of two, the score of class 1; of more, one score for each (softmax).

    The weights lie input after input, then the intercepts; of each, one for each score.
    """

    def __init__(self, width: int, classes: int) -> None:
        self.width, self.classes = width, classes
        self.scores = 1 if classes == 2 else classes

    @property
    def count(self) -> int:
        return (self.width + 1) * self.scores

    def of(self, weights: Floats, inputs: Floats, targets: Floats) -> tuple[Floats, Floats]:
        columns = weights.reshape(self.width + 1, self.scores)

        def both(rows: Floats, truth: Floats) -> Floats:
            with np.errstate(over="ignore", invalid="ignore"):
                said = scores(rows, columns[:-1]) + columns[-1]
                residual, loss = _binary(said, truth) if self.scores == 1 else _softmax(said, truth)
                pulled = (rows[:, :, None] * residual[:, None, :]).reshape(len(rows), -1)
                return np.hstack([pulled, residual, loss])

        return _apart(blocks(both, inputs, targets), self.count)


def _binary(said: Floats, truth: Floats) -> tuple[Floats, Floats]:
    likely = 1 / (1 + np.exp(-np.clip(said, -700, 700)))
    # ln(1 + e^s) - y s, written so that nothing overflows.
    loss = np.maximum(said, 0) + np.log1p(np.exp(-np.abs(said))) - truth[:, None] * said
    return likely - truth[:, None], loss


def _softmax(said: Floats, truth: Floats) -> tuple[Floats, Floats]:
    # Column by column, so that each row's sum has one fixed order.
    classes = said.shape[1]
    top, total = said[:, :1], np.zeros((len(said), 1))
    for j in range(1, classes):
        top = np.maximum(top, said[:, j : j + 1])
    odds = np.exp(np.maximum(said - top, -700))
    for j in range(classes):
        total += odds[:, j : j + 1]
    own = np.zeros((len(said), 1))
    for j in range(classes):
        own += np.where(truth[:, None] == j, said[:, j : j + 1] - top, 0.0)
    return odds / total - (truth[:, None] == np.arange(classes)), np.log(total) - own


def _apart(pieces: Iterable[Floats], count: int) -> tuple[Floats, Floats]:
    found = list(pieces)
    both = np.concatenate(found) if found else np.zeros((0, count + 1))
    return both[:, :-1], both[:, -1]
