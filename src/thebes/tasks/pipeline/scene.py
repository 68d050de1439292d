"""The scene of pipelines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.tasks.beside_guess import of_numbers
from thebes.tasks.release import Release
from thebes.tasks.scene import MadeUpHospitals, Patients, SceneVerdict, SiteScene, Visits, far, poor


def scenes(hospitals: MadeUpHospitals) -> list[SiteScene]:
    name = "minutes until a doctor"
    document = {
        "type": "pipeline",
        "sites": [hospitals.lenient[0]],
        "stream": hospitals.stream,
        "model": "LinearRegression",
        "inputs": ["before", "urgent"],
        "output": "minutes",
        "target": {"mse": 1000.0},
        "largest": {"mse": 5000.0},
        "epsilon": 3.0,
        "delta": 1e-6,
        "name": name,
        "purpose": "To tell who comes how long it will take",
    }
    made = SiteScene(name, document, _accepted(hospitals.visits, hospitals.other_visits), metric="r2")
    return [made]


def _accepted(seen: Visits, others: Visits) -> Callable[[Release, Patients], SceneVerdict]:
    """Return a judge of how much of what differs between other visits the accepted model tells, beside one without
    noise."""

    def judge(release: Release, patients: Patients) -> SceneVerdict:
        from sklearn.linear_model import LinearRegression

        def table(rows: Visits) -> NDArray[Any]:
            return np.column_stack([rows[name] for name in inputs]).astype(np.float64)

        inputs, told = ("before", "urgent"), others["minutes"]
        exact = LinearRegression().fit(table(seen), seen["minutes"])
        true = float(exact.score(table(others), told))
        if release.extra["verdict"] != "ACCEPT":
            return SceneVerdict(true, 0.0, False, answer=f"no model: {release.extra['verdict']}", guessing=0.0)
        said = release.model.predict({name: others[name] for name in inputs})
        found = of_numbers("minutes", said, told, aside=True)
        value = 1.0 - found.reached / found.guessing
        attempts, gained = len(release.extra["attempts"]), found.beyond and far(true, value, 0.0)
        words = "" if gained else "; " + poor(f"tells {value:.0%} of what differs, and their mean 0%", value > 0)
        return SceneVerdict(true, value, gained, answer=f"ACCEPT after {attempts} attempts{words}", guessing=0.0)

    return judge
