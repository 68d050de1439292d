"""Weights of a consented graph as safetensors: what a coordinator hands out in every round."""

from __future__ import annotations

import numpy as np

from thebes.learning.graph.document import Weight
from thebes.learning.graph.weights import pack, unpack

WEIGHTS = (Weight("layer.weight", (2, 3)), Weight("layer.bias", (2,)), Weight("scale", (), trained=False))


def one(data: bytes) -> None:
    values = unpack(data, WEIGHTS, argument="weights")
    again = unpack(pack(values, WEIGHTS), WEIGHTS, argument="weights")
    for weight in WEIGHTS:
        assert values[weight.name].shape == weight.shape
        assert np.array_equal(values[weight.name], again[weight.name])
