"""Totals that may be off by a bounded amount, with or without noise beside it: what a synopsis answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from thebes.privacy.mechanisms.additive import Ball, Hiding


@dataclass(frozen=True, slots=True)
class Off:
    """Every coordinate is off by at most `by`, all of them at once, and by the noise `beside`, if there is any. The
    odds that `by` is exceeded are whoever's who states a level: they add to the noise's odds of missing it."""

    by: float
    beside: Hiding | None = None

    @property
    def kind(self) -> str:
        return "bounded" if self.beside is None else f"{self.beside.kind} and bounded"

    def width(self, level: float) -> float:
        """See `Hiding`."""
        return self.by + (0.0 if self.beside is None else self.beside.width(level))

    def pair_width(self, share: float, level: float) -> float:
        """See `Hiding`. Weights that add up to 1 move two coordinates together by no more than one of them."""
        return self.by + (0.0 if self.beside is None else self.beside.pair_width(share, level))

    def ball(self, size: int, level: float) -> Ball:
        """See `Hiding`."""
        if self.beside is None:
            return Ball(self.by * math.sqrt(size), 2)
        ball = self.beside.ball(size, level)
        return Ball(ball.radius + self.by * (size if ball.norm == 1 else math.sqrt(size)), ball.norm)
