"""The half that counts."""

from __future__ import annotations

import numpy as np

from thebes.data.table import Sums, Term
from thebes.tasks.contributions import Contributions, Slot


class RelayOwner:
    def layout(self, document, ask, schema):
        more = {"more": Slot("number", 0.0, 1.0, document.long)} if document.long else {}
        return {"count": Slot("integer", -(2**40), 2**40), **more}

    def contribute(self, document, ask, table, claim, *, randomness):
        if document.trouble == "before":
            raise RuntimeError("a row says 31459")
        if document.trouble != "unpaid":
            claim.consume(epsilon=document.epsilon / document.rounds, delta=document.delta / document.rounds)
        if document.trouble == "after":
            raise RuntimeError("a row says 31459")
        count = int(table.sums(Sums((Term(),)))[0, 0]) + int(randomness.below(1000, 1)[0])
        more = {"more": np.full((1, document.long), 0.5)} if document.long else {}
        return Contributions(ask.part, 1, {"count": np.array([count]), **more}, ask.partition)


OWNER = RelayOwner()
