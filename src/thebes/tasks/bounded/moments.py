"""Unbiased mean and second moment of the rows, from split reports or from whole-row ones.

Everything a requestor does with bounded rows starts here, because moments can be freed of the noise exactly
and single rows cannot. All of it is post-processing: it spends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.mechanisms.local.categories import CategoryMechanism
from thebes.privacy.mechanisms.local.numbers import NumberMechanism
from thebes.tasks.bounded.encoder import Coordinate, EncodingPlan, categories, coordinates, kept, simplex
from thebes.tasks.document import Values

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NoisyMoments:
    """`mean` and `second` of the rows' vectors (see `encoding`), with `error`, one entry's usual standard error."""

    axes: tuple[Coordinate, ...]
    mean: Floats
    second: Floats
    error: float
    contributors: int

    def block(self, column: str) -> list[int]:
        """Find the places of a column's axes."""
        return [i for i, axis in enumerate(self.axes) if axis.column == column]


def moments(plan: EncodingPlan, reports: Mapping[str, NDArray[Any]]) -> NoisyMoments:
    """Mean and second moment of what the owners hold, freed of the noise."""
    axes = tuple(coordinates(plan.document))
    whole = plan.whole
    if whole is not None:
        rows = np.asarray(reports["report"], dtype=np.int64)
        first, second = whole.estimate(rows), whole.second_moment(rows)
        return NoisyMoments(axes, first.value, second.value, float(np.mean(second.standard_error)), len(rows))
    unbiased, own = _split(plan, reports)
    n = len(unbiased)
    second_moment = unbiased.T @ unbiased / n
    squares = (unbiased * unbiased).T @ (unbiased * unbiased) / n - second_moment**2
    for start, block in own:
        size = len(block)
        second_moment[start : start + size, start : start + size] = block
    return NoisyMoments(
        axes, unbiased.mean(axis=0), second_moment, float(np.mean(np.sqrt(np.clip(squares, 0, None) / n))), n
    )


def _split(plan: EncodingPlan, reports: Mapping[str, NDArray[Any]]) -> tuple[Floats, list[tuple[int, Floats]]]:
    """Each report as an unbiased vector, and each column's own second moment, which its noise would inflate."""
    blocks: list[Floats] = []
    own: list[tuple[int, Floats]] = []
    start = 0
    for column in plan.document.gives:
        bound, mechanism = plan.document.bounds[column], plan.parts[column]
        if isinstance(bound, Values):
            assert isinstance(mechanism, CategoryMechanism)  # noqa: S101
            points = simplex(len(categories(bound)))
            frequencies = np.asarray(mechanism.estimate(reports[column]).value)
            block = points[np.asarray(reports[column])] / kept(mechanism)
            own.append((start, (points * frequencies[:, None]).T @ points))
        else:
            assert isinstance(mechanism, NumberMechanism)  # noqa: S101
            half = (bound.high - bound.low) / 2
            decoded = (mechanism.decode(reports[column]) - bound.middle) / half
            block = decoded[:, None]
            noise = mechanism.variance(1, bound.middle) / half**2
            own.append((start, np.array([[max(0.0, float(np.mean(decoded**2)) - noise)]])))
        blocks.append(block)
        start += block.shape[1]
    return np.concatenate(blocks, axis=1), own
