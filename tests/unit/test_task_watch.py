"""Whoever waits for a task's status hears of it when it changes, and is never kept longer than asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from thebes.coordinator.tasks import task_watch
from thebes.coordinator.tasks.states import Status
from thebes.coordinator.tasks.task_watch import TaskWatch

LONG = 3600.0


class Standing:
    """A task whose status a test sets, and how often it was looked at."""

    def __init__(self) -> None:
        self.status, self.looks = Status.OPEN, 0

    async def of(self, task_id: str) -> Status:
        self.looks += 1
        return self.status


def scene(play: Callable[[Standing, TaskWatch], Awaitable[None]]) -> None:
    async def played() -> None:
        standing = Standing()
        await asyncio.wait_for(play(standing, TaskWatch(standing.of)), 60)

    asyncio.run(played())


async def waiting(standing: Standing, watch: TaskWatch, seconds: float = LONG) -> asyncio.Task[None]:
    """One who waits, and has looked."""
    before = standing.looks
    one = asyncio.create_task(watch.moved("t", Status.OPEN, seconds))
    while standing.looks == before:
        await asyncio.sleep(0)
    return one


def test_everybody_who_waits_is_answered_when_the_status_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_watch, "LOOK_SECONDS", LONG)

    async def play(standing: Standing, watch: TaskWatch) -> None:
        both = [await waiting(standing, watch) for _ in range(2)]
        watch.look()  # another task's: nobody goes
        while standing.looks < 4:
            await asyncio.sleep(0)
        assert not any(each.done() for each in both)
        standing.status = Status.DONE
        watch.look()
        await asyncio.gather(*both)

    scene(play)


def test_a_change_that_nobody_tells_of_is_seen_at_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_watch, "LOOK_SECONDS", 0.001)

    async def play(standing: Standing, watch: TaskWatch) -> None:
        one = await waiting(standing, watch)
        standing.status = Status.RUNNING
        await one

    scene(play)


def test_nobody_is_kept_longer_than_asked() -> None:
    async def play(standing: Standing, watch: TaskWatch) -> None:
        await watch.moved("t", Status.OPEN, 0.001)
        assert standing.status is Status.OPEN

    scene(play)


def test_beyond_so_many_and_at_the_end_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_watch, "MOST_WAITING", 1)

    async def play(standing: Standing, watch: TaskWatch) -> None:
        one = await waiting(standing, watch)
        await watch.moved("t", Status.OPEN, LONG)
        assert not one.done()
        watch.end()
        await one
        await watch.moved("t", Status.OPEN, LONG)

    scene(play)


def test_who_hangs_up_makes_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_watch, "MOST_WAITING", 1)

    async def play(standing: Standing, watch: TaskWatch) -> None:
        one = await waiting(standing, watch)
        one.cancel()
        await asyncio.gather(one, return_exceptions=True)
        other = await waiting(standing, watch)
        assert not other.done()
        other.cancel()

    scene(play)
