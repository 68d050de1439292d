"""The network of the LEAP paper's experiments, as it fits pictures of 32 x 32: batch norm, in which people would change
each other's gradients, is group norm."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

_GROUPS = 8


class ResidualBlock(nn.Module):  # type: ignore[misc]
    """Two convolutions beside a way around them."""

    def __init__(self, taken: int, given: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(taken, given, 3, stride, 1, bias=False)
        self.first_norm = nn.GroupNorm(_GROUPS, given)
        self.second = nn.Conv2d(given, given, 3, 1, 1, bias=False)
        self.second_norm = nn.GroupNorm(_GROUPS, given)
        self.around = nn.Identity()
        if stride > 1 or taken != given:
            self.around = nn.Sequential(nn.Conv2d(taken, given, 1, stride, bias=False), nn.GroupNorm(_GROUPS, given))

    def forward(self, points: Any) -> Any:
        found = torch.relu(self.first_norm(self.first(points)))
        return torch.relu(self.second_norm(self.second(found)) + self.around(points))


def resnet18(classes: int, seed: int = 1) -> nn.Module:
    """Make the network with the weights of a seed."""
    torch.manual_seed(seed)
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.GroupNorm(_GROUPS, 64), nn.ReLU()]
    taken = 64
    for given, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [ResidualBlock(taken, given, stride), ResidualBlock(given, given, 1)]
        taken = given
    return nn.Sequential(*layers, nn.AvgPool2d(4), nn.Flatten(), nn.Linear(512, classes))
