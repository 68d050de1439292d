"""The form of a gradient task."""

from __future__ import annotations

from collections.abc import Mapping

from thebes.tasks.field_meanings import OF_STEPS
from thebes.tasks.form import Form, Hint, predicting

_MEANINGS: Mapping[str, str] = {
    **OF_STEPS,
    "server": "untrusted, or split: one step of at most 512 weights, noised by two servers",
    "inputs": "columns that the network is fed; a set of m values becomes m - 1 columns, the last value being the "
    "reference",
    "outputs": "columns that its output is compared with",
    "rounds": "steps; in each as many people as are needed answer anew",
    "rounds_per_owner": "how many of them one owner may serve; epsilon is split over these only",
    "mechanism": "privunit (pure), gaussian (needs delta), or whichever is expected to err least",
    "backbone": "digest of an installed network whose features the model works on; its own weights are not trained",
}

FORM = Form(
    rank=4,
    fields={
        "model": Hint(help="text from thebes.torch.encode", lines=4, wide=True),
        "loss": Hint(help="from the same", lines=3, wide=True),
        "rounds": Hint(),
        "rounds_per_owner": Hint(label="Rounds of one owner"),
        "learning_rate": Hint(),
        "clip": Hint(help="the longest gradient of one person"),
        **predicting("outputs"),
    },
    meanings=_MEANINGS,
)
