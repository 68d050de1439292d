"""Rounding moves the ends of a variance by little, and never off the variance of the clamped values."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from thebes.privacy.grid import Grid
from thebes.privacy.mechanisms.additive import Additive, Laplace
from thebes.privacy.mechanisms.rounding import cells_moved, centred_moved
from thebes.privacy.mechanisms.variance import VarianceMoments
from thebes.privacy.stability import Sensitivity
from thebes.privacy.transformations.moments import BernsteinSums, CentredMoments

SILENT = replace(Laplace(1).noise(Sensitivity(1, 1)), drawn_scale=1e-9)


def ends(rows: Any, bits: int, *, public: bool, noise: Additive = SILENT) -> tuple[float, float]:
    """The ends that the exact total of rows has."""
    grid = Grid(0.0, 1.0, bits)
    if public:
        total = CentredMoments(grid).total(rows).astype(np.float64)
        return VarianceMoments.of_centred(total, len(rows) * grid.steps).ends(noise, 0.95, grid)
    return VarianceMoments.of_cells(BernsteinSums(grid, 2).total(rows).astype(np.float64)).ends(noise, 0.95, grid)


def exact(rows: Any) -> Fraction:
    values = [Fraction(value) for value in rows.tolist()]
    mean = sum(values, Fraction(0)) / len(values)
    return sum(((value - mean) ** 2 for value in values), Fraction(0)) / len(values)


@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize("bits", [1, 2, 4, 7, 20])
def test_what_rounding_does_is_within_the_ends_for_any_rows(bits: int, public: bool) -> None:
    """Rows of few values beside places of the grid, where all of one side may be rounded the same way; two far lumps,
    whose variance is the largest that there is; and rows that are all alike."""
    draw, steps = np.random.default_rng(bits), 1 << bits
    for tried in range(200):
        places = draw.integers(0, steps + 1, size=draw.integers(1, 4)) if tried % 4 else np.array([0, steps])
        near = np.clip((places + draw.choice([-0.499, 0.0, 0.499], size=places.size)) / steps, 0.0, 1.0)
        rows = near[draw.integers(0, near.size, size=40)]
        low, high = (Fraction(end) for end in ends(rows, bits, public=public))
        near_enough = Fraction(1, 10**15)  # the ends' own roots are floats
        assert low - near_enough <= exact(rows) <= high + near_enough


@pytest.mark.parametrize("mean", [0.0, 0.1, 0.5, 0.8, 1.0])
@pytest.mark.parametrize(("moved", "made"), [(cells_moved, BernsteinSums), (centred_moved, CentredMoments)])
def test_a_squared_distance_is_off_by_as_much_as_is_said_and_hardly_less(moved: Any, made: Any, mean: float) -> None:
    grid = Grid(0.0, 1.0, 12)
    places = np.arange(grid.steps + 1) / grid.steps
    if made is BernsteinSums:
        _, mixed, squares = BernsteinSums(grid, 2).cells(places).T
        total = mixed / 2 + squares
    else:
        total = places * grid.steps
        squares = grid.steps / 4 + CentredMoments(grid).cells(places) @ [0.5, 0.125]
    off = squares - 2 * mean * total + mean**2 * grid.steps - (places - mean) ** 2 * grid.steps
    few, many = moved((mean, mean))
    assert few - 1e-9 <= off.min() <= few + 0.01
    assert many - 0.01 <= off.max() <= many + 1e-9


@pytest.mark.parametrize("public", [True, False])
def test_values_that_are_rounded_towards_each_other_are_within_the_ends(public: bool) -> None:
    """Of every pair of places, where what is left out of the squares and rounding both make the total's too small."""
    for low in range(17):
        for high in range(low + 1, 17):
            for often in (1, 20):
                rows = np.clip(np.array([low - 0.499] * 20 + [high + 0.499] * often) / 16, 0.0, 1.0)
                assert exact(rows) <= Fraction(ends(rows, 4, public=public)[1]) + Fraction(1, 10**15)


@pytest.mark.parametrize(("public", "steps"), [(True, 0.45), (False, 0.9)])
def test_rounding_widens_the_ends_by_less_than_a_step(public: bool, steps: float) -> None:
    rows = np.clip(np.random.default_rng(8).normal(0.5, 0.15, 20_000), 0.0, 1.0)
    low, high = ends(rows, 12, public=public)
    assert low <= rows.var() <= high
    assert (high - low) * 2**12 < steps  # 12 where each row's rounding was taken by itself
