"""From a live torch module to a graph, on the requestor's side: traced by `torch.export` at a batch of one.

Every operation is translated or refused by name; nothing of the module's code, buffers or randomness can travel.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import fx

from thebes.learning.graph.document import Graph, Input, Node, Weight, shown
from thebes.learning.graph.export_recurrent import RECURRENT, unrolled
from thebes.learning.graph.layers import UnfitLayer
from thebes.learning.graph.operations import OPERATIONS, Argument, Reference, Shape, UnfitArgument
from thebes.privacy.faults import Fault, Mistake

_VIEWS = ("flatten", "unflatten", "reshape", "view", "permute", "transpose", "unsqueeze", "squeeze", "select", "slice")
_HINTS = {
    "dropout": "dropout draws random numbers: use p=0 or call .eval() first",
    "embedding_bag": "use an Embedding and its mean",
    "index": "an index taken from data is not allowed: use an Embedding",
    "zeros": "a constant tensor cannot travel: only parameters do",
    "batch_norm": "it mixes examples: use GroupNorm",
    "binary_cross_entropy": "it needs probabilities: use BCEWithLogitsLoss on logits",
    "nll_loss_nd": "class numbers arrive as zeros and a one: use CrossEntropyLoss on logits",
    "to": "every tensor is float32: leave the conversion out",
}
#: torch's operations that are layers of our own
_LAYERS = {
    "aten.scaled_dot_product_attention.default": "thebes.attention",
    "aten.embedding.default": "thebes.embedding",
}


def export_model(model: Any, shape: Sequence[int]) -> tuple[Graph, dict[str, NDArray[np.float32]]]:
    """The graph of `model` for one example of this shape (without batch axis) and the values of its weights."""
    _refuse_what_stays(model, "model")
    tables = [part.num_embeddings for part in model.modules() if isinstance(part, torch.nn.Embedding)]
    example = torch.rand((1, *shape), generator=torch.Generator().manual_seed(1)) * min(tables, default=1)
    if isinstance(next((part for part in model.modules() if not any(part.children())), None), torch.nn.Embedding):
        example = example.to(torch.int64)  # a first layer that looks numbers up takes whole ones
    names, weights, values = _weights(model)
    graph = _traced(model, (example,), names, weights, ("number",), "model")
    return graph, values


def export_loss(loss: Any, shape: Shape, kind: Literal["number", "class"]) -> Graph:
    """The graph of `loss(outputs, targets)` for outputs and targets of this shape (with batch axis)."""
    if not callable(loss):
        raise Mistake("loss", "must be a loss module or a function of (outputs, targets)")
    module = loss if isinstance(loss, torch.nn.Module) else _Called(loss)
    _refuse_what_stays(module, "loss")
    if any(True for _ in module.parameters()):
        raise Mistake("loss", "a loss cannot have weights of its own")
    generator = torch.Generator().manual_seed(1)
    said = torch.rand(shape, generator=generator)
    truth = torch.rand(shape, generator=generator)
    if kind == "class":
        truth = torch.nn.functional.one_hot(torch.zeros(1, dtype=torch.int64), shape[-1]).to(torch.float32)
    return _traced(_Called(module), (said, truth), {}, (), ("number", kind), "loss")


class _Called(torch.nn.Module):  # type: ignore[misc]
    """A loss that is a plain function, or a module whose arguments have other names."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, outputs: Any, targets: Any) -> Any:
        return self.function(outputs, targets)


def _refuse_what_stays(module: Any, argument: str) -> None:
    if not isinstance(module, torch.nn.Module):
        raise Mistake(argument, "must be a torch.nn.Module")
    for name, part in module.named_modules():
        kind = type(part).__name__
        if "BatchNorm" in kind:
            raise Mistake(argument, f"{kind} '{name}' mixes examples and keeps running averages: use GroupNorm")
        if "Dropout" in kind and part.training and getattr(part, "p", 0.0) > 0:
            raise Mistake(argument, f"{kind} '{name}' has p={part.p}: {_HINTS['dropout']}")
    for name, _ in module.named_buffers():
        owner = type(module.get_submodule(name.rpartition(".")[0])).__name__
        raise Mistake(argument, f"the buffer '{name}' of {owner} cannot travel: only parameters do")
    for name, parameter in module.named_parameters():
        if parameter.dtype != torch.float32:
            raise Mistake(argument, f"parameter '{name}' is {parameter.dtype}: only float32 travels")


def _weights(model: Any) -> tuple[dict[str, str], tuple[Weight, ...], dict[str, NDArray[np.float32]]]:
    """Every name of a parameter with the one it travels under (tied weights travel once), and the weights."""
    first: dict[int, str] = {id(parameter): name for name, parameter in model.named_parameters()}
    names = {name: first[id(p)] for name, p in model.named_parameters(remove_duplicate=False)}
    weights, values = [], {}
    for name, parameter in model.named_parameters():
        weights.append(Weight(name, tuple(parameter.shape), bool(parameter.requires_grad)))
        values[name] = parameter.detach().cpu().numpy().astype(np.float32)
    return names, tuple(weights), values


def _traced(
    module: Any,
    example: tuple[Any, ...],
    names: Mapping[str, str],
    weights: tuple[Weight, ...],
    kinds: tuple[Literal["number", "class"], ...],
    argument: str,
) -> Graph:
    try:
        program = torch.export.export(module, example, strict=False)
    except Exception as error:
        summary = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise Mistake(argument, f"torch.export cannot trace it for one example: {summary[:300]}") from error
    translation = _Translation(argument, names)
    labels = ("input",) if len(example) == 1 else ("outputs", "targets")
    inputs = tuple(
        Input(label, tuple(tensor.shape), kind) for label, tensor, kind in zip(labels, example, kinds, strict=True)
    )
    output = translation.run(program, labels)
    graph = Graph(inputs, weights, tuple(translation.nodes), output)
    _verify(graph, module, example, names, argument)
    return graph


class _Translation:
    """One walk over a traced program; `called` maps each traced node to the name it has in our graph."""

    def __init__(self, argument: str, names: Mapping[str, str]) -> None:
        self.argument = argument
        self.names = names
        self.nodes: list[Node] = []
        self.called: dict[str, str | list[str]] = {}
        self.zeros: set[str] = set()  #: traced constants that only a recurrent layer may take, as its first state

    def run(self, program: Any, labels: tuple[str, ...]) -> str:
        given = iter(labels)
        for spec in program.graph_signature.input_specs:
            kind = spec.kind.name
            if kind == "USER_INPUT":
                self.called[spec.arg.name] = next(given)
            elif kind == "PARAMETER":
                self.called[spec.arg.name] = self.names[spec.target]
            else:
                raise Mistake(self.argument, f"the constant tensor '{spec.target}' cannot travel: only parameters do")
        output = None
        for node in program.graph.nodes:
            if node.op == "call_function":
                self.call(node)
            elif node.op == "output":
                output = node.args[0]
            elif node.op != "placeholder":
                raise Mistake(self.argument, f"'{node.op}' cannot travel")
        if not isinstance(output, (tuple, list)) or len(output) != 1 or not isinstance(output[0], fx.Node):
            raise Mistake(self.argument, "must give exactly one tensor")
        last = self.called[output[0].name]
        if not isinstance(last, str) or last not in {node.name for node in self.nodes}:
            raise Mistake(self.argument, "computes nothing")
        return last

    def call(self, node: Any) -> None:
        if node.target is operator.getitem:
            source = self.called[node.args[0].name]
            if not isinstance(source, list):
                raise Mistake(self.argument, "an operation with several results cannot travel")
            self.called[node.name] = source[node.args[1]]
            return
        name = str(node.target)
        if name == "aten._assert_tensor_metadata.default":
            return
        if (
            name == "aten.broadcast_tensors.default"
            and len({tuple(each.meta["val"].shape) for each in node.args[0]}) == 1
        ):
            self.called[node.name] = [self.reference(each).name for each in node.args[0]]
            return
        if self.is_identity(name, node):
            self.called[node.name] = self.reference(node.args[0]).name
            return
        if name == "aten.zeros.default":
            self.zeros.add(node.name)
            return
        if name in RECURRENT:
            self.called[node.name] = unrolled(node, self.reference, self.zeros, self.add, self.argument)
            return
        self.emit(name, node)

    def is_identity(self, name: str, node: Any) -> bool:
        if name in ("aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default"):
            return float(node.args[1]) == 0.0 or not node.args[2]
        if name in ("aten.contiguous.default", "aten.clone.default", "aten.alias.default"):
            return True
        if name.startswith("aten.to."):
            target, source = node.meta["val"].dtype, node.args[0].meta["val"].dtype
            # a whole number is a float32 here, so only cutting one off changes anything
            return target in (torch.float32, torch.int64) and (source == torch.int64 or source == target)
        return False

    def emit(self, name: str, node: Any) -> None:
        schema = getattr(node.target, "_schema", None)
        given = dict(node.kwargs)
        if schema is not None:
            given |= {each.name: value for each, value in zip(schema.arguments, node.args, strict=False)}
            defaults = {each.name: each.default_value for each in schema.arguments if each.has_default_value()}
            given = {key: value for key, value in given.items() if key not in defaults or value != defaults[key]}
        replaced, word = None, name.removeprefix("aten.").partition(".")[0].rstrip("_")
        name = _LAYERS.get(name, name)
        if name.startswith("aten.to.") and node.meta["val"].dtype == torch.int64:
            name, given = "aten.trunc.default", {"self": given["self"]}
        elif node.meta["val"].dtype != torch.float32 and word not in _VIEWS:
            raise Mistake(self.argument, f"computes with whole numbers in {name}, which cannot travel: use float32")
        if name == "aten.view.default":
            name, given = "aten.reshape.default", {"self": given["self"], "shape": given["size"]}
        elif schema is not None and schema.is_mutable:
            name, replaced = self.not_in_place(name, node)
        operation = OPERATIONS.get(name)
        if operation is None:
            hint = f": {_HINTS[word]}" if word in _HINTS else ""
            raise Mistake(self.argument, f"uses the operation {name}, which cannot travel{hint}")
        arguments: dict[str, Argument] = {}
        for key, value in given.items():
            parameter = operation.parameter(key)
            if parameter is None:
                raise Mistake(self.argument, f"uses {name} with '{key}', which cannot travel")
            plain = self.plain(value)
            if key == "reduction" and plain == 0:
                raise Mistake(self.argument, "must end in one number: use reduction 'mean' or 'sum'")
            known = {each for each in self.called.values() if isinstance(each, str)}
            try:
                arguments[key] = parameter.read(plain, known)
            except UnfitArgument as unfit:
                raise Mistake(self.argument, f"uses {name} with a '{key}' that cannot travel: it {unfit}") from unfit
        self.called[node.name] = self.add(name, arguments)
        if replaced is not None:
            self.called[replaced] = self.called[node.name]

    def add(self, operation: str, arguments: dict[str, Argument]) -> str:
        """Put one node at the end, and name it."""
        self.nodes.append(Node(f"n{len(self.nodes)}", operation, arguments))
        return self.nodes[-1].name

    def not_in_place(self, name: str, node: Any) -> tuple[str, str]:
        """An operation that overwrites its first argument, as one that does not: same meaning only where nobody else
        can see the overwritten tensor."""
        source = node.args[0]
        origin = str(source.target).removeprefix("aten.").partition(".")[0]
        if (
            len(source.users) != 1
            or source.op != "call_function"
            or origin in _VIEWS
            or self.is_identity(str(source.target), source)
        ):
            raise Mistake(self.argument, f"{name} overwrites a tensor that is used elsewhere: use inplace=False")
        packet, _, overload = name.rpartition(".")
        return f"{packet.removesuffix('_')}.{overload}", source.name

    def reference(self, node: Any) -> Reference:
        if node.name in self.zeros:
            raise Mistake(self.argument, f"makes zeros of its own: {_HINTS['zeros']}")
        name = self.called[node.name]
        if not isinstance(name, str):
            raise Mistake(self.argument, "an operation with several results cannot travel")
        return Reference(name)

    def plain(self, value: Any) -> Any:
        if isinstance(value, fx.Node):
            return self.reference(value).name
        if isinstance(value, (list, tuple)):
            return [self.plain(each) for each in value]
        if isinstance(value, (bool, int, float, str)):
            return value
        raise Mistake(self.argument, f"an argument {shown(str(value))} of type {type(value).__name__} cannot travel")


def _verify(graph: Graph, module: Any, example: tuple[Any, ...], names: Mapping[str, str], argument: str) -> None:
    """The graph computes what the module computes; anything else would be our mistake, found before it travels."""
    from thebes.learning.graph.interpret import evaluate

    values = {names[name]: p for name, p in module.named_parameters(remove_duplicate=False)} if names else {}
    with torch.no_grad():
        expected = module(*example)
        given = {each.name: x.to(torch.float32) for each, x in zip(graph.inputs, example, strict=True)}
        try:
            found = evaluate(graph, {**values, **given})
        except UnfitLayer as unfit:
            raise Mistake(argument, f"has a layer that {unfit}") from unfit
    if expected.shape != found.shape or not torch.allclose(expected, found, rtol=1e-3, atol=1e-4, equal_nan=True):
        raise Fault(f"the {argument} travels as a graph that computes something else")
