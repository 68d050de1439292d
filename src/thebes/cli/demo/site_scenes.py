"""The questions that `thebes demo` asks of institutions, and how each answer is held against the truth.

What must stay true: there is a scene of every kind that sites answer, a model is `ok` only where it is better than
guessing, and honest noise fails a scene less than once in a million runs (`thebes.cli.demo.scenes` says why).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.cli.demo.scenes import Verdict, beside, better, poor, told_right
from thebes.simulation import visits
from thebes.simulation.patients import DATASET
from thebes.tasks.release import Release

Patients = Mapping[str, NDArray[Any]]
Visits = Mapping[str, NDArray[Any]]
_BINS = 8


@dataclass(frozen=True)
class SiteScene:
    """One task. `judge` sees the release and the patients of the sites that answered. `missing` are those that must be
    named as such."""

    name: str
    document: dict[str, Any]
    judge: Callable[[Release, Patients], Verdict]
    metric: str | None = None
    missing: tuple[str, ...] = ()


def site_scenes(lenient: Sequence[str], strict: str | None, seen: Visits) -> list[SiteScene]:
    """Every scene, for these sites; `strict` lets no exact totals out, `seen` are the visits that the first has."""
    made = [
        _scene("patients with diabetes", _count, statistic="count", where="diabetes = 1"),
        _scene("age in cardiology", _mean_in("cardiology"), statistic="mean", column="age", by=["ward"]),
        _scene("glucose, histogram", _tallest, statistic="histogram", column="glucose", bins=_BINS),
        _scene(
            "weight, noise once",
            _mean("bmi"),
            statistic="mean",
            column="bmi",
            noise="coordinator",
            sites=list(lenient),
        ),
        _trained(),
        _composed(),
        _grown(lenient[0], seen),
    ]
    if strict is not None:
        told = {"statistic": "mean", "column": "glucose", "noise": "coordinator", "min_sites": 1}
        made.insert(4, _scene(f"glucose, not {strict}", _mean("glucose"), missing=(strict,), **told))
    return made


def _scene(
    name: str, judge: Callable[[Release, Patients], Verdict], *, missing: tuple[str, ...] = (), **fields: Any
) -> SiteScene:
    document = {"type": "query", "sites": "all", "dataset": DATASET, "epsilon": 1.0, "name": name, **fields}
    return SiteScene(name, document, judge, missing=missing)


def _trained() -> SiteScene:
    name = "diabetes from three"
    document = {
        "type": "train",
        "sites": "all",
        "dataset": DATASET,
        "model": "LogisticRegression",
        "inputs": ["age", "bmi", "glucose"],
        "output": "diabetes",
        "rounds": 15,
        "learning_rate": 6.0,
        "momentum": 0.7,
        "loss_share": 0.1,
        "epsilon": 4.0,
        "delta": 1e-6,
        "name": name,
        "purpose": "To tell from age, weight and sugar who has diabetes",
    }
    return SiteScene(name, document, _classifier(_columns("age", "bmi", "glucose")), metric="right")


def _composed() -> SiteScene:
    name = "diabetes from blocks"
    document = {
        "type": "algorithm",
        "sites": "all",
        "dataset": DATASET,
        "features": {"load": {"divide": [{"multiply": ["bmi", "glucose"]}, 100]}},
        "map": {"gradient": {"model": "LogisticRegression", "inputs": ["age", "load"], "output": "diabetes"}},
        "reduce": "mean",
        "update": {"rule": "newton"},
        "stop": {"rounds": 5},
        "epsilon": 4.0,
        "delta": 1e-6,
        "name": name,
        "purpose": "To tell from age, and weight times sugar, who has diabetes",
    }
    return SiteScene(name, document, _classifier(_loaded), metric="right")


def _grown(site: str, seen: Visits) -> SiteScene:
    name = "minutes until a doctor"
    document = {
        "type": "pipeline",
        "sites": [site],
        "stream": visits.DATASET,
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
    return SiteScene(name, document, _accepted(seen), metric="r2")


# --- beside the truth ---------------------------------------------------------------------------------------


def _count(release: Release, patients: Patients) -> Verdict:
    return _number(release, float(np.sum(patients["diabetes"] == 1)))


def _mean(column: str) -> Callable[[Release, Patients], Verdict]:
    return lambda release, patients: _number(release, float(np.mean(patients[column])))


def _mean_in(ward: str) -> Callable[[Release, Patients], Verdict]:
    def judge(release: Release, patients: Patients) -> Verdict:
        return _keyed(release, ward, float(np.mean(patients["age"][patients["ward"] == ward])))

    return judge


def _tallest(release: Release, patients: Patients) -> Verdict:
    """Judge how many are in the bin that the answer says has most."""
    counts, _ = np.histogram(patients["glucose"], bins=_BINS, range=(50, 250))
    first = max(release.value, key=lambda name: release.value[name])
    return _keyed(release, first, float(counts[list(release.value).index(first)]))


def _classifier(inputs_of: Callable[[Patients], Patients]) -> Callable[[Release, Patients], Verdict]:
    """Return a judge of whom the model tells right, between guessing alike for everybody and a model without noise."""

    def judge(release: Release, patients: Patients) -> Verdict:
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler

        inputs, told = inputs_of(patients), patients["diabetes"]
        table = StandardScaler().fit_transform(np.column_stack(list(inputs.values())))
        true = float(LogisticRegression().fit(table, told).score(table, told))
        value = float(np.mean(release.model.predict(inputs) == told))  # type: ignore[attr-defined]
        return told_right(true, value, told)

    return judge


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


def _columns(*names: str) -> Callable[[Patients], Patients]:
    return lambda patients: {name: patients[name] for name in names}


def _loaded(patients: Patients) -> Patients:
    return {"age": patients["age"], "load": patients["bmi"] * patients["glucose"] / 100}


def _number(release: Release, true: float) -> Verdict:
    return beside(true, float(release.value), release.as_json()["interval"])


def _keyed(release: Release, key: str, true: float) -> Verdict:
    ends = release.as_json()["interval"]
    bar = {"level": ends["level"], "low": ends["low"][key], "high": ends["high"][key]}
    return beside(true, float(release.value[key]), bar)
