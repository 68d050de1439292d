"""The measurement that a mechanism hands back: a noisy value, how far it may be from the truth, and the event that must
be paid for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.events import Event
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Adjacency

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """Holds the value that noise hid with probability at least `level`."""

    level: float
    low: float | Floats
    high: float | Floats

    def as_json(self) -> dict[str, Any]:
        return {"level": self.level, "low": _plain(self.low), "high": _plain(self.high)}


def _plain(end: float | Floats) -> Any:
    return end.tolist() if isinstance(end, np.ndarray) else float(end)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One mechanism's outcome. `event` is what happened under `adjacency`; pricing it is somebody else's work.

    `spread(level)` gives how far the value may lie below and above what noise hid; None where no honest
    statement is known. `bought` is an interval whose ends were measured inside the same budget (quantiles):
    it holds at its own level and at every lower one, and says nothing about a higher one.
    """

    value: Any
    event: Event
    adjacency: Adjacency
    mechanism: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    spread: Callable[[float], tuple[Any, Any]] | None = None
    simulated: bool = False
    bought: Interval | None = None

    def interval(self, level: float = 0.95) -> Interval | None:
        """Return where the exact answer lies with probability at least `level`, as far as this noise goes."""
        if not 0 < level < 1:
            raise Mistake("level", "must lie between 0 and 1")
        if self.bought is not None:
            return self.bought if level <= self.bought.level else None
        if self.spread is None:
            return None
        below, above = self.spread(level)
        return Interval(level, self.value - above, self.value + below)


def laplace_spread(scale: float) -> Callable[[float], tuple[float, float]]:
    """The two-sided spread of Laplace noise: P(|noise| > scale * ln(1/(1-level))) = 1 - level."""

    def spread(level: float) -> tuple[float, float]:
        width = -scale * math.log(1 - level)
        return width, width

    return spread
