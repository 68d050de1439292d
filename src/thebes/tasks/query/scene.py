"""Scenes of questions to sites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thebes.tasks.release import Release
from thebes.tasks.scene import MadeUpHospitals, Patients, SceneVerdict, SiteScene, beside

_BINS = 8


def scenes(hospitals: MadeUpHospitals) -> list[SiteScene]:
    made = [
        _scene(hospitals, "patients with diabetes", _count, statistic="count", where="diabetes = 1"),
        _scene(hospitals, "age in cardiology", _mean_in("cardiology"), statistic="mean", column="age", by=["ward"]),
        _scene(hospitals, "glucose, histogram", _tallest, statistic="histogram", column="glucose", bins=_BINS),
        _scene(
            hospitals,
            "weight, noise once",
            _mean("bmi"),
            statistic="mean",
            column="bmi",
            noise="coordinator",
            sites=list(hospitals.lenient),
        ),
    ]
    if hospitals.strict is not None:
        told = {"statistic": "mean", "column": "glucose", "noise": "coordinator", "min_sites": 1}
        made.append(
            _scene(hospitals, f"glucose, not {hospitals.strict}", _mean("glucose"), missing=(hospitals.strict,), **told)
        )
    return made


def _scene(
    hospitals: MadeUpHospitals,
    name: str,
    judge: Callable[[Release, Patients], SceneVerdict],
    *,
    missing: tuple[str, ...] = (),
    **fields: Any,
) -> SiteScene:
    document = {"type": "query", "sites": "all", "dataset": hospitals.dataset, "epsilon": 1.0, "name": name, **fields}
    return SiteScene(name, document, judge, missing=missing)


def _count(release: Release, patients: Patients) -> SceneVerdict:
    return _number(release, float(np.sum(patients["diabetes"] == 1)))


def _mean(column: str) -> Callable[[Release, Patients], SceneVerdict]:
    return lambda release, patients: _number(release, float(np.mean(patients[column])))


def _mean_in(ward: str) -> Callable[[Release, Patients], SceneVerdict]:
    def judge(release: Release, patients: Patients) -> SceneVerdict:
        return _keyed(release, ward, float(np.mean(patients["age"][patients["ward"] == ward])))

    return judge


def _tallest(release: Release, patients: Patients) -> SceneVerdict:
    """Judge how many are in the bin that the answer says has most."""
    counts, _ = np.histogram(patients["glucose"], bins=_BINS, range=(50, 250))
    first = max(release.value, key=lambda name: release.value[name])
    return _keyed(release, first, float(counts[list(release.value).index(first)]))


def _number(release: Release, true: float) -> SceneVerdict:
    return beside(true, float(release.value), release.as_json()["interval"])


def _keyed(release: Release, key: str, true: float) -> SceneVerdict:
    ends = release.as_json()["interval"]
    bar = {"level": ends["level"], "low": ends["low"][key], "high": ends["high"][key]}
    return beside(true, float(release.value[key]), bar)
