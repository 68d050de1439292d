"""The matters that must be settled in a coordinator's home, or in its database alone, that came back from a copy,
before anybody opens it.

What must stay true: no key of a task is in a copy, so that what was sealed under one can never be read again, and no
answer to a trusted task is computed twice with two noises.
"""

from __future__ import annotations

import json
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import select

from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.sites.site_store import say_farewell
from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.database_owner import brought_back
from thebes.coordinator.storage.schema import TASK
from thebes.coordinator.tasks.states import Status
from thebes.coordinator.tasks.task_keys import Keys
from thebes.coordinator.training import model_store

_UNDER_WAY = TASK.c.status.in_([str(Status.OPEN), str(Status.RUNNING)])


def settle(home: Path, store: str | None = None) -> int:
    """End every trusted task that was under way, as it ended where it had and else as failed; how many failed. Their
    keys go where they are still there. Tasks whose contributions are noised by their owners go on: where its key is
    gone, under a new one, which tells repeats apart from now on, so that what repeats an earlier contribution is
    refused and never counted twice. `store` is the address of a database outside the home."""
    folder = home / "keys"
    folder.mkdir(mode=0o700, exist_ok=True)
    own = f"sqlite:///{home / 'coordinator.db'}"
    database = Database(own) if store is None else brought_back(CoordinatorHome(home), store)
    try:
        failed, over, going_on = database.write(_settled)
        keys = Keys(folder)
        for task in over:
            keys.destroy(task)
        for task in going_on:
            if keys.of(task) is None:
                keys.destroy(task)  # of one that was killed while it did
                keys.make(task)
        return failed
    finally:
        database.close()


def _settled(connection: sa.Connection) -> tuple[int, list[str], list[str]]:
    failed, over = 0, []
    for task in connection.execute(select(TASK).where(_UNDER_WAY, TASK.c.trusted == 1)).all():
        ended = {"status": task.following or str(Status.FAILED), "following": None, "leftovers": 1, "snapshot": None}
        failed += ended["status"] == Status.FAILED
        over.append(task.id)
        free = {"holder": None, "held_until": None}
        connection.execute(TASK.update().where(TASK.c.id == task.id).values(**ended, **free))
        model_store.forget(connection, task.id)
        if task.sites is not None:
            say_farewell(connection, task.id, json.loads(task.sites)["asked"])
    connection.execute(TASK.update().where(_UNDER_WAY).values(holder=None, held_until=None))
    of_people = (_UNDER_WAY, TASK.c.trusted == 0, TASK.c.sites.is_(None))
    return failed, over, list(connection.scalars(select(TASK.c.id).where(*of_people)).all())
