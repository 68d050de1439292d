"""Coordinators for tests: one in this process with a clock that is moved by hand, and one as a real process."""

from __future__ import annotations

import functools
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from argon2 import PasswordHasher

from thebes.coordinator.api.routes import interface
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.service import CoordinatorService
from thebes.coordinator.storage.database import Database
from thebes.coordinator.tasks.phase_end import Closing
from thebes.coordinator.tasks.phase_queue import PhaseQueue
from thebes.curator.pipelines.model_store import ModelStore
from thebes.web.coordinator.pages import put_on

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have another client than the one we ship with
    from starlette.testclient import TestClient

AGES: dict[str, Any] = {
    "type": "basic",
    "epsilon": 1.0,
    "server": "trusted",
    "min_count": 12,
    "featurizer": "SELECT age FROM profile.demographics",
    "aggregator": "median",
    "bounds": {"age": {"type": "range", "low": 0, "high": 120}},
}
PETS: dict[str, Any] = {
    "type": "bounded",
    "mechanism": "split",
    "epsilon": 1.0,
    "server": "untrusted",
    "min_count": 12,
    "featurizer": "SELECT species FROM profile.pets",
    "bounds": {"species": {"type": "set", "default": "dog", "values": ["cat", "dog"]}},
}

EVENTS: dict[str, Any] = {
    "type": "draw-discard",
    "epsilon": 8.0,
    "min_count": 12,
    "featurizer": "SELECT b, d, o FROM app.event",
    "family": "logistic",
    "inputs": ["b", "d"],
    "output": "o",
    "bounds": {
        "b": {"type": "set", "values": [0, 1]},
        "d": {"type": "range", "low": 0, "high": 3},
        "o": {"type": "set", "values": [0, 1]},
    },
    "learning_rate": 0.01,
    "instances": 5,
}

_PATIENCE = 120.0  #: seconds for what takes a few on an idle machine


class HandClock:
    """Time stands still until it is moved."""

    def __init__(self, moment: datetime = datetime(2030, 1, 1, 12, tzinfo=UTC)) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def move(self, **by: float) -> None:
        self.moment += timedelta(**by)


class Talking:
    """Ways in which a test speaks to a coordinator, shared by both coordinators."""

    client: httpx.Client
    admin_token: str

    @property
    def admin(self) -> dict[str, str]:
        """Headers of an operator."""
        return {"Authorization": f"Bearer {self.admin_token}"}

    def post(self, document: Mapping[str, Any]) -> str:
        """Put a task up; its id."""
        answer = self.client.post("/api/task", json=dict(document), headers=self.admin)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["task_id"])

    def ask(self, task_id: str) -> dict[str, Any]:
        """Return what the task asks now."""
        answer = self.client.get(f"/api/task/{task_id}/ask", params={"slot": "test"})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def submission(self, task_id: str, payload: Mapping[str, Any], contributor: str | None = None) -> dict[str, Any]:
        """The body of a contribution to what is asked now."""
        asked = self.ask(task_id)
        who = contributor or secrets.token_hex(16)
        return {"ask_id": asked["ask_id"], "part": asked["part"], "contributor": who, "payload": dict(payload)}

    def submit(self, task_id: str, body: Mapping[str, Any]) -> httpx.Response:
        return self.client.post(f"/api/task/{task_id}/submit", json=dict(body))

    def fill(self, task_id: str, count: int, payload: Mapping[str, Any]) -> list[str]:
        """So many different contributors send the same; their receipts."""
        body = self.submission(task_id, payload)
        answers = [self.submit(task_id, {**body, "contributor": secrets.token_hex(16)}) for _ in range(count)]
        assert {answer.status_code for answer in answers} <= {202}, [a.text for a in answers]
        return [answer.json()["receipt"] for answer in answers]

    def update(self, task_id: str, contributor: str | None = None, *, packet: int = 0) -> dict[str, Any]:
        """The body of an update to a model that is drawn now: the model itself."""
        slot = contributor or secrets.token_hex(16)
        answer = self.client.get(f"/api/task/{task_id}/ask", params={"slot": slot, "packet": packet})
        assert answer.status_code == 200, answer.text
        asked = answer.json()
        return {**{name: asked[name] for name in ("ask_id", "part", "payload")}, "contributor": slot}

    def train(self, task_id: str, count: int) -> list[str]:
        """So many updates of different contributors; their receipts."""
        answers = [self.submit(task_id, self.update(task_id)) for _ in range(count)]
        assert {answer.status_code for answer in answers} <= {202}, [a.text for a in answers]
        return [answer.json()["receipt"] for answer in answers]

    def progress(self, task_id: str) -> dict[str, Any]:
        """Tell how a training goes, as an operator sees it."""
        return dict(self.client.get(f"/api/task/{task_id}/training", headers=self.admin).json())

    def close_task(self, task_id: str) -> httpx.Response:
        return self.client.post(f"/api/task/{task_id}/close", headers=self.admin)

    def task(self, task_id: str) -> dict[str, Any]:
        return dict(self.client.get(f"/api/task/{task_id}").json())


@functools.cache
def _empty() -> bytes:
    """A database with its tables and nothing in them: making them takes longer than most tests."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "coordinator.db"
        Database(f"sqlite:///{file}").close()
        return file.read_bytes()


class Front(Talking):
    """A coordinator in this process; its worker works when it is told to (`closing.step()`)."""

    def __init__(self, folder: Path, *, store: str | None = None, clock: HandClock | None = None) -> None:
        self.clock = clock or HandClock()
        self.home = CoordinatorHome(folder)
        file = folder / "coordinator.db"
        if store is None and not file.exists():
            file.write_bytes(_empty())
        self.database = Database(store or self.home.store)
        self.looks = 0
        cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)  # else a sign-in takes longer than most tests
        self.service = CoordinatorService(
            self.home, self.database, self.clock, look=self._look, models=ModelStore, hasher=cheap
        )
        self.desk = PhaseQueue(self.database, secrets.token_hex(4))
        self.closing = Closing(self.desk, self.home.keys, self.clock)
        self.admin_token = self.home.admin_token
        settings = self.home.settings
        app = interface(self.service, largest_body=settings.largest_body, pages=put_on, figures=settings.metrics)
        self.client = TestClient(app)
        #: for clients of its own: each request as it is, and no redirect followed
        self.transport = httpx.MockTransport(lambda r: self.client.send(r, stream=True, follow_redirects=False))

    def _look(self) -> None:
        self.looks += 1

    def __enter__(self) -> Self:
        self.client.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.__exit__(kind, error, trace)
        self.service.close()
        self.database.close()


class Server(Talking):
    """`thebes coordinator` as a real process."""

    def __init__(
        self, folder: Path, *, store: str | None = None, log: Path | None = None, more: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        begun = [sys.executable, "-m", "thebes.cli.main", "coordinator", "--home", str(folder), "--port", "0"]
        command = [*begun, *more]
        self._error = None if log is None else log.open("ab")
        self.process = subprocess.Popen(
            [*command, *(() if store is None else ("--store", store))],
            stdout=subprocess.PIPE,
            stderr=self._error,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the coordinator ended before it was ready"
        self.ready = json.loads(line)
        self.admin_token = (folder / "admin.token").read_text().strip()
        self.client = httpx.Client(base_url=self.ready["url"], timeout=_PATIENCE)

    def fronts(self) -> list[int]:
        """The process ids of those that answer: its own, or of several behind one port theirs, oldest first."""
        return _children(self.process.pid) if "processes" in self.ready else [self.process.pid]

    def workers(self) -> list[int]:
        """The process ids of its worker, and of its own site where it has one, as soon as there are any: a worker is
        started after its server, and after one that was killed."""
        end = time.monotonic() + _PATIENCE
        while not (found := [pid for front in self.fronts() for pid in _children(front)]):
            assert time.monotonic() < end, "no worker was started"
            time.sleep(0.01)
        return found

    def kill(self, *, with_worker: bool = True) -> None:
        """SIGKILL, with or without the worker beside it."""
        if with_worker:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()
        self._ended()

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        self.process.terminate()
        return self._ended()

    def wait_for(self, task_id: str, *statuses: str, seconds: float = _PATIENCE) -> dict[str, Any]:
        """The task once it has one of these statuses."""
        end = time.monotonic() + seconds
        while (found := self.task(task_id))["status"] not in statuses:
            assert time.monotonic() < end, f"the task is still {found['status']}"
            time.sleep(0.01)
        return found

    def _ended(self) -> int:
        status = self.process.wait(timeout=_PATIENCE)
        self.client.close()
        if self.process.stdout is not None:
            self.process.stdout.close()
        if self._error is not None:
            self._error.close()
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.stop()


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:  # it has ended
        return []
