"""Layers of our own over a sequence, each one node of a graph: recurrent layers, attention, and embedding.

torch's kernels of these are fused, choose by the machine, and read memory at an index that a row holds. These here are
sums of products as any other layer: an index is compared with every place of its table, so that none is ever followed.
What must stay true: every shape is checked before anything is computed, by the rules from which a document's reader
knows the shape of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

MOST_STEPS = 128  #: of a sequence that a recurrent layer reads


class UnfitLayer(Exception):
    """Tensors that a layer does not take; the text says which rule, never raised to a caller."""


def lstm(
    input: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any = None, bias_hh: Any = None, reverse: bool = False
) -> Any:
    """Give the hidden state after each step of (1, steps, columns), as torch.nn.LSTM does from a state of zeros."""
    hidden, drives = _driven(input, weight_ih, weight_hh, bias_ih, bias_hh, 4)
    state, cell = _zeros(hidden), _zeros(hidden)
    states = []
    for place in _order(input, reverse):
        entry, forget, new, out = (drives[:, place] + _linear(state, weight_hh, bias_hh)).chunk(4, dim=-1)
        cell = forget.sigmoid() * cell + entry.sigmoid() * new.tanh()
        state = out.sigmoid() * cell.tanh()
        states.append(state)
    return _stacked(states, reverse)


def gru(
    input: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any = None, bias_hh: Any = None, reverse: bool = False
) -> Any:
    """Give the hidden state after each step of (1, steps, columns), as torch.nn.GRU does from a state of zeros."""
    hidden, drives = _driven(input, weight_ih, weight_hh, bias_ih, bias_hh, 3)
    state = _zeros(hidden)
    states = []
    for place in _order(input, reverse):
        resets, updates, candidates = drives[:, place].chunk(3, dim=-1)
        reset, update, candidate = _linear(state, weight_hh, bias_hh).chunk(3, dim=-1)
        kept = (updates + update).sigmoid()
        state = kept * state + (1 - kept) * (candidates + (resets + reset).sigmoid() * candidate).tanh()
        states.append(state)
    return _stacked(states, reverse)


def attention(query: Any, key: Any, value: Any, is_causal: bool = False, scale: float | None = None) -> Any:
    """Give softmax(query key' scale) value; with `is_causal` a place sees those up to its own."""
    import torch

    attention_shape(_shapes(query=query, key=key, value=value))
    scores = query.matmul(key.transpose(-2, -1)) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        seen = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    return scores.softmax(dim=-1).matmul(value)


def embedding(weight: Any, indices: Any, padding_idx: int = -1) -> Any:
    """Give for each of the indices its row of `weight`; zeros for what is no whole number from 0 to the last row.

    The row `padding_idx` is given and has no gradient.
    """
    import torch

    embedding_shape(_shapes(weight=weight, indices=indices))
    places = torch.arange(weight.shape[0], dtype=torch.float32)
    if 0 <= padding_idx < weight.shape[0]:
        weight = torch.where((places == padding_idx).unsqueeze(-1), weight.detach(), weight)
    return (indices.unsqueeze(-1) == places).to(torch.float32).matmul(weight)


def _driven(input: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, gates: int) -> tuple[int, Any]:
    """Return how many numbers the state has, and what the input adds to each gate at every step."""
    given = _shapes(input=input, weight_ih=weight_ih, weight_hh=weight_hh, bias_ih=bias_ih, bias_hh=bias_hh)
    hidden = _recurrent_shape(given, gates)[-1]
    return hidden, _linear(input, weight_ih, bias_ih)


def _linear(of: Any, weight: Any, bias: Any) -> Any:
    product = of.matmul(weight.transpose(0, 1))
    return product if bias is None else product + bias


def _zeros(hidden: int) -> Any:
    import torch

    return torch.zeros(1, hidden, dtype=torch.float32)


def _order(input: Any, reverse: bool) -> list[int]:
    """Return the steps in the order they are read."""
    places = list(range(input.shape[1]))
    return places[::-1] if reverse else places


def _stacked(states: list[Any], reverse: bool) -> Any:
    import torch

    return torch.stack(states[::-1] if reverse else states, dim=1)


KERNELS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"thebes.lstm": lstm, "thebes.gru": gru, "thebes.attention": attention, "thebes.embedding": embedding}
)

# --- shapes of the results ----------------------------------------------------------------------------------

_Given = Mapping[str, Any]  # a tensor is its shape; one that is not given is absent


def _shapes(**tensors: Any) -> _Given:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items() if tensor is not None}


def _recurrent_shape(given: _Given, gates: int) -> tuple[int, ...]:
    shape, weight = given["input"], given["weight_hh"]
    if len(shape) != 3 or shape[0] != 1:
        raise UnfitLayer("takes one sequence: (1, steps, columns)")
    if shape[1] > MOST_STEPS:
        raise UnfitLayer(f"reads more than {MOST_STEPS} steps")
    hidden = weight[-1] if weight else 0
    if given["weight_ih"] != (gates * hidden, shape[2]) or weight != (gates * hidden, hidden):
        raise UnfitLayer("takes weights of (gates times hidden, columns) and (gates times hidden, hidden)")
    if any(given.get(bias, (gates * hidden,)) != (gates * hidden,) for bias in ("bias_ih", "bias_hh")):
        raise UnfitLayer("takes one bias for each gate of each hidden number")
    return (1, shape[1], hidden)


def attention_shape(given: _Given) -> tuple[int, ...]:
    query, key, value = (given[name] for name in ("query", "key", "value"))
    if min(map(len, (query, key, value))) < 2 or not query[:-2] == key[:-2] == value[:-2]:
        raise UnfitLayer("takes query, key and value that agree in all but their last two axes")
    if query[-1] != key[-1] or key[-2] != value[-2]:
        raise UnfitLayer("takes as many keys as values, as wide as the queries")
    return (*query[:-1], value[-1])


def embedding_shape(given: _Given) -> tuple[int, ...]:
    if len(given["weight"]) != 2:
        raise UnfitLayer("takes a table of two axes")
    return (*given["indices"], given["weight"][1])


SHAPES: Mapping[str, Callable[[_Given], tuple[int, ...]]] = MappingProxyType(
    {
        "thebes.lstm": lambda given: _recurrent_shape(given, 4),
        "thebes.gru": lambda given: _recurrent_shape(given, 3),
        "thebes.attention": attention_shape,
        "thebes.embedding": embedding_shape,
    }
)

# --- costs of one number of the result ----------------------------------------------------------------------

_Shapes = Mapping[str, tuple[int, ...]]


def recurrent_effort(shapes: _Shapes, arguments: Mapping[str, Any]) -> int:
    """Count the multiplications: each gate of a hidden number reads the input and the state."""
    return 4 * (shapes["weight_ih"][1] + shapes["weight_hh"][1]) + 8


def recurrent_held(shapes: _Shapes, arguments: Mapping[str, Any]) -> int:
    """Count the numbers that are kept: gates before and after, the cell, the state and products of these."""
    return 24


def attention_effort(shapes: _Shapes, arguments: Mapping[str, Any]) -> int:
    keys, wide = shapes["key"][-2], shapes["value"][-1]
    return keys + -(-keys * shapes["query"][-1] // wide)


def attention_held(shapes: _Shapes, arguments: Mapping[str, Any]) -> int:
    """Count the numbers that are kept: scores, hidden ones and shares, one of each for every query and key."""
    return 1 + -(-4 * shapes["key"][-2] // shapes["value"][-1])


def embedding_effort(shapes: _Shapes, arguments: Mapping[str, Any]) -> int:
    return shapes["weight"][0]


def embedding_held(shapes: _Shapes, arguments: Mapping[str, Any]) -> int:
    """Count the numbers that are kept: whether an index is this place, for every place of the table."""
    return 1 + -(-2 * shapes["weight"][0] // shapes["weight"][1])
