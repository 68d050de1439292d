"""The second private round: people who sent no packet say how a classifier votes about them, and what is true.

Who scores is somebody else than who sent a packet, and says one thing about one classifier. Asking the same people
again would make them share epsilon between packet and score, and noise grows far faster with less epsilon than with
fewer people; and a score that comes from others than a classifier was learned from cannot flatter it.

Proof: what a person sends is one mechanism's report on one of `outcomes(document).size` categories, a number that the
document alone fixes. Which category a row falls into is decided by the ask before any coin is tossed. So for every two
rows, and for whatever classifier an attacker writes into the ask, however it was chosen, the report has two
distributions on which the mechanism is epsilon-private; the ask chooses which two, never how far they are apart. The
person answers in no other phase, so that this report is all that leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import Rows
from thebes.privacy.faults import Mistake
from thebes.tasks.document import Values
from thebes.tasks.ensemble.cells import FeatureCut, SubsetCells, given
from thebes.tasks.ensemble.kind import EnsembleDocument

Integers = NDArray[np.int64]


def outcomes(document: EnsembleDocument) -> SubsetCells:
    """Return what may be said about a classifier: the label it votes for, with the label that is true."""
    label = given(document, document.label)
    assert isinstance(label.bound, Values)  # noqa: S101
    every = label.bound.model_copy(update={"default": label.bound.values[0]})  # a vote is never missing
    return SubsetCells((FeatureCut(label.column, every, groups=label.groups),), label)


@dataclass(frozen=True)
class Ballot:
    """The votes of a classifier: for each combination of its features' bins, the place of a label among the labels."""

    cells: SubsetCells
    votes: tuple[int, ...]

    def of(self, rows: Rows) -> Integers:
        """Each row's outcome: the vote about it, and what is true of it."""
        label = self.cells.label
        return np.array(self.votes, dtype=np.int64)[self.cells.places(rows)] * label.size + label.bins(rows)

    def as_json(self) -> dict[str, Any]:
        return {"features": [cut.as_json() for cut in self.cells.cuts], "votes": list(self.votes)}

    @classmethod
    def asked(cls, cells: SubsetCells, told: Mapping[str, Any]) -> Ballot:
        """A ballot over cells that were agreed to, as an ask names it: one label for each combination of bins."""
        votes = told.get("votes")
        if not isinstance(votes, list) or len(votes) != cells.size // cells.label.size:
            raise Mistake("ask", "has not one vote for each combination of bins; the server did not keep to the task")
        if not all(type(vote) is int and 0 <= vote < cells.label.known for vote in votes):
            raise Mistake("ask", "votes for what is no label of this task; the server did not keep to the task")
        return cls(cells, tuple(votes))
