"""Small pictures of ten kinds (CIFAR-10), shrunk to 8 x 8 dots, and a residual network with group normalisation that
learns to tell them apart.

A picture is a row of 192 numbers: as many columns as a site's engine holds in the memory it is given by default.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from papers import cifar

SIDE = 8
PIXELS = tuple(f"p{place}" for place in range(3 * SIDE * SIDE))
KINDS = cifar.KINDS
GROUPS = 4
WEIGHTS = 5714  #: of the network
EACH = 533  #: pictures of a site, as in the paper
SCHEMA: dict[str, Any] = {
    "unit": "event",
    "columns": {
        **{pixel: {"type": "float", "low": 0.0, "high": 1.0} for pixel in PIXELS},
        "kind": {"type": "integer", "values": list(range(len(KINDS)))},
    },
}
_TRAIN, _TEST = 8000, 2000
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pictures:
    """Pictures to learn from, in an order that says nothing, and others to test on."""

    train: pd.DataFrame
    test: pd.DataFrame
    made_up: bool

    def at_sites(self, count: int) -> dict[str, pd.DataFrame]:
        """533 pictures at each site, none of them at two."""
        parts = [self.train.iloc[place * EACH : (place + 1) * EACH] for place in range(count)]
        return {f"site-{place + 1}": part.reset_index(drop=True) for place, part in enumerate(parts)}

    def __str__(self) -> str:
        whose = "made-up pictures" if self.made_up else cifar.called()
        return f"{whose}, shrunk to {SIDE} x {SIDE}: {len(self.train):,} to learn from, {len(self.test):,} to test on"


def pictures() -> Pictures:
    """Real ones where they and Pillow, which reads them, are there; else made-up ones, which say so."""
    found = cifar.pictures(SIDE, {"train": _TRAIN // len(KINDS), "test": _TEST // len(KINDS)})
    if found is None:
        return Pictures(_invented(_TRAIN, 1), _invented(_TEST, 2), made_up=True)
    train, test = (_table(dots.reshape(len(dots), -1) / 255.0, kinds) for dots, kinds in found.values())
    order = np.random.default_rng(0).permutation(_TRAIN)  # a split, not noise
    return Pictures(train.iloc[order].reset_index(drop=True), test, made_up=False)


def _invented(count: int, seed: int) -> pd.DataFrame:
    """Ten patterns with a shaking hand. They say nothing about pictures."""
    patterns = np.random.default_rng(0).random((len(KINDS), len(PIXELS)))  # made-up pictures, not noise
    draw = np.random.default_rng(seed)
    kinds = draw.integers(len(KINDS), size=count)
    shaken = patterns[kinds] + draw.normal(0, 0.6, (count, len(PIXELS)))
    return _table(np.clip(shaken, 0, 1), kinds)


def _table(dots: Numbers, kinds: NDArray[np.int64]) -> pd.DataFrame:
    table = pd.DataFrame(dots, columns=list(PIXELS))
    table["kind"] = kinds
    return table


def training(**more: Any) -> dict[str, Any]:
    """The document by which a new network learns from pictures; `more` says how long, with which samples and noise."""
    model, loss = network()
    told = {"type": "train", "model": model, "loss": loss, "inputs": list(PIXELS), "output": "kind"}
    return {**told, "learning_rate": 0.3, "clip": 5.0, "delta": 1e-6, **more}


@cache
def network() -> tuple[str, str]:
    """A new residual network as a task's `model` and `loss`: the same start every time. It averages over quarters of
    a picture, as what is left of one is too small to be averaged whole, and at first it prefers no kind."""
    import torch
    from torch import nn

    from thebes.torch import encode

    class Block(nn.Module):  # type: ignore[misc]
        """Two convolutions beside a way around them."""

        def __init__(self, before: int, after: int, stride: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
            self.first_norm = nn.GroupNorm(GROUPS, after)
            self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
            self.second_norm = nn.GroupNorm(GROUPS, after)
            same = stride == 1 and before == after
            self.around = None if same else nn.Conv2d(before, after, 1, stride=stride, bias=False)

        def forward(self, given: Any) -> Any:
            told = self.second_norm(self.second(torch.relu(self.first_norm(self.first(given)))))
            return torch.relu(told + (given if self.around is None else self.around(given)))

    torch.manual_seed(0)
    stem = (nn.Unflatten(1, (3, SIDE, SIDE)), nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.GroupNorm(GROUPS, 8))
    body = (nn.ReLU(), Block(8, 8, 1), Block(8, 16, 2), nn.AvgPool2d(SIDE // 4), nn.Flatten())
    last = nn.Linear(64, len(KINDS))
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return encode(nn.Sequential(*stem, *body, last), nn.CrossEntropyLoss())
