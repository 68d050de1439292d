"""Measures of how good a yes or no is, counted."""

from __future__ import annotations

from typing import Any


def judged(said: Any, true: Any) -> dict[str, float]:
    """Count how often a yes or no is right, how many of the yes are, and how many of those who should get one do."""
    both = float((said & true).sum())
    return {
        "accuracy": float((said == true).mean()),
        "precision": both / max(1, int(said.sum())),
        "recall": both / int(true.sum()),
    }
