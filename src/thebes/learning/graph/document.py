"""A model as text: one line of JSON (the graph) and, for a model, one line of base64 safetensors (its weights).

Reading checks every byte before anything is computed: sizes first, then structure, then each argument against the
allow-list, then all shapes without data. Whatever does not fit is a `Mistake` naming `model` or `loss`. Needs no torch.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from thebes.learning.graph.operations import OPERATIONS, Argument, Reference, Shape, UnfitArgument
from thebes.privacy.faults import Mistake
from thebes.privacy.reading import NotJSON, read_json

FORMAT = "thebes-graph"
VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9_.]{1,100}")


@dataclass(frozen=True)
class GraphLimits:
    """The limits of what a graph may ask for. `graph_bytes` bounds the JSON line, `parameters` all weights together,
    `tensor` the elements of one tensor, `activations` those of all tensors of one example, `work` its
    multiplications."""

    graph_bytes: int = 2**18
    nodes: int = 500
    parameters: int = 5_000_000
    tensor: int = 2**24
    activations: int = 2**25
    work: int = 2**31


DOCUMENT = GraphLimits()
SITE = GraphLimits(parameters=20_000_000)  #: of what institutions train: their machines are larger than a person's
BACKBONE = GraphLimits(parameters=20_000_000, activations=2**26, work=2**34)


@dataclass(frozen=True)
class Input:
    """The input that is fed to a graph: `shape` of one example with a leading batch axis of one.

    `kind` is `"number"`, or `"class"`: then the owner's one column holds 0, 1, ..., and is spread over the last axis
    as zeros and a one before the graph sees it.
    """

    name: str
    shape: Shape
    kind: Literal["number", "class"] = "number"

    @property
    def columns(self) -> int:
        """The number of numbers of an owner's row that fill this input."""
        return 1 if self.kind == "class" else math.prod(self.shape)


@dataclass(frozen=True)
class Weight:
    """A tensor of the model; one that is not `trained` keeps the values it was sent with and has no gradient."""

    name: str
    shape: Shape
    trained: bool = True

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Node:
    """One application of an allowed operation."""

    name: str
    operation: str
    arguments: Mapping[str, Argument]


@dataclass(frozen=True)
class Graph:
    """A computation as data. `digest` names it: graphs with the same digest compute the same function of weights."""

    inputs: tuple[Input, ...]
    weights: tuple[Weight, ...]
    nodes: tuple[Node, ...]
    output: str

    @cached_property
    def text(self) -> str:
        return json.dumps(_as_json(self), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of the canonical JSON, weights' values not included."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def trained(self) -> tuple[Weight, ...]:
        return tuple(weight for weight in self.weights if weight.trained)

    @property
    def parameter_count(self) -> int:
        """P: the length of a flat vector of weights, and of a gradient."""
        return sum(weight.size for weight in self.trained)


@dataclass(frozen=True)
class Model:
    """A graph with one input, the values of all its weights, and the shape of its output for one example."""

    graph: Graph
    values: Mapping[str, NDArray[np.float32]]
    output_shape: Shape
    activations: int

    @property
    def input(self) -> Input:
        return self.graph.inputs[0]

    @property
    def initial(self) -> NDArray[np.float32]:
        """The trained weights it was sent with, flat: in the order of `graph.weights`, each row by row."""
        parts = [self.values[weight.name].ravel() for weight in self.graph.trained]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.float32)


@dataclass(frozen=True)
class GraphLoss:
    """A graph from (what the model says, what is true) to one number."""

    graph: Graph
    activations: int

    @property
    def outputs(self) -> Input:
        return self.graph.inputs[0]

    @property
    def targets(self) -> Input:
        return self.graph.inputs[1]


def read_model(text: object, *, argument: str = "model", limits: GraphLimits = DOCUMENT) -> Model:
    """The model in `text`, checked to its last byte; nothing in it is executed."""
    from thebes.learning.graph.shapes import inferred
    from thebes.learning.graph.weights import unpack

    line, weights = _lines(text, argument, limits)
    graph = _read_graph(line, argument, limits)
    if len(graph.inputs) != 1 or graph.inputs[0].kind != "number":
        raise Mistake(argument, "a model has exactly one input, of kind 'number'")
    if weights is None:
        raise Mistake(argument, "the second line, base64 of the weights as safetensors, is missing")
    total = sum(weight.size for weight in graph.weights)
    if 3 * len(weights) > 4 * (4 * total + limits.graph_bytes + 16):
        raise Mistake(argument, "the line of weights is longer than the graph's weights need")
    try:
        raw = base64.b64decode(weights, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Mistake(argument, "the line of weights is not base64") from error
    values = unpack(raw, graph.weights, argument=argument)
    shape, activations = inferred(graph, limits, argument)
    if not shape or shape[0] != 1:
        raise Mistake(argument, "the output must keep the leading batch axis of one")
    return Model(graph, values, shape, activations)


def read_loss(text: object, model: Model, *, argument: str = "loss") -> GraphLoss:
    """The loss in `text`, checked to fit the outputs of `model`."""
    from thebes.learning.graph.shapes import inferred

    line, weights = _lines(text, argument, DOCUMENT)
    graph = _read_graph(line, argument, DOCUMENT)
    if weights is not None or graph.weights:
        raise Mistake(argument, "a loss has no weights")
    if len(graph.inputs) != 2 or graph.inputs[0].kind != "number":
        raise Mistake(argument, "a loss has exactly two inputs: the model's outputs (kind 'number') and the targets")
    if graph.inputs[0].shape != model.output_shape:
        raise Mistake(
            argument,
            f"takes outputs of shape {list(graph.inputs[0].shape)}, the model's are {list(model.output_shape)}",
        )
    shape, activations = inferred(graph, DOCUMENT, argument)
    if math.prod(shape) != 1:
        raise Mistake(argument, "must end in one number: use reduction 'mean' or 'sum'")
    return GraphLoss(graph, activations)


def write_model(graph: Graph, values: Mapping[str, NDArray[np.float32]]) -> str:
    """The text that `read_model` reads."""
    from thebes.learning.graph.weights import pack

    return graph.text + "\n" + base64.b64encode(pack(values, graph.weights)).decode()


def _lines(text: object, argument: str, limits: GraphLimits) -> tuple[str, str | None]:
    if not isinstance(text, str) or not text or not text.isascii():
        raise Mistake(argument, "must be a string from thebes.torch.encode(model, loss)")
    if len(text) > 4 * limits.graph_bytes + 6 * limits.parameters:
        raise Mistake(argument, f"is longer than a model of {limits.parameters:,} weights, the limit, can be")
    line, newline, rest = text.partition("\n")
    if len(line) > limits.graph_bytes:
        raise Mistake(argument, f"the graph is longer than {limits.graph_bytes:,} bytes")
    return line, rest if newline else None


def _read_graph(line: str, argument: str, limits: GraphLimits) -> Graph:
    try:
        content = read_json(line, finite=True)
    except NotJSON as error:
        raise Mistake(argument, f"the graph {error}") from error
    reader = _Reader(argument, limits)
    return reader.graph(content)


class _Reader:
    """Walks parsed JSON once, refusing what it does not know."""

    def __init__(self, argument: str, limits: GraphLimits) -> None:
        self.argument = argument
        self.limits = limits
        self.known: set[str] = set()

    def wrong(self, message: str) -> NoReturn:
        raise Mistake(self.argument, message)

    def fields(
        self, value: Any, where: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.wrong(f"{where} must be an object")
        for key in value:
            if key not in required and key not in optional:
                self.wrong(f"{where} has an unknown field {shown(key)}")
        for key in required:
            if key not in value:
                self.wrong(f"{where} lacks the field '{key}'")
        return dict(value)

    def items(self, value: Any, where: str, most: int) -> list[Any]:
        if not isinstance(value, list):
            self.wrong(f"'{where}' must be a list")
        if len(value) > most:
            self.wrong(f"'{where}' has more than {most} entries")
        return list(value)

    def fresh(self, value: Any, where: str) -> str:
        if not isinstance(value, str) or _NAME.fullmatch(value) is None:
            self.wrong(f"{where}: a name is 1 to 100 letters, digits, '_' or '.'")
        if value in self.known:
            self.wrong(f"{where}: the name '{value}' is used twice")
        self.known.add(value)
        return str(value)

    def shape(self, value: Any, where: str) -> Shape:
        if not isinstance(value, list) or len(value) > 6:
            self.wrong(f"{where}: a shape is a list of at most 6 whole numbers")
        if any(type(side) is not int or not 1 <= side <= self.limits.tensor for side in value):
            self.wrong(f"{where}: each side of a shape is a whole number from 1 to {self.limits.tensor:,}")
        if math.prod(value) > self.limits.tensor:
            self.wrong(f"{where}: has more than {self.limits.tensor:,} elements")
        return tuple(value)

    def graph(self, content: Any) -> Graph:
        fields = self.fields(content, "the graph", ("format", "version", "inputs", "weights", "nodes", "output"))
        if fields["format"] != FORMAT:
            self.wrong(f"'format' must be '{FORMAT}'")
        if type(fields["version"]) is not int or fields["version"] != VERSION:
            self.wrong(f"'version' must be {VERSION}")
        inputs = tuple(self.input(entry) for entry in self.items(fields["inputs"], "inputs", 2))
        weights = tuple(self.weight(entry) for entry in self.items(fields["weights"], "weights", self.limits.nodes))
        if sum(weight.size for weight in weights) > self.limits.parameters:
            self.wrong(f"has more than {self.limits.parameters:,} weights")
        nodes = tuple(self.node(entry) for entry in self.items(fields["nodes"], "nodes", self.limits.nodes))
        output = fields["output"]
        if not isinstance(output, str) or output not in {node.name for node in nodes}:
            self.wrong("'output' must name a node")
        return Graph(inputs, weights, nodes, output)

    def input(self, entry: Any) -> Input:
        fields = self.fields(entry, "an input", ("name", "shape"), ("kind",))
        name = self.fresh(fields["name"], "an input")
        shape = self.shape(fields["shape"], f"input '{name}'")
        kind = fields.get("kind", "number")
        if kind != "number" and kind != "class":
            self.wrong(f"input '{name}': 'kind' must be 'number' or 'class'")
        if not shape or shape[0] != 1:
            self.wrong(f"input '{name}': the shape must begin with a batch axis of one")
        if kind == "class" and (len(shape) != 2 or shape[1] < 2):
            self.wrong(f"input '{name}': of kind 'class' has the shape [1, number of classes]")
        return Input(name, shape, "class" if kind == "class" else "number")

    def weight(self, entry: Any) -> Weight:
        fields = self.fields(entry, "a weight", ("name", "shape"), ("trained",))
        name = self.fresh(fields["name"], "a weight")
        trained = fields.get("trained", True)
        if not isinstance(trained, bool):
            self.wrong(f"weight '{name}': 'trained' must be true or false")
        return Weight(name, self.shape(fields["shape"], f"weight '{name}'"), trained)

    def node(self, entry: Any) -> Node:
        fields = self.fields(entry, "a node", ("name", "operation", "arguments"))
        earlier = frozenset(self.known)
        name = self.fresh(fields["name"], "a node")
        called = fields["operation"]
        operation = OPERATIONS.get(called) if isinstance(called, str) else None
        if operation is None:
            self.wrong(f"node '{name}': the operation {shown(called)} is not allowed")
        where = f"node '{name}' ({called})"
        given = fields["arguments"]
        if not isinstance(given, dict):
            self.wrong(f"{where}: 'arguments' must be an object")
        for key in operation.required:
            if key not in given:
                self.wrong(f"{where}: lacks the argument '{key}'")
        arguments: dict[str, Argument] = {}
        for key, value in given.items():
            parameter = operation.parameter(key)
            if parameter is None:
                self.wrong(f"{where}: has an unknown argument {shown(key)}")
            try:
                arguments[key] = parameter.read(value, earlier)
            except UnfitArgument as unfit:
                self.wrong(f"{where}: '{key}' {unfit}")
        return Node(name, str(called), arguments)


def shown(value: Any) -> str:
    """A requestor's word, cut short and in plain characters, for a message."""
    return repr(value[:60]) if isinstance(value, str) else f"({type(value).__name__})"


def _as_json(graph: Graph) -> dict[str, Any]:
    def plain(argument: Argument) -> Any:
        if isinstance(argument, Reference):
            return argument.name
        return [plain(one) for one in argument] if isinstance(argument, tuple) else argument

    return {
        "format": FORMAT,
        "version": VERSION,
        "inputs": [{"name": entry.name, "shape": entry.shape, "kind": entry.kind} for entry in graph.inputs],
        "weights": [{"name": entry.name, "shape": entry.shape, "trained": entry.trained} for entry in graph.weights],
        "nodes": [
            {
                "name": node.name,
                "operation": node.operation,
                "arguments": {name: plain(argument) for name, argument in node.arguments.items()},
            }
            for node in graph.nodes
        ],
        "output": graph.output,
    }
