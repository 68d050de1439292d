"""Runs a graph that was read and checked: each node is looked up in a table of permitted kernels, and nothing else.

The gradient of one example depends on that example only; the tests compare it with torch's own on the live module.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.learning.graph.document import Graph, GraphLoss, Input, Model
from thebes.learning.graph.operations import Reference, kernels
from thebes.learning.graph.weights import named

Floats = NDArray[np.float32]
_FLOATS_AT_ONCE = 2**25  # 128 MiB of activations and gradients


def evaluate(graph: Graph, tensors: Mapping[str, Any]) -> Any:
    """The graph's output tensor, given its inputs and weights by name."""
    table = kernels()
    known = dict(tensors)
    for node in graph.nodes:
        given = {}
        for name, value in node.arguments.items():
            if isinstance(value, Reference):
                given[name] = known[value.name]
            elif isinstance(value, tuple):
                given[name] = [known[one.name] if isinstance(one, Reference) else one for one in value]
            else:
                given[name] = value
        known[node.name] = table[node.operation](**given)
    return known[graph.output]


def outputs_of(model: Model, weights: Floats, inputs: NDArray[Any]) -> Floats:
    """Return what the model says about each row: an array (rows, *output shape without its batch axis)."""
    import torch
    from torch.func import vmap

    known = tensors(model, weights)
    pieces = []
    with torch.no_grad():
        for part in _parts(shaped(inputs, model.input), model.activations):
            rows = torch.from_numpy(part)
            pieces.append(vmap(lambda row: evaluate(model.graph, {**known, model.input.name: row}))(rows).numpy())
    shape = model.output_shape[1:]
    return np.concatenate(pieces).reshape(-1, *shape) if pieces else np.zeros((0, *shape), dtype=np.float32)


def per_example_gradients(
    model: Model, loss: GraphLoss, weights: Floats, inputs: NDArray[Any], targets: NDArray[Any]
) -> Floats:
    """One row per example: the gradient of its own loss in the flat order of `weights`, shape (n, P), float32.

    `weights` are the flat trained weights of this round. An entry can be NaN or infinite; a row whose class is not
    one of the declared ones is zero. Not clipped, not private.
    """
    result = np.zeros((len(inputs), model.graph.parameter_count), dtype=np.float32)
    start = 0
    for part in _gradients(model, loss, weights, inputs, targets):
        result[start : start + len(part)] = part.numpy()
        start += len(part)
    return result


def mean_gradient(
    model: Model, loss: GraphLoss, weights: Floats, inputs: NDArray[Any], targets: NDArray[Any]
) -> Floats:
    """The mean of `per_example_gradients` over all rows, NaN and infinity of a row counted as 0; shape (P,).

    Holds few rows' gradients at a time. Zeros without rows. The mean itself can be infinite.
    """
    import torch

    total = torch.zeros(model.graph.parameter_count, dtype=torch.float64)
    for part in _gradients(model, loss, weights, inputs, targets):
        total += torch.nan_to_num(part, nan=0.0, posinf=0.0, neginf=0.0).sum(dim=0, dtype=torch.float64)
    found: Floats = (total / max(len(inputs), 1)).to(torch.float32).numpy()
    return found


def _gradients(
    model: Model, loss: GraphLoss, weights: Floats, inputs: NDArray[Any], targets: NDArray[Any]
) -> Iterator[Any]:
    """Tensors of some rows' gradients each, together all rows in order."""
    import torch
    from torch.func import grad, vmap

    trained = {name: torch.from_numpy(values) for name, values in named(model.graph, weights).items()}
    frozen = {name: tensor for name, tensor in tensors(model, weights).items() if name not in trained}

    def loss_of(trained: Mapping[str, Any], row: Any, truth: Any) -> Any:
        said = evaluate(model.graph, {**frozen, **trained, model.input.name: row})
        value = evaluate(loss.graph, {loss.outputs.name: said, loss.targets.name: truth})
        return value.reshape(())

    one_by_one = vmap(grad(loss_of), in_dims=(None, 0, 0))
    truths, usable = spread(targets, loss.targets)
    start = 0
    per_row = 2 * (model.activations + loss.activations) + 2 * model.graph.parameter_count
    for part in _parts(shaped(inputs, model.input), per_row):
        end = start + len(part)
        found = one_by_one(trained, torch.from_numpy(part), torch.from_numpy(truths[start:end]))
        flat = torch.cat([found[weight.name].reshape(len(part), -1) for weight in model.graph.trained], dim=1)
        flat[torch.from_numpy(~usable[start:end])] = 0.0
        yield flat
        start = end


def shaped(values: NDArray[Any], into: Input) -> Floats:
    """Rows of numbers as examples of the graph's shape: (n, columns) or (n, ...) with as many numbers per row."""
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = np.asarray(values, dtype=np.float32)
    return np.ascontiguousarray(narrow.reshape(len(narrow), *into.shape))


def spread(targets: NDArray[Any], into: Input) -> tuple[Floats, NDArray[np.bool_]]:
    """Targets in the shape the loss takes, and which rows have one: a class is spread into zeros and a one."""
    if into.kind == "number":
        return shaped(targets, into), np.ones(len(targets), dtype=np.bool_)
    column = np.asarray(targets, dtype=np.float64).reshape(-1)
    classes = into.shape[1]
    usable = (column >= 0) & (column < classes) & (column == np.floor(column))
    chosen = np.where(usable, column, 0).astype(np.int64)
    spread_out = np.zeros((len(column), *into.shape), dtype=np.float32)
    spread_out[np.arange(len(column)), 0, chosen] = 1.0
    return spread_out, usable


def tensors(model: Model, weights: Floats) -> dict[str, Any]:
    """Every weight of the model by name: these trained ones, and the values it was sent with of the others."""
    import torch

    values = {**model.values, **named(model.graph, weights)}
    return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in values.items()}


def _parts(rows: Floats, floats_per_row: int) -> list[Floats]:
    """Batches that keep torch below a bounded memory."""
    size = min(max(_FLOATS_AT_ONCE // max(floats_per_row, 1), 1), 4096)
    return [rows[start : start + size] for start in range(0, len(rows), size)] if math.prod(rows.shape) else []
