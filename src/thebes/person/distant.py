"""A person's home from another process of the same user: the same methods, over the daemon's own address."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from thebes.person.access import FILE, read_secret
from thebes.person.folder import Hold, HomeInUse, announced
from thebes.person.participation import State
from thebes.privacy.faults import Refusal
from thebes.wire.address import segment
from thebes.wire.problems import from_problem
from thebes.wire.refusals import NotFound, Unreachable


class Distant:
    """Talks to the `thebes person` that holds a home. Errors are the same classes as in that process."""

    def __init__(self, url: str, token: str, *, timeout: float = 60) -> None:
        self.url = url
        self._http = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=timeout, trust_env=False
        )

    @classmethod
    def running(cls, home: Path) -> Distant | None:
        """The daemon that holds `home`, or None where nobody does. The token is shown only while the home is held:
        an address that was left behind may belong to somebody else by now."""
        try:
            Hold(home).close()
            return None
        except HomeInUse:
            told = announced(home)
            if not isinstance(told.get("url"), str):
                raise
        made = cls(told["url"], read_secret(home / FILE))
        try:
            made.store()
        except Refusal:
            made.close()
            raise HomeInUse(f"another process holds the home {str(home)!r} and does not answer") from None
        return made

    def tasks(self) -> list[dict[str, Any]]:
        return list(self._ask("GET", "/api/tasks"))

    def task(self, task_id: str) -> dict[str, Any]:
        return dict(self._ask("GET", f"/api/tasks/{segment('task_id', task_id)}"))

    def participations(self) -> list[dict[str, Any]]:
        return list(self._ask("GET", "/api/participations"))

    def preview(self, task_id: str) -> dict[str, Any]:
        return dict(self._ask("GET", f"/api/tasks/{segment('task_id', task_id)}/preview"))

    def accept(self, task_id: str) -> dict[str, Any]:
        return dict(self._ask("POST", f"/api/tasks/{segment('task_id', task_id)}/accept"))

    def decline(self, task_id: str) -> dict[str, Any]:
        return dict(self._ask("POST", f"/api/tasks/{segment('task_id', task_id)}/decline"))

    def withdraw(self, task_id: str) -> dict[str, Any]:
        return dict(self._ask("POST", f"/api/tasks/{segment('task_id', task_id)}/withdraw"))

    def wait(self, task_id: str, *, timeout: float = 60.0, state: str = "sent") -> dict[str, Any]:
        """Until the latest participation in a task has reached `state` or an end."""
        end = time.monotonic() + timeout
        while True:
            mine = [p for p in self.participations() if p["task_id"] == task_id]
            if not mine:
                raise NotFound("you take no part in this task")
            reached = State(mine[-1]["state"])
            if reached == state or reached.final:
                return mine[-1]
            if time.monotonic() >= end:
                raise Refusal(f"after {timeout:g} seconds your part in this task is still {reached}")
            time.sleep(0.1)

    def ledger(self) -> dict[str, Any]:
        return dict(self._ask("GET", "/api/ledger"))

    def settings(self) -> dict[str, Any]:
        return dict(self._ask("GET", "/api/settings"))

    def set_settings(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self._ask("PUT", "/api/settings", dict(body)))

    def rules(self) -> list[dict[str, Any]]:
        return list(self._ask("GET", "/api/rules")["rules"])

    def set_rules(self, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return list(self._ask("PUT", "/api/rules", {"rules": rules})["rules"])

    def store(self) -> list[dict[str, Any]]:
        return list(self._ask("GET", "/api/store"))

    def register(self, app: str, tables: Mapping[str, Any]) -> int:
        return int(self._ask("POST", f"/app/{segment('app', app)}/register", dict(tables))["version"])

    def insert(self, app: str, table: str, rows: list[dict[str, Any]]) -> int:
        body = {"table": table, "rows": rows}
        return int(self._ask("POST", f"/app/{segment('app', app)}/insert", body)["inserted"])

    def newest(self, app: str, table: str, count: int = 20) -> list[dict[str, Any]]:
        path = f"/api/store/{segment('app', app)}/{segment('table', table)}"
        return list(self._ask("GET", path, count=str(count)))

    def remove(self, app: str, *, keep_data: bool) -> None:
        self._ask("POST", f"/api/store/{segment('app', app)}/remove", {"keep_data": keep_data})

    def export(self) -> dict[str, Any]:
        return dict(self._ask("GET", "/api/export"))

    def destroy(self) -> None:
        self._ask("POST", "/api/destroy", {"confirm": "destroy everything"})

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, **query: str) -> Any:
        json = body if body is not None or method == "GET" else {}
        try:
            answer = self._http.request(method, path, json=json, params=query or None)
        except httpx.HTTPError as error:
            raise Unreachable(self.url, f"the person's own server does not answer ({type(error).__name__})") from None
        try:
            told = answer.json()
        except ValueError:
            told = None
        if not answer.is_success:
            raise from_problem(answer.status_code, told)
        return told
