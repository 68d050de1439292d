"""The scene of the example kind without end: one day of it."""

from __future__ import annotations

import numpy as np

from thebes.data.rows import Rows
from thebes.tasks.release import Release
from thebes.tasks.scene import WIDENED, MadeUpPeople, Scene, SceneVerdict, column


def scenes(crowd: MadeUpPeople) -> list[Scene]:
    asked = "SELECT gender FROM profile.demographics"
    genders = {"gender": {"type": "set", "values": ["Male", "Female"], "default": "Female"}}
    told = {"type": "daily", "days": 1, "epsilon": crowd.sharp, "featurizer": asked, "bounds": genders}
    return [Scene("men, on one day", {**told, "purpose": "How many are men, today?"}, _judge)]


def _judge(release: Release, mine: Rows, everybody: Rows) -> SceneVerdict:
    """Of normal noise no more than once in a million is out of `WIDENED` times its bar."""
    true, bar = float(np.sum(column(mine) == "Male")), release.interval()
    men = next(place for place, key in enumerate(release.value) if key.endswith(" Male"))
    assert bar is not None
    told, half = list(release.value.values())[men], (np.asarray(bar.high)[men] - np.asarray(bar.low)[men]) / 2
    return SceneVerdict(true, float(told), abs(told - true) <= WIDENED * half)
