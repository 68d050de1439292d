"""The part of every aggregator that is the same: hearing one phase after another until there is enough.

A phase closes at `min_count` accepted contributions (`max_count` keeps it open until that many or the deadline);
at the deadline with fewer the task expires and nothing is released. Closing depends on public things only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.guarantees import Price
from thebes.tasks.aggregation.mixed_crowds import MixedCrowds
from thebes.tasks.aggregation.packets import part_of, partition_of, parts_of
from thebes.tasks.aggregation.snapshots import Arrays, packed, unpacked
from thebes.tasks.conclusion import concluded
from thebes.tasks.contributions import Contributions, Layout, checked
from thebes.tasks.document import SERVER_FLOOR, PeopleDocument, not_bought
from thebes.tasks.mixed_reports import Supports
from thebes.tasks.protocols import Ask, Closed, Setting, State, TaskClosed, Wait
from thebes.tasks.release import Release

PeopleDocumentType = TypeVar("PeopleDocumentType", bound=PeopleDocument)


class Gathering(ABC, Generic[PeopleDocumentType]):
    """An aggregator of a document that people answer. A kind says what it wants, hears it and concludes."""

    def __init__(self, document: PeopleDocumentType, setting: Setting) -> None:
        self.document = document
        self.setting = setting
        self.state = State.OPEN
        self.phase = 0
        self.counts = self._none_yet()  #: contributions that were heard, by packet (turn after turn)
        self._digest = document.digest  # once: every ask names it
        self._release: Release | None = None
        self._expected: int | None = None
        self._mixed = MixedCrowds(document)

    # --- what a kind adds -----------------------------------------------------------------------------

    @abstractmethod
    def layout(self, part: str, partition: int = 0) -> Layout: ...

    def examine(self, contributions: Contributions) -> Contributions:
        """Refuse what no honest owner could have sent, naming the field; nothing is heard yet."""
        return checked(self.layout(contributions.part, contributions.partition), contributions)

    @abstractmethod
    def hear(self, contributions: Contributions) -> None:
        """Take in a checked batch of the current phase."""

    @abstractmethod
    def conclude(self) -> Release | None:
        """End the current phase: the release so far, or None where only a later phase has one."""

    @abstractmethod
    def memory(self) -> tuple[dict[str, Any], Arrays]:
        """Everything heard that is still needed, as JSON and arrays."""

    @abstractmethod
    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """The inverse of `memory`."""

    def payload(self, packet: int = 0, partition: int = 0) -> dict[str, Any]:
        """Return what the ask for a packet of a partition says in this phase, beyond its part."""
        return {}

    @property
    def partitions(self) -> int:
        """Into how many peer partitions slots fall in this phase."""
        return 1

    @property
    def supports(self) -> Supports | None:
        """The loss of the mechanism of which a contribution is one report about one category, and how often such a
        report supports its owner's category and another one; None of all others."""
        return None

    @property
    def together(self) -> int | None:
        """The number of contributions that may answer one ask."""
        return None

    @property
    def endless(self) -> bool:
        """Return whether it is trained for as long as it is open."""
        return self.document.endless

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences that every certificate of such a task must also say."""
        said = []
        if self.document.anonymity == "none":
            said.append("Hidden is what was contributed, not that somebody took part or declined to.")
        elif self.setting.group_size is not None:
            said.append(
                f"Who took part is hidden among the {self.setting.group_size} members of the group "
                f"{self.document.group} (epoch {self.document.epoch}) from everybody, the server included, if they "
                "are people and the way their messages came hides senders too, which is not known here."
            )
        said += not_bought(self.document)
        if self.document.min_count < SERVER_FLOOR:
            said.append(f"Made for a group that may be as small as {self.document.min_count}.")
        return tuple(said)

    # --- the shape ------------------------------------------------------------------------------------

    @property
    def part(self) -> str:
        """The name of the current phase; with one packet it is the part to which its contributions count."""
        return part_of(self.phase)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the current phase: one contribution of each slot counts towards its own."""
        return parts_of(self.part, len(self.counts))

    @property
    def accepted(self) -> int:
        """The number of contributions that the part with the fewest has."""
        return min(self.counts)

    @property
    def wanted(self) -> int:
        """The number of contributions to every part that closes the phase before its deadline."""
        return self.document.wanted_in(self.phase) if self._expected is None else self._expected

    @property
    def least(self) -> int:
        """The number of contributions to every part that is enough at the deadline."""
        return self.document.least_in(self.phase) if self._expected is None else self._expected

    def partition(self, slot: str) -> int:
        return partition_of(slot, self.partitions)

    def expect(self, count: int) -> None:
        """Close the phase at exactly `count` contributions: for simulation, where `min_count` is not enforced."""
        if not self.setting.simulated:
            raise Fault("only a simulated task may replace its document's min_count")
        self._expected = count

    def _none_yet(self) -> list[int]:
        return [0] * (self.document.packets(self.phase) * self.document.turns(self.phase))

    def quote(self, public_state: Mapping[str, Any] | None = None) -> Price:
        return Price(self.document.epsilon, self.document.delta, self.setting.unit)

    def ask(self, slot: str, packet: int = 0) -> Ask | Wait | Closed:
        if self.state is not State.OPEN:
            return Closed()
        if packet >= len(self.counts) or self.counts[packet] >= self.wanted:
            return Wait(1.0)
        partition = self.partition(slot)
        payload = self.payload(packet, partition)
        part = self.parts[packet]
        return Ask(self._ask_id(partition), part, self.phase, payload, self.document.deadline, partition)

    def asked(self, ask_id: str, slot: str, packet: int = 0) -> bool:
        """Return whether this is what the slot is asked now."""
        return not isinstance(self.ask(slot, packet), (Wait, Closed)) and ask_id == self._ask_id(self.partition(slot))

    def _ask_id(self, partition: int) -> str:
        whole = f"{self._digest[:16]}.{self.phase}"
        return f"{whole}.{partition}" if self.partitions > 1 else whole

    def close(self) -> None:
        raise Mistake("type", "is a kind that ends by itself; cancel the task instead")

    def accept(self, contributions: Contributions) -> None:
        if self.state is not State.OPEN or contributions.part not in self.parts:
            raise TaskClosed("this part of the task is closed; nothing was taken")
        if not 0 <= contributions.partition < self.partitions:
            raise Mistake("partition", "is not one of this part's")
        packet = self.parts.index(contributions.part)
        if self.counts[packet] + contributions.count > self.wanted:
            raise TaskClosed("this part of the task has all the contributions it wants; nothing was taken")
        self.hear(self.examine(contributions))
        self.counts[packet] += contributions.count
        self._mixed.hear(packet, contributions.partition, contributions.count)

    def advance(self, now: datetime, absent: int = 0) -> None:
        """End the phase if it is full or its time is over. `absent` registered owners count as null inputs."""
        if self.state is not State.OPEN:
            return
        deadline = self.document.deadline
        late = deadline is not None and now >= deadline
        if self.accepted + absent >= self.wanted or (late and self.accepted + absent >= self.least):
            self._mixed.close(self.phase, people=self.accepted, packets=len(self.counts), partitions=self.partitions)
            made = concluded(self, self.conclude())
            self._release = self._release if made is None else self._mixed.on(made, self.supports)
            self.phase += 1
            self.counts = self._none_yet()
            if self.phase >= self.document.phases:
                self.state = State.DONE
        elif late:
            self.state = State.EXPIRED

    def release(self) -> Release | None:
        return self._release

    def snapshot(self) -> bytes:
        facts, arrays = self.memory()
        header = {
            "digest": self.document.digest,
            "state": str(self.state),
            "phase": self.phase,
            "counts": self.counts,
            "facts": facts,
            "mixed": self._mixed.as_json(),
            "release": None if self._release is None else self._release.as_json(),
        }
        return packed(header, arrays)

    def restore(self, snapshot: bytes) -> None:
        from thebes.tasks.release_reader import release_from_json

        header, arrays = unpacked(snapshot, self.document.digest)
        self.state = State(header["state"])
        self.phase = header["phase"]
        self.counts = header.get("counts") or [header["accepted"]]  # as it was before there were packets
        self._release = None if header["release"] is None else release_from_json(header["release"])
        self._mixed.restore(header.get("mixed"))
        self.remember(header["facts"], arrays)
