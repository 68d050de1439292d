"""A target for what a browser or a program of this machine writes to a server: a letter that chooses the address, and
the body as JSON. Small letters are a person's pages and interface, capitals a coordinator's pages, to an operator.

What must stay true: every answer is one that was meant, whatever was typed. What one input changed the next one may
find changed; limits and rules alone are put back.
"""

from __future__ import annotations

import warnings
from functools import cache

from evidence.fuzz.kept import OPEN, folder
from tests.support.coordinator import AGES, PETS, Front
from tests.support.coordinator_in_memory import CoordinatorInMemory
from thebes.person.home import Person
from thebes.person.rest import guarded
from thebes.privacy.faults import Mistake
from thebes.simulation import example
from thebes.web.person.pages import put_on
from thebes.wire.access import Access, make_token, read_secret

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

_PORT = 8767
_JSON = {"Content-Type": "application/json", "HX-Request-Type": "partial", "Sec-Fetch-Site": "same-origin"}
PERSON: dict[bytes, tuple[str, str]] = {
    b"a": ("POST", "/rules/add"),
    b"b": ("POST", "/rules/remove"),
    b"c": ("POST", "/privacy/limits"),
    b"d": ("POST", "/privacy/caps"),
    b"e": ("POST", "/privacy/destroy"),
    b"f": ("POST", "/groups/join"),
    b"g": ("POST", "/data/pets/remove"),
    b"h": ("POST", "/tasks/$task/decide"),
    b"i": ("POST", "/app/diary/register"),
    b"j": ("POST", "/app/profile/insert"),
    b"k": ("POST", "/app/profile/delivery"),
    b"l": ("PUT", "/api/settings"),
    b"m": ("PUT", "/api/rules"),
    b"n": ("POST", "/api/groups/friends/enrol"),
}
COORDINATOR: dict[bytes, tuple[str, str]] = {
    b"A": ("POST", "/ask/fields"),
    b"B": ("POST", "/ask/check"),
    b"C": ("POST", "/ask"),
    b"D": ("POST", "/schemas"),
    b"E": ("POST", "/groups"),
    b"F": ("POST", "/groups/admit"),
    b"G": ("POST", "/groups/publish"),
    b"H": ("POST", "/users"),
    b"I": ("POST", "/users/role"),
    b"J": ("POST", "/users/disable"),
    b"K": ("POST", "/sign-in"),
}


class _Persons:
    def __init__(self) -> None:
        home, server = folder() / "person", CoordinatorInMemory()
        self.me = OPEN.enter_context(Person(home, client=server, delay=False))  # type: ignore[arg-type]
        example.fill(self.me, seed=4)
        make_token(home)
        self._task = server.post(AGES)
        server.post(PETS)
        app = guarded(self.me, Access(home), port=_PORT, stop=lambda: None, pages=put_on)
        client = TestClient(app, base_url=f"http://127.0.0.1:{_PORT}")
        client.headers["Authorization"] = f"Bearer {read_secret(home / 'token')}"
        self._client = OPEN.enter_context(client)
        settings = self.me.settings().as_json()
        self._settings = {name: settings[name] for name in ("delay_seconds", "period_days", "local", "trusted", "caps")}

    def written(self, method: str, path: str, body: bytes) -> int:
        try:
            path = path.replace("$task", self._task)
            return int(self._client.request(method, path, content=body, headers=_JSON).status_code)
        finally:
            self.me.set_settings(self._settings)
            self.me.set_rules([])


@cache
def _persons() -> _Persons:
    return _Persons()


@cache
def _front() -> Front:
    front = OPEN.enter_context(Front(folder()))
    front.post(AGES)
    assert front.client.post("/sign-in", json={"token": front.admin_token}, headers=_JSON).headers["HX-Redirect"]
    return front


def one(data: bytes) -> None:
    door, body = data[:1], data[1:]
    if door in PERSON:
        status = _persons().written(*PERSON[door], body)
    elif door in COORDINATOR:
        method, path = COORDINATOR[door]
        status = int(_front().client.request(method, path, content=body, headers=_JSON).status_code)
    else:
        raise Mistake("data", "begins with no letter that is known here")
    assert status < 500, f"{status} is no answer"
    if status >= 400:
        raise Mistake("body", f"is refused with {status}")
