"""From reports back to values as their readers see them: what was sent, noise and all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.mechanisms.local.numbers import NumberMechanism
from thebes.tasks.bounded.encoder import REPORT, EncodingPlan, categories, coordinates, simplex
from thebes.tasks.bounded.kind import PRESENT
from thebes.tasks.document import FAILURE, Values

Arrays = Mapping[str, NDArray[Any]]


def decoded(plan: EncodingPlan, reports: Arrays) -> dict[str, NDArray[Any]]:
    """One array for each column, in the order of the document: sets as declared values, ranges as numbers that may
    lie outside the range. No single row can be believed."""
    return _split(plan, reports) if plan.whole is None else _whole(plan, reports)


def _split(plan: EncodingPlan, reports: Arrays) -> dict[str, NDArray[Any]]:
    columns: dict[str, NDArray[Any]] = {}
    for name, mechanism in plan.parts.items():
        if name == FAILURE:
            continue
        if name.endswith(PRESENT):
            columns[name] = reports[name].astype(bool)
        elif isinstance(mechanism, NumberMechanism):
            columns[name] = mechanism.decode(reports[name])
        else:
            bound = plan.document.bounds[name]
            assert isinstance(bound, Values)  # noqa: S101
            columns[name] = np.array(categories(bound), dtype=object)[reports[name]]
    ordered = [c for column in plan.document.gives for c in (column, column + PRESENT) if c in columns]
    return {name: columns[name] for name in ordered}


def _whole(plan: EncodingPlan, reports: Arrays) -> dict[str, NDArray[Any]]:
    assert plan.whole is not None  # noqa: S101
    rows = plan.whole.decode(np.asarray(reports[REPORT], dtype=np.int64))
    axes = [axis.column for axis in coordinates(plan.document)]
    columns: dict[str, NDArray[Any]] = {}
    for column in plan.document.gives:
        bound = plan.document.bounds[column]
        where = [place for place, name in enumerate(axes) if name == column]
        if isinstance(bound, Values):
            names = np.array(categories(bound), dtype=object)
            columns[column] = names[np.argmax(rows[:, where] @ simplex(len(names)).T, axis=1)]
        else:
            columns[column] = bound.middle + (bound.high - bound.low) / 2 * rows[:, where[0]]
        if column + PRESENT in reports:
            columns[column + PRESENT] = np.asarray(reports[column + PRESENT]).astype(bool)
    return columns
