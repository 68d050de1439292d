"""Convolutional backbones as torch modules, with the parameter names of their published weight files.

SqueezeNet 1.1 (Iandola et al. 2016) and VGG 11 and 16 (Simonyan & Zisserman 2015) keep the numbering of torchvision's
`features`, so that converted files fit; `small` is the project's own. Each ends in averaged features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from thebes.privacy.faults import Mistake

SMALL_GROUPS = 4


class Backbone(nn.Module):  # type: ignore[misc]
    """Layers called `features`, then the mean over a grid of `cells` x `cells`, flattened."""

    def __init__(self, features: Any, *, cells: int = 1) -> None:
        super().__init__()
        self.features = features
        self.cells = cells

    def forward(self, pictures: Any) -> Any:
        return torch.flatten(nn.functional.adaptive_avg_pool2d(self.features(pictures), self.cells), 1)


class Fire(nn.Module):  # type: ignore[misc]
    """SqueezeNet's block: few channels, then 1x1 and 3x3 filters side by side."""

    def __init__(self, channels: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, squeezed, 1)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, pictures: Any) -> Any:
        few = torch.relu(self.squeeze(pictures))
        return torch.cat([torch.relu(self.expand1x1(few)), torch.relu(self.expand3x3(few))], 1)


def _squeezenet1_1() -> Backbone:
    def smaller() -> nn.MaxPool2d:
        return nn.MaxPool2d(3, stride=2, ceil_mode=True)

    return Backbone(
        nn.Sequential(
            *(nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(), smaller()),
            *(Fire(64, 16, 64), Fire(128, 16, 64), smaller()),
            *(Fire(128, 32, 128), Fire(256, 32, 128), smaller()),
            *(Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256)),
        )
    )


def _vgg(*stages: tuple[int, int]) -> Backbone:
    layers: list[Any] = []
    channels = 3
    for repeats, width in stages:
        for _ in range(repeats):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return Backbone(nn.Sequential(*layers))


def _small() -> Backbone:
    layers: list[Any] = []
    channels = 3
    for width in (12, 20, 32):
        block = (nn.Conv2d(channels, width, 3, padding=1), nn.GroupNorm(SMALL_GROUPS, width), nn.ReLU())
        layers += [*block, nn.MaxPool2d(2)]
        channels = width
    return Backbone(nn.Sequential(*layers), cells=2)


ARCHITECTURES: Mapping[str, Callable[[], Backbone]] = MappingProxyType(
    {
        "small": _small,
        "squeezenet1_1": _squeezenet1_1,
        "vgg11": lambda: _vgg((1, 64), (1, 128), (2, 256), (2, 512), (2, 512)),
        "vgg16": lambda: _vgg((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)),
    }
)


def architecture(name: str) -> Backbone:
    """A new module of this name, with torch's random initial weights."""
    if name not in ARCHITECTURES:
        raise Mistake("backbone", f"must be one of {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]()
