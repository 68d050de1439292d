"""Uses of a released direction: how the weights of a model move. All of it is post-processing.

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

    def step(self, weights: Floats, direction: Floats, curvature: Floats | None = None, doubt: float = 0.0) -> Floats:
        """The next weights. `direction` points uphill; `curvature` is the matrix of second derivatives where the rule
        asks for it, and `doubt` how large the spectral norm of its noise is expected to be."""
        ...

    def memory(self) -> dict[str, Floats]:
        """Return what the update needs to know at the next step."""
        ...

    def remember(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """The inverse of `memory`."""
        ...


class Sgd:
    """A step of `rate` downhill; with momentum m, along the sum of all directions so far, each m times the next."""

    def __init__(self, rate: float, momentum: float = 0.0) -> None:
        self.rate, self.momentum = rate, momentum
        self._velocity: Floats | None = None

    def step(self, weights: Floats, direction: Floats, curvature: Floats | None = None, doubt: float = 0.0) -> Floats:
        if not self.momentum:
            return weights - self.rate * direction
        self._velocity = direction if self._velocity is None else self.momentum * self._velocity + direction
        return weights - self.rate * self._velocity

    def memory(self) -> dict[str, Floats]:
        return {} if self._velocity is None else {"velocity": self._velocity}

    def remember(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self._velocity = np.asarray(arrays["velocity"], dtype=np.float64) if "velocity" in arrays else None


class Adam:
    """Steps of about `rate` in every weight (Kingma & Ba 2015, algorithm 1, with its decay rates)."""

    FIRST, SECOND, LEAST = 0.9, 0.999, 1e-8

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._first: Floats | None = None
        self._second: Floats | None = None
        self._steps = 0

    def step(self, weights: Floats, direction: Floats, curvature: Floats | None = None, doubt: float = 0.0) -> Floats:
        self._steps += 1
        before = np.zeros_like(direction) if self._first is None else self._first
        squares = np.zeros_like(direction) if self._second is None else self._second
        self._first = self.FIRST * before + (1 - self.FIRST) * direction
        self._second = self.SECOND * squares + (1 - self.SECOND) * direction * direction
        mean, spread = self._first / (1 - self.FIRST**self._steps), self._second / (1 - self.SECOND**self._steps)
        return np.asarray(weights - self.rate * mean / (np.sqrt(spread) + self.LEAST))

    def memory(self) -> dict[str, Floats]:
        if self._first is None or self._second is None:
            return {}
        return {"first": self._first, "second": self._second, "steps": np.array([float(self._steps)])}

    def remember(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        if "first" not in arrays:
            self._first = self._second = None
            self._steps = 0
            return
        self._first, self._second = (np.asarray(arrays[name], dtype=np.float64) for name in ("first", "second"))
        self._steps = int(np.asarray(arrays["steps"], dtype=np.float64)[0])


class Newton:
    """To the bottom of the parabola that direction and curvature describe, or `rate` of the way. In what is no steeper
    than `ridge`, or than the curvature's noise, it goes as if it were that steep: so noise makes no long steps."""

    def __init__(self, rate: float, ridge: float) -> None:
        self.rate, self.ridge = rate, ridge

    def step(self, weights: Floats, direction: Floats, curvature: Floats | None = None, doubt: float = 0.0) -> Floats:
        assert curvature is not None  # noqa: S101
        steepness, axes = np.linalg.eigh((curvature + curvature.T) / 2)
        along = axes.T @ direction
        return np.asarray(weights - self.rate * (axes @ (along / np.maximum(steepness, max(self.ridge, doubt)))))

    def memory(self) -> dict[str, Floats]:
        return {}

    def remember(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Nothing is remembered."""
