"""The ends of a correlation are numbers whatever the noise made of its sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from thebes.privacy.grid import Grid
from thebes.privacy.mechanisms.additive import Laplace
from thebes.privacy.mechanisms.correlation import ProductMoments
from thebes.privacy.stability import Sensitivity


@pytest.mark.slow
def test_noise_far_below_nothing_leaves_ends_that_say_nothing() -> None:
    """Noise may make a sum of squares negative: then every correlation is possible, and none is computed."""
    noise = replace(Laplace(1).noise(Sensitivity(1, 1)), drawn_scale=1.0)
    grids = (Grid(0.0, 100.0, 16), Grid(0.0, 1.0, 16))
    draw, nothing = np.random.default_rng(1), 0
    for _ in range(200):
        low, high = ProductMoments(draw.normal(0, 2.0**40, (3, 3))).ends(noise, 0.95, grids)
        assert -1.0 <= low <= high <= 1.0
        nothing += (low, high) == (-1.0, 1.0)
    assert nothing > 100
