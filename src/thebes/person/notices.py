"""Notices of new questions: how many there are, once a day, and never whose or what about.

A notice may stand on a locked screen, or be read over a shoulder: a number is all it has. Nobody is in between; this
machine looks at its coordinator's list as it does for its pages, and speaks with its own desktop.

What must stay true: nothing is looked at, said or kept while notices are off.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable
from typing import Any

from thebes.person.participation.participation import ParticipationState
from thebes.person.tasks.task_feed import TaskFeed
from thebes.person.tasks.task_store import TaskStore
from thebes.privacy.figures import plural

EVERY_SECONDS = 86_400.0
AGAIN_SECONDS = 3_600.0  #: after a look that nobody answered
_FACT = "notices"


def desktop() -> str | None:
    """Return the program that shows a notice on this machine's desktop, or None where there is none."""
    return shutil.which("notify-send")


def on_the_desktop(new: int) -> None:
    """Show how many new questions there are, where a desktop can."""
    if (program := desktop()) is None:
        return
    words = [program, "--app-name=Thebes", "Thebes", plural(new, "new question")]
    try:
        subprocess.run(words, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):  # without a session there is nobody to show it to
        return


class QuestionNotices:
    """The notices of one home; `on` says whether its owner wants them, `tell` is given how many questions are new."""

    def __init__(
        self,
        task_store: TaskStore,
        feed: TaskFeed,
        *,
        on: Callable[[], bool],
        clock: Callable[[], float],
        tell: Callable[[int], None] = on_the_desktop,
    ) -> None:
        self._task_store, self._feed, self._on, self._clock, self._tell = task_store, feed, on, clock, tell
        self._next = 0.0  #: before which this process asks nobody again
        self._open: set[str] | None = None  #: as the coordinator's list was read last, where it was

    def look(self) -> None:
        """Say what is new, where notices are on and nothing was said for a day."""
        now = self._clock()
        if not self._on():
            self._forget()
            return
        said = self._said()
        if now < self._next or 0 <= now - said["at"] < EVERY_SECONDS:
            return
        self._next = now + AGAIN_SECONDS
        self.saw(offer.task_id for offer in self._feed.offers())
        waiting = self._open - self._decided() if self._open else set[str]()
        new = sorted(waiting.difference(said["known"]))
        self._task_store.set_fact(_FACT, json.dumps({"at": now, "known": sorted(waiting), "new": new}))
        if new:
            self._tell(len(new))

    def saw(self, offered: Iterable[str]) -> None:
        """Take note of which tasks are open: what is closed is no question any more."""
        self._open = set(offered)

    @property
    def new(self) -> int:
        """The number of tasks that were new at the last look and still wait for a decision; 0 while notices are off."""
        if not self._on():
            return 0
        new = set(self._said()["new"]) - self._decided()
        return len(new if self._open is None else new & self._open)

    def _decided(self) -> set[str]:
        return {p.task_id for p in self._task_store.participations() if p.state is not ParticipationState.SEEN}

    def _said(self) -> dict[str, Any]:
        kept = self._task_store.fact(_FACT)
        return dict(json.loads(kept)) if kept else {"at": -EVERY_SECONDS, "known": [], "new": []}

    def _forget(self) -> None:
        if self._task_store.fact(_FACT):
            self._task_store.set_fact(_FACT, "")
