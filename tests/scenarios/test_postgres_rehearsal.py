"""A coordinator on PostgreSQL is copied while people contribute and a site answers, killed with its server, and brought
back on another one by the commands of docs/copies.md; then the databases are looked into."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.support.coordinator import AGES, PETS, Server
from tests.support.ports import free_ports
from tests.support.postgres import Cluster, new_cluster
from thebes.cli.demo.hospitals import DATASET, Hospitals
from thebes.cli.processes import Process
from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.schema import CONTRIBUTION, ENTRY, RELEASE, TASK
from thebes.ledger import Ledger, NoKeeper
from thebes.requestor.server import connect
from thebes.site.home import SiteHome

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
PAGE = Path(__file__).parents[2] / "docs" / "copies.md"
COUNT = {"type": "query", "dataset": DATASET, "statistic": "count", "epsilon": 0.5}
WRITTEN = ("/var/lib/thebes", "/backup", "/root/passphrase", "postgresql:///thebes", "postgresql:///postgres")


def documented(beginning: str) -> list[str]:
    """The commands of the block that begins so."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(beginning)]
    return [line.removeprefix("$ ") for line in found.splitlines()]


@pytest.fixture
def servers() -> Iterator[tuple[Cluster, Cluster]]:
    first, second = new_cluster(), new_cluster()
    yield first, second
    with suppress(OSError):  # the test has stopped it, and nothing is left
        first.stop()
    second.stop()


class Place:
    """The machines of the rehearsal: `run` executes commands of the page here."""

    def __init__(self, folder: Path) -> None:
        self.home, self.backup, self.phrase = folder / "coordinator", folder / "backup", folder / "passphrase"
        self.backup.mkdir()
        self.phrase.write_text("a long passphrase\n")
        self.phrase.chmod(0o600)

    def run(self, commands: list[str], cluster: Cluster) -> None:
        here = [str(self.home), str(self.backup), str(self.phrase), cluster.address("thebes")]
        here.append(cluster.address("postgres"))
        around = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        for command in commands:
            for there, own in zip(WRITTEN, here, strict=True):
                command = re.sub(re.escape(there) + r"(?=[/\s]|$)", own, command)
            done = subprocess.run(["bash", "-c", command], env=around, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, (command, done.stdout, done.stderr)


class Crowd(threading.Thread):
    """People who contribute one after another until they are told to stop, or nobody answers."""

    def __init__(self, url: str, task: str, body: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self._url, self._task, self._body = url, task, body
        self.receipts: dict[str, str] = {}
        self.over = threading.Event()

    def run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=120) as client, suppress(httpx.TransportError):
            while not self.over.is_set():
                who = secrets.token_hex(16)
                answer = client.post(f"/api/task/{self._task}/submit", json={**self._body, "contributor": who})
                if answer.status_code == 202:
                    self.receipts[who] = answer.json()["receipt"]


def read(store: str, query: sa.Select[Any]) -> list[Any]:
    with closing(Database(store)) as database:
        return list(database.read(lambda c: c.execute(query).all()))


def paid(site: Path) -> tuple[float, int]:
    """Return what is left of the site's budget, and how many claims there are; its journal is verified."""
    with Ledger(SiteHome(site).ledger, keeper=NoKeeper()) as ledger:
        ledger.verify()
        return float(ledger.block(DATASET).remaining.epsilon), len(list(ledger.claims()))


def test_what_is_copied_from_postgresql_comes_back_and_nothing_is_paid_or_counted_twice(
    tmp_path: Path, servers: tuple[Cluster, Cluster]
) -> None:
    first, second = servers
    place, (site_port, port) = Place(tmp_path), free_ports(2)
    place.run(documented("$ thebes restore /backup/home.thebes")[1:2], first)
    more = ["--site-port", str(site_port), "--port", str(port)]
    server = Server(place.home, store=first.address("thebes"), more=more)
    hospitals = Hospitals(tmp_path, 1, 3)
    site: list[Process] = []

    def start(command: str, *arguments: str, called: str) -> Process:
        site.append(Process(called, "thebes.cli.main", command, *arguments, log=tmp_path / f"{called}.log"))
        return site[0]

    try:
        hospitals.start(place.home, f"127.0.0.1:{site_port}", start)
        requestor = connect(server.ready["url"], token=server.admin_token, timeout=120)
        hospitals.ready(requestor, lambda: None)
        site_home = tmp_path / f"site-{hospitals.names[0]}"
        early = requestor.submit(COUNT)
        early.wait(120)
        told = server.task(early.task_id)["result"]
        noised, trusted = server.post({**PETS, "min_count": 100_000}), server.post(AGES)
        server.fill(trusted, 5, {"age": 41})
        before = {secrets.token_hex(16): "" for _ in range(20)}
        body = server.submission(noised, {"species": 0})
        for who in before:
            before[who] = server.submit(noised, {**body, "contributor": who}).json()["receipt"]

        crowd = Crowd(server.ready["url"], noised, body)
        crowd.start()
        place.run(documented("$ thebes backup /var/lib/thebes --to /backup/home.thebes"), first)
        late = requestor.submit({**COUNT, "where": "age < 40"})
        late.wait(120)
        lost = server.post({**PETS, "name": "after the dump"})
        while len(crowd.receipts) < 5:
            pass
        crowd.over.set()
        crowd.join()
        after = {who: server.submit(noised, {**body, "contributor": who}) for who in [secrets.token_hex(16)]}
        assert {answer.status_code for answer in after.values()} == {202}
        spent = paid(site_home)
        server.kill()
        first.stop()
        place.home.rename(tmp_path / "gone")

        place.run(documented("$ thebes restore /backup/home.thebes"), second)
        store = second.address("thebes")
        found = dict(
            read(
                store,
                sa.select(CONTRIBUTION.c.contributor, CONTRIBUTION.c.receipt).where(CONTRIBUTION.c.task == noised),
            )
        )
        assert before.items() <= found.items(), "a receipt from before the dump is kept"
        assert found.items() <= {**before, **crowd.receipts}.items(), "and none was made up"
        assert not set(after) & set(found), "what came after the dump is lost"
        ((accepted,),) = read(store, sa.select(TASK.c.accepted).where(TASK.c.id == noised))
        assert accepted == len(found)

        server = Server(place.home, store=store, more=more)
        requestor = connect(server.ready["url"], token=server.admin_token, timeout=120)
        assert server.task(trusted)["status"] == "failed"
        assert json.dumps(server.task(early.task_id)["result"]) == json.dumps(told)
        for unknown in (late.task_id, lost):
            assert server.client.get(f"/api/task/{unknown}").status_code == 404
        who = next(iter(before))
        assert server.submit(noised, {**body, "contributor": who}).status_code == 409, "no repeat counts twice"
        (again,) = after
        assert server.submit(noised, {**body, "contributor": again}).status_code == 202, "it may be sent once more"
        ((accepted,),) = read(store, sa.select(TASK.c.accepted).where(TASK.c.id == noised))
        assert accepted == len(found) + 1

        while next(each["state"] for each in requestor.sites()) != "connected":
            pass
        for question in (COUNT, {**COUNT, "where": "age < 40"}):
            once_more = requestor.submit(question)
            assert once_more.wait(120).cost["epsilon"] == 0, (
                "the site has answered it before, the second after the dump"
            )
        assert paid(site_home) == spent, "nothing was paid twice"
        releases = read(store, sa.select(RELEASE.c.task, sa.func.count()).group_by(RELEASE.c.task, RELEASE.c.phase))
        assert {count for _, count in releases} == {1}
        listed = [entry for (entry,) in read(store, sa.select(ENTRY.c.task_id).order_by(ENTRY.c.index))]
        assert noised in listed
        assert lost not in listed, "people who saw it will refuse the list that is shorter"
        assert server.stop() == 0
    finally:
        with suppress(Exception):
            server.kill()
        for process in site:
            process.ask_to_stop()
            process.stop()
