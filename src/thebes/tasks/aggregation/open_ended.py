"""The part of every aggregator that is the same where a task has no end: it takes reports, keeps a state, can answer at
any time, and is closed by somebody.

What must stay true: a report is taken once and cannot be taken back; the state is `facts`, which several processes can
bring together, and as many `pieces` as a kind says, each stored by itself. A kind without pieces hears, remembers and
concludes as any other does: all it heard is in its facts, which are stored together with every report.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Fault, Mistake
from thebes.tasks.aggregation.people import Gathering, PeopleDocumentType
from thebes.tasks.aggregation.snapshots import Arrays
from thebes.tasks.conclusion import concluded
from thebes.tasks.contributions import Contributions
from thebes.tasks.protocols import Setting, State, TaskClosed
from thebes.tasks.release import Release


class OpenEnded(Gathering[PeopleDocumentType]):
    """An aggregator of a document that says `endless`. `conclude` makes the release as it stands, and ends nothing."""

    def __init__(self, document: PeopleDocumentType, setting: Setting) -> None:
        super().__init__(document, setting)
        self._shown: tuple[tuple[int, ...], Release | None] | None = None

    @abstractmethod
    def conclude(self) -> Release | None:
        """Make the release of everything that was heard until now."""

    @property
    def together(self) -> int | None:
        return 1

    @property
    def accepted(self) -> int:
        """The number of contributions it has, over every turn."""
        return sum(self.counts)

    @property
    def enough(self) -> bool:
        """Return whether enough was heard for a release."""
        return self.accepted >= (1 if self.setting.simulated else self.document.min_count)

    @property
    def settled(self) -> bool:
        """Return whether what the document aims at was reached: `advance` then ends it."""
        return False

    @property
    def stage(self) -> tuple[int, ...]:
        """The numbers that differ whenever the release may."""
        return (self.accepted,)

    def accept(self, contributions: Contributions) -> None:
        if self.state is not State.OPEN or contributions.part not in self.parts:
            raise TaskClosed("this part of the task is closed; nothing was taken")
        if contributions.partition != 0:
            raise Mistake("partition", "is not one of this part's")
        if self.accepted + contributions.count > self.wanted:
            raise TaskClosed("this task has all the contributions it wants; nothing was taken")
        if contributions.count > 1:
            raise Fault("every contribution answers an ask of its own; hear them one by one")
        self.hear(self.examine(contributions))
        self.counts[self.parts.index(contributions.part)] += contributions.count

    def advance(self, now: datetime, absent: int = 0) -> None:
        """End it when it is full, has reached what it aims at, or its time is over."""
        if self.state is not State.OPEN:
            return
        deadline = self.document.deadline
        late = deadline is not None and now >= deadline
        if late or self.accepted >= self.wanted or self.settled:
            self.close()

    def close(self) -> None:
        """End it. What was heard stays as it is; too little of it is nothing."""
        if self.state is State.OPEN:
            self.state = State.DONE if self.enough else State.EXPIRED

    def release(self) -> Release | None:
        """The answer as it stands, once enough was heard."""
        if not self.enough or self.state is State.EXPIRED:
            return None
        if self._shown is None or self._shown[0] != self.stage:
            self._shown = self.stage, concluded(self, self.conclude())
        return self._shown[1]

    # --- keeping ----------------------------------------------------------------------------------------

    @property
    def pieces(self) -> int:
        """The number of pieces that are stored by themselves."""
        return 0

    def facts(self) -> dict[str, Any]:
        """Return all of the state but its pieces, as JSON."""
        heard, arrays = self.memory()
        if arrays:
            raise Fault("what a task without end keeps must be JSON, or pieces")
        return {"counts": list(self.counts), "heard": heard}

    def recall(self, facts: Mapping[str, Any]) -> None:
        """Take over what `facts` gave."""
        self.counts[:] = [int(count) for count in facts["counts"]]
        self.remember(facts["heard"], {})
        self._shown = None

    def joined(self, theirs: Mapping[str, Any], before: Mapping[str, Any], mine: Mapping[str, Any]) -> dict[str, Any]:
        """Return `theirs` and what came to `mine` since it was `before`. All of it is taken for counts."""
        found: dict[str, Any] = _added(theirs, before, mine)
        return found

    def taken(self, facts: Mapping[str, Any]) -> int:
        """Return how many contributions facts tell of that no piece shows."""
        return sum(int(count) for count in facts["counts"])

    def take_over(self, facts: Mapping[str, Any], pieces: Sequence[bytes], times: Sequence[int]) -> None:
        """Stand where it was stored: its facts, its pieces, and how often each of these was replaced."""
        self.recall(facts)

    def saved(self, place: int) -> bytes:
        """Return one piece as it is stored."""
        raise Fault("this kind keeps no pieces")

    def load(self, place: int, saved: bytes) -> None:
        """Take over one piece as it is stored; counts nothing."""
        raise Fault("this kind keeps no pieces")

    def replaced(self) -> list[int]:
        """Return the places of pieces that were replaced since this was last asked."""
        return []

    def stands(self, times: Sequence[int]) -> None:
        """Count anew where each piece has been replaced so many times, whoever did it."""

    def copied(self) -> Self:
        """Return the same as it stands now, for who computes while it goes on."""
        made = type(self)(self.document, self.setting)
        made.recall(deepcopy(self.facts()))
        made.state = self.state
        return made

    def progress(self, facts: Mapping[str, Any], pictured: Any = None) -> dict[str, Any]:
        """Return what a live view tells, of facts and of what `pictured` gave: public figures, as JSON."""
        return {"contributions": self.taken(facts)}

    def pictured(self) -> Any:
        """Return what a live view shows of the pieces to those who may see them."""
        return None

    def memory(self) -> tuple[dict[str, Any], Arrays]:
        return {}, {}

    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Remember nothing beside how many were heard."""


def _added(theirs: Any, before: Any, mine: Any) -> Any:
    """Return counts, in lists and mappings of any depth, with what was added to one of them since before."""
    if isinstance(mine, Mapping):
        names = {**(theirs or {}), **mine}
        return {name: _added(*((each or {}).get(name) for each in (theirs, before, mine))) for name in names}
    if isinstance(theirs, Mapping):  # whoever counts here has not heard of it
        return theirs
    if isinstance(mine, list) or isinstance(theirs, list):
        longest = max(len(each or ()) for each in (theirs, before, mine))
        filled = [[*(each or ()), *[None] * (longest - len(each or ()))] for each in (theirs, before, mine)]
        return [_added(*each) for each in zip(*filled, strict=True)]
    return (theirs or 0) + (mine or 0) - (before or 0)
