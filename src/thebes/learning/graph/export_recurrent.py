"""A recurrent layer of torch as nodes of a graph: one for each layer and direction, from a state of zeros."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from thebes.learning.graph.operations import Argument, Reference
from thebes.privacy.faults import Mistake

#: by torch's operation, ours and how many states torch keeps beside the results
RECURRENT: Mapping[str, tuple[str, int]] = {"aten.lstm.input": ("thebes.lstm", 2), "aten.gru.input": ("thebes.gru", 1)}

Emit = Callable[[str, dict[str, Argument]], str]


def unrolled(node: Any, reference: Callable[[Any], Reference], zeros: set[str], emit: Emit, argument: str) -> list[str]:
    """Emit the layers of a traced `lstm` or `gru`, and name its results: all states, the last of each layer where
    somebody takes them, and nothing for a cell."""
    given, start, weights, biased, layers, dropout, training, both, batch_first = node.args
    operation, states = RECURRENT[str(node.target)]
    kind = operation.removeprefix("thebes.").upper()
    if any(each.name not in zeros for each in (start if isinstance(start, (list, tuple)) else [start])):
        raise Mistake(argument, f"{kind} starts from a given state, which cannot travel: leave it out")
    if dropout and training:
        raise Mistake(argument, f"{kind} has dropout={dropout}, which draws random numbers: use 0, or .eval() first")
    ways, each = (2 if both else 1), (4 if biased else 2)
    if len(weights) != layers * ways * each:
        raise Mistake(argument, f"{kind} has a projection, which cannot travel: use proj_size=0")
    used = {user.args[1] for user in node.users if user.users}
    if states == 2 and 2 in used:
        raise Mistake(argument, "the cell of an LSTM cannot travel: use its results, or its last state")
    read, last = reference(given).name, list[str]()
    if not batch_first:
        read = emit("aten.transpose.int", {"self": Reference(read), "dim0": 0, "dim1": 1})
    for layer in range(layers):
        found = []
        for way in range(ways):
            place = (layer * ways + way) * each
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")[:each]
            tensors = zip(names, weights[place : place + each], strict=True)
            arguments: dict[str, Argument] = {"input": Reference(read)}
            arguments |= {name: reference(tensor) for name, tensor in tensors}
            found.append(emit(operation, {**arguments, "reverse": True} if way else arguments))
            if 1 in used:
                end: dict[str, Argument] = {"self": Reference(found[-1]), "dim": 1, "index": 0 if way else -1}
                last.append(emit("aten.unsqueeze.default", {"self": Reference(emit("aten.select.int", end)), "dim": 0}))
        read = found[0] if len(found) == 1 else emit("aten.cat.default", {"tensors": _named(found), "dim": 2})
    if not batch_first:
        read = emit("aten.transpose.int", {"self": Reference(read), "dim0": 0, "dim1": 1})
    ends = emit("aten.cat.default", {"tensors": _named(last), "dim": 0}) if len(last) > 1 else "".join(last)
    return [read, ends, ""][: 1 + states]


def _named(names: list[str]) -> tuple[Reference, ...]:
    return tuple(Reference(name) for name in names)
