"""A person's home from Python: through the process that runs on it, or where none does by itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from thebes.person.client import PersonClient
from thebes.person.folder import prepared
from thebes.person.home import Person
from thebes.person.settings import DIRECT, PersonSettings
from thebes.privacy.faults import Mistake
from thebes.wire.address import base_url


class PersonHome(Protocol):
    """A person's home to its owner, whether this process holds it or another one does. What a task or a participation
    is told as has the keys of the REST interface.

    Example:
        with thebes.open_person("~/.thebes/person") as me:
            for task in me.tasks():
                print(task["explanation"], task["price"])

    """

    def tasks(self) -> list[dict[str, Any]]:
        """Return the open tasks, each in plain words and with its price."""
        ...

    def unread(self) -> list[dict[str, str]]:
        """Return the tasks that are not offered because nothing here can read or verify them, and why."""
        ...

    def task(self, task_id: str) -> dict[str, Any]: ...

    def preview(self, task_id: str) -> dict[str, Any]:
        """Return the rows that would be read, for the owner's eyes."""
        ...

    def place(self, task_id: str) -> str:
        """Return a sentence of where the own value is in an answer, computed here; empty where nothing can be said."""
        ...

    def example(self, task_id: str) -> dict[str, Any]:
        """Return an example of what would leave, drawn anew each time."""
        ...

    def accept(self, task_id: str) -> dict[str, Any]: ...

    def decline(self, task_id: str) -> dict[str, Any]: ...

    def withdraw(self, task_id: str) -> dict[str, Any]: ...

    def participations(self) -> list[dict[str, Any]]: ...

    def wait(self, task_id: str, *, timeout: float = 60.0, state: str = "sent") -> dict[str, Any]:
        """Wait until the latest participation in a task has reached `state` or an end; a Refusal after `timeout`
        seconds."""
        ...

    def lineage(self) -> list[dict[str, Any]]:
        """Return where what left went: tables, task, release, what became of its receipts, models begun from it."""
        ...

    def look_for_receipts(self, task_id: str) -> list[dict[str, Any]]:
        """Look anew for this home's receipts in a task's release."""
        ...

    def groups(self) -> list[dict[str, Any]]: ...

    def enrol(
        self, name: str, code: str, pin: str | None = None, *, epoch: str | None = None, names: str = "private"
    ) -> dict[str, Any]: ...

    def ledger(self) -> dict[str, Any]:
        """Return what was spent, on which task, for whom, and what is left."""
        ...

    def verify(self) -> dict[str, Any]: ...

    def settings(self) -> PersonSettings | dict[str, Any]: ...

    def set_settings(self, body: Mapping[str, Any]) -> dict[str, Any]: ...

    def rules(self) -> list[dict[str, Any]]: ...

    def set_rules(self, rules: list[dict[str, Any]]) -> list[dict[str, Any]]: ...

    def store(self) -> list[dict[str, Any]]:
        """Return the collectors with their tables, columns and numbers of rows."""
        ...

    def register(self, app: str, tables: Mapping[str, Any]) -> int: ...

    def insert(self, app: str, table: str, rows: list[dict[str, Any]]) -> int: ...

    def newest(self, app: str, table: str, count: int = 20) -> list[dict[str, Any]]: ...

    def remove(self, app: str, *, keep_data: bool) -> None: ...

    def about_coordinator(self) -> dict[str, Any]:
        """Return who runs the coordinator and how to reach them, in its own words."""
        ...

    def coordinator_key(self) -> dict[str, Any]: ...

    def export(self) -> dict[str, Any]:
        """Return everything that this home knows."""
        ...

    def destroy(self) -> None:
        """Delete everything in this home, keys first."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_person(
    folder: str | Path,
    *,
    coordinator: str | None = None,
    proxy: str | None = None,
    delay: bool = True,
    passphrase: str | None = None,
) -> PersonHome:
    """A person's home, to use from Python. While `thebes person` runs on it, this talks to that process instead; the
    same methods either way. Without it, what was accepted is sent while this home is open (`wait` waits for it).

    Example: thebes.open_person("~/.thebes/person", coordinator="https://thebes.example").tasks()
    """
    home = prepared(folder)
    running = PersonClient.running(home)
    if running is not None:
        there = running.settings()
        asked_there = there["coordinator"]
        if proxy is not None and PersonSettings().changed({"proxy": proxy}).proxy != there["proxy"]:
            running.close()
            way = there["proxy"] or DIRECT
            raise Mistake("proxy", f"is {way} for as long as `thebes person` runs on this home; stop it")
        if coordinator is not None and base_url(coordinator)[0] != base_url(asked_there)[0]:
            running.close()
            raise Mistake("coordinator", f"is {asked_there} for as long as `thebes person` runs on this home; stop it")
        return running
    person = Person(home, coordinator=coordinator, proxy=proxy, delay=delay, passphrase=passphrase)
    if person.coordinator is not None:
        person.start()
    return person
