"""The cost that a graph would have, found without data or torch, from shapes alone.

After each node its size is checked, so that the first tensor too large stops the walk. Nothing here allocates by the
graph's word.
"""

from __future__ import annotations

import math
from typing import Any

from thebes.learning.graph.document import Graph, GraphLimits, Node
from thebes.learning.graph.layers import UnfitLayer
from thebes.learning.graph.operations import OPERATIONS, Argument, Axes, Reference, Shape, TensorAxis
from thebes.learning.graph.result_shapes import SHAPES, UnfitShapes
from thebes.privacy.faults import Mistake


def inferred(graph: Graph, limits: GraphLimits, argument: str) -> tuple[Shape, int]:
    """Shape of the output for one example, and how many elements all its tensors have together."""
    known: dict[str, Shape] = {entry.name: entry.shape for entry in graph.inputs}
    known |= {entry.name: entry.shape for entry in graph.weights}
    activations = sum(math.prod(entry.shape) for entry in graph.inputs)
    work = 0
    for node in graph.nodes:
        where = f"node '{node.name}' ({node.operation})"
        given = {name: _resolved(value, known) for name, value in node.arguments.items()}
        _check_axes(node, given, argument, where)
        try:
            shape = SHAPES[node.operation](given)
        except UnfitLayer as unfit:
            raise Mistake(argument, f"{where}: {unfit}") from unfit
        except UnfitShapes as unfit:
            raise Mistake(argument, f"{where}: the shapes of its tensors do not fit together") from unfit
        size = math.prod(shape)
        if len(shape) > 6 or size == 0:
            raise Mistake(argument, f"{where}: gives no plain tensor of numbers")
        if size > limits.tensor:
            raise Mistake(argument, f"{where}: gives more than {limits.tensor:,} numbers for one example")
        shapes = {name: known[value.name] for name, value in node.arguments.items() if isinstance(value, Reference)}
        try:
            effort = OPERATIONS[node.operation].effort(shapes, node.arguments)
            activations += size * max(OPERATIONS[node.operation].held(shapes, node.arguments), 1)
        except IndexError as error:
            raise Mistake(argument, f"{where}: the shapes of its tensors do not fit together") from error
        work += max(size * max(effort, 1), *(math.prod(each) for each in shapes.values()), 0)
        if activations > limits.activations:
            raise Mistake(argument, f"needs more than {limits.activations:,} numbers of memory for one example")
        if work > limits.work:
            raise Mistake(argument, f"needs more than {limits.work:,} multiplications for one example")
        known[node.name] = shape
    return known[graph.output], activations


def _check_axes(node: Node, given: dict[str, Any], argument: str, where: str) -> None:
    """Axes exist: some kernels do not look when there is no data."""
    first: Any = given.get("self", given.get("tensors"))
    for name, value in node.arguments.items():
        parameter = OPERATIONS[node.operation].parameter(name)
        if not isinstance(parameter, (TensorAxis, Axes)):
            continue
        shape = first[0] if isinstance(first, list) else first
        rank = len(shape) + (parameter.more if isinstance(parameter, TensorAxis) else 0)
        axes = value if isinstance(value, tuple) else (value,)
        if any(not isinstance(axis, int) or not -rank <= axis < rank for axis in axes):
            raise Mistake(argument, f"{where}: '{name}' is not an axis of a tensor with {rank} axes")


def _resolved(value: Argument, known: dict[str, Shape]) -> Any:
    """Return an argument with shapes in the place of tensors."""
    if isinstance(value, Reference):
        return known[value.name]
    if isinstance(value, tuple) and isinstance(value[0], Reference):
        return [known[one.name] for one in value if isinstance(one, Reference)]
    return value
