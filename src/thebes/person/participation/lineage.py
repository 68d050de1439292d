"""The place of contributions in releases: whether one holds the receipts of this home, and none that was taken back.

What must stay true: nothing that is asked names a receipt or a pseudonym, and what is asked, and when, is the same
whatever was found; a verdict rests on the coordinator's signed list and on nothing that it says beside it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from thebes.person.participation.packets import Packets
from thebes.person.participation.participation import Participation, ParticipationState
from thebes.person.tasks.task_store import TaskStore
from thebes.privacy.faults import ThebesError
from thebes.wire import receipts, release_record
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import BrokenLog, Busy, NotFound, Unreachable

MOST_UNASKED = 20_000  #: receipts of a release that are fetched without being asked to: 640 kB
MOST = 2_000_000  #: that are fetched at all


class Place(StrEnum):
    """The outcome of a contribution, as its receipts tell it."""

    WAITING = "waiting"  #: there is no release yet
    INCLUDED = "included"  #: the release commits to all of its receipts
    REMOVED = "removed"  #: to some or none of them, and they were not taken back
    LEFT_OUT = "left_out"  #: taken back, and not in the release
    KEPT = "kept"  #: taken back, and in the release all the same
    FORGED = "forged"  #: the release or its list is not what the signed list says
    UNTOLD = "untold"  #: the release says nothing of receipts
    NONE = "none"  #: the task ended without an answer
    UNLOOKED = "unlooked"  #: not looked yet


MIXED_IN = "it keeps learning: what arrives is mixed in at once and has no place of its own"
NOT_SAID = "this coordinator does not say from which contributions the answer was made"
NOT_LISTED = "it is not the one in the coordinator's signed list, which everybody sees"
NOT_SHOWN = "the coordinator does not show the list that it commits to"
LONG = "the list is long, so it is fetched only when you ask for it"
GONE = "the coordinator says that it has forgotten this task, and with it the list of its contributions"
CHANGED = "it commits to other contributions than when it was seen first"

#: of which the person is warned
WARNINGS = (Place.REMOVED, Place.KEPT, Place.FORGED)
#: after which there is something to find later
_OPEN = (Place.WAITING, Place.UNLOOKED)


@dataclass(frozen=True, slots=True)
class ReceiptVerdict:
    """The outcome of a look: how many contributions the release commits to, under which root, and when that was."""

    place: Place
    why: str = ""
    count: int | None = None
    root: str | None = None
    at: float | None = None  #: seconds since 1970

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "place": str(self.place), "warning": self.place in WARNINGS}


class Lineage:
    """Looks for one home's receipts. `listed` gives what the coordinator's signed list has under a name, `through` the
    client by which a participation's other requests go."""

    def __init__(
        self,
        *,
        task_store: TaskStore,
        packets: Packets,
        listed: Callable[[str], str | None],
        through: Callable[[Participation], CoordinatorClient],
        clock: Callable[[], float],
    ) -> None:
        self._task_store, self._packets, self._listed, self._through = task_store, packets, listed, through
        self._clock = clock

    def verdict(self, participation: Participation) -> ReceiptVerdict:
        """Return what was found last; nothing is asked."""
        kept = self._task_store.fact(_fact(participation))
        if kept is not None:
            told = json.loads(kept)
            return ReceiptVerdict(**{**told, "place": Place(told["place"])})
        if participation.document.endless:
            return ReceiptVerdict(Place.UNTOLD, MIXED_IN)
        if participation.state is ParticipationState.CLOSED:
            return ReceiptVerdict(Place.NONE)
        return ReceiptVerdict(Place.WAITING if participation.state is not ParticipationState.DONE else Place.UNLOOKED)

    def due(self) -> list[Participation]:
        """Return whose receipts are still to be looked for: tasks that are answered, and what was taken back."""
        over = self._task_store.participations(states=[ParticipationState.DONE, ParticipationState.WITHDRAWN])
        waiting = [(p, self.verdict(p)) for p in over if self._task_store.receipts(p)]
        # A list that is long is looked at when the person asks, and never again by itself: whoever kept on asking about
        # a task that is over would be known for having taken back.
        return [p for p, verdict in waiting if verdict.place in _OPEN and verdict.why != LONG]

    def look(self, participation: Participation, *, asked: bool = False) -> ReceiptVerdict:
        """Look for one participation's receipts in the release of its task, and keep what was found. `asked`: the
        person wants to know, also where the list is long."""
        try:
            found = self._found(participation, asked=asked)
        except (Busy, Unreachable):
            raise  # later, whatever the list would say
        except BrokenLog as error:
            found = ReceiptVerdict(Place.FORGED, str(error))
        except ThebesError as error:
            found = ReceiptVerdict(Place.UNLOOKED, str(error))
        before = self.verdict(participation)
        if before.root is not None and found.root not in (None, before.root):
            found = ReceiptVerdict(Place.FORGED, CHANGED)
        found = ReceiptVerdict(found.place, found.why, found.count, found.root or before.root, self._clock())
        if found.place is not Place.WAITING:
            told = asdict(found)
            self._task_store.set_fact(_fact(participation), json.dumps({**told, "place": str(found.place)}))
        return found

    def _found(self, participation: Participation, *, asked: bool) -> ReceiptVerdict:
        client, task_id = self._through(participation), participation.task_id
        release = participation.result
        if release is None or participation.state is not ParticipationState.DONE:
            try:
                told = client.task(task_id)
            except NotFound:
                return self._gone(participation)
            release = told.get("result")
            if told.get("status") in ("failed", "cancelled", "expired"):
                return ReceiptVerdict(Place.NONE)
            if told.get("status") != "done" or not isinstance(release, Mapping):
                return ReceiptVerdict(Place.WAITING)
        if participation.document.endless:
            return self.verdict(participation)
        said = release.get("receipts")
        if not isinstance(said, Mapping):
            return ReceiptVerdict(Place.UNTOLD, NOT_SAID)
        count, root, phase = said.get("count"), said.get("root"), said.get("phase")
        if type(count) is not int or not isinstance(root, str) or type(phase) is not int or not 0 <= count <= MOST:
            raise BrokenLog("what the release says of its receipts cannot be read")
        if self._listed(release_record.listed_release(task_id, phase)) != release_record.digest(release):
            return ReceiptVerdict(Place.FORGED, NOT_LISTED, count, root)
        if count > MOST_UNASKED and not asked:
            return ReceiptVerdict(Place.UNLOOKED, LONG, count, root)
        try:
            there = receipts.read(client.receipts(task_id), said)
        except BrokenLog as error:
            return ReceiptVerdict(Place.FORGED, str(error), count, root)
        except NotFound:
            try:
                client.task(task_id)
            except NotFound:
                return self._gone(participation)
            return ReceiptVerdict(Place.FORGED, NOT_SHOWN, count, root)
        return ReceiptVerdict(*self._among(participation, there), count, root)

    def _gone(self, participation: Participation) -> ReceiptVerdict:
        """Keep what was found before the coordinator said that it forgot the task; else look again another time: it
        may say so of one task that it would rather not show, or something on the way may."""
        before = self.verdict(participation)
        return ReceiptVerdict(Place.UNLOOKED, GONE) if before.place in _OPEN else before

    def _among(self, participation: Participation, there: frozenset[bytes]) -> tuple[Place, str]:
        task_id, whose = participation.task_id, self._packets.contributor
        mine = [
            receipts.leaf(task_id, sending.part, whose(participation, sending.part), sending.receipt) in there
            for sending in self._task_store.sendings(participation)
            if sending.receipt is not None
        ]
        if participation.state is ParticipationState.WITHDRAWN:
            return (Place.KEPT, f"{sum(mine)} of {len(mine)}") if any(mine) else (Place.LEFT_OUT, "")
        return (Place.INCLUDED, "") if all(mine) else (Place.REMOVED, f"{len(mine) - sum(mine)} of {len(mine)}")


def _fact(participation: Participation) -> str:
    return f"lineage {participation.id}"
