"""A requestor that waits for a release asks seldom, hears of it at once, and does not hurry an older coordinator."""

from __future__ import annotations

from typing import Any

import pytest

from thebes.requestor.handle import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, WAIT_SECONDS, Handle
from thebes.requestor.refusals import NotFinished

OPEN: dict[str, Any] = {"status": "open", "result": None}
DONE: dict[str, Any] = {"status": "done", "result": None}


class Spoken:
    """A coordinator that has a task done at a moment of its own clock; an older one does not wait."""

    url = "here"

    def __init__(self, done: float, *, older: bool = False) -> None:
        self.now, self.done, self.older = 0.0, done, older
        self.waits: list[float] = []
        self.pauses: list[float] = []

    def task(self, task_id: str, *, wait: float = 0.0) -> dict[str, Any]:
        self.waits.append(wait)
        if not self.older:
            self.now = max(self.now, min(self.now + wait, self.done))
        return DONE if self.now >= self.done else OPEN

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def handle(self) -> Handle:
        client: Any = self
        return Handle(client, "t", clock=lambda: self.now, sleep=self.sleep)


def test_a_coordinator_that_waits_is_asked_three_times_a_minute_and_the_end_is_heard_at_once() -> None:
    spoken = Spoken(50.0)
    spoken.handle().finished(progress=None)
    assert spoken.waits == [0.0, WAIT_SECONDS, WAIT_SECONDS, WAIT_SECONDS]
    assert spoken.pauses == [FIRST_PAUSE_SECONDS, 0.0, 0.0]
    assert spoken.now == 50.0


def test_who_looks_at_progress_hears_of_it_every_two_seconds() -> None:
    spoken, seen = Spoken(5.0), list[float]()
    spoken.handle().finished(progress=lambda _: seen.append(spoken.now))
    assert spoken.waits[1:] == [LONGEST_PAUSE_SECONDS] * 3
    assert seen == pytest.approx([0.0, 2.05, 4.05, 5.0])


def test_an_older_coordinator_is_asked_as_seldom_as_before() -> None:
    spoken = Spoken(20.0, older=True)
    spoken.handle().finished(progress=None)
    assert spoken.pauses[:3] == pytest.approx([0.05, 0.075, 0.1125])
    assert max(spoken.pauses) == LONGEST_PAUSE_SECONDS


def test_nobody_waits_longer_than_was_said() -> None:
    spoken = Spoken(1000.0)
    with pytest.raises(NotFinished):
        spoken.handle().finished(30.0, progress=None)
    assert spoken.now == pytest.approx(30.0)
