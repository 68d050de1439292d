"""A source of chance that writes down every exact sum before its noise, and can say again what another run heard.

Two fits over neighbouring rows that hear the same noisy answers walk the same path, so that what one unit moved can be
read off sum by sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.randomness import Randomness, Words, seeded_for_simulation
from thebes.privacy.samplers import Integers


class Recorder(Randomness):
    """Writes down every exact sum with its noise's kind and scale; with a `script`, answers from it instead of
    drawing."""

    simulated = True

    def __init__(self, seed: int, script: Sequence[Integers] | None = None) -> None:
        self.source, self.script = seeded_for_simulation(seed), script
        self.sums: list[Integers] = []
        self.kinds: list[str] = []
        self.scales: list[float] = []
        self.answers: list[Integers] = []

    def words(self, count: int) -> Words:
        return self.source.words(count)

    def laplace(self, values: Integers, *, scale: float) -> Integers:
        return self._hear("laplace", values, scale)

    def gaussian(self, values: Integers, *, scale: float) -> Integers:
        return self._hear("gaussian", values, scale)

    def _hear(self, kind: str, values: NDArray[Any], scale: float) -> Integers:
        turn = len(self.sums)
        self.sums.append(np.array(values))
        self.kinds.append(kind)
        self.scales.append(scale)
        drawn: Integers = getattr(self.source, kind)(values, scale=scale)
        self.answers.append(drawn if self.script is None else self.script[turn])
        return self.answers[-1]

    def __deepcopy__(self, memo: Any) -> Recorder:
        return self
