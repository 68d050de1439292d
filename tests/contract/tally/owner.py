"""An owner's half: yes or no, turned around by a coin."""

from __future__ import annotations

import numpy as np

from tally.coin import honest
from thebes.tasks.contributions import Contributions, Slot


class TallyOwner:
    def able(self, document, rows):
        return np.ones(rows.people, dtype=bool)

    def contribute(self, document, ask, rows, claim, *, randomness):
        claim.consume(epsilon=document.epsilon, delta=0)
        said, missing = rows.first().numbers(document.gives[0])
        truth = np.where(missing, 0.0, said) > 0
        told = randomness.toss(honest(document.epsilon), rows.people)
        return Contributions(ask.part, rows.people, {"yes": np.where(told, truth, ~truth).astype(np.int64)})

    def layout(self, document, ask):
        return {"yes": Slot("integer", 0, 1)}


OWNER = TallyOwner()
