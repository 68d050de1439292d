"""Requests stay with the server: no hook for traces, figures or logs of the web framework is given
any of it, whatever the environment or another package has set up in the process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from opentelemetry import _logs, metrics, trace
from opentelemetry.context import Context

import thebes
from tests.support.coordinator import Front
from thebes.person.home import Person
from thebes.person.rest import guarded as person_rest
from thebes.site.steward.rest import guarded as site_rest
from thebes.wire.access import Access, make_token
from thebes.wire.server_options import application

SECRET = "e19d5a"  # in every request below
PORT = 8765


class Heard:
    """Everything that hooks were given: asked for, it takes part in every trace, figure and log."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def hear(*given: Any, **named: Any) -> Any:
            self.told.append(f"{name} {given} {named}")
            return self

        return hear

    def get_span_context(self) -> trace.SpanContext:
        return trace.INVALID_SPAN_CONTEXT

    def is_recording(self) -> bool:
        return True


class Tracers(trace.TracerProvider):
    def __init__(self, heard: Heard) -> None:
        self.heard = heard

    def get_tracer(self, *_: Any, **__: Any) -> Any:
        heard = self.heard

        class Tracer(trace.Tracer):
            def start_span(self, *given: Any, **named: Any) -> Any:
                heard.told.append(f"span {given} {named}")
                return heard

            @contextmanager
            def start_as_current_span(self, *given: Any, **named: Any) -> Iterator[Any]:  # type: ignore[override]
                heard.told.append(f"span {given} {named}")
                yield heard

        return Tracer()


class Meters(metrics.MeterProvider):
    def __init__(self, heard: Heard) -> None:
        self.heard = heard

    def get_meter(self, *_: Any, **__: Any) -> Any:
        return self.heard


class Loggers(_logs.LoggerProvider):
    def __init__(self, heard: Heard) -> None:
        self.heard = heard

    def get_logger(self, *_: Any, **__: Any) -> Any:
        return self.heard


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    """Hooks as another package would set them up for the whole process."""
    made = Heard()
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", Tracers(made))
    monkeypatch.setattr("opentelemetry.metrics._internal._METER_PROVIDER", Meters(made))
    monkeypatch.setattr("opentelemetry._logs._internal._LOGGER_PROVIDER", Loggers(made))
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    return made


def asked(http: Any, **more: Any) -> list[int]:
    """Requests that are answered, refused, strange and unknown, each with the secret in it."""
    tries = [
        ("GET", f"/api/task?state={SECRET}", None),
        ("GET", f"/api/{SECRET}?of={SECRET}", None),
        ("POST", "/api/task", {"type": SECRET}),
        ("POST", "/api/login", {"username": SECRET}),
        ("POST", f"/app/{SECRET}/insert", {"table": SECRET, "rows": [{SECRET: SECRET}]}),
        ("POST", f"/app/{SECRET}/insert", {"rows": SECRET}),
        ("POST", f"/api/datasets/{SECRET}/rows", {"rows": [{SECRET: SECRET}]}),
        ("GET", "/api/ledger", None),
    ]
    return [http.request(method, path, json=body, **more).status_code for method, path, body in tries]


def test_hooks_hear_a_plain_application_and_none_of_ours(heard: Heard) -> None:
    def answers(app: FastAPI) -> None:
        @app.post("/api/task")
        def post(body: dict[str, int]) -> dict[str, int]:
            raise RuntimeError(SECRET)

        client = TestClient(app, raise_server_exceptions=False)
        assert client.post("/api/task", json={"a": SECRET}).status_code == 422
        assert client.post(f"/api/task?of={SECRET}", json={"a": 1}).status_code == 500

    answers(FastAPI())
    assert any(SECRET in told for told in heard.told)  # the hooks are where the framework looks for them
    heard.told.clear()
    answers(application("ours"))
    assert heard.told == []


def test_no_hook_hears_of_a_request_to_the_coordinator(heard: Heard, tmp_path: Path) -> None:
    with Front(tmp_path) as front:
        said = asked(front.client)
        assert {200, 401, 404, 422} & set(said)
        front.service.auth.who = None  # type: ignore[assignment, method-assign]  # a fault of ours
        assert front.client.post("/api/task", json={"type": SECRET}).status_code == 500
    assert heard.told == []


def test_no_hook_hears_of_a_request_to_a_person(heard: Heard, tmp_path: Path) -> None:
    with Person(tmp_path / "me") as me:
        make_token(me.home)
        access = Access(me.home)
        app: Any = person_rest(me, access, port=PORT, stop=lambda: None)
        token = {"Authorization": f"Bearer {(me.home / 'token').read_text().strip()}"}
        with TestClient(app, base_url=f"http://127.0.0.1:{PORT}", headers=token, raise_server_exceptions=False) as http:
            assert 422 in asked(http)
    assert heard.told == []


def test_no_hook_hears_of_a_request_to_a_site(heard: Heard, tmp_path: Path) -> None:
    make_token(tmp_path)

    class Broken:
        def shown(self) -> dict[str, Any]:
            raise RuntimeError(SECRET)

    app: Any = site_rest(Broken(), Access(tmp_path), port=PORT, confined=True)  # type: ignore[arg-type]
    token = {"Authorization": f"Bearer {(tmp_path / 'token').read_text().strip()}"}
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}", headers=token, raise_server_exceptions=False) as http:
        assert 404 in asked(http)
        assert http.get("/api/site").status_code == 500
    assert heard.told == []


def test_every_server_is_made_in_the_one_place_that_turns_it_off() -> None:
    house = Path(thebes.__file__).parent
    texts = {path.relative_to(house).as_posix(): path.read_text(encoding="utf-8") for path in house.rglob("*.py")}
    own = re.findall(r"^class (\w+)\((?:FastAPI|Starlette)\)", "\n".join(texts.values()), re.MULTILINE)
    making = re.compile(rf"^(?!class ).*\b({'|'.join(['FastAPI', 'Starlette', *own])})\(", re.MULTILINE)
    assert [file for file, text in sorted(texts.items()) if making.search(text)] == []
    (place,) = [file for file, text in sorted(texts.items()) if re.search(r"type\[(FastAPI|Starlette)\]", text)]
    assert place == "wire/server_options.py"


def test_the_frameworks_settings_are_those_that_are_turned_off() -> None:
    """A newer one with another switch is noticed here."""
    from fastapi.telemetry import TelemetryConfig

    providers = {"tracer_provider", "meter_provider", "logger_provider", "exclude"}
    switches = set(TelemetryConfig.__annotations__) - providers
    told = application("ours")._telemetry
    assert {name for name in switches if told[name] is False} == switches  # type: ignore[literal-required]
    assert all(told[name] is None for name in providers)  # type: ignore[literal-required]


def test_a_context_of_another_package_is_given_nothing(heard: Heard) -> None:
    from fastapi.telemetry import get_telemetry_data

    found: list[Any] = []
    app = application("ours")

    @app.post("/x")
    def post(body: dict[str, str]) -> None:
        found.append(get_telemetry_data())

    assert TestClient(app).post("/x", json={"a": SECRET}).status_code == 200
    assert (found, get_telemetry_data(Context())) == ([None], None)
