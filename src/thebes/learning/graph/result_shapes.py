"""The shape of what each allowed operation gives, from the shapes of its tensors and its other arguments alone.

Whoever reads a document needs no torch for it. What must stay true: a shape that is given here is the one that torch
computes, and what torch would refuse for its shapes is refused here too; the tests hold both against torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

from thebes.learning.graph import layers

Shape = tuple[int, ...]
Given = Mapping[str, Any]  #: arguments by name; a tensor is its shape, a list of tensors a list of shapes
Rule = Callable[[Given], Shape]


class UnfitShapes(Exception):
    """Shapes that an operation does not take; never raised to a caller."""


def _require(fits: bool) -> None:
    if not fits:
        raise UnfitShapes


# --- number by number -------------------------------------------------------------------------------------


def _alike(given: Given) -> Shape:
    return tuple(given["self"])


def _clamped(given: Given) -> Shape:
    _require("min" in given or "max" in given)
    return _alike(given)


def _number(given: Given) -> Shape:
    return ()


def _broadcast(*shapes: Shape) -> Shape:
    sides = []
    for along in zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1):
        side = max(along)
        _require(all(each in (1, side) for each in along))
        sides.append(side)
    return tuple(reversed(sides))


def _both(given: Given) -> Shape:
    other = given["other"]
    return _broadcast(given["self"], other if isinstance(other, tuple) else ())


def _slopes(given: Given) -> Shape:
    shape, slopes = given["self"], given["weight"]
    channels = 1 if len(shape) < 2 else shape[1]
    _require(len(slopes) < 2 and math.prod(slopes) in (1, channels) and (bool(shape) or math.prod(slopes) == 1))
    return tuple(shape)


# --- products ---------------------------------------------------------------------------------------------


def _product(left: Shape, right: Shape) -> Shape:
    _require(bool(left) and bool(right))
    rows, columns = (1, *left)[-2:], right[-2:] if len(right) > 1 else (*right, 1)
    _require(rows[-1] == columns[0])
    outer = _broadcast(left[:-2], right[:-2])
    return (*outer, *(rows[:1] if len(left) > 1 else ()), *(columns[1:] if len(right) > 1 else ()))


def _linear(given: Given) -> Shape:
    weight = given["weight"]
    _require(len(weight) == 2 or (len(weight) == 1 and (len(given["input"]) == 1 or "bias" not in given)))
    result = _product(given["input"], weight[::-1])
    _require(_broadcast(given.get("bias", ()), result) == result)
    return result


def _matrices(rank: int, right: str) -> Rule:
    def rule(given: Given) -> Shape:
        one, other = given["self"], given[right]
        _require(len(one) == len(other) == rank and one[:-2] == other[:-2])
        return _product(one, other)

    return rule


def _added(given: Given) -> Shape:
    one, other = given["mat1"], given["mat2"]
    _require(len(one) == len(other) == 2)
    result = _product(one, other)
    _require(_broadcast(given["self"], result) == result)
    return result


# --- windows ----------------------------------------------------------------------------------------------


def _each(given: Given, name: str, axes: int, otherwise: Shape) -> Shape:
    value = given.get(name, otherwise)
    _require(len(value) in (1, axes))
    return tuple(value) * (axes if len(value) == 1 else 1)


def _filtered(axes: int) -> Rule:
    def rule(given: Given) -> Shape:
        shape, weight, groups = given["input"], given["weight"], given.get("groups", 1)
        _require(len(shape) in (axes + 1, axes + 2) and len(weight) == axes + 2)
        _require(shape[-axes - 1] == weight[1] * groups and weight[0] % groups == 0)
        _require(given.get("bias", weight[:1]) == weight[:1])
        stride, dilation = (_each(given, name, axes, (1,)) for name in ("stride", "dilation"))
        reach = [step * (side - 1) for step, side in zip(dilation, weight[2:], strict=True)]
        padding = given.get("padding", (0,))
        if padding == "same":
            _require(set(stride) == {1})
            added = reach
        else:
            added = [0] * axes if padding == "valid" else [2 * side for side in _each(given, "padding", axes, (0,))]
        left = [side + more - far - 1 for side, more, far in zip(shape[-axes:], added, reach, strict=True)]
        _require(min(left) >= 0)
        sides = [rest // step + 1 for rest, step in zip(left, stride, strict=True)]
        return (*shape[: -axes - 1], weight[0], *sides)

    return rule


def _pooled(axes: int) -> Rule:
    def rule(given: Given) -> Shape:
        shape = given["self"]
        _require(len(shape) in (axes + 1, axes + 2))
        kernel = _each(given, "kernel_size", axes, ())
        others = [_each(given, *each) for each in (("stride", axes, kernel), ("padding", axes, (0,)))]
        dilation = _each(given, "dilation", axes, (1,))
        windows = zip(shape[-axes:], kernel, *others, dilation, strict=True)
        return (*shape[:-axes], *(_windows(*each, ceil=given.get("ceil_mode", False)) for each in windows))

    return rule


def _windows(length: int, kernel: int, stride: int, padding: int, dilation: int, *, ceil: bool) -> int:
    _require(2 * padding <= kernel)
    left = length + 2 * padding - dilation * (kernel - 1) - 1
    found = (-(-left // stride) if ceil else left // stride) + 1
    if ceil and (found - 1) * stride >= length + padding:
        found -= 1  # the last window would lie in what was added alone
    _require(found >= 1)
    return found


def _adapted(axes: int) -> Rule:
    def rule(given: Given) -> Shape:
        shape, size = given["self"], given["output_size"]
        _require(len(shape) in (axes + 1, axes + 2) and len(size) == axes)
        return (*shape[:-axes], *size)

    return rule


# --- norms ------------------------------------------------------------------------------------------------


def _by_groups(given: Given) -> Shape:
    shape, groups = given["input"], given["num_groups"]
    _require(len(shape) >= 2 and shape[1] % groups == 0)
    _require(all(given.get(name, shape[1:2]) == shape[1:2] for name in ("weight", "bias")))
    return tuple(shape)


def _by_layer(given: Given) -> Shape:
    shape, normalized = given["input"], given["normalized_shape"]
    _require(len(shape) >= len(normalized) and shape[len(shape) - len(normalized) :] == normalized)
    _require(all(given.get(name, normalized) == normalized for name in ("weight", "bias")))
    return tuple(shape)


# --- axes -------------------------------------------------------------------------------------------------
# That axes exist is checked before.


def _flattened(given: Given) -> Shape:
    shape = given["self"]
    if not shape:
        return (1,)
    first, last = (given.get(name, at) % len(shape) for name, at in (("start_dim", 0), ("end_dim", -1)))
    _require(first <= last)
    return (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])


def _filled(sizes: Shape, whole: int) -> Shape:
    """Return `sizes` with the one that is -1 such that they hold `whole` numbers."""
    open_ones = sizes.count(-1)
    rest = math.prod(size for size in sizes if size != -1)
    _require(open_ones <= 1 and rest > 0 and (whole % rest == 0 if open_ones else whole == rest))
    return tuple(whole // rest if size == -1 else size for size in sizes)


def _unflattened(given: Given) -> Shape:
    shape, at = given["self"], given["dim"] % len(given["self"])
    return (*shape[:at], *_filled(given["sizes"], shape[at]), *shape[at + 1 :])


def _reshaped(given: Given) -> Shape:
    return _filled(given["shape"], math.prod(given["self"]))


def _permuted(given: Given) -> Shape:
    shape = given["self"]
    order = [axis % len(shape) for axis in given["dims"]]
    _require(sorted(order) == list(range(len(shape))))
    return tuple(shape[axis] for axis in order)


def _swapped(given: Given) -> Shape:
    sides = list(given["self"])
    one, other = given["dim0"], given["dim1"]
    sides[one], sides[other] = sides[other], sides[one]
    return tuple(sides)


def _unsqueezed(given: Given) -> Shape:
    shape = given["self"]
    at = given["dim"] % (len(shape) + 1)
    return (*shape[:at], 1, *shape[at:])


def _without(shape: Shape, axis: int) -> Shape:
    at = axis % len(shape)
    return (*shape[:at], *shape[at + 1 :])


def _squeezed(given: Given) -> Shape:
    shape = given["self"]
    return _without(shape, given["dim"]) if shape[given["dim"]] == 1 else tuple(shape)


def _selected(given: Given) -> Shape:
    side = given["self"][given["dim"]]
    _require(-side <= given["index"] < side)
    return _without(given["self"], given["dim"])


def _sliced(given: Given) -> Shape:
    sides, axis = list(given["self"]), given.get("dim", 0)
    _require(bool(sides))
    part = slice(given.get("start"), given.get("end"), given.get("step", 1))
    sides[axis] = len(range(*part.indices(sides[axis])))
    return tuple(sides)


def _joined(given: Given) -> Shape:
    shapes, axis = given["tensors"], given.get("dim", 0)
    _require(bool(shapes[0]) and len({len(shape) for shape in shapes}) == 1)
    _require(len({_without(shape, axis) for shape in shapes}) == 1)
    sides = list(shapes[0])
    sides[axis] = sum(shape[axis] for shape in shapes)
    return tuple(sides)


def _reduced(given: Given) -> Shape:
    shape = given["self"]
    gone = [axis % len(shape) for axis in given["dim"]]
    _require(len(set(gone)) == len(gone))
    kept = given.get("keepdim", False)
    return tuple(1 if at in gone else side for at, side in enumerate(shape) if kept or at not in gone)


# --- losses: one number -----------------------------------------------------------------------------------


def _compared(first: str) -> Rule:
    def rule(given: Given) -> Shape:
        _broadcast(given[first], given["target"])
        return ()

    return rule


def _compared_with_odds(given: Given) -> Shape:
    _require(_broadcast(given["self"], given["target"]) == given["target"])
    return ()


def _compared_with_shares(given: Given) -> Shape:
    _require(bool(given["self"]) and given["self"] == given["target"])
    return ()


def _rules() -> dict[str, Rule]:
    rules: dict[str, Rule] = dict.fromkeys(
        (
            *("relu", "relu6", "tanh", "sigmoid", "silu", "selu", "hardswish", "hardsigmoid", "mish", "log_sigmoid"),
            *("abs", "neg", "exp", "log", "log1p", "sqrt", "square", "sin", "cos", "erf", "reciprocal", "trunc"),
            *("gelu", "elu", "celu", "leaky_relu", "softplus", "hardtanh", "clamp_min"),
        ),
        _alike,
    )
    rules["clamp"] = _clamped
    rules |= {"mean": _number, "sum": _number, "prelu": _slopes, "linear": _linear, "addmm": _added}
    rules |= dict.fromkeys(("maximum", "minimum"), _both)
    rules |= {"mm": _matrices(2, "mat2"), "bmm": _matrices(3, "mat2")}
    rules |= {"matmul": lambda given: _product(given["self"], given["other"])}
    for axes in (1, 2):
        rules[f"conv{axes}d"] = _filtered(axes)
        rules[f"max_pool{axes}d"] = rules[f"avg_pool{axes}d"] = _pooled(axes)
        rules[f"adaptive_avg_pool{axes}d"] = _adapted(axes)
    rules |= {"group_norm": _by_groups, "layer_norm": _by_layer, "reshape": _reshaped, "permute": _permuted}
    rules |= {"unsqueeze": _unsqueezed, "cat": _joined, "logsumexp": _reduced}
    rules |= {f"{name}_loss": _compared("self") for name in ("mse", "l1", "huber", "smooth_l1")}
    rules |= {"poisson_nll_loss": _compared("input"), "cross_entropy_loss": _compared_with_shares}
    rules |= {"binary_cross_entropy_with_logits": _compared_with_odds}
    named = {f"aten.{name}.default": rule for name, rule in rules.items()}
    named |= {f"aten.conv{axes}d.padding": _filtered(axes) for axes in (1, 2)}
    overloads: dict[str, Rule] = {"pow.Tensor_Scalar": _alike, "rsub.Scalar": _alike}
    overloads |= {f"{name}.Tensor": _both for name in ("add", "sub", "mul", "div")}
    overloads |= {"softmax.int": _alike, "log_softmax.int": _alike, "mean.dim": _reduced, "sum.dim_IntList": _reduced}
    overloads |= {"flatten.using_ints": _flattened, "unflatten.int": _unflattened, "transpose.int": _swapped}
    overloads |= {"squeeze.dim": _squeezed, "select.int": _selected, "slice.Tensor": _sliced}
    return named | {f"aten.{name}": rule for name, rule in overloads.items()} | dict(layers.SHAPES)


SHAPES: Mapping[str, Rule] = MappingProxyType(_rules())
