"""Pictures of ten kinds (CIFAR-10), shrunk to 16 x 16 dots: five kinds are anybody's, the other five people keep."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papers import cifar

SIDE = 16
SHAPE = (3, SIDE, SIDE)
#: a network learns to see from these; the rest are each one person's
PUBLIC, KEPT = cifar.KINDS[:5], cifar.KINDS[5:]
_TRAIN, _TEST = 5000, 1000  #: of each kind
_QUICK_TRAIN, _QUICK_TEST = 400, 200
Dots = NDArray[np.float32]
Kinds = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pictures:
    """Rows of 768 numbers around zero, in an order that says nothing; kinds are 0 to 4 among their own five."""

    public: tuple[Dots, Kinds]
    kept: tuple[Dots, Kinds]
    test: tuple[Dots, Kinds]  #: of the kinds that people keep
    made_up: bool

    def __str__(self) -> str:
        whose = "made-up pictures" if self.made_up else cifar.called()
        return (
            f"{whose}, shrunk to {SIDE} x {SIDE}: {len(self.public[0]):,} of {', '.join(PUBLIC)} for the network; "
            f"of {', '.join(KEPT)} {len(self.kept[0]):,}, one each person's, and {len(self.test[0]):,} to test on"
        )


def pictures(*, quick: bool = False) -> Pictures:
    """Real ones where they and Pillow are there; else made-up ones, which say so."""
    most = {"train": _QUICK_TRAIN, "test": _QUICK_TEST} if quick else {"train": _TRAIN, "test": _TEST}
    found = cifar.pictures(SIDE, most)
    made_up = found is None
    if found is None:
        found = {part: _invented(_QUICK_TRAIN if part == "train" else _QUICK_TEST, part) for part in most}
    train, test = found["train"], found["test"]
    first = len(PUBLIC)
    return Pictures(_some(*train, 0, first), _some(*train, first, 10), _some(*test, first, 10), made_up)


def _some(dots: NDArray[np.uint8], kinds: Kinds, least: int, below: int) -> tuple[Dots, Kinds]:
    chosen = np.flatnonzero((kinds >= least) & (kinds < below))
    chosen = np.random.default_rng(0).permutation(chosen)  # an order, not noise
    rows = dots[chosen].reshape(len(chosen), -1).astype(np.float32)
    return ((rows - 127.5) / 64).astype(np.float32), kinds[chosen] - least


def _invented(each: int, part: str) -> tuple[NDArray[np.uint8], Kinds]:
    """Ten patterns, somewhere in the picture, seen by a shaking hand. They say nothing about pictures."""
    patterns = np.random.default_rng(0).integers(0, 256, (10, 3, 4, 4))  # made-up pictures, not noise
    draw = np.random.default_rng(1 if part == "train" else 2)
    kinds = np.repeat(np.arange(10), each)
    large = patterns[kinds].repeat(4, axis=2).repeat(4, axis=3)
    shifts = draw.integers(0, 4, len(kinds))
    moved = np.stack([np.roll(picture, shift, axis=2) for picture, shift in zip(large, shifts, strict=True)])
    shaken = moved + draw.normal(0, 60, moved.shape)
    return np.clip(shaken, 0, 255).astype(np.uint8), kinds
