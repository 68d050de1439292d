"""The form of an integrated task."""

from __future__ import annotations

from collections.abc import Mapping

from thebes.tasks.form import Form, Hint, predicting
from thebes.tasks.trusted_columns import undeclared

_MEANINGS: Mapping[str, str] = {
    "model": "linear and logistic regression need a delta",
    "inputs": "columns of the featurizer that hold numbers",
    "output": "the column that is predicted",
    "quality": "true: a coin keeps some people out of the model to test it on them. auc does so by the order of the "
    "scores of two declared classes, r2 by the part of the variance that a model of numbers explains; false turns "
    "that off. It stands in every document that is written now; one that was posted without it goes without",
}

FORM = Form(
    rank=2,
    fields={
        "model": Hint(first="LinearRegression"),
        "missing": Hint(label="People without a value", help="refuse: they send nothing; count: they say so"),
        **predicting("output"),
        "quality": Hint(
            label="Test the model",
            help="on people whom a coin keeps out of it, at no further cost; or auc of two classes, r2 of numbers",
        ),
    },
    cautions=lambda document, types: undeclared(document),
    meanings=_MEANINGS,
)
