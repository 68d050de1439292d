"""Layers of our own over a sequence, each one node of a graph: recurrent layers, attention, and embedding.

torch's kernels of these are fused, choose by the machine, and read memory at an index that a row holds. These here are
sums of products as any other layer: an index is compared with every place of its table, so that none is ever followed.
What must stay true: every shape is checked before anything is computed, and on torch's `meta` device, which has shapes
only, a layer costs one step however long its sequence is.
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
    state, cell = _zeros(input, hidden), _zeros(input, hidden)
    states = []
    for place in _order(input, reverse):
        entry, forget, new, out = (drives[:, place] + _linear(state, weight_hh, bias_hh)).chunk(4, dim=-1)
        cell = forget.sigmoid() * cell + entry.sigmoid() * new.tanh()
        state = out.sigmoid() * cell.tanh()
        states.append(state)
    return _stacked(input, states, reverse)


def gru(
    input: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any = None, bias_hh: Any = None, reverse: bool = False
) -> Any:
    """Give the hidden state after each step of (1, steps, columns), as torch.nn.GRU does from a state of zeros."""
    hidden, drives = _driven(input, weight_ih, weight_hh, bias_ih, bias_hh, 3)
    state = _zeros(input, hidden)
    states = []
    for place in _order(input, reverse):
        resets, updates, candidates = drives[:, place].chunk(3, dim=-1)
        reset, update, candidate = _linear(state, weight_hh, bias_hh).chunk(3, dim=-1)
        kept = (updates + update).sigmoid()
        state = kept * state + (1 - kept) * (candidates + (resets + reset).sigmoid() * candidate).tanh()
        states.append(state)
    return _stacked(input, states, reverse)


def attention(query: Any, key: Any, value: Any, is_causal: bool = False, scale: float | None = None) -> Any:
    """Give softmax(query key' scale) value; with `is_causal` a place sees those up to its own."""
    import torch

    shapes = [tuple(each.shape) for each in (query, key, value)]
    if min(map(len, shapes)) < 2 or len({shape[:-2] for shape in shapes}) != 1:
        raise UnfitLayer("takes query, key and value that agree in all but their last two axes")
    if shapes[0][-1] != shapes[1][-1] or shapes[1][-2] != shapes[2][-2]:
        raise UnfitLayer("takes as many keys as values, as wide as the queries")
    scores = query.matmul(key.transpose(-2, -1)) * (shapes[0][-1] ** -0.5 if scale is None else scale)
    if is_causal:
        seen = torch.ones(shapes[0][-2], shapes[1][-2], dtype=torch.bool, device=query.device).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    return scores.softmax(dim=-1).matmul(value)


def embedding(weight: Any, indices: Any, padding_idx: int = -1) -> Any:
    """Give for each of the indices its row of `weight`; zeros for what is no whole number from 0 to the last row.

    The row `padding_idx` is given and has no gradient.
    """
    import torch

    if weight.dim() != 2:
        raise UnfitLayer("takes a table of two axes")
    places = torch.arange(weight.shape[0], dtype=torch.float32, device=weight.device)
    if 0 <= padding_idx < weight.shape[0]:
        weight = torch.where((places == padding_idx).unsqueeze(-1), weight.detach(), weight)
    return (indices.unsqueeze(-1) == places).to(torch.float32).matmul(weight)


def _driven(input: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, gates: int) -> tuple[int, Any]:
    """Return how many numbers the state has, and what the input adds to each gate at every step."""
    shape, hidden = tuple(input.shape), int(weight_hh.shape[-1])
    if len(shape) != 3 or shape[0] != 1:
        raise UnfitLayer("takes one sequence: (1, steps, columns)")
    if shape[1] > MOST_STEPS:
        raise UnfitLayer(f"reads more than {MOST_STEPS} steps")
    if tuple(weight_ih.shape) != (gates * hidden, shape[2]) or tuple(weight_hh.shape) != (gates * hidden, hidden):
        raise UnfitLayer("takes weights of (gates times hidden, columns) and (gates times hidden, hidden)")
    if any(bias is not None and tuple(bias.shape) != (gates * hidden,) for bias in (bias_ih, bias_hh)):
        raise UnfitLayer("takes one bias for each gate of each hidden number")
    return hidden, _linear(input, weight_ih, bias_ih)


def _linear(of: Any, weight: Any, bias: Any) -> Any:
    product = of.matmul(weight.transpose(0, 1))
    return product if bias is None else product + bias


def _zeros(input: Any, hidden: int) -> Any:
    import torch

    return torch.zeros(1, hidden, dtype=torch.float32, device=input.device)


def _order(input: Any, reverse: bool) -> list[int]:
    """Return the steps in the order they are read; one of them where there are only shapes."""
    places = list(range(1 if input.is_meta else input.shape[1]))
    return places[::-1] if reverse else places


def _stacked(input: Any, states: list[Any], reverse: bool) -> Any:
    import torch

    if input.is_meta:
        return states[0].unsqueeze(1).expand(-1, input.shape[1], -1)
    return torch.stack(states[::-1] if reverse else states, dim=1)


KERNELS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"thebes.lstm": lstm, "thebes.gru": gru, "thebes.attention": attention, "thebes.embedding": embedding}
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
