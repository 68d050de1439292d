"""The owner's side of the sandbox: one child, one snapshot, as long as the `with` block lasts.

What the child says is a stranger's word: its size, shape and types are checked here. Whatever goes wrong in it becomes
a `Failed`, never an exception.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thebes.confinement.fork_server import ForkServer, can_fork
from thebes.confinement.measures import MEASURES
from thebes.confinement.parent import Child, ChildLost, ChildProcess
from thebes.data.featurizer import FUNCTIONS, Featurizer
from thebes.data.rows import FAILURES
from thebes.data.sandbox.pipe import HEAD, LARGEST_FRAME, frame
from thebes.privacy.faults import Fault

_CHILD = "thebes.data.sandbox.child"
_FEW_POOLS = {"MALLOC_ARENA_MAX": "1"}  #: address space is limited
_SERVER = ForkServer("thebes.data.sandbox.child_server", **_FEW_POOLS)  #: of this process, for all of its sandboxes
_START_SECONDS = 60.0
_KILL_SECONDS = 2.2  # walls.KILL_SECONDS, without importing what only the child needs
_LONGEST_REASON = 200
_FUNCTIONS = sorted(FUNCTIONS | {"like", "glob"})  # what SQLite calls for these two operators

Value = float | int | str | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The reason why a featurizer gave nothing: `failure` is a position in FAILURES, `reason` is for its owner's
    eyes."""

    failure: int
    reason: str


class Sandbox:
    """A child process that reads some databases read-only. Safe for several threads; they take turns. `child` is
    another one in the place of ours: whatever that says, is not believed."""

    def __init__(self, child: ChildProcess | None = None) -> None:
        self._turn = threading.Lock()
        self._lost = False
        #: walls beyond the authorizer and the limits that this system granted the child, once it is open
        self.confinement: tuple[str, ...] = ()
        deadline = time.monotonic() + _START_SECONDS
        self._child = child or _started(deadline)
        try:
            self._talk(b"", deadline)
        except ChildLost as lost:
            self.close()
            raise _not_started(lost) from None

    @property
    def pid(self) -> int:
        """The child's process id, for whoever watches its resources."""
        return self._child.pid

    def open(self, databases: Mapping[str, Path], *, key: bytes) -> dict[str, object]:
        """Begins the snapshot; gives what every database declares. The key travels through the pipe only."""
        message = {"key": key.hex(), "databases": {name: str(path) for name, path in databases.items()}}
        try:
            answer = self._talk(frame(message), time.monotonic() + _START_SECONDS)
            self.confinement = tuple(measure for measure in MEASURES if measure in answer["confinement"])
            return {name: json.loads(answer["declared"][name]) for name in databases}
        except (ChildLost, KeyError, TypeError, ValueError):
            self.close()
            raise Fault("the process for featurizers could not open the store; is a file of it damaged?") from None

    def run(
        self, featurizer: Featurizer, tables: Mapping[str, Sequence[str]], *, most_rows: int
    ) -> list[list[Value]] | Failed:
        """The first `most_rows` rows. `tables` names what may be read: "collector.table" to columns."""
        width = len(featurizer.outputs)
        question = {
            "sql": featurizer.sql,
            "tables": {name: list(columns) for name, columns in tables.items()},
            "functions": _FUNCTIONS,
            "rows": most_rows,
            "width": width,
        }
        with self._turn:
            if self._lost:
                return _TOO_MUCH
            try:
                answer = self._talk(frame(question), time.monotonic() + _KILL_SECONDS)
            except ChildLost:
                self._lost = True
                self.close()
                return _TOO_MUCH
        return _checked(answer, most_rows, width)

    def close(self) -> None:
        """Ends the child."""
        self._child.close()

    def _talk(self, question: bytes, deadline: float) -> dict[str, Any]:
        """Sends everything and hears one frame by the deadline."""
        heard = self._child.talk(question, deadline, _frame_length)
        try:
            return dict(json.loads(heard[HEAD.size :]))
        except (ValueError, TypeError, RecursionError):
            raise ChildLost("it said something else than it was asked") from None


def _started(deadline: float) -> ChildProcess:
    try:
        return _SERVER.child(deadline) if can_fork() else Child(_CHILD, **_FEW_POOLS)
    except ChildLost as lost:
        raise _not_started(lost) from None


def _not_started(lost: ChildLost) -> Fault:
    return Fault(f"the process for featurizers does not start: {lost}")


def _frame_length(heard: bytearray) -> int:
    if len(heard) < HEAD.size:
        return HEAD.size
    length: int = HEAD.unpack_from(heard)[0]
    if HEAD.size + length > LARGEST_FRAME:
        raise ChildLost("it answered more than it was asked")
    return HEAD.size + length


_TOO_MUCH = Failed(FAILURES.index("too slow or too large"), "takes too long, or needs too much memory")
_STRANGE = Failed(FAILURES.index("other"), "fails")


def _checked(answer: dict[str, Any], most_rows: int, width: int) -> list[list[Value]] | Failed:
    rows = answer.get("rows")
    if rows is None:
        failure, reason = answer.get("failed"), answer.get("reason")
        if not isinstance(failure, int) or not 0 <= failure < len(FAILURES) or not isinstance(reason, str):
            return _STRANGE
        return Failed(failure, "".join(c for c in reason[:_LONGEST_REASON] if c.isprintable()))
    if not isinstance(rows, list) or len(rows) > most_rows:
        return _STRANGE
    for row in rows:
        if not isinstance(row, list) or len(row) != width:
            return _STRANGE
        if not all(value is None or type(value) in (int, float, str) for value in row):
            return _STRANGE
    return rows
