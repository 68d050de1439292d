"""A person's half of a basic task: one value, sent as it is to a server the person trusts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import Rows
from thebes.privacy.randomness import Randomness
from thebes.tasks import trusted_columns
from thebes.tasks.basic.kind import BasicDocument
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.protocols import Ask, Claim


class BasicOwner:
    def able(self, document: BasicDocument, rows: Rows) -> NDArray[np.bool_]:
        return trusted_columns.able(document, rows)

    def contribute(
        self, document: BasicDocument, ask: Ask, rows: Rows, claim: Claim, *, randomness: Randomness
    ) -> Contributions:
        return trusted_columns.contribute(document, ask, rows, claim, randomness=randomness)

    def layout(self, document: BasicDocument, ask: Ask) -> Layout:
        return trusted_columns.layout_of(document)

    def legible(self, document: BasicDocument, contributions: Contributions) -> dict[str, list[Any]]:
        return trusted_columns.legible(document, contributions)


OWNER = BasicOwner()
