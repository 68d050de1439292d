"""The release of an integrated task: a model as JSON, which loads into a fitted estimator and never into code."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from thebes.privacy.faults import Mistake
from thebes.tasks.release import OF_MODEL, Release


class ModelRelease(Release):
    """`value` is the model as plain data (None where none could be trained); `model` is fitted and predicts."""

    form = "model"
    no_interval = OF_MODEL
    drawn = ("coefficient", "mean", "mean share in a leaf", "says")

    @cached_property
    def model(self) -> Any:
        """A fitted scikit-learn-compatible estimator: of a table it takes the document's inputs by name, of an array in
        their order."""
        if self.value is None:
            raise Mistake("model", str(self.extra.get("explanation", "none was released")))
        from thebes.learning import from_json

        model = from_json(self.value)
        if not hasattr(model, "feature_names_in_"):  # released before models knew them
            model.feature_names_in_ = np.array(self.extra["inputs"], dtype=object)
        return model

    def _lines(self) -> list[str]:
        if self.value is None:
            return super()._lines()
        inputs, output = ", ".join(self.extra["inputs"]), self.extra["output"]
        return [f"a {type(self.model).__name__} that predicts {output} from {inputs}"]
