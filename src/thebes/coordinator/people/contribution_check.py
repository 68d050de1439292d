"""The check of what an owner sent, from its payload to the record that is stored.

What must stay true: nothing is stored that does not lie in the domain of its task; of a trusted task nothing is
stored that can be read without the task's key; a refusal names the field and never the value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from thebes.coordinator.people.contribution_record import at_once, pack
from thebes.coordinator.storage.contribution_intake import ContributionDelivery
from thebes.coordinator.storage.task_standing import TaskStanding
from thebes.coordinator.tasks.task_keys import TaskKey, place_of
from thebes.privacy.faults import Mistake, ThebesError
from thebes.tasks.contributions import Layout, read_payloads
from thebes.tasks.protocols import Aggregator
from thebes.wire import frames
from thebes.wire.groups import report_of


@dataclass(frozen=True, slots=True)
class Phase:
    """A task as it stood when it was last looked at, with what is needed to hear its current phase."""

    standing: TaskStanding
    deadline: datetime | None
    aggregator: Aggregator | None  #: None where nothing is heard any more
    longest: int  #: no submission to it has more bytes
    key: TaskKey | None  #: None once it was destroyed

    def hears(self, part: str, now: datetime) -> bool:
        """Return whether a contribution to this part may still be taken."""
        late = self.deadline is not None and now >= self.deadline
        return self.aggregator is not None and part in self.standing.parts and not late

    def partition(self, contributor: str) -> int:
        """The peer partition of a contributor."""
        return 0 if self.aggregator is None else self.aggregator.partition(contributor)

    def layout(self, part: str, partition: int) -> Layout:
        """Return what a contribution to an open part looks like."""
        assert self.aggregator is not None  # noqa: S101
        return self.aggregator.layout(part, partition)


@dataclass(frozen=True, slots=True)
class Sent:
    """A contribution that an owner sends, before it is known whose it is: named by a pseudonym, or proven by a
    token."""

    ask_id: str
    part: str
    payload: Mapping[str, Any]
    contributor: str | None = None
    token: str | None = None

    def by(self, contributor: str) -> Submission:
        """The same as this contributor's."""
        return Submission(self.ask_id, self.part, contributor, self.payload)

    def report(self) -> bytes:
        """Return what a token is bound to."""
        return report_of(self.ask_id, self.payload)


@dataclass(frozen=True, slots=True)
class Submission:
    """The submission that a contributor sends; where there are tokens, `contributor` is the pseudonym that one
    proved."""

    ask_id: str
    part: str
    contributor: str
    payload: Mapping[str, Any]

    def body(self) -> bytes:
        """The same for the same content, however it was spelled and framed: names in any order, and numbers by their
        values, so that 40, 40.0 and 4e1 are one."""
        try:
            frame = frames.split({"payload": {name: _evened(value) for name, value in self.payload.items()}})
            content = [self.ask_id, _by_value(frame.body["payload"])]
            short = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        except RecursionError:
            raise Mistake("payload", "is nested too deeply") from None
        long = sorted((name, _numbers(array)) for name, (_, array) in frame.arrays.items())
        return b"".join([short, *(piece for name, numbers in long for piece in (f"\0{name}\0".encode(), numbers))])


def _by_value(value: Any) -> Any:
    """The same for equal numbers, wherever they stand: what is whole is an integer, as JSON tells none from it."""
    if isinstance(value, dict):
        return {name: _by_value(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_by_value(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _evened(value: Any) -> Any:
    """A long list in which some numbers are written as whole ones and some are not, all written alike, as a frame would
    hold them; what no frame could hold stays."""
    if isinstance(value, list) and len(value) >= frames.SHORTEST and {*map(type, value)} <= {int, float}:
        with suppress(OverflowError):
            floats = [float(each) for each in value]
            if float in {*map(type, value)} and floats == value:
                return floats
    return value


def _numbers(array: frames.Array) -> bytes:
    """An array's numbers, after their kind: the same for equal ones."""
    if array.dtype.kind == "f":
        wide = array.astype("<f8") + 0.0  # no -0
        whole = bool(((np.trunc(wide) == wide) & (abs(wide) < 2.0**63)).all())
        array = wide.astype("<i8") if whole else wide
    return array.dtype.str.encode() + array.tobytes()


@dataclass(frozen=True, slots=True)
class Arrival:
    """A submission that waits to be written. `key` and `phase` are as they stood when it came; `heard`: its part
    was open then, else only a repeat can be answered."""

    phase: Phase
    key: TaskKey
    sent: Submission
    heard: bool


def deliveries(arrivals: Sequence[Arrival]) -> list[ContributionDelivery | ThebesError]:
    """Each arrival examined, packed and, for a trusted task, sealed. Together: one by one costs ten times as much."""
    records: list[bytes | ThebesError | None] = [None] * len(arrivals)
    for places in _by_phase(arrivals):
        found = _examined([arrivals[place] for place in places])
        for place, record in zip(places, found, strict=True):
            records[place] = record
    return [
        record if isinstance(record, ThebesError) else _delivery(arrival, record)
        for arrival, record in zip(arrivals, records, strict=True)
    ]


def _by_phase(arrivals: Sequence[Arrival]) -> list[list[int]]:
    """Group the arrivals that are examined together: those that are asked the same, as long as they are not too
    large."""
    found: dict[tuple[int, str, int], list[list[int]]] = {}
    for place, arrival in enumerate(arrivals):
        if arrival.heard:
            part, partition = arrival.sent.part, arrival.phase.partition(arrival.sent.contributor)
            groups = found.setdefault((id(arrival.phase), part, partition), [[]])
            if len(groups[-1]) >= at_once(arrival.phase.layout(part, partition)):
                groups.append([])
            groups[-1].append(place)
    return [group for groups in found.values() for group in groups]


def _examined(arrivals: Sequence[Arrival]) -> list[bytes | ThebesError]:
    """The records of arrivals to one phase. Where one of them is wrong, each is looked at alone."""
    try:
        return list(_packed(arrivals))
    except ThebesError as error:
        if len(arrivals) == 1:
            return [error]
        return [record for arrival in arrivals for record in _examined([arrival])]


def _packed(arrivals: Sequence[Arrival]) -> list[bytes]:
    phase, part = arrivals[0].phase, arrivals[0].sent.part
    assert phase.aggregator is not None  # noqa: S101
    packet, partition = phase.standing.parts.index(part), phase.partition(arrivals[0].sent.contributor)
    for arrival in arrivals:
        if not phase.aggregator.asked(arrival.sent.ask_id, arrival.sent.contributor, packet):
            raise Mistake("ask_id", "is not what this task asks now; get a new ask")
    layout = phase.layout(part, partition)
    batch = read_payloads(layout, part, [arrival.sent.payload for arrival in arrivals], partition)
    return pack(layout, phase.aggregator.examine(batch))


def _delivery(arrival: Arrival, record: bytes | None) -> ContributionDelivery:
    task_id, sent = arrival.phase.standing.id, arrival.sent
    if record is not None and arrival.phase.standing.trusted:
        record = arrival.key.seal(record, place_of(task_id, sent.part, sent.contributor))
    return ContributionDelivery(task_id, sent.part, sent.contributor, arrival.key.fingerprint(sent.body()), record)
