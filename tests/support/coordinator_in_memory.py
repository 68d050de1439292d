"""A coordinator in memory that speaks like `CoordinatorClient`: real aggregators, a real signed list, no sockets.

It can be told to fail at any moment, so that what a person's machine does then can be looked at.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from thebes.privacy.promise import Unit
from thebes.privacy.randomness import system
from thebes.tasks import registry
from thebes.tasks.contributions import read_payloads
from thebes.tasks.protocols import Aggregator, Ask, Closed, Setting, State, TaskClosed, Wait
from thebes.wire import frames, task_log
from thebes.wire.address import base_url
from thebes.wire.refusals import Conflict, NotFound


class CoordinatorInMemory:
    """`before(what)` and `after(what)` are called around every request; what they raise is what the caller sees. It has
    no groups."""

    def __init__(self, url: str = "http://127.0.0.1:1") -> None:
        self.url = url
        self.private = base_url(url)[1]
        self.key = task_log.new_key()
        self.entries: list[task_log.TaskLogEntry] = []
        self.successions: list[task_log.Succession] = []
        self.documents: dict[str, dict[str, Any]] = {}
        self.aggregators: dict[str, Aggregator] = {}
        self.status: dict[str, str] = {}
        self.requestors: dict[str, str] = {}
        self.bodies: list[bytes] = []  #: every submission that came in, repeats too
        self.heard: dict[tuple[str, str, str], tuple[bytes, str]] = {}
        self.before: Callable[[str], None] = lambda what: None
        self.after: Callable[[str], None] = lambda what: None

    # --- what a requestor does ------------------------------------------------------------------------

    def post(self, document: Mapping[str, Any], *, requestor: str = "ana", listed: bool = True) -> str:
        checked = registry.check(document)
        task_id = secrets.token_hex(8)
        self.documents[task_id], self.requestors[task_id] = checked.as_json(), requestor
        self.aggregators[task_id] = registry.aggregator(checked, Setting(Unit.DEVICE, system()))
        self.status[task_id] = "open"
        if listed:
            last = self.entries[-1] if self.entries else None
            self.entries.append(task_log.TaskLogEntry.after(last, task_id, checked.digest))
        return task_id

    def rotate(self, *, by: bytes | None = None) -> None:
        """Sign the list with another key from now on; `by` is who signs that, if not the key before it."""
        following = task_log.new_key()
        public = task_log.public_key(following)
        last = self.entries[-1] if self.entries else None
        self.entries.append(
            task_log.TaskLogEntry.after(last, task_log.listed_successor(public), task_log.fingerprint(public))
        )
        made = task_log.succession(by or self.key, following, self.entries[-1])
        self.successions.append(replace(made, key=task_log.public_key(self.key)))
        self.key = following

    def end(self, task_id: str, status: str) -> None:
        self.status[task_id] = status

    # --- what a person sees ------------------------------------------------------------------------------

    def tasks(self) -> list[dict[str, Any]]:
        self.before("tasks")
        return [self._told(task_id) for task_id, status in self.status.items() if status in ("open", "running")]

    def task(self, task_id: str) -> dict[str, Any]:
        self.before("task")
        if task_id not in self.status:
            raise NotFound("there is no such task")
        return self._told(task_id)

    def about(self) -> dict[str, Any]:
        self.before("about")
        return {"operator": "the town", "contact": None, "require_purpose": False, "min_count_floor": 3}

    def log(self, *, after: int = 0) -> dict[str, Any]:
        self.before("log")
        return task_log.published(self.key, self.entries, after=after, successions=self.successions)

    def ask(self, task_id: str, slot: str, *, packet: int = 0, framed: bool = False) -> Ask | Wait | Closed:
        self.before("ask")
        over = self.status[task_id] not in ("open", "running")
        asked = Closed() if over else self.aggregators[task_id].ask(slot, packet)
        self.after("ask")
        return replace(asked, task=task_id) if isinstance(asked, Ask) else asked

    def submit(self, task_id: str, body: bytes, *, media_type: str = frames.JSON) -> str:
        self.before("submit")
        self.bodies.append(body)
        message = frames.decode(body) if media_type == frames.MEDIA_TYPE else json.loads(body)
        identity = (task_id, message["part"], message["contributor"])
        if identity in self.heard:
            known, receipt = self.heard[identity]
            if known != body:
                raise Conflict("another contribution stands under this name")
            return receipt
        if self.status[task_id] not in ("open", "running"):
            raise TaskClosed("the task is closed")
        aggregator = self.aggregators[task_id]
        part, partition = message["part"], aggregator.partition(message["contributor"])
        if part not in aggregator.parts:
            raise TaskClosed("this part is closed")
        layout = aggregator.layout(part, partition)
        aggregator.accept(read_payloads(layout, part, [message["payload"]], partition))
        receipt = secrets.token_hex(16)
        self.heard[identity] = (body, receipt)
        aggregator.advance(datetime.now(UTC))
        if aggregator.state is State.DONE:
            self.status[task_id] = "done"
        self.after("submit")
        return receipt

    def withdraw(self, task_id: str, receipt: str) -> None:
        self.before("withdraw")
        if self.status[task_id] not in ("open", "running"):
            raise TaskClosed("the task is closed")
        found = [identity for identity, (_, known) in self.heard.items() if known == receipt]
        if not found:
            raise NotFound("there is no such receipt")
        del self.heard[found[0]]

    def group(self, name: str, *, epoch: str | None = None) -> dict[str, Any]:
        self.before("group")
        raise NotFound("there is no group of this name")

    def apart(self) -> CoordinatorInMemory:
        return self

    def close(self) -> None:
        return None

    def _told(self, task_id: str) -> dict[str, Any]:
        release = self.aggregators[task_id].release()
        return {
            "task_id": task_id,
            "type": self.documents[task_id]["type"],
            "status": self.status[task_id],
            "document": self.documents[task_id],
            "requestor": self.requestors[task_id],
            "contributions": sum(1 for identity in self.heard if identity[0] == task_id),
            "result": None if release is None else release.as_json(),
        }
