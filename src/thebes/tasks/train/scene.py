"""The scene of tasks that train over sites."""

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
    made = SiteScene(name, document, classifier(_inputs), metric="right")
    return [made]


def _inputs(patients: Patients) -> Patients:
    return {name: patients[name] for name in ("age", "bmi", "glucose")}
