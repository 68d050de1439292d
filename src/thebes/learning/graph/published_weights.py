"""Weights of backbones that torchvision publishes, learned from ImageNet: the files and their whole SHA-256.

A file's own name holds the first eight digits. Where they lie is no part of this: `python -m papers fetch` knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Weights:
    file: str
    sha256: str
    bytes: int


#: by the name of the architecture
PUBLISHED: Mapping[str, Weights] = MappingProxyType(
    {
        "squeezenet1_1": Weights(
            "squeezenet1_1-b8a52dc0.pth",
            "b8a52dc049b60e4b6ab68ad0df457362afab8b6304b2febdc1650a5dab4d7e7b",
            4_958_839,
        ),
        "vgg16": Weights(
            "vgg16-397923af.pth",
            "397923af8e79cdbb6a7127f12361acd7a2f83e06b05044ddf496e83de57a5bf0",
            553_433_881,
        ),
    }
)
