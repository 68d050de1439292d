"""The client of a coordinator, for people and requestors alike: every method is one request of the contract."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from thebes.tasks.protocols import Ask, Closed, TaskClosed, Wait
from thebes.wire import frames
from thebes.wire.address import segment
from thebes.wire.connection import LIST, LONG, Connection, as_json
from thebes.wire.refusals import Unreachable

_LISTS = "lists"  #: who reads what everybody reads


class CoordinatorClient(Connection):
    """Talks to the coordinator at `url`. `token` is a requestor's or operator's; people need none. How it gets there is
    a `Connection`'s affair."""

    # --- tasks --------------------------------------------------------------------------------------

    def tasks(self) -> list[dict[str, Any]]:
        """The open tasks, each with document, explanation and price."""
        return self._list(self._json("GET", "/api/task", reader=_LISTS, kind=LIST))

    def task(self, task_id: str, *, wait: float = 0.0) -> dict[str, Any]:
        """One task with its status and, where there is one, its latest release as `result`. With `wait` (at most 30
        seconds) the coordinator answers once its status has changed, or after so long; an older one answers at once."""
        path = f"/api/task/{segment('task_id', task_id)}"
        params = {"wait": f"{min(wait, self._seconds / 2):.3f}"} if wait else None  # well before patience ends
        return self._object(self._json("GET", path, params=params, reader=f"task {task_id}", kind=LONG))

    def receipts(self, task_id: str) -> bytes:
        """The hashes of the receipts of all contributions that a task's latest release was made from, for
        `wire.receipts.read`. They are never asked for one by one."""
        path = f"/api/task/{segment('task_id', task_id)}/receipts"
        return self._request("GET", path, reader=f"task {task_id}", kind=LONG).content

    def record(self, task_id: str, *, certificate_only: bool = False) -> bytes:
        """The record of a task's latest release as it is saved, for `ReleaseRecord.read`."""
        path = f"/api/task/{segment('task_id', task_id)}/record"
        params = {"part": "certificate"} if certificate_only else None
        return self._request("GET", path, params=params, reader=f"task {task_id}", kind=LONG).content

    def post_task(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Put a document up as a task: `{"task_id", "digest"}`."""
        return self._object(self._json("POST", "/api/task", body=document))

    def quote(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return what one contributor would pay: `{"price", "expires_at"}`. Spends nothing."""
        return self._object(self._json("POST", "/api/quote", body=document))

    def cancel(self, task_id: str) -> None:
        """End a task without a release; for its requestor or an operator."""
        self._request("DELETE", f"/api/task/{segment('task_id', task_id)}")

    def close_task(self, task_id: str) -> None:
        """End a task that is trained without end and keep its last release; for its requestor or an operator."""
        self._request("POST", f"/api/task/{segment('task_id', task_id)}/close")

    def training(self, task_id: str) -> dict[str, Any]:
        """Tell how a task goes that is trained without end: contributions, and of each lane updates, refused and
        history; for its requestor and operators what its models are like, too."""
        return self._object(self._json("GET", f"/api/task/{segment('task_id', task_id)}/training", kind=LIST))

    # --- contributions ------------------------------------------------------------------------------

    def ask(self, task_id: str, slot: str, *, packet: int = 0, framed: bool = False) -> Ask | Wait | Closed:
        """Return what the task wants from `slot` as packet number `packet` now. `framed` fetches large payloads as a
        frame."""
        path = f"/api/task/{segment('task_id', task_id)}/ask"
        accept = f"{frames.MEDIA_TYPE}, application/json" if framed else "application/json"
        try:
            params = {"slot": slot} | ({"packet": str(packet)} if packet else {})
            answer = self._request("GET", path, params=params, headers={"Accept": accept}, kind=LONG)
        except TaskClosed:
            return Closed()
        return _ask(self._object(self._read(answer, LONG)), self.url, task_id)

    def submit(self, task_id: str, body: Mapping[str, Any] | bytes, *, media_type: str = frames.JSON) -> str:
        """Send a contribution and give its receipt. Bytes are sent as they are, so a retry sends the same ones:
        `frames.encode(body)` makes them, together with their media type."""
        content = body if isinstance(body, bytes) else as_json("body", body)
        path = f"/api/task/{segment('task_id', task_id)}/submit"
        answer = self._request("POST", path, content=content, headers={"Content-Type": media_type}, again=True)
        return str(self._known(self._object(self._read(answer)), "receipt"))

    def withdraw(self, task_id: str, receipt: str) -> None:
        """Take a contribution back before its phase closes. `TaskClosed` when it is too late."""
        path = f"/api/task/{segment('task_id', task_id)}/submit"
        self._request("DELETE", path, params={"receipt": receipt})

    # --- groups -------------------------------------------------------------------------------------

    def groups(self) -> list[dict[str, Any]]:
        """Every group with its newest epoch."""
        return self._list(self._json("GET", "/api/group", reader=_LISTS, kind=LIST))

    def group(self, name: str, *, epoch: str | None = None) -> dict[str, Any]:
        """Return what is public of a group's epoch, by default its newest: for `GroupRecord.from_json`."""
        params = None if epoch is None else {"epoch": epoch}
        return self._object(self._json("GET", f"/api/group/{segment('group', name)}", params=params, kind=LIST))

    def enrol(self, name: str, *, epoch: str, code: str, request: str) -> str:
        """The authority's answer to an enrolment's request; the same request again has the same answer."""
        body = json.dumps({"code": code, "epoch": epoch, "request": request}).encode()
        path, kind = f"/api/group/{segment('group', name)}/enrol", {"Content-Type": "application/json"}
        answer = self._request("POST", path, content=body, headers=kind, again=True)
        return str(self._known(self._object(self._read(answer)), "response"))

    # --- sites --------------------------------------------------------------------------------------

    def join(self, *, code: str, request: str, proof: str) -> dict[str, Any]:
        """The certificate for a site's request: `{"certificate", "authority", "proof"}`. The same request again has the
        same answer."""
        content = json.dumps({"code": code, "request": request, "proof": proof}).encode()
        kind = {"Content-Type": "application/json"}
        answer = self._object(self._read(self._request("POST", "/api/site/join", content=content, headers=kind)))
        return {name: str(self._known(answer, name)) for name in ("certificate", "authority", "proof")}

    # --- everything else ----------------------------------------------------------------------------

    def schemas(self) -> dict[str, Any]:
        """The schemas that collectors publish: `{app: {"tables": {...}}}`."""
        return self._object(self._json("GET", "/api/schema", reader=_LISTS, kind=LIST))

    def publish_schema(self, app: str, tables: Mapping[str, Any]) -> None:
        """Make known which tables and columns a collector fills: `POST /api/schema {"app", "tables"}`. No counts."""
        self._request("POST", "/api/schema", json_body={"app": app, "tables": dict(tables)})

    def sites(self) -> list[dict[str, Any]]:
        """The institutions that take part and their state; empty where the coordinator has none."""
        return self._list(self._json("GET", "/api/site", reader=_LISTS, kind=LIST))

    def log(self, *, after: int = 0) -> dict[str, Any]:
        """The signed task list without its first `after` entries, for `wire.log.verify`."""
        params = {"after": str(after)} if after else None
        return self._object(self._json("GET", "/api/log", params=params, reader=_LISTS, kind=LIST))

    def login(self, username: str, password: str) -> dict[str, Any]:
        """`{"token", "expires_at"}` for a name and a password; `present` the token to use it."""
        self._must_be_private("the password")
        return self._object(self._json("POST", "/api/login", body={"username": username, "password": password}))

    def begin_login(self, client: str) -> dict[str, Any]:
        """Ask for a program to be let in: `{"device_code", "user_code", "expires_in", "interval"}`."""
        self._must_be_private("the sign-in")
        return self._object(self._json("POST", "/api/login/device", body={"client": client}))

    def claim_login(self, device_code: str) -> dict[str, Any] | None:
        """The session of a program that somebody let in; None while nobody has decided."""
        answer = self._request("POST", "/api/login/device/token", json_body={"device_code": device_code})
        body = self._object(self._read(answer))
        return None if answer.status_code == 202 else body

    def renew_login(self, refresh_token: str) -> dict[str, Any]:
        """The same session for another quarter of an hour. The token counts once, so this is never repeated."""
        return self._object(self._json("POST", "/api/login/refresh", body={"refresh_token": refresh_token}))

    def end_login(self, refresh_token: str) -> None:
        """End a session that lasts."""
        self._request("POST", "/api/login/end", json_body={"refresh_token": refresh_token})

    def sessions(self) -> list[dict[str, Any]]:
        """List the sessions that go on; to an operator everybody's."""
        return self._list(self._json("GET", "/api/session", reader=_LISTS, kind=LIST))

    def end_session(self, session: str) -> None:
        """End a session at once."""
        self._request("DELETE", f"/api/session/{segment('session', session)}")

    def about(self) -> dict[str, Any]:
        """Return who runs the coordinator and how to reach them, as its operator says."""
        return self._object(self._json("GET", "/api/about", reader=_LISTS))

    def health(self) -> dict[str, Any]:
        """Ask whether the coordinator is alive."""
        return self._object(self._json("GET", "/api/health"))

    def live(self) -> None:
        """Raise `Unreachable` where the coordinator's process does not answer."""
        self._known(self._object(self._json("GET", "/api/live")), "status")

    def ready(self) -> None:
        """Raise a refusal where the coordinator cannot take anything just now."""
        self._known(self._object(self._json("GET", "/api/ready")), "status")

    def clock(self) -> float | None:
        """The coordinator's time in seconds since 1970, which it says in whole seconds; None where it does not."""
        answer = self._request("GET", "/api/health")
        self._known(self._object(self._read(answer)), "status")
        try:
            return parsedate_to_datetime(answer.headers["date"]).timestamp()
        except (KeyError, ValueError, TypeError):
            return None


def _ask(body: Mapping[str, Any], url: str, task: str) -> Ask | Wait:
    try:
        if "wait" in body:
            return Wait(float(body["wait"]))
        moment = body.get("expires_at")
        payload = body.get("payload")
        return Ask(
            ask_id=str(body["ask_id"]),
            part=str(body["part"]),
            phase=int(body["phase"]),
            payload=dict(payload) if payload is not None else {},
            expires_at=None if moment is None else datetime.fromisoformat(moment),
            task=task,
        )
    except (KeyError, TypeError, ValueError):
        raise Unreachable(url, "what the coordinator asks cannot be read; it may be of another version") from None
