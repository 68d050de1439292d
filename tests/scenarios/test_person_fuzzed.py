"""Whatever its description allows or forbids, a person's server answers as it says it does, and never with a fault."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi import checks

from tests.support.coordinator import AGES, PETS
from tests.support.coordinator_in_memory import CoordinatorInMemory
from thebes.person.home import Person
from thebes.person.rest import guarded
from thebes.simulation import example
from thebes.web.person.pages import put_on
from thebes.wire.access import Access, make_token, read_secret
from thebes.wire.local_server import listening_at

pytestmark = pytest.mark.slow
PATIENCE = 120  #: seconds for an answer; what asks would give up after ten

#: what depends on what was declared, enrolled or put up before, so that no schema can say what fits
_UNKNOWABLE = ("/insert", "/register", "/delivery", "/enrol", "/accept", "/decline", "/withdraw")


@dataclass
class Fuzzed:
    url: str
    token: dict[str, str]
    known: dict[str, str]  #: names and ids for which there is something

    def operations(self) -> list[Any]:
        found = schemathesis.openapi.from_url(f"{self.url}/openapi.json", headers=self.token, timeout=PATIENCE)
        return [operation.ok() for operation in found.exclude(path="/api/destroy").get_all_operations()]


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    home = tmp_path_factory.mktemp("fuzzed") / "home"
    server, logged = CoordinatorInMemory(), _Logged()
    task = server.post(AGES)
    server.post(PETS)
    logging.getLogger().addHandler(logged)
    with Person(home, client=server, delay=False) as me, listening_at(0) as bound:  # type: ignore[arg-type]
        example.fill(me, seed=4)
        make_token(home)
        port = int(bound.getsockname()[1])
        app = guarded(me, Access(home), port=port, stop=lambda: None, pages=put_on)
        running = uvicorn.Server(uvicorn.Config(app, log_level="error", log_config=None))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        while not running.started:
            assert thread.is_alive()
            time.sleep(0.02)
        token = {"Authorization": f"Bearer {read_secret(home / 'token')}"}
        yield Fuzzed(
            f"http://127.0.0.1:{port}",
            token,
            {"task_id": task, "app_name": "profile", "table": "pets", "name": "friends"},
        )
        running.should_exit = True
        thread.join(timeout=PATIENCE)
        assert not thread.is_alive()
        assert me.verify()["whole"]
    logging.getLogger().removeHandler(logged)
    assert logged.said == []


class _Logged(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self.format(record))


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
def test_right_and_wrong_requests_are_told_apart(fuzzed: Fuzzed, mode: schemathesis.GenerationMode) -> None:
    tried = 0
    for operation in fuzzed.operations():
        named = "{" in operation.path and not operation.path.endswith("/remove")  # what is gone answers nothing more
        if mode is schemathesis.GenerationMode.NEGATIVE and not (operation.body or operation.query or named):
            continue
        tried += 1
        cases = operation.as_strategy(generation_mode=mode)
        for known in ({}, fuzzed.known) if named else ({},):
            _finds_nothing(operation, cases, known, fuzzed.token)
    assert tried >= 16  # it did reach what it was meant to try


def _finds_nothing(operation: Any, cases: Any, known: dict[str, str], token: dict[str, str]) -> None:
    excluded = [checks.positive_data_acceptance] if operation.path.endswith(_UNKNOWABLE) else []
    if known:  # a wrong name was put right, which may have been all that was wrong
        excluded.append(checks.negative_data_rejection)

    @given(case=cases)
    @settings(max_examples=8, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def answered_as_described(case: Any) -> None:
        case.path_parameters = {name: known.get(name, value) for name, value in (case.path_parameters or {}).items()}
        case.call_and_validate(headers=token, excluded_checks=excluded, timeout=PATIENCE)

    answered_as_described()


def test_the_description_says_that_every_address_wants_the_token_and_each_does(fuzzed: Fuzzed) -> None:
    described = httpx.get(f"{fuzzed.url}/openapi.json", headers=fuzzed.token, trust_env=False, timeout=PATIENCE).json()
    wrong: list[tuple[int, dict[str, str]]] = [
        (401, {}),
        (401, {"Authorization": "Bearer wrong"}),
        (421, {**fuzzed.token, "Host": "evil.example"}),
        (403, {**fuzzed.token, "Origin": "https://evil.example"}),
        (403, {**fuzzed.token, "Sec-Fetch-Site": "cross-site"}),
    ]
    with httpx.Client(base_url=fuzzed.url, trust_env=False, timeout=PATIENCE) as client:
        for path, methods in described["paths"].items():
            for method, operation in methods.items():
                assert operation["security"] == [{"HTTPBearer": []}]
                body = None if method == "get" else {"confirm": "destroy everything"}
                for name, value in fuzzed.known.items():
                    path = path.replace(f"{{{name}}}", value)
                for status, headers in wrong:
                    assert client.request(method, path, json=body, headers=headers).status_code == status
