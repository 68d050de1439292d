"""A requestor, a coordinator in its own process, and people's contributions over a real socket."""

from __future__ import annotations

import base64
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import thebes.task
from thebes.data.rows import Rows
from thebes.privacy.randomness import system
from thebes.requestor.refusals import TaskCancelled
from thebes.requestor.server import Server, connect
from thebes.tasks import registry
from thebes.tasks.contributions import Contributions
from thebes.tasks.document import InvalidDocument
from thebes.tasks.protocols import Ask, Closed, TaskClosed
from thebes.wire import frames, task_log
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import Conflict, NotFound, NotSignedIn

PEOPLE = 14
pytestmark = pytest.mark.slow
START = """
import pathlib, sys
from thebes.coordinator.process.server import serve
serve(pathlib.Path(sys.argv[1]), host="127.0.0.1", port=0)
"""
BOUNDS = {"age": (0, 120)}
AGE = "SELECT age FROM profile.demographics"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """(url, token) of a running coordinator."""
    home = tmp_path_factory.mktemp("coordinator")
    with subprocess.Popen([sys.executable, "-c", START, str(home)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            yield ready["url"], (home / "admin.token").read_text().strip()
        finally:
            process.terminate()
            process.wait(timeout=120)


@pytest.fixture
def server(place: tuple[str, str]) -> Iterator[Server]:
    with connect(place[0], token=place[1]) as made:
        yield made


@pytest.fixture
def people(place: tuple[str, str]) -> Iterator[CoordinatorClient]:
    with CoordinatorClient(place[0]) as made:
        yield made


class _Free:
    def consume(self, *, epsilon: Any, delta: Any) -> None:
        pass


def contribution(people: CoordinatorClient, task_id: str, row: Mapping[str, Any], *, framed: bool = False) -> Any:
    """Make what one person would send: the identity, the bytes and their media type."""
    document = registry.check(people.task(task_id)["document"])
    slot = secrets.token_hex(16)
    ask = people.ask(task_id, slot, framed=framed)
    assert isinstance(ask, Ask)
    rows = Rows.one_each({name: [value] for name, value in row.items()})
    half: Any = registry.owner(document, simulated=True)  # the same numbers, without a confined child for each person
    made: Contributions = half.contribute(document, ask, rows, _Free(), randomness=system())
    payload = next(iter(made.payloads(half.layout(document, ask))))
    message = {"ask_id": ask.ask_id, "part": ask.part, "contributor": slot, "payload": payload}
    return message, *frames.encode(message, worth=1 if framed else frames.WORTH_FRAMING)


def send(people: CoordinatorClient, task_id: str, row: Mapping[str, Any], *, framed: bool = False) -> str:
    _, content, media_type = contribution(people, task_id, row, framed=framed)
    receipt = people.submit(task_id, content, media_type=media_type)
    assert people.submit(task_id, content, media_type=media_type) == receipt, "the same again is the same submission"
    return receipt


def test_a_statistic_goes_from_document_to_certified_release(server: Server, people: CoordinatorClient) -> None:
    document = thebes.task.median(AGE, epsilon=20, min_count=PEOPLE, bounds=BOUNDS)
    assert server.quote(document).price.as_json() == {"epsilon": 20.0, "delta": 0.0, "unit": "device"}
    handle = server.submit(document)
    assert handle.digest == registry.check(document).digest
    assert handle.task_id in [row["task_id"] for row in server.tasks()]
    for age in np.linspace(30, 50, PEOPLE):
        send(people, handle.task_id, {"age": age})
    release = handle.wait(timeout=120)
    assert 20 < release.value < 60
    assert release.certificate.contributors == PEOPLE
    assert isinstance(people.ask(handle.task_id, "late"), Closed)
    again = server.task(handle.task_id).wait(timeout=0)
    assert again.as_json() == release.as_json(), "a release is served again as it was"


def test_rows_without_trust_come_back_as_rows(server: Server, people: CoordinatorClient) -> None:
    handle = server.submit(thebes.task.bounded(AGE, epsilon=8, min_count=PEOPLE, bounds=BOUNDS))
    for age in range(PEOPLE):
        send(people, handle.task_id, {"age": float(age)})
    release: Any = handle.wait(timeout=120)
    assert len(release.rows) == PEOPLE


def test_a_network_trains_over_rounds_of_frames(server: Server, people: CoordinatorClient) -> None:
    import torch

    module = torch.nn.Linear(40, 1)
    inputs = [f"x{i}" for i in range(40)]
    featurizer = f"SELECT {', '.join(inputs)}, y FROM profile.example"
    document = thebes.task.gradient(
        module, torch.nn.MSELoss(), featurizer, inputs=inputs, outputs=["y"], epsilon=4, delta=1e-5, rounds=2
    )
    handle = server.submit(document)
    for _ in range(2):
        for _ in range(registry.check(document).min_count):  # type: ignore[attr-defined]
            send(people, handle.task_id, dict.fromkeys([*inputs, "y"], 0.5), framed=True)
        _until(lambda: people.task(handle.task_id), lambda body: body["status"] == "done" or body["phase"] == 1)
    release: Any = handle.wait(timeout=120)
    assert release.model.predict(np.zeros((3, 40))).shape == (3,)
    assert base64.b64decode(release.value["weights"])


def _until(look: Any, holds: Any) -> None:
    end = time.monotonic() + 120
    while not holds(look()):
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.05)


def test_every_refusal_is_the_one_a_local_call_would_raise(server: Server, people: CoordinatorClient) -> None:
    handle = server.submit(thebes.task.bounded(AGE, epsilon=8, min_count=PEOPLE, bounds=BOUNDS))
    message, content, _ = contribution(people, handle.task_id, {"age": 3.0})
    receipt = people.submit(handle.task_id, content)
    payload = message["payload"]
    changed = {**message, "payload": {**payload, "age.present": 1 - payload["age.present"]}}
    with pytest.raises(Conflict):
        people.submit(handle.task_id, changed)
    with pytest.raises(ValueError, match=r"payload\.age"):
        people.submit(handle.task_id, {**message, "contributor": "b" * 32, "payload": {**payload, "age": 2**60}})
    with pytest.raises(NotFound):
        people.withdraw(handle.task_id, "0" * 32)
    people.withdraw(handle.task_id, receipt)
    with pytest.raises(NotFound):
        people.task("f" * 32)
    with pytest.raises(InvalidDocument) as refused:
        people.quote({"type": "basic", "epsilon": -1})
    assert {field for field, _ in refused.value.problems} >= {"epsilon", "featurizer"}
    with pytest.raises(NotSignedIn):
        people.post_task(handle.document)
    with pytest.raises(NotSignedIn):
        people.cancel(handle.task_id)
    with pytest.raises(NotSignedIn):
        server.login("nobody", "guess")
    handle.cancel()
    with pytest.raises(TaskCancelled):
        handle.wait(timeout=0)
    with pytest.raises(TaskClosed):
        people.submit(handle.task_id, {**message, "contributor": "c" * 32})


def test_the_signed_list_names_every_task_and_goes_on(server: Server, people: CoordinatorClient) -> None:
    document = thebes.task.count(AGE, epsilon=1)
    first = server.submit(document)
    read = task_log.verify(people.log())
    assert read.holds(first.task_id, registry.check(document).digest)
    second = server.submit(document)
    more = task_log.verify(people.log(after=read.seen.length), key=read.key, seen=read.seen)
    assert [entry.task_id for entry in more.entries] == [second.task_id]


def test_a_collectors_schema_is_published_for_requestors(server: Server) -> None:
    tables = {"pets": {"description": "Animals at home", "columns": {"age": {"type": "float", "description": "years"}}}}
    server.client.publish_schema("profile", tables)
    assert server.schemas()["profile"]["tables"] == tables
    assert server.sites() == []
    assert server.client.health()["status"] == "ok"
