"""The rule when to stop going down: by what is public, or was released with noise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stop:
    """After `rounds`, or after the first that moves the weights by no more than `tolerance` (L2)."""

    rounds: int
    tolerance: float | None = None

    def over(self, done: int, moved: float) -> bool:
        """Return whether the last of so many rounds, which moved the weights so far, was the last."""
        return done >= self.rounds or (self.tolerance is not None and moved <= self.tolerance)
