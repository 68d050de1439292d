"""Handwritten digits (MNIST) in the hands of people, ten each, and what is asked about them."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers import datasets
from papers.draw_discard import alternatives
from papers.draw_discard.crowd import Crowd
from thebes.privacy import randomness
from thebes.privacy.randomness import Randomness
from thebes.tasks import registry
from thebes.tasks.draw_discard.release import GeneralisedModel

PIXELS = tuple(f"p{place}" for place in range(784))
EACH = 10  #: digits of one person
FEATURIZER = f"SELECT {', '.join(PIXELS)}, digit FROM app.digits"  # noqa: S608, our own names
_SCALE = {"type": "range", "low": 0.0, "high": 1.0}
DOCUMENT: Mapping[str, Any] = {
    "type": "draw-discard",
    "min_count": 100,
    "featurizer": FEATURIZER,
    "family": "multinomial",
    "inputs": list(PIXELS),
    "output": "digit",
    "bounds": {**dict.fromkeys(PIXELS, _SCALE), "digit": {"type": "set", "values": list(range(10))}},
    "learning_rate": 0.001,
    "mechanism": "none",
}
WEIGHTS = 7850  #: of that model: ten for each pixel and for the intercept
_MADE_UP = 12_000


@dataclass(frozen=True, slots=True)
class Digits:
    """Some people who hold ten digits each, and 10,000 digits to test on."""

    crowd: Crowd
    people: int
    test: Mapping[str, NDArray[Any]]
    answers: NDArray[np.int64]
    made_up: bool

    def accuracy(self, model: GeneralisedModel) -> float:
        return float((model.predict(self.test) == self.answers).mean())

    def curves(
        self,
        asked: Mapping[str, Any],
        made: Callable[[Any, Randomness], alternatives.Server],
        seeds: Sequence[int],
        looks: Sequence[int],
    ) -> list[tuple[float, ...]]:
        """The accuracy that every seed reaches with one architecture, after each of so many passes."""
        document: Any = registry.check(asked)
        prepared, scores = self.crowd.prepared(document), []
        for seed in seeds:
            source = randomness.seeded_for_simulation(seed)
            run = alternatives.trained(document, prepared, self.people, made(document, source), source, looks=looks)
            scores.append([self.accuracy(GeneralisedModel(document, average[None, :])) for average in run])
        return list(zip(*scores, strict=True))

    def __str__(self) -> str:
        return f"{'made-up digits' if self.made_up else 'MNIST'}: {self.people:,} people with {EACH} digits each"


def digits(people: int, seed: int = 0) -> Digits:
    """So many people (at most as many as there are digits for), each with ten digits by chance."""
    train, labels, test, answers, made_up = _read() or _invented()
    people = min(people, len(labels) // EACH)
    chosen = np.random.default_rng(seed).permutation(len(labels))[: people * EACH]  # a split, not noise
    table = {**_columns(train[chosen]), "digit": labels[chosen], "person_id": np.repeat(np.arange(people), EACH)}
    return Digits(Crowd(FEATURIZER, table), people, _columns(test), answers, made_up)


def _columns(images: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
    return {pixel: images[:, place] / 255.0 for place, pixel in enumerate(PIXELS)}


def _read() -> tuple[Any, Any, Any, Any, bool] | None:
    names = [f"{part}-{what}-ubyte.gz" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")]
    held = [datasets.opened(f"mnist/{name}") for name in names]
    if any(file is None for file in held):
        return None
    plain = [np.frombuffer(gzip.decompress(file.getvalue()), dtype=np.uint8) for file in held if file is not None]
    train, test = (plain[place][16:].reshape(-1, 784) for place in (0, 2))
    seen, answers = (plain[place][8:].astype(np.int64) for place in (1, 3))
    return train, seen, test, answers, False


def _invented() -> tuple[Any, Any, Any, Any, bool]:
    """Ten blots, each drawn many times with a shaking hand. They say nothing about handwriting."""
    draw = np.random.default_rng(0)  # made-up digits, not noise
    blots = draw.random((10, 784)) < 0.15
    labels = draw.integers(10, size=2 * _MADE_UP)
    ink = np.where(draw.random((len(labels), 784)) < 0.7, blots[labels], draw.random((len(labels), 784)) < 0.15)
    images = (255 * ink * draw.uniform(0.5, 1, ink.shape)).astype(np.uint8)
    return images[:_MADE_UP], labels[:_MADE_UP], images[_MADE_UP:], labels[_MADE_UP:], True
