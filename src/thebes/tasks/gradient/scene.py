"""The scene of gradient tasks."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from thebes.data.rows import Rows
from thebes.tasks.release import Release
from thebes.tasks.scene import MadeUpPeople, Scene, SceneVerdict, column, table, told_right


def scenes(crowd: MadeUpPeople) -> list[Scene]:
    made = Scene(
        "y from a small network",
        {
            "type": "gradient",
            "epsilon": 10.0,
            "featurizer": "SELECT x0, x1, y FROM profile.example",
            "inputs": ["x0", "x1"],
            "outputs": ["y"],
            "model": MODEL,
            "loss": LOSS,
            "rounds": 1,
            "learning_rate": 2.0,
            "purpose": "To train a network without seeing anybody's data",
        },
        _network_beside_descent,
        metric="right",
        few=True,
        left_out="" if find_spec("torch") else "it needs pip install 'thebes[torch]'",
    )
    return [made]


def _network_beside_descent(release: Release, mine: Rows, others: Rows) -> SceneVerdict:
    """One step from nothing goes along the mean of the shortened gradients; the truth does so without their noise."""
    rows, label = table(mine, ("x0", "x1")), column(mine, "y")
    shortened = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1) / 2**0.5)[:, None]
    step = ((label - 0.5)[:, None] * shortened).mean(axis=0)
    shown, told = table(others, ("x0", "x1")), column(others, "y")
    true = float(np.mean((shown @ step > 0) == told))
    said = np.asarray(release.model.predict(shown)).astype(int)
    return told_right(true, said, told)


#: what `thebes.torch.encode(Linear(2, 2, bias=False) of zeros, CrossEntropyLoss())` gives: the demo loads no PyTorch
MODEL = (
    '{"format":"thebes-graph","inputs":[{"kind":"number","name":"input","shape":[1,2]}],"nodes":[{"arguments":'
    '{"input":"input","weight":"weight"},"name":"n0","operation":"aten.linear.default"}],"output":"n0","version":1,'
    '"weights":[{"name":"weight","shape":[2,2],"trained":true}]}'
    "\nQAAAAAAAAAB7IndlaWdodCI6eyJkdHlwZSI6IkYzMiIsInNoYXBlIjpbMiwyXSwiZGF0YV9vZmZzZXRzIjpbMCwxNl19fSAgAAAAAAAAAAAAAAAA"
    "AAAAAA=="
)
LOSS = (
    '{"format":"thebes-graph","inputs":[{"kind":"number","name":"outputs","shape":[1,2]},{"kind":"class","name":'
    '"targets","shape":[1,2]}],"nodes":[{"arguments":{"self":"outputs","target":"targets"},"name":"n0","operation":'
    '"aten.cross_entropy_loss.default"}],"output":"n0","version":1,"weights":[]}'
)
