"""Gradients of many rows at once, and what a model says of them, each as if its row were alone.

The last bits of a row's result follow from where in a batch the row lies, and a graph from a stranger can make any bit
weigh. One person more would then change everybody's gradient, and no clipping would bound that. So a batch here always
has the same shape, and a row's place in it follows from the row's own numbers: what is computed of a row is a function
of that row and the weights, as far as a kernel's work at one place does not depend on what lies at the others.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.learning.graph.document import GraphLoss, Model
from thebes.learning.graph.interpret import Floats, evaluate, shaped, spread, tensors
from thebes.learning.graph.steps import Steps
from thebes.learning.graph.weights import named

_MOST_LANES = 64
_FLOATS_OF_A_BATCH = 2**20
_KEPT = 8  #: documents whose steps are kept
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def lanes(model: Model, loss: GraphLoss) -> int:
    """Choose how many rows a batch has: few where one row alone keeps the machine busy."""
    return min(
        _MOST_LANES, max(1, _FLOATS_OF_A_BATCH // (model.activations + loss.activations + model.graph.parameter_count))
    )


def gradients_and_losses(
    model: Model, loss: GraphLoss, weights: Floats, inputs: NDArray[np.generic], targets: NDArray[np.generic]
) -> Floats:
    """One line for each row: the gradient of its own loss in the flat order of `weights`, then that loss; (n, P + 1).

    Entries can be NaN or infinite; a row whose class is not one of the declared ones has zeros. Not clipped.
    """
    import torch

    width, wide = lanes(model, loss), model.graph.parameter_count + 1
    trained = [torch.from_numpy(values) for values in named(model.graph, weights).values()]
    rows, (truths, usable) = shaped(inputs, model.input), spread(targets, loss.targets)
    steps = _steps_of(model, loss, width)

    def batch(given: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        return torch.cat([each.reshape(width, -1) for each in steps(*trained, given, truth)], dim=1)

    result = _in_lanes(width, wide, batch, rows, truths)
    result[~usable] = 0.0
    return result


def outputs(
    model: Model, loss: GraphLoss, weights: Floats, inputs: NDArray[np.generic], targets: NDArray[np.generic]
) -> Floats:
    """One line for each row: all numbers that the model says of it, which can be NaN or infinite. Targets mean
    nothing here."""
    import torch
    from torch.func import vmap

    known, width = tensors(model, weights), lanes(model, loss)

    def batch(given: torch.Tensor) -> torch.Tensor:
        said = vmap(lambda row: evaluate(model.graph, {**known, model.input.name: row}))(given)
        return torch.as_tensor(said).reshape(width, -1)

    return _in_lanes(width, math.prod(model.output_shape[1:]), batch, shaped(inputs, model.input))


def _in_lanes(width: int, wide: int, batch: Callable[..., Any], *tables: Floats) -> Floats:
    """Return what `batch` makes of `width` rows of these tables at a time: one line of `wide` numbers for each row."""
    import torch

    if not len(tables[0]):
        return np.zeros((0, wide), dtype=np.float32)
    distinct, first, which = _distinct(tables)
    found = np.zeros((len(first), wide), dtype=np.float32)
    for places in _batches(distinct, width):
        there = places >= 0
        chosen = first[np.maximum(places, 0)]
        # A copy of each batch lies where the allocator aligns it, not where the rows happened to lie.
        given = [torch.from_numpy(table[chosen] * _as(there, table)).clone() for table in tables]
        with torch.no_grad():
            found[places[there]] = batch(*given).numpy()[there]
    return np.asarray(found[which])


_kept: OrderedDict[tuple[int, int], tuple[Model, GraphLoss, Steps]] = OrderedDict()
_turn = threading.Lock()


def _steps_of(model: Model, loss: GraphLoss, width: int) -> Steps:
    """The steps for a batch of these very documents; those of the last few are kept."""
    key = (id(model), id(loss))
    with _turn:
        kept = _kept.get(key)
        if kept is not None:
            return kept[2]
    made = Steps(model, loss, width)
    with _turn:
        _kept[key] = model, loss, made
        while len(_kept) > _KEPT:
            _kept.popitem(last=False)
    return made


def _as(there: NDArray[np.bool_], like: Floats) -> Floats:
    return there.astype(np.float32).reshape(-1, *[1] * (like.ndim - 1))


def _distinct(tables: Sequence[Floats]) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
    """(hashes of the different rows, where each first occurs, which of them each row is): equal rows once."""
    whole = np.ascontiguousarray(np.hstack([table.reshape(len(table), -1) for table in tables]))
    words = whole.view(np.uint32)
    hashes = np.zeros(len(words), dtype=np.uint64)
    for column in range(words.shape[1]):
        hashes = (hashes ^ words[:, column]) * _MULTIPLIER
        hashes ^= hashes >> np.uint64(29)
    keys = whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1]))).reshape(-1)
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return hashes[first], first.astype(np.int64), which.reshape(-1).astype(np.int64)


def _batches(hashes: NDArray[np.uint64], width: int) -> NDArray[np.int64]:
    """Lines of `width` places, each the number of a row or -1: a row is always in the column that its hash names."""
    column = (hashes % np.uint64(width)).astype(np.int64)
    order = np.argsort(column, kind="stable")
    loads = np.bincount(column, minlength=width)
    line = np.arange(len(hashes)) - (np.cumsum(loads) - loads)[column[order]]
    places = np.full((int(loads.max()), width), -1, dtype=np.int64)
    places[line, column[order]] = order
    return places
