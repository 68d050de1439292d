"""The rehearsal of a model that a trusted server trains: its numbers for each input."""

from __future__ import annotations

from typing import Any

import numpy as np

from thebes.tasks.integrated.kind import IntegratedDocument
from thebes.tasks.rehearsal import Quantities, Rehearsal


class ModelRehearsal(Rehearsal[IntegratedDocument]):
    def quantities(self, release: Any) -> Quantities | None:
        if release.value is None:
            return None
        model, inputs = release.model, release.extra["inputs"]
        if hasattr(model, "theta_"):
            means = {name: model.theta_[:, j].tolist() for j, name in enumerate(inputs) if model.asked_[j]}
            return {f"the mean of {name} in each class": told for name, told in means.items()}
        if not hasattr(model, "coef_"):
            return {}
        weights = np.atleast_2d(model.coef_)
        return {f"the coefficient of {name}": weights[:, j].tolist() for j, name in enumerate(inputs)}


REHEARSAL = ModelRehearsal()
