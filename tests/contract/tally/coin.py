"""The one number both halves share: how often an owner tells the truth (randomised response, Warner 1965)."""

from __future__ import annotations

import math

from thebes.privacy.randomness import Coin


def honest(epsilon: float) -> Coin:
    """Truth with probability 1 / (1 + e^-epsilon), rounded toward lies."""
    return Coin(math.floor(2**64 * (1 - 1e-12) / (1 + math.exp(-epsilon))))
