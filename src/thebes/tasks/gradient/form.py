"""The form of a gradient task."""

from __future__ import annotations

from thebes.tasks.form import Form, Hint, predicting

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
)
