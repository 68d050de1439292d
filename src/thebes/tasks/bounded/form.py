"""The form of a bounded task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from thebes.tasks.form import CHECKED, PREDICTED, Form, Hint

_WAYS = "auto: what is expected to err least; split: each column by itself; privunit: the row as one"

_MEANINGS: Mapping[str, str] = {
    "bounds": "needed for every column",
    "mechanism": "split: each column by itself with its share of epsilon, by Laplace (with delta: or Gaussian) noise "
    "and randomised response. privunit: the row as one report. privunit-short: that with long rows shortened, for "
    "fits only. Left out: whichever of the first two leaves the smaller expected error in a fitted model. auto: "
    "every machine chooses so",
    "predicted": "the column whose model people check: the logistic fit of a set, the linear fit of a range",
    "quality": "true: people of their own check the model; needs predicted",
}

FORM = Form(
    rank=3,
    fields={
        "mechanism": Hint(help=_WAYS),
        "predicted": replace(PREDICTED, label="Column of the model to check", empty="none", place="answer"),
        "quality": CHECKED,
    },
    meanings=_MEANINGS,
)
