"""A person's half of a bounded task: one row, changed at random before it leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import Rows
from thebes.privacy.mechanisms.local.privunit import PrivUnit
from thebes.privacy.randomness import Randomness
from thebes.tasks import model_check
from thebes.tasks.bounded import checked_model
from thebes.tasks.bounded.decoder import decoded
from thebes.tasks.bounded.encoder import categories, plan, vector
from thebes.tasks.bounded.kind import PRESENT, BoundedDocument
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.document import FAILURE, Values
from thebes.tasks.fit import outcomes
from thebes.tasks.protocols import Ask, Claim


class BoundedOwner:
    def able(self, document: BoundedDocument, rows: Rows) -> NDArray[np.bool_]:
        """Everybody: a missing value is answered at random too."""
        return np.ones(rows.people, dtype=np.bool_)

    def contribute(
        self, document: BoundedDocument, ask: Ask, rows: Rows, claim: Claim, *, randomness: Randomness
    ) -> Contributions:
        """One report for each part of the plan. A missing value takes the default, or the category `missing`, or
        the middle of the range beside a presence bit; all through the same mechanisms."""
        columns, present = _columns(document, rows.first())
        if document.checks_in(ask.phase):
            gained = checked_model.gains(document, ask.payload, columns, present)
            return model_check.answered(document, ask, gained, claim, randomness=randomness)
        claim.consume(epsilon=document.epsilon, delta=document.delta)
        layout = plan(document)
        fields: dict[str, NDArray[np.generic]] = {}
        for name, mechanism in layout.parts.items():
            if isinstance(mechanism, PrivUnit):
                fields[name] = mechanism.perturb(vector(document, columns), randomness).astype(np.int64)
            elif name == FAILURE:
                fields[name] = mechanism.perturb(outcomes(document, rows), randomness)
            elif name.endswith(PRESENT):
                fields[name] = mechanism.perturb(present[name.removesuffix(PRESENT)].astype(np.int64), randomness)
            else:
                fields[name] = mechanism.perturb(columns[name], randomness)
        return Contributions(ask.part, rows.people, fields)

    def layout(self, document: BoundedDocument, ask: Ask) -> Layout:
        return model_check.LAYOUT if document.checks_in(ask.phase) else plan(document).slots()

    def legible(self, document: BoundedDocument, contributions: Contributions) -> dict[str, list[Any]]:
        return {name: values.tolist() for name, values in decoded(plan(document), contributions.fields).items()}


def _columns(document: BoundedDocument, rows: Rows) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[np.bool_]]]:
    columns: dict[str, NDArray[Any]] = {}
    present: dict[str, NDArray[np.bool_]] = {}
    for column in document.gives:
        bound = document.bounds[column]
        if isinstance(bound, Values):
            index, missing = rows.categories(column, bound.values)
            stand_in = len(categories(bound)) - 1 if bound.default is None else bound.values.index(bound.default)
            columns[column] = np.where(missing, stand_in, index)
        else:
            numbers, missing = rows.numbers(column)
            stand_in_number = bound.middle if bound.default is None else bound.default
            columns[column] = np.clip(np.where(missing, stand_in_number, numbers), bound.low, bound.high)
            present[column] = ~missing
    return columns, present


OWNER = BoundedOwner()
