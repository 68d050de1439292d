"""Made-up rows for one view with what is public of how good they are, and how that is written down."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thebes.curator.cache.smart.check import SparseCheck
from thebes.curator.cache.smart.rows import MadeUp
from thebes.curator.cache.synopsis import SynopsisPart, View

RECENT = 0.1  #: the weight of the latest guess in the share of those that were right


@dataclass(slots=True)
class LearnedGuesses:
    """Made-up rows for one view, and what is public of how good they are. `right` is the share of the latest guesses
    that agreed with a released answer, or passed the check."""

    seed: int
    rows: MadeUp
    check: SparseCheck = field(default_factory=SparseCheck)
    turn: int = 0
    right: float = 0.0
    passed: int = 0
    failed: int = 0

    def found(self, right: bool) -> None:
        self.right += RECENT * (right - self.right)


def view_piece(view: View, state: LearnedGuesses) -> SynopsisPart:
    public = {
        "view": list(view),
        "seed": state.seed,
        "turn": state.turn,
        "right": state.right,
        "passed": state.passed,
        "failed": state.failed,
        "check": state.check.public(),
    }
    arrays: dict[str, NDArray[np.generic]] = {"weights": state.rows.weights.copy(), "scale": state.rows.scale.copy()}
    return SynopsisPart(public, arrays, state.check.secret())
