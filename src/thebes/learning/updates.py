"""What is done with a released direction: how the weights of a model move. All of it is post-processing.

A rule holds what it remembers between steps as named arrays, so that whoever runs it can put them away and go on later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Update(Protocol):
    """One way of moving weights."""

    def step(self, weights: Floats, direction: Floats) -> Floats:
        """The next weights; `direction` points uphill."""
        ...

    def memory(self) -> dict[str, Floats]:
        """What it needs to know at the next step."""
        ...

    def remember(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """The inverse of `memory`."""
        ...


class Sgd:
    """A step of `rate` downhill; with momentum m, along the sum of all directions so far, each m times the next."""

    def __init__(self, rate: float, momentum: float = 0.0) -> None:
        self.rate, self.momentum = rate, momentum
        self._velocity: Floats | None = None

    def step(self, weights: Floats, direction: Floats) -> Floats:
        if not self.momentum:
            return weights - self.rate * direction
        self._velocity = direction if self._velocity is None else self.momentum * self._velocity + direction
        return weights - self.rate * self._velocity

    def memory(self) -> dict[str, Floats]:
        return {} if self._velocity is None else {"velocity": self._velocity}

    def remember(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self._velocity = np.asarray(arrays["velocity"], dtype=np.float64) if "velocity" in arrays else None
