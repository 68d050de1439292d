"""The client of a coordinator: the same errors as a local call, repeats only where they change nothing."""

from __future__ import annotations

import json
import ssl
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpcore
import httpx
import pytest

from thebes.confinement import answers
from thebes.privacy.faults import Mistake, ThebesError
from thebes.tasks.document import InvalidDocument
from thebes.tasks.protocols import Ask, Closed, TaskClosed, Wait
from thebes.wire import frames
from thebes.wire.client import CoordinatorClient
from thebes.wire.connection import AnswerLimits
from thebes.wire.problems import to_problem
from thebes.wire.refusals import BrokenLog, Busy, Conflict, NotFound, NotSignedIn, TooLarge, Unreachable

URL = "http://127.0.0.1:8000"
Answer = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


class Script(httpx.BaseTransport):
    """Answers in order (the last one again and again) and remembers what was asked and how long was slept."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.slept: list[float] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer

    def client(self, **options: Any) -> CoordinatorClient:
        return CoordinatorClient(URL, transport=self, sleep=self.slept.append, **options)


def refused(error: ThebesError) -> httpx.Response:
    status, body = to_problem(error)
    return httpx.Response(status, json=body)


def ok(body: Any, status: int = 200) -> httpx.Response:
    return httpx.Response(status, json=body)


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.task("t1"),
        lambda c: c.post_task({"type": "basic"}),
        lambda c: c.quote({"type": "basic"}),
        lambda c: c.cancel("t1"),
        lambda c: c.submit("t1", {"part": "p"}),
        lambda c: c.withdraw("t1", "r1"),
        lambda c: c.publish_schema("profile", {}),
        lambda c: c.login("ana", "secret"),
    ],
)
@pytest.mark.parametrize(
    "error",
    [
        InvalidDocument([("epsilon", "is missing")]),
        NotSignedIn("sign in"),
        NotFound("no such task"),
        Conflict("said otherwise before"),
        TaskClosed("closed"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_refusal_there_is_the_same_refusal_here_and_is_not_repeated(
    call: Callable[[CoordinatorClient], object], error: ThebesError
) -> None:
    script = Script(refused(error))
    with script.client() as client, pytest.raises(type(error)) as raised:
        call(client)
    assert str(raised.value) == str(error)
    assert len(script.requests) == 1


def test_every_request_is_the_contracts() -> None:
    lists = {("GET", "/api/task"), ("GET", "/api/site")}
    script = Script(lambda request: ok([] if (request.method, request.url.path) in lists else {"receipt": "r"}))
    with script.client(token="tok") as client:
        client.tasks()
        client.sites()
        client.task("t1")
        client.submit("t1", {"ask_id": "a", "part": "p", "contributor": "c", "payload": {}})
        client.withdraw("t1", "r+1/=")
        client.cancel("t1")
        client.schemas()
        client.publish_schema("profile", {"pets": {"description": "d", "columns": {}}})
        client.log()
        client.log(after=3)
        client.login("ana", "pw")
        client.health()
        client.quote({"type": "x"})
        client.post_task({"type": "x"})
    assert [(r.method, r.url.raw_path.decode()) for r in script.requests] == [
        ("GET", "/api/task"),
        ("GET", "/api/site"),
        ("GET", "/api/task/t1"),
        ("POST", "/api/task/t1/submit"),
        ("DELETE", "/api/task/t1/submit?receipt=r%2B1%2F%3D"),
        ("DELETE", "/api/task/t1"),
        ("GET", "/api/schema"),
        ("POST", "/api/schema"),
        ("GET", "/api/log"),
        ("GET", "/api/log?after=3"),
        ("POST", "/api/login"),
        ("GET", "/api/health"),
        ("POST", "/api/quote"),
        ("POST", "/api/task"),
    ]
    assert all(r.headers["Authorization"] == "Bearer tok" for r in script.requests)
    assert json.loads(script.requests[7].content) == {
        "app": "profile",
        "tables": {"pets": {"description": "d", "columns": {}}},
    }
    assert all(r.headers["Content-Type"] == "application/json" for r in script.requests if r.content)


def test_without_a_token_no_credential_is_sent() -> None:
    script = Script(ok([]))
    script.client().tasks()
    assert "Authorization" not in script.requests[0].headers
    assert "Cookie" not in script.requests[0].headers


def test_an_ask_a_wait_and_a_closed_task_are_what_an_aggregator_would_say() -> None:
    asked = {"ask_id": "a.0", "part": "phase-0", "phase": 0, "expires_at": "2027-01-31T12:00:00+00:00", "payload": {}}
    script = Script(ok(asked), ok({**asked, "expires_at": None, "payload": None}), ok({"wait": 2}))
    client = script.client()
    assert client.ask("t1", "slot") == Ask("a.0", "phase-0", 0, {}, datetime(2027, 1, 31, 12, tzinfo=UTC), task="t1")
    assert client.ask("t1", "slot") == Ask("a.0", "phase-0", 0, {}, None, task="t1")
    assert client.ask("t1", "a b&c") == Wait(2.0)
    assert script.requests[2].url.params["slot"] == "a b&c"
    assert Script(refused(TaskClosed("over"))).client().ask("t1", "slot") == Closed()
    with pytest.raises(NotFound):
        Script(refused(NotFound("none"))).client().ask("t1", "slot")


def test_an_ask_may_come_as_a_frame() -> None:
    asked = {"ask_id": "a", "part": "p", "phase": 1, "expires_at": None, "payload": {"w": list(range(20_000))}}
    content, media_type = frames.encode(asked)
    script = Script(httpx.Response(200, content=content, headers={"Content-Type": media_type}))
    ask = script.client().ask("t1", "s", framed=True)
    assert isinstance(ask, Ask)
    assert ask.payload == asked["payload"]
    assert frames.MEDIA_TYPE in script.requests[0].headers["Accept"]


@pytest.mark.parametrize("body", [{}, {"ask_id": "a"}, {"wait": "soon"}, {"ask_id": 1, "part": 2, "phase": "x"}])
def test_an_ask_that_makes_no_sense_is_refused(body: Any) -> None:
    with pytest.raises(Unreachable, match="another version"):
        Script(ok(body)).client().ask("t1", "slot")


def test_a_submission_is_repeated_with_the_same_bytes() -> None:
    content = b'{"part": "p",   "payload": {"x": 1}}'
    script = Script(
        httpx.ConnectError("refused"), httpx.ReadTimeout("slow"), httpx.Response(503), ok({"receipt": "r1"}, 202)
    )
    assert script.client().submit("t1", content) == "r1"
    assert [r.content for r in script.requests] == [content] * 4
    assert script.slept == pytest.approx([0.2, 0.4, 0.8])


def test_a_submission_may_be_a_frame() -> None:
    content, media_type = frames.encode({"part": "p", "payload": {"w": [0.5] * 20_000}})
    script = Script(ok({"receipt": "r"}))
    script.client().submit("t1", content, media_type=media_type)
    assert script.requests[0].headers["Content-Type"] == "application/vnd.thebes.frame"
    assert script.requests[0].content == content


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.post_task({"type": "x"}),
        lambda c: c.login("a", "b"),
        lambda c: c.cancel("t"),
        lambda c: c.withdraw("t", "r"),
        lambda c: c.publish_schema("a", {}),
    ],
)
def test_what_could_happen_twice_is_never_repeated(call: Callable[[CoordinatorClient], object]) -> None:
    script = Script(httpx.ReadError("gone"))
    with pytest.raises(Unreachable):
        call(script.client())
    assert len(script.requests) == 1


def test_a_busy_server_is_given_the_time_it_asks_for_within_reason() -> None:
    script = Script(
        httpx.Response(429, headers={"Retry-After": "3"}), httpx.Response(503, headers={"Retry-After": "900"}), ok([])
    )
    script.client().tasks()
    assert script.slept == [3.0, 5.0]


def test_a_server_that_stays_busy_says_so() -> None:
    script = Script(refused(Busy("too many at once", 4)))
    with pytest.raises(Busy) as raised:
        script.client(retries=1).tasks()
    assert raised.value.seconds == 4
    assert len(script.requests) == 2


def test_an_unreachable_server_is_named_with_what_to_try() -> None:
    with pytest.raises(Unreachable, match=r"http://127\.0\.0\.1:8000: .*thebes coordinator") as raised:
        Script(httpx.ConnectError("refused")).client(retries=0).tasks()
    assert raised.value.url == URL
    with pytest.raises(Unreachable, match="ca_file"):
        Script(httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED]")).client(retries=0).tasks()


def test_a_real_closed_port_is_unreachable() -> None:
    import socket

    with socket.socket() as taken:  # bound and not listening: nobody else can answer there
        taken.bind(("127.0.0.1", 0))
        client = CoordinatorClient(f"http://127.0.0.1:{taken.getsockname()[1]}", retries=0, timeout=5)
        with pytest.raises(Unreachable, match="nothing answers there"):
            client.health()


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text="<html>router</html>"),
        httpx.Response(200, json={"tasks": []}),
        httpx.Response(200, json=[1]),
        httpx.Response(404, text="<html>not here</html>"),
        httpx.Response(418, text="teapot"),
        httpx.Response(200, content=b"[" * 200_000),
    ],
)
def test_another_kind_of_server_is_recognised(answer: httpx.Response) -> None:
    with pytest.raises(Unreachable, match="Thebes coordinator"):
        Script(answer).client().tasks()


def test_a_redirect_is_not_followed_with_the_token() -> None:
    script = Script(httpx.Response(307, headers={"Location": "https://elsewhere.example/api/task"}))
    with pytest.raises(Unreachable, match=r"elsewhere\.example"):
        script.client(token="tok").tasks()
    assert len(script.requests) == 1


def test_an_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thebes.wire.client.LIST", AnswerLimits(1000, 1000))
    read: list[int] = []

    def endless() -> Any:
        while True:
            read.append(1)
            yield b"x" * 100

    with pytest.raises(TooLarge):
        Script(httpx.Response(200, content=endless())).client().tasks()
    assert len(read) < 100


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8000",
        "ftp://a",
        "http://",
        "http://a b",
        "http://user:secret@a",
        "http://a?x=1",
        "http://a#f",
        "http://a:99999",
        "http://a:0",
        "http://[::1",
        "http://a\n",
        None,
        8000,
    ],
)
def test_an_address_that_is_none_is_a_mistake_that_does_not_repeat_it(url: Any) -> None:
    with pytest.raises(Mistake) as raised:
        CoordinatorClient(url)
    assert raised.value.argument == "url"
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("task_id", ["", ".", "..", "a/b", "a?b", "a%2Fb", "a\nb", "é", None, 3, "a" * 201])
def test_an_id_cannot_lead_elsewhere(task_id: Any) -> None:
    script = Script(ok({}))
    with pytest.raises(Mistake) as raised:
        script.client().task(task_id)
    assert raised.value.argument == "task_id"
    assert not script.requests


def test_a_token_with_line_breaks_is_a_mistake() -> None:
    for token in ("a\r\nHost: b", "é", "", " ", 3):
        with pytest.raises(Mistake, match="token"):
            CoordinatorClient(URL, token)  # type: ignore[arg-type]


def test_a_token_over_an_open_line_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="unencrypted"):
        CoordinatorClient("http://hospital.example", "tok")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for url in ("http://127.0.0.1:1", "http://[::1]:1", "http://localhost", "https://hospital.example"):
            CoordinatorClient(url, "tok")
        CoordinatorClient("http://hospital.example")


def test_proxies_of_the_environment_are_used_only_when_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("all_proxy", "https_proxy", "no_proxy"):  # of the machine that runs this
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    reached: list[str] = []

    def connect(self: Any, host: str, port: int, *rest: Any, **more: Any) -> Any:
        reached.append(f"{host}:{port}")
        raise httpcore.ConnectError

    monkeypatch.setattr(answers.MeteredConnections, "connect_tcp", connect)

    def asked(*, trusted: bool) -> str:
        with CoordinatorClient("http://a.example", trust_env=trusted, retries=0) as made, pytest.raises(Unreachable):
            made.tasks()
        return reached[-1]

    assert (asked(trusted=False), asked(trusted=True)) == ("a.example:80", "127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")
    assert asked(trusted=True) == "a.example:80"


def test_certificates_are_verified_unless_an_authority_is_named(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[ssl.SSLContext] = []
    monkeypatch.setattr(answers, "Direct", lambda *, verify, **_: shown.append(verify or answers.everybody()))
    CoordinatorClient("https://a.example")
    assert shown[0].verify_mode is ssl.CERT_REQUIRED
    assert shown[0].check_hostname
    (tmp_path / "ca.pem").write_text("no certificate")
    for name in ("ca.pem", "missing.pem"):
        with pytest.raises(Mistake, match="PEM"):
            CoordinatorClient("https://a.example", ca_file=tmp_path / name)


@pytest.mark.parametrize(
    "options", [{"timeout": 0}, {"timeout": float("nan")}, {"timeout": "3"}, {"proxy": "ftp://a"}, {"proxy": 3}]
)
def test_settings_that_cannot_work_are_mistakes(options: dict[str, Any]) -> None:
    with pytest.raises(Mistake) as raised:
        CoordinatorClient(URL, **options)
    assert raised.value.argument in options


def test_what_json_cannot_say_is_a_mistake() -> None:
    script = Script(ok({}))
    for document in ({"epsilon": float("nan")}, {"epsilon": object()}):
        with pytest.raises(Mistake, match="JSON"):
            script.client().post_task(document)
    assert not script.requests


def test_a_prefix_in_the_address_is_kept() -> None:
    script = Script(ok([]))
    CoordinatorClient("http://127.0.0.1/thebes/", transport=script).tasks()
    assert script.requests[0].url.path == "/thebes/api/task"


def test_errors_survive_pickling() -> None:
    import pickle

    for error in (Busy("later", 3.0), Unreachable(URL, "gone"), BrokenLog("at 3"), NotFound("x")):
        back = pickle.loads(pickle.dumps(error))
        assert type(back) is type(error)
        assert str(back) == str(error)
        assert vars(back) == vars(error)
