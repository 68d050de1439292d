"""Weights of a graph as safetensors bytes, and as one flat vector.

The flat order is that of `graph.weights`, which is the order of `module.named_parameters()`: only trained weights, each
row by row (C order), float32. Everything that arrives is checked against the consented graph before it is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.learning.graph.document import Graph, Weight
from thebes.privacy.faults import Mistake
from thebes.privacy.reading import read_json

MOST_HEADER_BYTES = 2**18
Values = Mapping[str, NDArray[np.float32]]


def pack(values: Values, weights: Sequence[Weight]) -> bytes:
    """`values` of exactly these weights, as safetensors."""
    from safetensors.numpy import save

    content = {weight.name: np.asarray(values[weight.name], dtype=np.float32, order="C") for weight in weights}
    return bytes(save(content))


def unpack(raw: bytes, weights: Sequence[Weight], *, argument: str) -> dict[str, NDArray[np.float32]]:
    """The values in `raw`: exactly these names and shapes, float32, finite.

    The header is read here first, bounded, so that the library only ever sees a file of the expected layout.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    _check_header(raw, weights, argument)
    if not weights:
        return {}
    try:
        values: dict[str, Any] = load(raw)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise Mistake(argument, "the weights are not safetensors") from error
    for weight in weights:
        if not np.isfinite(values[weight.name]).all():
            raise Mistake(argument, f"weight '{weight.name}' holds NaN or infinity")
    return {weight.name: np.array(values[weight.name], dtype=np.float32) for weight in weights}


def _check_header(raw: bytes, weights: Sequence[Weight], argument: str) -> None:
    length = int.from_bytes(raw[:8], "little")
    total = 4 * sum(weight.size for weight in weights)
    if len(raw) < 8 or length > MOST_HEADER_BYTES or len(raw) != 8 + length + total:
        raise Mistake(argument, "the weights are not safetensors of the graph's size")
    try:
        header = read_json(raw[8 : 8 + length].decode("ascii"), finite=True)
    except (UnicodeDecodeError, ValueError) as error:
        raise Mistake(argument, "the header of the weights cannot be read") from error
    if not isinstance(header, dict) or set(header) != {weight.name for weight in weights}:
        raise Mistake(argument, "the weights' names are not those of the graph")
    spans = []
    for weight in weights:
        entry = header[weight.name]
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"} or entry["dtype"] != "F32":
            raise Mistake(argument, f"weight '{weight.name}' must be float32 (F32)")
        if not _whole(entry["shape"]) or tuple(entry["shape"]) != weight.shape:
            raise Mistake(argument, f"weight '{weight.name}' must have the shape {list(weight.shape)}")
        span = entry["data_offsets"]
        if not _whole(span) or len(span) != 2 or span[1] - span[0] != 4 * weight.size:
            raise Mistake(argument, f"weight '{weight.name}' has offsets that do not fit its shape")
        spans.append((span[0], span[1]))
    place = 0
    for start, end in sorted(spans):
        if start != place:
            raise Mistake(argument, "the weights overlap or leave gaps")
        place = end


def _whole(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int for value in values)


def checked(graph: Graph, weights: ArrayLike, *, argument: str = "weights") -> NDArray[np.float32]:
    """A round's flat weights, checked against the consented graph: as many as it trains, all finite."""
    try:
        vector = np.asarray(weights, dtype=np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise Mistake(argument, "must be a list of numbers") from error
    if vector.shape != (graph.parameter_count,):
        raise Mistake(argument, f"must be one flat vector of {graph.parameter_count:,} numbers, as the graph trains")
    with np.errstate(over="ignore"):
        narrow = vector.astype(np.float32)
    if not np.isfinite(narrow).all():
        raise Mistake(argument, "must be finite float32 numbers")
    return narrow


def pack_flat(graph: Graph, weights: ArrayLike) -> bytes:
    """A flat vector of trained weights as safetensors with names and shapes."""
    return pack(named(graph, checked(graph, weights)), graph.trained)


def unpack_flat(graph: Graph, raw: bytes, *, argument: str = "weights") -> NDArray[np.float32]:
    """Safetensors of the trained weights as a flat vector, checked against the graph."""
    values = unpack(raw, graph.trained, argument=argument)
    parts = [values[weight.name].ravel() for weight in graph.trained]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.float32)


def named(graph: Graph, flat: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    """The flat vector cut into the graph's trained weights."""
    cuts = np.cumsum([math.prod(weight.shape) for weight in graph.trained])[:-1]
    parts = np.split(flat, cuts)
    return {weight.name: part.reshape(weight.shape) for weight, part in zip(graph.trained, parts, strict=True)}
