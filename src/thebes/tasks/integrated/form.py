"""The form of an integrated task."""

from __future__ import annotations

from thebes.tasks.form import Form, Hint, predicting
from thebes.tasks.trusted_columns import undeclared

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
)
