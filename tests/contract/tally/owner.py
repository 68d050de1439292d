"""An owner's half: yes or no, turned around by a coin."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tally.kind import TallyDocument
from thebes.data.rows import Rows
from thebes.privacy.randomness import Randomness
from thebes.tasks.contributions import Contributions, Layout, Slot
from thebes.tasks.protocols import Ask, Claim, Owner


class TallyOwner:
    def able(self, document: TallyDocument, rows: Rows) -> NDArray[np.bool_]:
        return np.ones(rows.people, dtype=bool)

    def contribute(
        self, document: TallyDocument, ask: Ask, rows: Rows, claim: Claim, *, randomness: Randomness
    ) -> Contributions:
        claim.consume(epsilon=document.epsilon, delta=0)
        said, missing = rows.first().numbers(document.gives[0])
        truth = (np.where(missing, 0.0, said) > 0).astype(np.int64)
        return Contributions(ask.part, rows.people, {"yes": document.mechanism.perturb(truth, randomness)})

    def layout(self, document: TallyDocument, ask: Ask) -> Layout:
        return {"yes": Slot("integer", 0, 1)}


OWNER: Owner[TallyDocument] = TallyOwner()
