"""The ends of a correlation are numbers whatever the noise made of its sums."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from thebes.privacy.grid import Grid
from thebes.privacy.mechanisms.additive import Laplace
from thebes.privacy.mechanisms.correlation import ProductMoments
from thebes.privacy.stability import Sensitivity
from thebes.privacy.transformations.moments import BernsteinProducts


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


def exact(rows: Any) -> Fraction:
    """The square of the correlation, with its sign."""
    parts = [[value.as_integer_ratio() for value in column] for column in rows.T.tolist()]
    one, other = ([above * (1 << 200) // below for above, below in column] for column in parts)  # whole numbers
    n, first, second = len(one), sum(one), sum(other)
    both = sum((n * x - first) * (n * y - second) for x, y in zip(one, other, strict=True))
    spreads = sum((n * x - first) ** 2 for x in one) * sum((n * y - second) ** 2 for y in other)
    return Fraction(both * abs(both), spreads)


def hard(draw: np.random.Generator, bits: tuple[int, int]) -> Any:
    """Rows of few values beside places of the grid, where all cells of one side may be rounded the same way."""
    rows = []
    for steps in (1 << bits[0], 1 << bits[1]):
        places = draw.integers(0, steps + 1, size=draw.integers(2, 4))
        near = np.clip((places + draw.choice([-0.499, 0.0, 0.499])) / steps, 0.0, 1.0)
        rows.append(near[draw.integers(0, len(near), size=40)])
    rows[1] = np.where(draw.random(40) < draw.random(), rows[0], rows[1])
    return np.stack(rows, axis=1)


@pytest.mark.parametrize("bits", [(4, 4), (6, 9), (12, 16)])
def test_what_rounding_does_is_within_the_ends_for_any_rows(bits: tuple[int, int]) -> None:
    """Without noise the ends hold the exact correlation of the values as they are clamped, before any rounding."""
    silent = replace(Laplace(1).noise(Sensitivity(1, 1)), drawn_scale=1e-9)
    grids, draw, tried = (Grid(0.0, 1.0, bits[0]), Grid(0.0, 1.0, bits[1])), np.random.default_rng(7), 0
    while tried < 150:
        rows = hard(draw, bits)
        if len(set(rows[:, 0].tolist())) < 2 or len(set(rows[:, 1].tolist())) < 2:
            continue
        moments = ProductMoments.of_cells(BernsteinProducts(*grids).total(rows).astype(np.float64))
        low, high = (Fraction(end) for end in moments.ends(silent, 0.95, grids))
        near = Fraction(1, 10**9)  # floats computed the ends
        assert (low - near) * abs(low - near) <= exact(rows) <= (high + near) * abs(high + near)
        tried += 1


def test_rounding_moves_the_ends_by_its_share_of_the_spread_and_not_of_the_range() -> None:
    silent = replace(Laplace(1).noise(Sensitivity(1, 1)), drawn_scale=1e-9)
    grids, draw = (Grid(0.0, 1.0, 16), Grid(0.0, 1.0, 16)), np.random.default_rng(8)
    one = np.clip(draw.normal(0.5, 0.15, 20_000), 0.0, 1.0)
    rows = np.stack([one, (one + np.roll(one, 1)) / 2], axis=1)
    moments = ProductMoments.of_cells(BernsteinProducts(*grids).total(rows).astype(np.float64))
    low, high = moments.ends(silent, 0.95, grids)
    assert low <= np.corrcoef(rows.T)[0, 1] <= high
    assert high - low < 2e-3  # ends that took each row's rounding by itself lay .02 apart
