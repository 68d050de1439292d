"""A person's half of a basic task: one value, sent as it is to a server the person trusts, or in shares to two."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import Rows
from thebes.privacy.randomness import Randomness
from thebes.tasks import trusted_columns
from thebes.tasks.basic.kind import BasicDocument
from thebes.tasks.basic.split import layout_of, statistic
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.protocols import Ask, Claim
from thebes.tasks.split_reports import reports_of


class BasicOwner:
    def __init__(self, *, simulated: bool = False) -> None:
        self._simulated = simulated

    def able(self, document: BasicDocument, rows: Rows) -> NDArray[np.bool_]:
        return trusted_columns.able(document, rows)

    def contribute(
        self, document: BasicDocument, ask: Ask, rows: Rows, claim: Claim, *, randomness: Randomness
    ) -> Contributions:
        plain = trusted_columns.contribute(document, ask, rows, claim, randomness=randomness)
        if document.server != "split":
            return plain
        asked = statistic(document, randomness)
        numbers = asked.encode(_numbers(plain.fields[document.column]))
        return reports_of(document, asked, numbers, ask, simulated=self._simulated, randomness=randomness)

    def layout(self, document: BasicDocument, ask: Ask) -> Layout:
        return layout_of(document, ask.part)

    def legible(self, document: BasicDocument, contributions: Contributions) -> dict[str, list[Any]]:
        if document.server == "split":  # a share alone says nothing to the eye
            return {name: values.tolist() for name, values in contributions.fields.items()}
        return trusted_columns.legible(document, contributions)


def _numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return values as numbers, NaN for missing ones; of a text it only counts that there is one."""
    return np.where(values == "", np.nan, 1.0) if values.dtype.kind == "U" else values.astype(np.float64)


OWNER = BasicOwner()
SIMULATED = BasicOwner(simulated=True)
