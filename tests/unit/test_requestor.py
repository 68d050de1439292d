"""A requestor and a coordinator, held against a small one that follows the contract in one process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from typer.testing import CliRunner

import thebes.task
from tests.support.coordinator import EVENTS
from thebes.data.rows import Rows
from thebes.privacy.faults import Mistake, ThebesError
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import seeded_for_simulation
from thebes.requestor.handle import PATIENCE_SECONDS, how_far
from thebes.requestor.institutions import document_of, round_of
from thebes.requestor.refusals import NotFinished, TaskCancelled, TaskExpired, TaskFailed
from thebes.requestor.server import Server, connect
from thebes.requestor.tables import Listing
from thebes.tasks import registry
from thebes.tasks.contributions import read_payloads
from thebes.tasks.document import InvalidDocument
from thebes.tasks.protocols import Setting, State
from thebes.tasks.release import Release
from thebes.tasks.release_reader import release_from_json
from thebes.wire.client import CoordinatorClient
from thebes.wire.problems import to_problem
from thebes.wire.refusals import NotFound, NotSignedIn, Unreachable

TOKEN = "a-requestors-token"
AGE = "SELECT age FROM profile.demographics"
MEDIAN = thebes.task.median(AGE, epsilon=5, min_count=12, bounds={"age": (0, 120)}, name="ages")


class Small:
    """A coordinator without people: a test hears contributions for it with `hear`."""

    def __init__(self) -> None:
        self.tasks: dict[str, Any] = {}
        self.ended: dict[str, tuple[str, str | None]] = {}
        self.other_digest = False
        self.fills_in: dict[str, Any] = {}  #: what stands in a document once it is posted
        self.requests = 0
        routes = [
            Route("/api/task", self.list),
            Route("/api/task", self.post, methods=["POST"]),
            Route("/api/task/{id}", self.show),
            Route("/api/task/{id}", self.cancel, methods=["DELETE"]),
            Route("/api/task/{id}/close", self.close, methods=["POST"]),
            Route("/api/quote", self.quote, methods=["POST"]),
            Route("/api/login", self.login, methods=["POST"]),
            Route("/api/schema", lambda request: JSONResponse({"profile": {"tables": {"demographics": {}}}})),
        ]
        missing = to_problem(NotFound("there is nothing here"))
        self.app = Starlette(
            routes=routes,
            exception_handlers={
                404: lambda request, error: JSONResponse(missing[1], missing[0]),
                ThebesError: lambda request, error: JSONResponse(*reversed(to_problem(error))),
            },
        )

    def hear(self, task_id: str, people: int) -> None:
        aggregator = self.tasks[task_id]
        rows = Rows.one_each({"age": np.linspace(20, 60, people)})
        ask = aggregator.ask("slot")
        document = aggregator.document
        half = registry.owner(document)
        heard = half.contribute(document, ask, rows, _Free(), randomness=seeded_for_simulation(1))
        aggregator.accept(heard)
        aggregator.advance(datetime(2026, 11, 20, tzinfo=UTC))

    async def list(self, request: Request) -> Response:
        return JSONResponse([self._row(i) for i in self.tasks if self._status(i) == "open"])

    async def post(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            raise NotSignedIn("sign in as a requestor first")
        document = registry.check({**await request.json(), **self.fills_in})
        setting = Setting(Unit.DEVICE, seeded_for_simulation(7))
        task_id = f"task-{len(self.tasks)}"
        self.tasks[task_id] = registry.aggregator(document, setting)
        digest = "0" * 64 if self.other_digest else document.digest
        return JSONResponse({"task_id": task_id, "digest": digest}, 201)

    async def show(self, request: Request) -> Response:
        self.requests += 1
        return JSONResponse(self._row(request.path_params["id"]))

    async def cancel(self, request: Request) -> Response:
        self._row(request.path_params["id"])
        self.ended[request.path_params["id"]] = ("cancelled", None)
        return Response(status_code=204)

    async def close(self, request: Request) -> Response:
        self._row(request.path_params["id"])
        self.tasks[request.path_params["id"]].close()
        return Response(status_code=204)

    def train(self, task_id: str, updates: int) -> None:
        """So many updates that change nothing."""
        aggregator = self.tasks[task_id]
        for _ in range(updates):
            ask = aggregator.ask("slot")
            payload = {**ask.payload, "weights": ask.payload["weights"].tolist()}
            aggregator.accept(read_payloads(aggregator.layout(ask.part), ask.part, [payload]))

    async def login(self, request: Request) -> Response:
        if await request.json() != {"username": "ana", "password": "correct horse"}:
            raise NotSignedIn("name or password is wrong")
        return JSONResponse({"token": TOKEN, "expires_at": "2026-11-20T00:15:00+00:00"})

    async def quote(self, request: Request) -> Response:
        document = registry.check(await request.json())
        price = registry.kind(document.type).price(document).as_json()
        return JSONResponse({"price": price, "expires_at": "2026-11-21T00:00:00+00:00"})

    def _status(self, task_id: str) -> str:
        if task_id in self.ended:
            return self.ended[task_id][0]
        return "done" if self.tasks[task_id].state is State.DONE else "open"

    def _row(self, task_id: str) -> dict[str, Any]:
        if task_id not in self.tasks:
            raise NotFound("there is no task of that id")
        aggregator = self.tasks[task_id]
        release = aggregator.release()
        return {
            "task_id": task_id,
            "type": aggregator.document.type,
            "status": self._status(task_id),
            "digest": aggregator.document.digest,
            "document": aggregator.document.as_json(),
            "price": aggregator.quote().as_json(),
            "contributions": aggregator.accepted,
            "min_count": aggregator.document.min_count,
            "reason": self.ended.get(task_id, (None, None))[1],
            "result": None if release is None else release.as_json(),
        }


class _Free:
    def consume(self, *, epsilon: Any, delta: Any) -> None:
        pass


class Through(httpx.BaseTransport):
    """A synchronous way into an app of the same process; `down` makes it unreachable."""

    def __init__(self, app: Any) -> None:
        self.app = httpx.ASGITransport(app)
        self.down = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.down:
            raise httpx.ConnectError("down")
        request.read()

        async def once() -> httpx.Response:
            answer = await self.app.handle_async_request(
                httpx.Request(request.method, request.url, headers=request.headers, content=request.content)
            )
            return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())

        return asyncio.run(once())


class Clock:
    """Time that passes only while somebody sleeps; `then` happens on the way."""

    def __init__(self) -> None:
        self.now = 0.0
        self.then: dict[int, Any] = {}
        self.sleeps: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds
        self.then.pop(len(self.sleeps), lambda: None)()


@pytest.fixture
def small() -> Small:
    return Small()


@pytest.fixture
def through(small: Small) -> Through:
    return Through(small.app)


@pytest.fixture
def server(through: Through) -> Iterator[Server]:
    client = CoordinatorClient("http://127.0.0.1:1", TOKEN, transport=through, sleep=lambda seconds: None)
    with Server(client) as made:
        yield made


def held(handle: Any, clock: Clock) -> Any:
    from dataclasses import replace

    return replace(handle, clock=clock, sleep=clock.sleep)


def test_connecting_sends_nothing_and_names_the_server() -> None:
    server = connect("http://127.0.0.1:1/", token=TOKEN)
    assert repr(server) == "<coordinator at http://127.0.0.1:1>"
    assert TOKEN not in repr(server.client)


def test_a_task_goes_from_document_to_certified_release(server: Server, small: Small) -> None:
    quote = server.quote(MEDIAN)
    assert quote.price.as_json() == {"epsilon": 5.0, "delta": 0.0, "unit": "device"}
    assert str(quote) == "epsilon 5, delta 0 for one device, until 2026-11-21T00:00:00+00:00"
    assert not small.tasks, "a quote puts nothing up"
    handle = server.submit(MEDIAN)
    assert (handle.status, handle.release, handle.document) == ("open", None, MEDIAN)
    assert handle.digest == registry.check(MEDIAN).digest
    small.hear(handle.task_id, 12)
    release = handle.wait(timeout=5)
    assert type(release) is Release
    assert release.as_json() == small.tasks[handle.task_id].release().as_json()
    assert release.interval(0.95) is not None
    assert release.certificate.epsilon == 5.0
    assert handle.release is not None
    assert handle.release.as_json() == release.as_json()
    assert server.task(handle.task_id).wait(0).value == release.value


def test_every_kind_comes_back_as_its_own_release(server: Server, small: Small) -> None:
    document = thebes.task.bounded(AGE, epsilon=4, bounds={"age": (0, 120)})
    handle = server.submit(document)
    small.hear(handle.task_id, 11)
    release = handle.wait(0)
    assert len(release.rows) == 11
    assert list(release.rows.columns) == ["age", "age.present"]
    assert "11 perturbed rows" in release._repr_html_()


@pytest.mark.slow
def test_a_process_that_never_made_one_reads_every_form_of_release(server: Server, small: Small) -> None:
    handle = server.submit(thebes.task.bounded(AGE, epsilon=4, bounds={"age": (0, 120)}))
    small.hear(handle.task_id, 11)
    program = (
        "import json, sys; from thebes.tasks.release_reader import release_from_json as read;"
        "from thebes.tasks.release import Release;"
        "print(type(read(json.load(sys.stdin))).__name__, sorted(Release.FORMS))"
    )
    text = json.dumps(handle.show()["result"])
    done = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "RowsRelease"
    assert all(form in done.stdout for form in ("'model'", "'network'", "'rows'"))


def test_a_document_that_cannot_work_is_refused_before_it_is_sent(server: Server, through: Through) -> None:
    through.down = True
    with pytest.raises(InvalidDocument) as refused:
        server.submit({**MEDIAN, "epsilon": -1})
    assert refused.value.argument == "epsilon"
    with pytest.raises(InvalidDocument):
        server.quote({"epsilon": 1})
    with pytest.raises(Mistake):
        server.submit("SELECT age")  # type: ignore[arg-type]


def test_a_kind_only_the_coordinator_may_know_is_left_for_it_to_judge(server: Server) -> None:
    with pytest.raises(InvalidDocument) as refused:
        server.submit({"type": "seance", "epsilon": 1})
    assert refused.value.argument == "type"
    assert "must be one of" in str(refused.value)


def test_a_checked_document_may_be_submitted_as_it_is(server: Server) -> None:
    assert server.submit(registry.check(MEDIAN)).document == MEDIAN


def test_a_coordinator_that_reads_a_document_differently_is_noticed(server: Server, small: Small) -> None:
    small.other_digest = True
    with pytest.warns(UserWarning, match="another version"):
        server.submit(MEDIAN)


@pytest.mark.filterwarnings("error")
def test_what_a_coordinator_fills_in_of_a_helper_is_no_other_reading(server: Server, small: Small) -> None:
    small.fills_in = {"helper_key": "ab" * 32}
    split = {"server": "split", "helper": "ward", "bins": 10, "expires_at": "2030-01-01T00:00:00+00:00"}
    assert server.submit({**MEDIAN, **split}).document["helper_key"] == "ab" * 32


def test_a_table_that_nobody_publishes_is_warned_of(server: Server) -> None:
    with pytest.warns(UserWarning, match=r"nobody publishes profile\.feet here .* stand-in"):
        server.submit({**MEDIAN, "featurizer": "SELECT age FROM profile.feet"})


def test_without_a_token_nothing_is_put_up(through: Through, small: Small) -> None:
    nobody = Server(CoordinatorClient("http://127.0.0.1:1", transport=through))
    with pytest.raises(NotSignedIn):
        nobody.submit(MEDIAN)
    assert nobody.tasks() == []
    assert not small.tasks


def test_a_name_and_a_password_give_a_token_that_is_used_from_then_on(through: Through) -> None:
    server = Server(CoordinatorClient("http://127.0.0.1:1", transport=through))
    with pytest.raises(NotSignedIn, match="wrong"):
        server.login("ana", "guess")
    with pytest.raises(NotSignedIn):
        server.submit(MEDIAN)
    assert server.login("ana", "correct horse") == datetime(2026, 11, 20, 0, 15, tzinfo=UTC)
    assert server.submit(MEDIAN).status == "open"
    with pytest.warns(UserWarning, match="password travels unencrypted"):
        CoordinatorClient("http://hospital.example", transport=through).login("ana", "correct horse")


def test_waiting_comes_back_often_at_first_and_then_seldom(server: Server, small: Small) -> None:
    clock = Clock()
    handle = held(server.submit(MEDIAN), clock)
    clock.then[20] = lambda: small.hear(handle.task_id, 12)
    told: list[Any] = []
    handle.wait(progress=lambda body: told.append(body["contributions"]))
    assert clock.sleeps[0] == 0.05
    assert clock.sleeps == sorted(clock.sleeps)
    assert clock.sleeps[-1] == 2.0
    assert len(told) == 21 == small.requests


def test_a_task_that_waits_says_for_what_and_until_when() -> None:
    body: dict[str, Any] = {"status": "open", "contributions": 49, "min_count": 50, "document": {}}
    assert how_far(body) == "49 of the 50 contributions it needs"
    until = {**body, "document": {"expires_at": "2026-12-01T00:00:00Z"}}
    assert how_far(until) == "49 of the 50 contributions it needs; open until 2026-12-01T00:00:00Z"
    assert how_far({**body, "document": {"dataset": "patients"}}) == "49 of the 50 sites it needs"
    assert how_far({**body, "status": "done"}) == ""
    assert how_far({**body, "contributions": "many"}) == ""


def test_a_wait_that_is_over_says_how_far_the_task_is(server: Server, small: Small) -> None:
    clock = Clock()
    handle = held(server.submit(MEDIAN), clock)
    small.hear(handle.task_id, 5)
    with pytest.raises(NotFinished, match=r"after 10 seconds \(5 of the 12 contributions it needs.*\)"):
        handle.wait(timeout=10)
    assert clock.now == pytest.approx(10)
    with pytest.raises(TimeoutError):
        handle.wait(timeout=0)
    small.hear(handle.task_id, 7)
    assert handle.wait(timeout=0).value is not None


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), True])
def test_a_timeout_that_is_none_is_a_mistake(server: Server, timeout: Any) -> None:
    with pytest.raises(Mistake, match="timeout"):
        server.submit(MEDIAN).wait(timeout)


@pytest.mark.parametrize(
    ("status", "class_"), [("failed", TaskFailed), ("expired", TaskExpired), ("cancelled", TaskCancelled)]
)
@pytest.mark.parametrize("reason", [None, "the worker found a broken snapshot"])
def test_a_task_that_ends_without_a_release_says_why(
    server: Server, small: Small, status: str, class_: type[TaskFailed], reason: str | None
) -> None:
    handle = server.submit(MEDIAN)
    small.ended[handle.task_id] = (status, reason)
    with pytest.raises(class_) as ended:
        handle.wait(timeout=5)
    assert type(ended.value) is class_
    assert ended.value.task_id == handle.task_id
    assert reason is None or ended.value.reason == reason
    assert ended.value.reason


def test_a_task_without_end_is_waited_for_until_its_first_release_and_closed(server: Server, small: Small) -> None:
    clock = Clock()
    handle = held(server.submit(EVENTS), clock)
    clock.then[3] = lambda: small.train(handle.task_id, 12)
    first = handle.wait()
    assert len(clock.sleeps) == 3
    assert (handle.status, first.certificate.contributors) == ("open", 12)
    small.train(handle.task_id, 1)
    handle.close()
    assert handle.status == "done"
    assert handle.wait().certificate.contributors == 13


def test_only_a_task_without_end_can_be_closed(server: Server) -> None:
    with pytest.raises(Mistake, match="cancel the task instead"):
        server.submit(MEDIAN).close()


def test_cancelling_ends_a_task(server: Server) -> None:
    handle = server.submit(MEDIAN)
    handle.cancel()
    assert handle.status == "cancelled"
    assert server.tasks() == []
    with pytest.raises(TaskCancelled):
        handle.wait(0)


def test_a_coordinator_that_restarts_meanwhile_is_waited_for(server: Server, small: Small, through: Through) -> None:
    clock = Clock()
    handle = held(server.submit(MEDIAN), clock)
    clock.then[3] = lambda: setattr(through, "down", True)
    clock.then[9] = lambda: (setattr(through, "down", False), small.hear(handle.task_id, 12))
    assert handle.wait(timeout=600).value is not None


def test_a_coordinator_that_stays_away_is_given_up(server: Server, through: Through) -> None:
    clock = Clock()
    handle = held(server.submit(MEDIAN), clock)
    through.down = True
    with pytest.raises(Unreachable):
        handle.wait()
    assert PATIENCE_SECONDS <= clock.now < PATIENCE_SECONDS + 3


def test_an_unknown_task_is_not_found(server: Server) -> None:
    with pytest.raises(NotFound):
        server.task("task-99")


def test_open_tasks_sites_schemas_and_algorithms_can_be_listed(server: Server, small: Small) -> None:
    handle = server.submit(MEDIAN)
    assert [row["task_id"] for row in server.tasks()] == [handle.task_id]
    assert "ages" in repr(server.tasks())
    assert server.schemas() == {"profile": {"tables": {"demographics": {}}}}
    assert server.sites() == []
    assert repr(server.sites()) == "(none)"
    known = {row["type"]: row for row in server.algorithms()}
    assert set(known) >= {"basic", "integrated", "bounded", "gradient"}
    assert {"median", "histogram", "iqr", "correlation"} <= set(known["basic"]["choices"]["aggregator"])
    assert "GaussianNB" in known["integrated"]["choices"]["model"]
    assert known["bounded"]["server"] == "untrusted"
    assert "clip" in known["gradient"]["fields"]
    assert all(row["about"].endswith(".") for row in known.values())
    json.dumps(server.algorithms())


def test_a_listing_cannot_steer_a_terminal_or_a_notebook() -> None:
    rows = [{"a": "<script>alert(1)</script>\x1b[2J", "b": {"c": 0.5}, "d": ["x", "y" * 200]}, {"a": None, "b": 3}]
    listing = Listing(rows, ("a", "b.c", "d", "b"))
    assert "\x1b" not in repr(listing)
    assert "<script>" not in listing._repr_html_()
    assert "&lt;script&gt;" in listing._repr_html_()
    assert repr(listing).splitlines()[0].split() == ["a", "b.c", "d", "b"]
    assert "0.5" in repr(listing)
    assert all(len(line) < 200 for line in repr(listing).splitlines())


def test_a_release_shows_itself_in_a_notebook_escaped(server: Server, small: Small) -> None:
    handle = server.submit(MEDIAN)
    small.hear(handle.task_id, 12)
    body = handle.show()["result"]
    body["certificate"]["mechanism"] = "<img src=x onerror=alert(1)>"
    html = release_from_json(body)._repr_html_()
    assert "<img" not in html
    assert "&lt;img" in html
    assert f"{body['value']:.6g}" in html
    assert "95% interval" in html
    for word in ("epsilon", "adjacency", "contributors", "12"):
        assert word in html


# --- the commands -----------------------------------------------------------------------------------------------


@pytest.fixture
def run(through: Through, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run one command against the small coordinator: (status, standard output, standard error)."""
    import typer

    from thebes.cli import task_runs
    from thebes.cli.main import with_json_target
    from thebes.requestor import server as rooms

    def inside(url: str, token: str | None = None, **options: Any) -> CoordinatorClient:
        return CoordinatorClient(url, token, transport=through, sleep=lambda seconds: None)

    monkeypatch.setattr(rooms, "CoordinatorClient", inside)
    monkeypatch.setenv("THEBES_COORDINATOR", "http://127.0.0.1:1")
    monkeypatch.setenv("THEBES_TOKEN", TOKEN)
    app = typer.Typer()
    for name, command in task_runs.COMMANDS.items():
        app.command(name)(command)

    def once(*arguments: str) -> tuple[Any, str, str]:
        done = CliRunner().invoke(app, with_json_target(list(arguments)))
        failed = done.exception if isinstance(done.exception, ThebesError) else done.exit_code
        if done.exception is not None and not isinstance(done.exception, (ThebesError, SystemExit)):
            raise done.exception
        return failed, done.stdout, done.stderr

    return once


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "median.json"
    path.write_text(json.dumps(MEDIAN))
    return str(path)


def test_a_task_is_submitted_listed_shown_and_waited_for(run: Any, small: Small, file: str) -> None:
    status, out, _ = run("submit", file)
    assert status == 0
    assert "task    task-0" in out
    assert "price   epsilon 5, delta 0 for one device" in out
    assert "task-0" in run("list")[1]
    assert run("show", "task-0")[1].startswith("status  open")
    small.hear("task-0", 12)
    status, out, err = run("wait", "task-0", "--timeout", "5")
    assert (status, err) == (0, "")
    assert "95% interval" in out
    assert "epsilon 5" in out
    assert run("show", "task-0")[1].endswith(out)


def test_with_json_only_json_is_on_standard_output(run: Any, small: Small, file: str) -> None:
    submitted = json.loads(run("submit", file, "--json")[1])
    assert submitted == {
        "task_id": "task-0",
        "digest": registry.check(MEDIAN).digest,
        "price": {"epsilon": 5.0, "delta": 0.0, "unit": "device"},
    }
    assert json.loads(run("list", "--json")[1])[0]["task_id"] == "task-0"
    small.hear("task-0", 12)
    waited = json.loads(run("wait", "task-0", "--json")[1])
    assert waited["status"] == "done"
    assert waited == json.loads(run("show", "task-0", "--json")[1])
    assert release_from_json(waited["result"]).value == waited["result"]["value"]


def test_submitting_can_wait_for_the_answer(run: Any, small: Small, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    post = small.post

    async def heard_at_once(request: Request) -> Response:
        answer = await post(request)
        small.hear("task-0", 12)
        return answer

    small.app.router.routes[1] = Route("/api/task", heard_at_once, methods=["POST"])
    status, out, err = run("submit", file, "--wait", "--timeout", "5", "--json")
    assert status == 0
    assert "task    task-0" in err
    body = json.loads(out)
    assert (body["status"], body["task_id"], body["price"]["epsilon"]) == ("done", "task-0", 5.0)
    assert body["result"]["certificate"]["epsilon"] == 5.0


def test_cancelling_from_the_command_line(run: Any, small: Small, file: str) -> None:
    run("submit", file)
    assert json.loads(run("cancel", "task-0", "--json")[1]) == {"task_id": "task-0", "status": "cancelled"}
    assert isinstance(run("wait", "task-0")[0], TaskCancelled)
    assert run("show", "task-0")[1].startswith("status  cancelled")


def test_closing_from_the_command_line(run: Any, small: Small, tmp_path: Path) -> None:
    (tmp_path / "events.json").write_text(json.dumps(EVENTS))
    run("submit", str(tmp_path / "events.json"))
    small.train("task-0", 12)
    assert run("close", "task-0")[1] == "task task-0 is closed; its last answer stays\n"
    assert run("show", "task-0")[1].startswith("status  done")


def test_a_command_that_cannot_work_says_whose_move_it_is(
    run: Any, file: str, through: Through, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(run("show", "task-9")[0], NotFound)
    assert isinstance(run("wait", "../x")[0], Mistake)
    assert isinstance(run("submit", file, "--timeout", "3")[0], Mistake)
    assert isinstance(run("submit", "missing.json")[0], Mistake)
    monkeypatch.delenv("THEBES_TOKEN")
    assert isinstance(run("submit", file)[0], NotSignedIn)
    through.down = True
    assert isinstance(run("list")[0], Unreachable)
    monkeypatch.delenv("THEBES_COORDINATOR")
    failed = run("list")[0]
    assert isinstance(failed, Mistake)
    assert "THEBES_COORDINATOR" in str(failed)


def test_a_command_warns_in_one_line_when_the_token_travels_in_the_open(run: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        status, _, err = run("list", "--coordinator", "http://hospital.example")
    assert status == 0
    assert err == "thebes: the token travels unencrypted to http://hospital.example; use https\n"


def test_a_servers_words_cannot_steer_the_terminal(run: Any, small: Small, file: str) -> None:
    run("submit", file)
    small.ended["task-0"] = ("failed", "bad\x1b[2Jluck")
    assert "\x1b" not in run("show", "task-0")[1]
    assert "\x1b" not in str(run("wait", "task-0")[0])


def test_a_missing_or_wrong_token_names_the_option_and_the_variable(run: Any, file: str) -> None:
    for token in ("", "another-token", "white space\n"):
        failed, _, _ = run("submit", file, "--token", token)
        assert isinstance(failed, (NotSignedIn, Mistake)), token
        assert str(failed).endswith("give a requestor's token with --token or the variable THEBES_TOKEN")
        assert "another-token" not in str(failed)


def test_a_question_to_institutions_says_what_was_given_and_nothing_more() -> None:
    given = document_of("query", "patients", ("north", "south"), {"statistic": "mean", "by": None}, {"min_sites": 2})
    assert given == {
        "type": "query",
        "dataset": "patients",
        "sites": ["north", "south"],
        "statistic": "mean",
        "min_sites": 2,
    }
    assert document_of("query", "patients", "north", {}, {})["sites"] == ["north"]
    assert document_of("query", "patients", "all", {}, {})["sites"] == "all"
    with pytest.raises(Mistake, match="statistic"):
        document_of("query", "patients", "all", {"statistic": "sum"}, {"statistic": "count"})


def test_how_a_training_stands_is_read_as_far_as_it_is_told() -> None:
    body = {
        "phases": 10,
        "answered": ["north"],
        "missing": {"south": "is not linked"},
        "rounds": [{"update": 0.5}, {"update": 0.25, "loss": 0.6}],
        "seconds": {"phases": [{}, {"phase": 1, "compute": 0.1, "transfer": 0.02, "aggregation": 0.003}]},
    }
    told = round_of({"contributions": 1, "sites": body})
    assert (told.number, told.rounds, told.loss, told.update) == (2, 10, 0.6, 0.25)
    assert told.seconds == {"compute": 0.1, "transfer": 0.02, "aggregation": 0.003}
    assert "round 2 of 10, loss 0.6" in str(told)
    assert "without south: is not linked" in str(told)
    assert round_of({"sites": {"seconds": None, "rounds": None}}).number == 0
    assert round_of({}).rounds == 0


def test_a_network_that_is_no_text_yet_is_refused_before_anything_is_sent(server: Server, small: Small) -> None:
    with pytest.raises(Mistake, match="encode"):
        server.train("patients", model=object(), inputs=["age"], output="dx", epsilon=1, delta=1e-6)
    assert small.requests == 0
