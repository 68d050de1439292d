"""A person's home from another process of the same user: the same methods, over the daemon's own address."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from thebes.person.participation.participation import come_to, still
from thebes.wire.address import segment
from thebes.wire.local_server import Local


class PersonClient(Local):
    """Everything a person does, said to the `thebes person` that holds the home."""

    def tasks(self) -> list[dict[str, Any]]:
        return list(self._ask("GET", "/api/tasks"))

    def unread(self) -> list[dict[str, str]]:
        """Return the tasks that are not offered because nothing there can read or verify them, and why."""
        return list(self._ask("GET", "/api/unread"))

    def task(self, task_id: str) -> dict[str, Any]:
        return dict(self._ask("GET", f"/api/tasks/{segment('task_id', task_id)}"))

    def participations(self) -> list[dict[str, Any]]:
        return list(self._ask("GET", "/api/participations"))

    def preview(self, task_id: str) -> dict[str, Any]:
        return dict(self._ask("GET", f"/api/tasks/{segment('task_id', task_id)}/preview"))

    def place(self, task_id: str) -> str:
        return str(self._ask("GET", f"/api/tasks/{segment('task_id', task_id)}/place")["place"])

    def example(self, task_id: str) -> dict[str, Any]:
        return dict(self._ask("GET", f"/api/tasks/{segment('task_id', task_id)}/example"))

    def accept(self, task_id: str) -> dict[str, Any]:
        return dict(self._ask("POST", f"/api/tasks/{segment('task_id', task_id)}/accept"))

    def decline(self, task_id: str) -> dict[str, Any]:
        return dict(self._ask("POST", f"/api/tasks/{segment('task_id', task_id)}/decline"))

    def withdraw(self, task_id: str, *, seen: str | None = None, packets_sent: int | None = None) -> dict[str, Any]:
        told = {"seen": seen, "packets_sent": packets_sent}
        body = {name: value for name, value in told.items() if value is not None}
        return dict(self._ask("POST", f"/api/tasks/{segment('task_id', task_id)}/withdraw", body or None))

    def wait(self, task_id: str, *, timeout: float = 60.0, state: str = "sent") -> dict[str, Any]:
        """Until the latest participation in a task has reached `state` or an end."""
        end = time.monotonic() + timeout
        while True:
            mine = [p for p in self.participations() if p["task_id"] == task_id]
            if come_to(mine, state):
                return mine[-1]
            if time.monotonic() >= end:
                raise still(mine, timeout)
            time.sleep(0.1)

    def lineage(self) -> list[dict[str, Any]]:
        return list(self._ask("GET", "/api/lineage"))

    def look_for_receipts(self, task_id: str) -> list[dict[str, Any]]:
        return list(self._ask("POST", f"/api/lineage/{segment('task_id', task_id)}/look"))

    def groups(self) -> list[dict[str, Any]]:
        return list(self._ask("GET", "/api/groups")["groups"])

    def enrol(
        self, name: str, code: str, pin: str | None = None, *, epoch: str | None = None, names: str = "private"
    ) -> dict[str, Any]:
        told = {"code": code, "pin": pin, "epoch": epoch, "names": names}
        body = {field: value for field, value in told.items() if value is not None}
        return dict(self._ask("POST", f"/api/groups/{segment('name', name)}/enrol", body))

    def coordinator_key(self) -> dict[str, Any]:
        return dict(self._ask("GET", "/api/coordinator"))

    def about_coordinator(self) -> dict[str, Any]:
        return dict(self._ask("GET", "/api/coordinator/about"))

    def ledger(self) -> dict[str, Any]:
        return dict(self._ask("GET", "/api/ledger"))

    def verify(self) -> dict[str, Any]:
        return dict(self._ask("GET", "/api/ledger/verified"))

    def settings(self) -> dict[str, Any]:
        return dict(self._ask("GET", "/api/settings"))

    def set_settings(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self._ask("PUT", "/api/settings", dict(body)))

    def rules(self) -> list[dict[str, Any]]:
        return list(self._ask("GET", "/api/rules")["rules"])

    def set_rules(self, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return list(self._ask("PUT", "/api/rules", {"rules": rules})["rules"])

    def newest(self, app: str, table: str, count: int = 20) -> list[dict[str, Any]]:
        path = f"/api/store/{segment('app', app)}/{segment('table', table)}"
        return list(self._ask("GET", path, count=str(count)))

    def address(self) -> str:
        """A new one-time address for a browser."""
        return str(self._ask("POST", "/api/session")["url"])

    def export(self) -> dict[str, Any]:
        return dict(self._ask("GET", "/api/export"))

    def destroy(self) -> None:
        self._ask("POST", "/api/destroy", {"confirm": "destroy everything"})
