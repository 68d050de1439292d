"""The scene of draw-and-discard tasks."""

from __future__ import annotations

from thebes.tasks.scene import MadeUpPeople, Scene, beside_regression


def scenes(crowd: MadeUpPeople) -> list[Scene]:
    x = {"type": "range", "low": -1, "high": 1, "default": 0}
    made = Scene(
        "y, one after another",
        {
            "type": "draw-discard",
            "epsilon": 10 * crowd.sharp,
            "featurizer": "SELECT x0, x1, y FROM profile.example",
            "family": "logistic",
            "inputs": ["x0", "x1"],
            "output": "y",
            "bounds": {"x0": x, "x1": x, "y": {"type": "set", "values": [0, 1], "default": 0}},
            "instances": 3,
            "learning_rate": 2.0,
            "decay": 20,
            "purpose": "To learn a rule from one person after another, each changing a model a little",
        },
        beside_regression,
        metric="right",
    )
    return [made]
