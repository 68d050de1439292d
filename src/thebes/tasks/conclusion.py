"""A check of what an aggregator concluded, before it becomes the release of a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from thebes.privacy.faults import Mistake
from thebes.privacy.measurement import Interval
from thebes.tasks.release import Release

if TYPE_CHECKING:
    pass


def concluded(aggregator: object, made: Release | None) -> Release | None:
    """Return what an aggregator concluded: a release, or nothing yet. Mistake naming its class where it is something
    else, or an error bar of it has not one end for each answer, or one for all."""
    where = f"{type(aggregator).__module__}.{type(aggregator).__name__}.conclude"
    if made is None:
        return None
    if not isinstance(made, Release):
        raise Mistake(where, f"must return a Release, and returned {type(made).__name__}")
    for bar in made.intervals.values():
        if not isinstance(bar, Interval):
            raise Mistake(where, f"must give each error bar as an Interval, and gave {type(bar).__name__}")
        ends, answers = {np.size(bar.low), np.size(bar.high)}, _answers(made.value)
        if answers is not None and (wrong := ends - {1, answers}):
            raise Mistake(where, f"gave an error bar of {max(wrong)} ends for {answers} answers")
    return made


def _answers(value: Any) -> int | None:
    """Count the answers of a release; None where it is something else than numbers."""
    if isinstance(value, Mapping):
        return len(value)
    return 1 if isinstance(value, (int, float, np.number)) else None
