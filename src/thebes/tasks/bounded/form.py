"""The form of a bounded task."""

from __future__ import annotations

from dataclasses import replace

from thebes.tasks.form import CHECKED, PREDICTED, Form, Hint

_WAYS = "auto: what is expected to err least; split: each column by itself; privunit: the row as one"

FORM = Form(
    rank=3,
    fields={
        "mechanism": Hint(help=_WAYS),
        "predicted": replace(PREDICTED, label="Column of the model to check", empty="none", place="answer"),
        "quality": CHECKED,
    },
)
