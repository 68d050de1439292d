"""A network that learned to see from other people's public pictures, as text that owners install."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.tiresias.pictures import PUBLIC, SHAPE, Dots, Kinds
from thebes.learning.graph.backbones import Catalogue, write_backbone

FEATURES = 32
EPOCHS, QUICK_EPOCHS = 7, 3
_AT_ONCE = 64


@dataclass(frozen=True)
class Backbone:
    """`module` sees `FEATURES` of a picture: the directions in which public pictures differ most, each scaled so that
    it has mean 0 and deviation 1 on them. `text` is the same as data."""

    module: Any
    text: str

    def features(self, dots: Dots) -> NDArray[np.float64]:
        """Of each row of dots, without autograd."""
        import torch

        with torch.no_grad():
            parts = [self.module(torch.from_numpy(part).reshape(-1, *SHAPE)).numpy() for part in _some(dots)]
        return np.concatenate(parts).astype(np.float64)


def learned(dots: Dots, kinds: Kinds, *, epochs: int) -> Backbone:
    """Train the project's small architecture to tell public kinds apart, and keep what it sees instead of its guess."""
    import torch
    from torch import nn

    from thebes.learning.graph.architectures import architecture

    with torch.random.fork_rng(devices=[]), one_thread():
        torch.manual_seed(0)
        seeing = architecture("small")
        seen = seeing(torch.zeros(1, *SHAPE)).shape[1]
        train(nn.Sequential(seeing, nn.Linear(seen, len(PUBLIC))), dots, kinds, epochs=epochs)
        with torch.no_grad():
            parts = [seeing(torch.from_numpy(part).reshape(-1, *SHAPE)).numpy() for part in _some(dots)]
        whole = nn.Sequential(seeing, _main_directions(np.concatenate(parts).astype(np.float64)))
    return Backbone(whole, write_backbone(whole, shape=SHAPE))


def train(network: Any, dots: Dots, kinds: Kinds, *, epochs: int) -> None:
    """In place, on batches in random order, every second one mirrored."""
    import torch

    steps = epochs * -(-len(dots) // _AT_ONCE)
    optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=6e-3, total_steps=steps)
    everything, truths = torch.from_numpy(dots).reshape(-1, *SHAPE), torch.from_numpy(kinds)
    for _ in range(epochs):
        for batch in torch.randperm(len(everything)).split(_AT_ONCE):
            rows = everything[batch]
            rows = rows.flip(3) if torch.rand(()) < 0.5 else rows
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(network(rows), truths[batch]).backward()
            optimiser.step()
            schedule.step()


def _main_directions(seen: NDArray[np.float64]) -> Any:
    """The first principal components as a layer, each with deviation 1. Pictures are public, so this costs nobody."""
    import torch

    spread = seen.std(axis=0) + 1e-6
    steepness, axes = np.linalg.eigh(np.cov((seen / spread).T))
    scale = 1 / np.sqrt(np.maximum(steepness[::-1][:FEATURES], 1e-6))
    weights = axes[:, ::-1][:, :FEATURES] * scale / spread[:, None]
    layer = torch.nn.Linear(seen.shape[1], FEATURES)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weights.T.copy()))
        layer.bias.copy_(torch.from_numpy(-seen.mean(axis=0) @ weights))
    return layer


@contextmanager
def installed(backbone: Backbone) -> Iterator[str]:
    """Its digest, while everybody who is simulated has it in a catalogue of their own."""
    before = os.environ.get("THEBES_BACKBONES")
    with TemporaryDirectory(prefix="thebes-") as folder:
        os.environ["THEBES_BACKBONES"] = folder
        try:
            yield Catalogue(Path(folder)).add(backbone.text)
        finally:
            if before is None:
                del os.environ["THEBES_BACKBONES"]
            else:
                os.environ["THEBES_BACKBONES"] = before


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums in one order: with several threads the same seed need not give the same network."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _some(dots: Dots) -> Iterator[Dots]:
    for start in range(0, len(dots), 1000):
        yield dots[start : start + 1000]
