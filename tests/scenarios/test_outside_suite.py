"""Every server answers a suite that others wrote as its own description says: all phases of schemathesis, whoever asks.

The suite draws the same requests each time. What it may not judge is named below, each with the reason.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from tests.support.coordinator import AGES, PETS, Server
from tests.support.coordinator_in_memory import CoordinatorInMemory
from tests.support.site_home import site_home
from thebes.coordinator.auth.accounts import Accounts, Role
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.storage.database import Database
from thebes.data.growing.block_rule import block_by
from thebes.data.schema import schema_of
from thebes.person.home import Person
from thebes.person.rest import guarded as persons
from thebes.privacy.faults import Mistake, ThebesError
from thebes.simulation import example
from thebes.site.algorithm_process import Office
from thebes.site.dataset import BlockDeclaration, BudgetDeclaration, DataSet, DataSets
from thebes.site.steward.rest import guarded as sites
from thebes.wire.access import Access
from thebes.wire.local_server import listening_at

pytestmark = pytest.mark.slow
EXAMPLES = 4  #: of each phase for each operation, beside the ones that the suite derives from the description
PATIENCE = 120  #: seconds for an answer
TOKEN = "the-token"
PASSWORD = "correct horse battery"
ANY_STATE = "positive_data_acceptance"
ALLOW = "allow_header_conformance"

#: (method, path) -> which check does not apply there, and why
Unknowable = Mapping[tuple[str, str], tuple[str, str]]
OF_A_COORDINATOR: Unknowable = {
    ("POST", "/api/task"): (ANY_STATE, "which documents are right only the kinds of tasks can say, in no JSON Schema"),
    ("POST", "/api/quote"): (ANY_STATE, "the same documents"),
    ("POST", "/api/task/{task_id}/submit"): (ANY_STATE, "what a task asks of whom is told by its ask, and changes"),
    ("GET", "/api/task/{task_id}/ask"): (ANY_STATE, "410 where the task asks nothing more, or has no such packet"),
    ("DELETE", "/api/task/{task_id}/submit"): (ANY_STATE, "410 once the phase has closed"),
}
OF_A_PERSON: Unknowable = {
    ("POST", "/app/{app_name}/insert"): (ANY_STATE, "which rows fit was declared by the collector"),
    ("POST", "/app/{app_name}/register"): (ANY_STATE, "a column keeps the type with which it was declared first"),
    ("POST", "/app/{app_name}/delivery"): (ANY_STATE, "a part follows the one before; the state comes with the last"),
    ("POST", "/api/tasks/{task_id}/accept"): (ANY_STATE, "402 where the budget does not allow it, 410 once it is over"),
    ("POST", "/api/store/{app_name}/remove"): (ALLOW, "a table may be called remove: its address takes GET"),
}
OF_A_SITE: Unknowable = {
    ("POST", "/api/dataset/{name}/append"): (ANY_STATE, "which rows fit the steward has declared"),
    ("POST", "/api/model/{name}/predict"): (ANY_STATE, "which rows fit depends on the model"),
    ("POST", "/api/policy/preview"): (ANY_STATE, "what can be decided depends on requests and policy"),
    ("POST", "/api/policy/decide"): (ANY_STATE, "which decision can be taken depends on what was shown"),
}


def finds_nothing(
    folder: Path, url: str, token: str | None, unknowable: Unknowable, *, never: tuple[str, ...] = ()
) -> None:
    """Run the whole suite against a server; `never` are addresses that would end it."""
    bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
    shown = {"Authorization": f"Bearer {token or TOKEN}"}  # a person's description is shown to its owner only
    described = httpx.get(f"{url}/openapi.json", headers=shown, trust_env=False, timeout=PATIENCE)
    assert described.status_code == 200
    paths = described.json()["paths"]
    assert {(path, method.lower()) for method, path in unknowable} <= {
        (path, method) for path, methods in paths.items() for method in methods
    }
    folder.mkdir()
    (folder / "openapi.json").write_bytes(described.content)
    (folder / "schemathesis.toml").write_text(
        "\n".join(
            f'[[operations]]\ninclude-name = "{method} {path}"\nchecks.{check}.enabled = false  # {why}\n'
            for (method, path), (check, why) in unknowable.items()
        )
    )
    told = [each for name, value in bearer.items() for each in ("-H", f"{name}: {value}")]
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "st"), "run", "openapi.json", "--url", url, *told,
            "--phases", "examples,coverage,fuzzing,stateful", "--mode", "all",
            "-n", str(EXAMPLES), "--generation-deterministic", "--no-shrink", "--continue-on-failure",
            "--suppress-health-check", "all", "--request-timeout", str(PATIENCE), "--no-color",
            *(each for path in never for each in ("--exclude-path", path)),
        ],
        cwd=folder, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    operations = sum(len(methods) for path, methods in paths.items() if path not in never)
    assert f"Tested: {operations}" in done.stdout, done.stdout[-3_000:]
    for phase in ("Coverage", "Fuzzing"):
        assert f"✅ {phase}" in done.stdout, done.stdout[-3_000:]


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("coordinator")
    with Server(folder / "home", log=folder / "log") as started:
        started.post(AGES)
        yield started
    said = (folder / "log").read_text()
    assert "Traceback" not in said
    assert "failed" not in said


@pytest.mark.parametrize("who", ["operator", "requestor", "stranger"])
def test_a_coordinator_is_as_it_is_described(coordinator: Server, tmp_path: Path, who: str) -> None:
    token = {"operator": coordinator.admin_token, "stranger": None}.get(who, "")
    if who == "requestor":
        with closing(Database(f"sqlite:///{coordinator.folder / 'coordinator.db'}")) as database:
            accounts = Accounts(database, admin_token=str, session_key=bytes, clock=SystemClock())
            accounts.add("ana", PASSWORD, Role.REQUESTOR)
        answer = coordinator.client.post("/api/login", json={"username": "ana", "password": PASSWORD})
        token = answer.json()["token"]
    finds_nothing(tmp_path / "suite", coordinator.ready["url"], token, OF_A_COORDINATOR)


@pytest.mark.parametrize("who", ["owner", "stranger"])
def test_a_persons_server_is_as_it_is_described(tmp_path: Path, who: str) -> None:
    server = CoordinatorInMemory()
    server.post(AGES)
    server.post(PETS)
    with Person(tmp_path / "home", client=server, delay=False) as me:  # type: ignore[arg-type]
        example.fill(me, seed=4)
        with serving(lambda port: persons(me, Access(lambda: TOKEN), port=port, stop=lambda: None)) as url:
            if who == "owner":
                finds_nothing(tmp_path / "suite", url, TOKEN, OF_A_PERSON, never=("/api/destroy",))
            else:
                finds_nothing(tmp_path / "suite", url, None, OF_A_PERSON)
        assert me.verify()["whole"]


@pytest.mark.parametrize("who", ["steward", "stranger"])
def test_a_sites_server_is_as_it_is_described(tmp_path: Path, who: str) -> None:
    home = site_home(tmp_path / "home")
    columns = {"at": {"type": "timestamp"}, "hour": {"type": "integer", "low": 0, "high": 23}}
    schema = schema_of({"unit": "event", "time": "at", "columns": columns})
    growing = DataSet(
        "rides", schema, {"kind": "growing"}, BudgetDeclaration.of("10"), BlockDeclaration(block_by("time:1d", schema))
    )
    DataSets(home).keep(growing)
    office = Office(home, "north")
    with serving(
        lambda port: sites(Behind(office), Access(lambda: TOKEN), port=port, confined=True)  # type: ignore[arg-type]
    ) as url:
        finds_nothing(tmp_path / "suite", url, TOKEN if who == "steward" else None, OF_A_SITE)
    office.ledger.close()


class Behind:
    """The link of a site whose algorithm works in this process; the words between are those that travel."""

    name = "north"

    def __init__(self, office: Office) -> None:
        self._office, self._lock, self.algorithm = office, asyncio.Lock(), self

    def shown(self) -> dict[str, Any]:
        about = {"name": self.name, "state": "connected", "reason": "", "coordinator": "coordinator.example:8443"}
        return {**about, "since": "2026-11-22T01:00:00+00:00", "certificate_ends": None, "algorithm": "up"}

    async def ask(self, kind: str, **more: Any) -> Any:
        sent = json.loads(json.dumps({"kind": kind, "id": "x", **more}))
        async with self._lock:
            try:
                return json.loads(json.dumps(self._office.answer(sent)["body"], allow_nan=False))
            except ThebesError as error:
                raise Mistake(getattr(error, "argument", "") or "request", str(error)) from None


@contextmanager
def serving(made: Callable[[int], Any]) -> Iterator[str]:
    """An application on a port of this machine."""
    with listening_at(0) as bound:
        port = int(bound.getsockname()[1])
        running = uvicorn.Server(uvicorn.Config(made(port), log_level="error", log_config=None))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        while not running.started:
            assert thread.is_alive()
            time.sleep(0.02)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            running.should_exit = True
            thread.join(timeout=PATIENCE)
            assert not thread.is_alive()
