"""The scene of tasks composed of blocks."""

from __future__ import annotations

from thebes.tasks.scene import MadeUpHospitals, Patients, SiteScene, classifier


def scenes(hospitals: MadeUpHospitals) -> list[SiteScene]:
    name = "diabetes from blocks"
    document = {
        "type": "algorithm",
        "sites": "all",
        "dataset": hospitals.dataset,
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
    made = SiteScene(name, document, classifier(_loaded), metric="right")
    return [made]


def _loaded(patients: Patients) -> Patients:
    return {"age": patients["age"], "load": patients["bmi"] * patients["glucose"] / 100}
