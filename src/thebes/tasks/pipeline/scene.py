"""The scene of pipelines."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from thebes.tasks.release import Release
from thebes.tasks.scene import MadeUpHospitals, Patients, SiteScene, Verdict, Visits, better, poor


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
    made = SiteScene(name, document, _accepted(hospitals.visits), metric="r2")
    return [made]


def _accepted(seen: Visits) -> Callable[[Release, Patients], Verdict]:
    """Return a judge of how much of what differs between visits the accepted model tells, beside one without noise."""

    def judge(release: Release, patients: Patients) -> Verdict:
        from sklearn.linear_model import LinearRegression
        from sklearn.metrics import r2_score

        inputs = {name: seen[name] for name in ("before", "urgent")}
        table, told = np.column_stack(list(inputs.values())).astype(np.float64), seen["minutes"]
        true = float(LinearRegression().fit(table, told).score(table, told))
        if release.extra["verdict"] != "ACCEPT":
            return Verdict(true, 0.0, False, answer=f"no model: {release.extra['verdict']}", guessing=0.0)
        value = float(r2_score(told, release.model.predict(inputs)))  # type: ignore[attr-defined]
        attempts, gained = len(release.extra["attempts"]), better(true, value, 0.0)
        words = "" if gained else "; " + poor(f"tells {value:.0%} of what differs, and their mean 0%", value > 0)
        return Verdict(true, value, gained, answer=f"ACCEPT after {attempts} attempts{words}", guessing=0.0)

    return judge
