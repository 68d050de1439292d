"""The scene of ensemble tasks."""

from __future__ import annotations

from thebes.tasks.scene import MadeUpPeople, Scene, beside_regression


def scenes(crowd: MadeUpPeople) -> list[Scene]:
    x = {"type": "range", "low": -3, "high": 3, "default": 0}
    made = Scene(
        "y from two packets each",
        {
            "type": "ensemble",
            "epsilon": 8 * crowd.sharp,
            "featurizer": "SELECT x0, x1, y FROM profile.example",
            "label": "y",
            "bounds": {"x0": x, "x1": x, "y": {"type": "set", "values": [0, 1], "default": 0}},
            "bins": {"x0": [-0.5, 0.5], "x1": [-0.5, 0.5]},
            "partitions": 1,
            "subsets": 2,
            "votes": "probability",
            "purpose": "To learn a rule from packets that each hold one input and the label, changed at random",
        },
        beside_regression,
        metric="right",
    )
    return [made]
