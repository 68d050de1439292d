"""The operations a model that travels as data may use: an allow-list by exact overload name.

Every entry is a function of its tensors and of plain numbers inside stated ranges: nothing in place, nothing random,
no file, no index taken from data, no control flow. `aten` are torch's own, `thebes` the layers of `layers.py`. What is
not in `OPERATIONS` does not exist for an owner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Protocol

from thebes.learning.graph import layers
from thebes.privacy.figures import figure

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Reference:
    """The name of a tensor that stands earlier in the graph."""

    name: str


Argument = bool | int | float | str | Reference | tuple[int | Reference, ...]


class UnfitArgument(Exception):
    """An argument outside what its operation allows; the text says which rule, never raised to a caller."""


class Parameter(Protocol):
    """The rule of what one argument of an operation may be. `known` holds the names of the tensors computed so far."""

    def read(self, value: Any, known: Collection[str]) -> Argument: ...


def _is_integer(value: Any) -> bool:
    return type(value) is int


@dataclass(frozen=True)
class Tensor:
    """The name of an earlier tensor."""

    def read(self, value: Any, known: Collection[str]) -> Argument:
        if not isinstance(value, str) or value not in known:
            raise UnfitArgument("must name an input, a weight or an earlier node")
        return Reference(value)


@dataclass(frozen=True)
class Tensors:
    """A list of names of earlier tensors."""

    most: int

    def read(self, value: Any, known: Collection[str]) -> Argument:
        if not isinstance(value, list) or not 1 <= len(value) <= self.most:
            raise UnfitArgument(f"must be a list of 1 to {self.most} names")
        if any(not isinstance(name, str) or name not in known for name in value):
            raise UnfitArgument("must name inputs, weights or earlier nodes")
        return tuple(Reference(name) for name in value)


@dataclass(frozen=True)
class Number:
    low: float
    high: float

    def read(self, value: Any, known: Collection[str]) -> Argument:
        if type(value) not in (int, float) or not self.low <= value <= self.high:
            raise UnfitArgument(f"must be a number between {figure(self.low)} and {figure(self.high)}")
        return float(value)


@dataclass(frozen=True)
class TensorOrNumber:
    number: Number

    def read(self, value: Any, known: Collection[str]) -> Argument:
        return Tensor().read(value, known) if isinstance(value, str) else self.number.read(value, known)


@dataclass(frozen=True)
class Integer:
    low: int
    high: int

    def read(self, value: Any, known: Collection[str]) -> Argument:
        if not _is_integer(value) or not self.low <= value <= self.high:
            raise UnfitArgument(f"must be a whole number between {self.low} and {self.high}")
        return int(value)


@dataclass(frozen=True)
class Integers:
    each: Integer
    least: int
    most: int

    def read(self, value: Any, known: Collection[str]) -> Argument:
        if not isinstance(value, list) or not self.least <= len(value) <= self.most:
            raise UnfitArgument(f"must be a list of {self.least} to {self.most} whole numbers")
        for one in value:
            self.each.read(one, known)
        return tuple(value)


@dataclass(frozen=True)
class TensorAxis(Integer):
    """An axis of the operation's first tensor; `more` counts axes that the result has on top."""

    low: int = -6
    high: int = 5
    more: int = 0


@dataclass(frozen=True)
class Axes(Integers):
    """Some axes of the operation's first tensor."""

    each: Integer = TensorAxis()
    least: int = 1
    most: int = 6


@dataclass(frozen=True)
class Flag:
    def read(self, value: Any, known: Collection[str]) -> Argument:
        if not isinstance(value, bool):
            raise UnfitArgument("must be true or false")
        return value


@dataclass(frozen=True)
class Choice:
    choices: tuple[str, ...]

    def read(self, value: Any, known: Collection[str]) -> Argument:
        if not isinstance(value, str) or value not in self.choices:
            raise UnfitArgument(f"must be one of {', '.join(self.choices)}")
        return value


Effort = Callable[[Mapping[str, Shape], Mapping[str, Argument]], int]


def _plain(shapes: Mapping[str, Shape], arguments: Mapping[str, Argument]) -> int:
    return 1


def _last_axis(name: str) -> Effort:
    return lambda shapes, arguments: shapes[name][-1] if shapes[name] else 1


def _filter(shapes: Mapping[str, Shape], arguments: Mapping[str, Argument]) -> int:
    return math.prod(shapes["weight"][1:])


def _window(shapes: Mapping[str, Shape], arguments: Mapping[str, Argument]) -> int:
    kernel = arguments["kernel_size"]
    sides = [side for side in kernel if isinstance(side, int)] if isinstance(kernel, tuple) else []
    return math.prod(sides) ** (2 if len(sides) == 1 else 1)


@dataclass(frozen=True)
class Operation:
    """One allowed overload: its arguments by name, and at most how many multiplications one output element costs, and
    how many numbers are `held` for it."""

    required: Mapping[str, Parameter]
    optional: Mapping[str, Parameter]
    effort: Effort = _plain
    held: Effort = _plain

    def parameter(self, name: str) -> Parameter | None:
        found = self.required.get(name)
        return self.optional.get(name) if found is None else found


_tensor = Tensor()
_flag = Flag()
_axis = TensorAxis()
_axes = Axes()
_sizes = Integers(Integer(-1, 2**20), 1, 6)
_constant = Number(-1e6, 1e6)
_positive = Number(1e-6, 1e6)
_epsilon = Number(1e-12, 1.0)
_either = TensorOrNumber(_constant)
_kernel = Integers(Integer(1, 64), 1, 2)
_stride = Integers(Integer(1, 64), 1, 2)
_padding = Integers(Integer(0, 64), 1, 2)
_dilation = Integers(Integer(1, 64), 1, 2)
_groups = Integer(1, 4096)
_extent = Integer(-(2**20), 2**20)
_reduction = Integer(1, 2)  # 1 mean, 2 sum: a loss is one number
_loss = {"self": _tensor, "target": _tensor}


def _table() -> dict[str, Operation]:
    table: dict[str, Operation] = {}

    def allow(
        name: str,
        required: Mapping[str, Parameter],
        optional: Mapping[str, Parameter] | None = None,
        effort: Effort = _plain,
        held: Effort = _plain,
    ) -> None:
        told = MappingProxyType(dict(required)), MappingProxyType(optional or {})
        table[name if name.startswith("thebes.") else f"aten.{name}"] = Operation(*told, effort, held)

    one: dict[str, Parameter] = {"self": _tensor}
    for name in (
        *("relu", "relu6", "tanh", "sigmoid", "silu", "selu", "hardswish", "hardsigmoid", "mish", "log_sigmoid"),
        *("abs", "neg", "exp", "log", "log1p", "sqrt", "square", "sin", "cos", "erf", "reciprocal", "mean", "sum"),
        "trunc",
    ):
        allow(f"{name}.default", one)
    allow("gelu.default", one, {"approximate": Choice(("none", "tanh"))})
    allow("elu.default", one, {"alpha": _positive, "scale": _positive, "input_scale": _positive})
    allow("celu.default", one, {"alpha": _positive})
    allow("leaky_relu.default", one, {"negative_slope": _constant})
    allow("softplus.default", one, {"beta": _positive, "threshold": _positive})
    allow("hardtanh.default", one, {"min_val": _constant, "max_val": _constant})
    allow("clamp.default", one, {"min": _constant, "max": _constant})
    allow("clamp_min.default", {**one, "min": _constant})
    allow("pow.Tensor_Scalar", {**one, "exponent": Number(-8, 8)})
    allow("rsub.Scalar", {**one, "other": _constant}, {"alpha": _constant})
    allow("prelu.default", {**one, "weight": _tensor})

    for name in ("add.Tensor", "sub.Tensor"):
        allow(name, {**one, "other": _either}, {"alpha": _constant})
    for name in ("mul.Tensor", "div.Tensor"):
        allow(name, {**one, "other": _either})
    for name in ("maximum.default", "minimum.default"):
        allow(name, {**one, "other": _tensor})

    allow("linear.default", {"input": _tensor, "weight": _tensor}, {"bias": _tensor}, _last_axis("weight"))
    allow("matmul.default", {**one, "other": _tensor}, effort=_last_axis("self"))
    for name in ("mm.default", "bmm.default"):
        allow(name, {**one, "mat2": _tensor}, effort=_last_axis("self"))
    allow(
        "addmm.default",
        {**one, "mat1": _tensor, "mat2": _tensor},
        {"beta": _constant, "alpha": _constant},
        _last_axis("mat1"),
    )

    filtered: dict[str, Parameter] = {"input": _tensor, "weight": _tensor}
    strides: dict[str, Parameter] = {"bias": _tensor, "stride": _stride, "dilation": _dilation, "groups": _groups}
    for name in ("conv1d", "conv2d"):
        allow(f"{name}.default", filtered, {**strides, "padding": _padding}, _filter)
        allow(f"{name}.padding", filtered, {**strides, "padding": Choice(("valid", "same"))}, _filter)
    windows: dict[str, Parameter] = {"stride": _stride, "padding": _padding, "ceil_mode": _flag}
    for name in ("max_pool1d.default", "max_pool2d.default"):
        allow(name, {**one, "kernel_size": _kernel}, {**windows, "dilation": _dilation}, _window)
    for name in ("avg_pool1d.default", "avg_pool2d.default"):
        allow(name, {**one, "kernel_size": _kernel}, {**windows, "count_include_pad": _flag}, _window)
    for name in ("adaptive_avg_pool1d.default", "adaptive_avg_pool2d.default"):
        allow(name, {**one, "output_size": Integers(Integer(1, 512), 1, 2)})

    scaled: dict[str, Parameter] = {"weight": _tensor, "bias": _tensor, "eps": _epsilon}
    allow("group_norm.default", {"input": _tensor, "num_groups": _groups}, {**scaled, "cudnn_enabled": _flag})
    normalized = Integers(Integer(1, 2**20), 1, 6)
    allow("layer_norm.default", {"input": _tensor, "normalized_shape": normalized}, {**scaled, "cudnn_enable": _flag})

    allow("flatten.using_ints", one, {"start_dim": _axis, "end_dim": _axis})
    allow("unflatten.int", {**one, "dim": _axis, "sizes": _sizes})
    allow("reshape.default", {**one, "shape": _sizes})
    allow("permute.default", {**one, "dims": _axes})
    allow("transpose.int", {**one, "dim0": _axis, "dim1": _axis})
    allow("unsqueeze.default", {**one, "dim": TensorAxis(more=1)})
    allow("squeeze.dim", {**one, "dim": _axis})
    allow("select.int", {**one, "dim": _axis, "index": _extent})
    allow("slice.Tensor", one, {"dim": _axis, "start": _extent, "end": Integer(-(2**20), 2**63 - 1), "step": _groups})
    allow("cat.default", {"tensors": Tensors(16)}, {"dim": _axis})
    for name in ("mean.dim", "sum.dim_IntList", "logsumexp.default"):
        allow(name, {**one, "dim": _axes}, {"keepdim": _flag})
    for name in ("softmax.int", "log_softmax.int"):
        allow(name, {**one, "dim": _axis})

    reduced: dict[str, Parameter] = {"reduction": _reduction}
    for name in ("mse_loss", "l1_loss", "binary_cross_entropy_with_logits"):
        allow(f"{name}.default", _loss, reduced)
    allow("huber_loss.default", _loss, {**reduced, "delta": _positive})
    allow("smooth_l1_loss.default", _loss, {**reduced, "beta": Number(0, 1e6)})
    allow("cross_entropy_loss.default", _loss, {**reduced, "label_smoothing": Number(0, 1)})
    allow(
        "poisson_nll_loss.default",
        {"input": _tensor, "target": _tensor, "log_input": _flag, "full": _flag, "eps": _epsilon, **reduced},
    )

    read: dict[str, Parameter] = {"input": _tensor, "weight_ih": _tensor, "weight_hh": _tensor}
    more: dict[str, Parameter] = {"bias_ih": _tensor, "bias_hh": _tensor, "reverse": _flag}
    for name in ("thebes.lstm", "thebes.gru"):
        allow(name, read, more, layers.recurrent_effort, layers.recurrent_held)
    compared: dict[str, Parameter] = {"query": _tensor, "key": _tensor, "value": _tensor}
    seen: dict[str, Parameter] = {"is_causal": _flag, "scale": _constant}
    allow("thebes.attention", compared, seen, layers.attention_effort, layers.attention_held)
    looked_up: dict[str, Parameter] = {"weight": _tensor, "indices": _tensor}
    padded: dict[str, Parameter] = {"padding_idx": Integer(-1, 2**24)}
    allow("thebes.embedding", looked_up, padded, layers.embedding_effort, layers.embedding_held)
    return table


OPERATIONS: Mapping[str, Operation] = MappingProxyType(_table())


@cache
def kernels() -> Mapping[str, Any]:
    """Each allowed name with the torch overload, or layer, that it stands for. The names looked up are ours alone."""
    import torch

    found = dict(layers.KERNELS)
    for name in OPERATIONS.keys() - layers.KERNELS.keys():
        _, packet, overload = name.split(".")
        found[name] = getattr(getattr(torch.ops.aten, packet), overload)
    return MappingProxyType(found)
