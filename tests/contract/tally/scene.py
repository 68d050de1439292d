"""The scene of the example kind."""

from __future__ import annotations

import numpy as np

from thebes.data.rows import Rows
from thebes.tasks.release import Release
from thebes.tasks.scene import MadeUpPeople, Scene, SceneVerdict, column


def scenes(crowd: MadeUpPeople) -> list[Scene]:
    asked = "SELECT gender = 'Male' AS man FROM profile.demographics"
    document = {"type": "tally", "epsilon": crowd.sharp, "featurizer": asked, "purpose": "How many are men?"}
    return [Scene("men, tallied", document, _judge)]


def _judge(release: Release, mine: Rows, others: Rows) -> SceneVerdict:
    """A tally of n lies has a standard deviation of at most n^(1/2) / (2 p - 1), which is below 1.1 n^(1/2) here."""
    true, count = float(np.sum(column(mine) == 1)), mine.people
    return SceneVerdict(true, float(release.value), abs(release.value - true) <= 9 * 1.1 * count**0.5)
