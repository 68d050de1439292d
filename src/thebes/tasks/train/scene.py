"""The scenes of tasks that train over sites."""

from __future__ import annotations

from thebes.tasks.scene import MadeUpHospitals, Patients, SiteScene, classifier


def scenes(hospitals: MadeUpHospitals) -> list[SiteScene]:
    name = "diabetes from three"
    document = {
        "type": "train",
        "sites": "all",
        "dataset": hospitals.dataset,
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
    steep = "diabetes from blocks"
    composed = {
        "type": "train",
        "sites": "all",
        "dataset": hospitals.dataset,
        "features": {"load": {"divide": [{"multiply": ["bmi", "glucose"]}, 100]}},
        "model": "LogisticRegression",
        "inputs": ["age", "load"],
        "output": "diabetes",
        "update": "newton",
        "rounds": 5,
        "epsilon": 4.0,
        "delta": 1e-6,
        "name": steep,
        "purpose": "To tell from age, and weight times sugar, who has diabetes",
    }
    return [
        SiteScene(name, document, classifier(_inputs, hospitals.other_patients), metric="right"),
        SiteScene(steep, composed, classifier(_loaded, hospitals.other_patients), metric="right"),
    ]


def _inputs(patients: Patients) -> Patients:
    return {name: patients[name] for name in ("age", "bmi", "glucose")}


def _loaded(patients: Patients) -> Patients:
    return {"age": patients["age"], "load": patients["bmi"] * patients["glucose"] / 100}
