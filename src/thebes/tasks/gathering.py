"""The part of every aggregator that is the same: hearing one phase after another until there is enough.

A phase closes at `min_count` accepted contributions (`max_count` keeps it open until that many or the deadline);
at the deadline with fewer the task expires and nothing is released. Closing depends on public things only.
"""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.guarantees import Price
from thebes.tasks.contributions import Contributions, Layout, checked
from thebes.tasks.document import SERVER_FLOOR, PeopleDocument
from thebes.tasks.release import Release
from thebes.tasks.shape import Ask, Closed, Setting, State, TaskClosed, Wait

Arrays = dict[str, NDArray[np.generic]]


class Gathering(ABC):
    """An aggregator of a document that people answer. A kind says what it wants, hears it and concludes."""

    def __init__(self, document: PeopleDocument, setting: Setting) -> None:
        self.document = document
        self.setting = setting
        self.state = State.OPEN
        self.phase = 0
        self.accepted = 0
        self._digest = document.digest  # once: every ask names it
        self._release: Release | None = None
        self._expected: int | None = None

    # --- what a kind adds -----------------------------------------------------------------------------

    @abstractmethod
    def layout(self, part: str) -> Layout: ...

    def examine(self, contributions: Contributions) -> Contributions:
        """Refuse what no honest owner could have sent, naming the field; nothing is heard yet."""
        return checked(self.layout(contributions.part), contributions)

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

    def payload(self) -> dict[str, Any]:
        """What the ask of this phase says, beyond its part."""
        return {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What every certificate of such a task must also say."""
        said = []
        if self.document.anonymity == "none":
            said.append("Hidden is what was contributed, not that somebody took part or declined to.")
        if self.document.min_count < SERVER_FLOOR:
            said.append(f"Made for a group that may be as small as {self.document.min_count}.")
        return tuple(said)

    # --- the shape ------------------------------------------------------------------------------------

    @property
    def part(self) -> str:
        """The current phase's part: one contribution of each slot counts towards it."""
        return f"phase-{self.phase}"

    @property
    def wanted(self) -> int:
        """How many contributions close the phase before its deadline."""
        if self._expected is not None:
            return self._expected
        return self.document.max_count or self.document.min_count

    def expect(self, count: int) -> None:
        """Close the phase at exactly `count` contributions: for simulation, where `min_count` is not enforced."""
        if not self.setting.simulated:
            raise Fault("only a simulated task may replace its document's min_count")
        self._expected = count

    def quote(self, public_state: Mapping[str, Any] | None = None) -> Price:
        return Price(self.document.epsilon, self.document.delta, self.setting.unit)

    def ask(self, slot: str) -> Ask | Wait | Closed:
        if self.state is not State.OPEN:
            return Closed()
        if self.accepted >= self.wanted:
            return Wait(1.0)
        ask_id = f"{self._digest[:16]}.{self.phase}"
        return Ask(ask_id, self.part, self.phase, self.payload(), self.document.deadline)

    def accept(self, contributions: Contributions) -> None:
        if self.state is not State.OPEN or contributions.part != self.part:
            raise TaskClosed("this part of the task is closed; nothing was taken")
        if self.accepted + contributions.count > self.wanted:
            raise TaskClosed("this part of the task has all the contributions it wants; nothing was taken")
        self.hear(self.examine(contributions))
        self.accepted += contributions.count

    def advance(self, now: datetime, absent: int = 0) -> None:
        """End the phase if it is full or its time is over. `absent` registered owners count as null inputs."""
        if self.state is not State.OPEN:
            return
        least = self.document.min_count if self._expected is None else self._expected
        deadline = self.document.deadline
        late = deadline is not None and now >= deadline
        if self.accepted + absent >= self.wanted or (late and self.accepted + absent >= least):
            self._release = self.conclude() or self._release
            self.phase += 1
            self.accepted = 0
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
            "accepted": self.accepted,
            "facts": facts,
            "release": None if self._release is None else self._release.as_json(),
        }
        buffer = io.BytesIO()
        text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        np.savez(buffer, allow_pickle=False, header=text, **{f"a.{name}": array for name, array in arrays.items()})
        return buffer.getvalue()

    def restore(self, snapshot: bytes) -> None:
        from thebes.tasks.reading import release_from_json

        with np.load(io.BytesIO(snapshot), allow_pickle=False) as stored:
            header = json.loads(stored["header"].tobytes())
            arrays = {name[2:]: stored[name] for name in stored.files if name.startswith("a.")}
        if header["digest"] != self.document.digest:
            raise Mistake("snapshot", "belongs to another document")
        self.state = State(header["state"])
        self.phase = header["phase"]
        self.accepted = header["accepted"]
        self._release = None if header["release"] is None else release_from_json(header["release"])
        self.remember(header["facts"], arrays)
