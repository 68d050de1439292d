"""The half that answers one day: its value, changed at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daily.days import LAST_DAY, layout_of
from daily.kind import DailyDocument, mechanism_of
from thebes.data.rows import Rows
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import Randomness
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.protocols import Ask, Claim, Owner


class DailyOwner:
    def able(self, document: DailyDocument, rows: Rows) -> NDArray[np.bool_]:
        return np.ones(rows.people, dtype=bool)

    def contribute(
        self, document: DailyDocument, ask: Ask, rows: Rows, claim: Claim, *, randomness: Randomness
    ) -> Contributions:
        day, report = ask.payload.get("day"), mechanism_of(document)
        if not isinstance(day, int) or isinstance(day, bool) or not 0 <= day <= LAST_DAY:
            raise Mistake("payload.day", "must be a number of days since 1970")
        claim.consume(epsilon=report.epsilon, delta=0)
        told, missing = rows.first().categories(document.gives[0], document.values)
        own = np.where(missing, document.stand_in, told)
        fields = {"day": np.full(rows.people, day), "value": report.perturb(own, randomness)}
        return Contributions(ask.part, rows.people, fields)

    def layout(self, document: DailyDocument, ask: Ask) -> Layout:
        return layout_of(document)


OWNER: Owner[DailyDocument] = DailyOwner()
