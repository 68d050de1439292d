"""Whatever its description allows or forbids, the coordinator answers as it says it does, and never with a fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi import checks

from tests.support.coordinator import AGES, Server

pytestmark = pytest.mark.slow
PATIENCE = 120  #: seconds for an answer; what asks would give up after ten


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("fuzzed")
    with Server(folder / "home", log=folder / "log") as started:
        yield started
    assert "Traceback" not in (folder / "log").read_text()
    assert "failed" not in (folder / "log").read_text()


def test_the_description_names_every_address_of_the_contract(server: Server) -> None:
    described = server.client.get("/openapi.json").json()["paths"]
    assert {(path, method) for path, methods in described.items() for method in methods} == {
        ("/api/task", "get"),
        ("/api/task", "post"),
        ("/api/task/{task_id}", "get"),
        ("/api/task/{task_id}", "delete"),
        ("/api/task/{task_id}/close", "post"),
        ("/api/task/{task_id}/training", "get"),
        ("/api/task/{task_id}/ask", "get"),
        ("/api/task/{task_id}/submit", "post"),
        ("/api/task/{task_id}/submit", "delete"),
        ("/api/quote", "post"),
        ("/api/about", "get"),
        ("/api/task/{task_id}/receipts", "get"),
        ("/api/task/{task_id}/record", "get"),
        ("/api/check", "post"),
        ("/api/schema", "get"),
        ("/api/schema", "post"),
        ("/api/login", "post"),
        ("/api/login/device", "post"),
        ("/api/login/device/token", "post"),
        ("/api/login/refresh", "post"),
        ("/api/login/end", "post"),
        ("/api/session", "get"),
        ("/api/session/{session}", "delete"),
        ("/api/group", "get"),
        ("/api/group/{name}", "get"),
        ("/api/group/{name}/enrol", "post"),
        ("/api/model", "get"),
        ("/api/model/{name}", "get"),
        ("/api/model/{name}/predict", "post"),
        ("/api/log", "get"),
        ("/api/site", "get"),
        ("/api/site/join", "post"),
        ("/api/site/code", "get"),
        ("/api/site/{name}/code", "post"),
        ("/api/site/{name}/code", "delete"),
        ("/api/health", "get"),
        ("/api/live", "get"),
        ("/api/ready", "get"),
        ("/metrics", "get"),
    }


def test_schemathesis_finds_nothing(server: Server) -> None:
    task_id = server.post(AGES)
    found = schemathesis.openapi.from_url(f"{server.ready['url']}/openapi.json", timeout=PATIENCE)
    operations = [operation.ok() for operation in found.get_all_operations()]
    assert len(operations) == 39
    for operation in operations:
        unknowable = [checks.positive_data_acceptance] if _unknowable(operation) else []
        for path in (None, task_id) if "{task_id}" in operation.path else (None,):
            _finds_nothing(operation.as_strategy(), path, headers=server.admin, excluded_checks=unknowable)
    seen = server.client.get("/metrics").text
    for kind in ('method="POST",status="422"', 'method="POST",status="201"', 'method="GET",status="404"'):
        assert f"thebes_requests_total{{{kind}}}" in seen  # it did reach what it was meant to try


def _unknowable(operation: Any) -> bool:
    """Return whether no schema can say what is right there: which documents, and which contributions at that moment."""
    return (operation.method, operation.path) in {
        ("post", "/api/task"),
        ("post", "/api/quote"),
        ("post", "/api/task/{task_id}/submit"),
    }


def _finds_nothing(cases: Any, task_id: str | None, **named: Any) -> None:
    @given(case=cases)
    @settings(max_examples=15, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def answered_as_described(case: Any) -> None:
        if task_id is not None:
            case.path_parameters = {"task_id": task_id}
        case.call_and_validate(timeout=PATIENCE, **named)

    answered_as_described()


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
def test_right_and_wrong_requests_are_told_apart(server: Server, mode: schemathesis.GenerationMode) -> None:
    found = schemathesis.openapi.from_url(f"{server.ready['url']}/openapi.json", timeout=PATIENCE)
    for operation in found.get_all_operations():
        ready = operation.ok()
        if mode is schemathesis.GenerationMode.NEGATIVE and not (ready.body or ready.query or ready.path_parameters):
            continue
        unknowable = [checks.positive_data_acceptance] if _unknowable(ready) else []
        cases = ready.as_strategy(generation_mode=mode)
        _finds_nothing(cases, None, headers=server.admin, excluded_checks=unknowable)


def test_no_token_and_a_wrong_token_are_refused_wherever_one_is_needed(server: Server) -> None:
    described = server.client.get("/openapi.json").json()["paths"]
    guarded = [(m, p) for p, methods in described.items() for m, o in methods.items() if o.get("security")]
    assert len(guarded) == 14
    optional = {path for method, path in guarded if {} in described[path][method]["security"]}
    assert optional == {"/api/quote", "/api/task/{task_id}/training"}  # who signs in sees more
    rows = {"rows": [{"a": 1}]}
    bodies = {
        "/api/task": AGES,
        "/api/quote": AGES,
        "/api/schema": {"app": "a", "tables": {}},
        "/api/model/{name}/predict": rows,
        "/api/site/{name}/code": {},
    }
    for method, path in guarded:
        for headers in (
            ({"Authorization": "Bearer wrong"},) if path in optional else ({}, {"Authorization": "Bearer wrong"})
        ):
            address = path.format(task_id="x", name="x", session="0" * 32)
            answer = server.client.request(method, address, json=bodies.get(path), headers=headers)
            assert answer.status_code == 401
