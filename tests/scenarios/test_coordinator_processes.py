"""Coordinators as real processes: killed, two at once, stopped politely, and searched for what should be gone."""

from __future__ import annotations

import itertools
import json
import os
import random
import secrets
import signal
import sqlite3
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
import sqlalchemy as sa
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.coordinator import AGES, EVENTS, PETS, Front, HandClock, Server
from tests.support.ports import free_ports
from tests.support.postgres import new_database
from thebes.coordinator.storage.database import StoreUnavailable
from thebes.coordinator.tasks.phase_end import HOLD_SECONDS
from thebes.wire import task_log
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import Unreachable


@pytest.mark.slow
def test_one_line_when_it_is_ready_and_a_clean_end_on_sigterm(tmp_path: Path) -> None:
    server = Server(tmp_path / "home", log=tmp_path / "log")
    assert server.ready["ready"] is True
    workers = server.workers()
    assert len(workers) == 1
    assert server.client.get("/api/health").json() == {"status": "ok"}
    assert server.process.stdout is not None
    assert server.stop() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert (tmp_path / "log").read_text() == ""


@pytest.mark.slow
def test_a_signal_to_the_whole_group_is_a_clean_end_too(tmp_path: Path) -> None:
    home, said = tmp_path / "home", (tmp_path / "log").open("wb")
    command = [sys.executable, "-m", "thebes.cli.main", "coordinator", "--home", str(home), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, start_new_session=True)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["ready"] is True
    time.sleep(1.0)  # the worker is up
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(timeout=120) == 0
    process.stdout.close()
    said.close()
    assert (tmp_path / "log").read_text() == ""


@pytest.mark.slow
def test_a_worker_whose_server_is_killed_ends_by_itself(tmp_path: Path) -> None:
    server = Server(tmp_path / "home")
    (worker,) = server.workers()
    server.kill(with_worker=False)
    end = time.monotonic() + 120
    while _alive(worker):
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_the_task_still_ends(tmp_path: Path) -> None:
    with Server(tmp_path / "home", log=tmp_path / "log") as server:
        task_id = server.post(AGES)
        server.fill(task_id, 11, {"age": 40})
        (worker,) = server.workers()
        os.kill(worker, signal.SIGKILL)
        server.fill(task_id, 1, {"age": 40})
        done = server.wait_for(task_id, "done")
        assert done["result"]["certificate"]["contributors"] == 12
        assert server.workers() != [worker]


class Crowd:
    """Contributors who send until their server dies, and remember every word they got."""

    payloads: ClassVar = {"basic": {"age": 40}, "bounded": {"species": 0}}

    def __init__(self) -> None:
        self.receipts: dict[tuple[str, str], str] = {}
        self.results: dict[str, Any] = {}
        self.changed: list[str] = []  # words that were not kept

    def talk(self, server: Server, tasks: list[str], names: list[str]) -> None:
        with suppress(httpx.TransportError):
            for name in names:
                for task_id in tasks:
                    self._contribute(server, task_id, name)

    def _contribute(self, server: Server, task_id: str, name: str) -> None:
        found = server.task(task_id)
        if found["result"] is not None:
            self._remember(self.results, task_id, found["result"])
        asked = server.client.get(f"/api/task/{task_id}/ask", params={"slot": name})
        if asked.status_code == 200 and "wait" not in asked.json():
            body = {name: asked.json()[name] for name in ("ask_id", "part")}
            sent = {**body, "contributor": name, "payload": self.payloads[found["type"]]}
            for _ in range(2):  # a repeat is one contribution
                answer = server.submit(task_id, sent)
                if answer.status_code == 202:
                    self._remember(self.receipts, (task_id, name), answer.json()["receipt"])

    def _remember(self, said: dict[Any, Any], about: Any, word: Any) -> None:
        if said.setdefault(about, word) != word:
            self.changed.append(str(about))


@pytest.mark.slow
def test_servers_and_workers_killed_at_random_lose_and_double_nothing(tmp_path: Path) -> None:
    """Every acknowledged contribution is counted once, every task ends, every release stays what it was."""
    home, chance, crowd = tmp_path / "home", random.Random(20261120), Crowd()
    tasks: list[str] = []
    for life in range(6):
        server = Server(home, log=tmp_path / "log")
        if len(tasks) < 6:
            tasks += [server.post(AGES), server.post(PETS)]
        names = [f"{life // 2}-{number}" for number in range(50)]  # the next life repeats what this one said
        talking = threading.Thread(target=crowd.talk, args=(server, tasks, names))
        talking.start()
        time.sleep(chance.uniform(0.02, 0.5))
        for worker in server.workers() if chance.random() < 0.4 else []:
            os.kill(worker, signal.SIGKILL)
            time.sleep(chance.uniform(0, 0.2))
        server.kill(with_worker=chance.random() < 0.7)
        talking.join()
    with Server(home, log=tmp_path / "log") as server:
        crowd.talk(server, tasks, [f"last-{number}" for number in range(12)])
        done = {task_id: server.wait_for(task_id, "done") for task_id in tasks}
        listed = task_log.verify(server.client.get("/api/log").json())
        keys = {file.name for file in (home / "keys").iterdir()}
    assert crowd.changed == []
    assert crowd.results.items() <= {task_id: found["result"] for task_id, found in done.items()}.items()
    answers = {f"release~{task_id}~0" for task_id in tasks}
    assert [entry.task_id for entry in listed.entries if entry.task_id not in answers] == tasks
    assert len(listed.entries) == 2 * len(tasks)  # each answer once, whoever died over it
    assert keys == {task_id for task_id in tasks if done[task_id]["type"] == "bounded"}
    assert {found["result"]["certificate"]["contributors"] for found in done.values()} == {12}
    kept = rows_of(home)
    assert crowd.receipts.items() <= kept.items()
    assert len(kept) == 12 * len(tasks)
    assert "Traceback" not in (tmp_path / "log").read_text()


def rows_of(home: Path) -> dict[tuple[str, str], str]:
    """Read who contributed to what, and the receipt, straight from the file."""
    with closing(sqlite3.connect(home / "coordinator.db")) as connection:
        rows = connection.execute("SELECT task, contributor, receipt FROM coordinator_contribution").fetchall()
    return {(task, contributor): receipt for task, contributor, receipt in rows}


@pytest.mark.slow
@pytest.mark.parametrize("point", ["computed", "stored", "key gone", "done"])
def test_a_worker_that_dies_at_any_step_is_followed_by_one_that_ends_the_task_once(tmp_path: Path, point: str) -> None:
    """The worker is ended from inside at each step between the computation and the last word."""
    home = tmp_path / "home"
    with Front(home, clock=HandClock(datetime.now(UTC))) as front:
        task_id = front.post(AGES)
        front.fill(task_id, 12, {"age": 40})
        died = subprocess.run([sys.executable, "-c", _DIE, str(home), point], check=False)
        assert died.returncode == 9
        stored = front.task(task_id)["result"]
        assert (stored is None) == (point == "computed")
        front.closing.step()
        assert (front.task(task_id)["status"] == "done") == (point == "done")  # it is still in the dead one's hands
        front.clock.move(seconds=60)
        front.closing.step()
        done = front.task(task_id)
        assert done["status"] == "done"
        assert stored is None or done["result"] == stored
        assert not list((home / "keys").iterdir())


_DIE = """
import os, sys
from pathlib import Path
from thebes.coordinator.tasks import phase_queue, task_keys
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.tasks.phase_end import Closing
from thebes.coordinator.storage.database import Database
from thebes.coordinator.home import CoordinatorHome

def dying(owner, name, *, before):
    wrapped = getattr(owner, name)
    def step(*arguments):
        if not before:
            wrapped(*arguments)
        os._exit(9)
    setattr(owner, name, step)

home, point = CoordinatorHome(Path(sys.argv[1])), sys.argv[2]
dying(*{
    "computed": (phase_queue.PhaseQueue, "conclude"),
    "stored": (phase_queue.PhaseQueue, "conclude"),
    "key gone": (task_keys.Keys, "destroy"),
    "done": (phase_queue.PhaseQueue, "finish"),
}[point], before=point == "computed")
Closing(phase_queue.PhaseQueue(Database(home.store), "dying"), home.keys, SystemClock()).step()
"""


# --- what must not be left ------------------------------------------------------------------------------

MARK = 8675309.0625  # a value nobody would have by chance, exact in binary
WORD = "Zanzibarquux"


def traces(home: Path) -> list[str]:
    """Files under the home in which one of the marks can be read, as text or as bytes of a number."""
    looks = [str(MARK).encode(), struct.pack("<d", MARK), struct.pack(">d", MARK), struct.pack("<f", MARK)]
    looks += [WORD.encode(form) for form in ("utf-8", "utf-16-le", "utf-32-le")]
    found = []
    for file in [file for file in home.rglob("*") if file.is_file()]:
        with suppress(FileNotFoundError):  # a key that was destroyed meanwhile
            content = file.read_bytes()
            found += [file.name for look in looks if look in content]
    return found


@pytest.mark.slow
def test_no_trusted_contribution_can_be_read_from_any_file_during_or_after(tmp_path: Path) -> None:
    home = tmp_path / "home"
    numbers = {**AGES, "aggregator": "sum", "bounds": {"age": {"type": "range", "low": 0, "high": 1e9}}}
    texts = {
        **{name: value for name, value in AGES.items() if name != "bounds"},
        "delta": 1e-6,
        "aggregator": "histogram",
        "featurizer": "SELECT city FROM profile.demographics",
    }
    (tmp_path / "probe").write_bytes(struct.pack("<d", MARK))
    assert traces(tmp_path) == ["probe"]  # the search finds what there is to find
    with Server(home, log=home.parent / "log") as server:
        counted, told = server.post(numbers), server.post(texts)
        seen = set()
        for number in range(12):
            server.fill(counted, 1, {"age": MARK})
            server.fill(told, 1, {"city": f"{WORD}{number}"})
            seen |= set(traces(home))
        for task_id in (counted, told):
            server.wait_for(task_id, "done")
            seen |= set(traces(home))
        assert not list((home / "keys").iterdir())
    assert seen == set()
    assert traces(home) == []
    assert WORD not in (tmp_path / "log").read_text()
    assert str(MARK) not in (tmp_path / "log").read_text()


@pytest.mark.slow
def test_cancelled_and_withdrawn_contributions_leave_no_key_behind(tmp_path: Path) -> None:
    with Server(tmp_path / "home") as server:
        task_id = server.post(AGES)
        server.fill(task_id, 3, {"age": MARK})
        assert server.client.delete(f"/api/task/{task_id}", headers=server.admin).status_code == 204
        assert not list((tmp_path / "home" / "keys").iterdir())
        assert server.task(task_id)["status"] == "cancelled"


# --- several at once ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_coordinator_on_a_file_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    home = tmp_path / "home"
    command = [sys.executable, "-m", "thebes.cli.main", "coordinator", "--home", str(home), "--port", "0"]
    with Server(home) as first:
        second = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert (second.returncode, second.stdout) == (1, "")
        assert "another process uses the home" in second.stderr
        assert first.client.get("/api/health").json() == {"status": "ok"}
    with Server(home) as again:  # the home is free once the first has ended
        assert again.client.get("/api/health").json() == {"status": "ok"}


@pytest.mark.slow
@pytest.mark.postgres
def test_two_coordinators_on_one_database_are_one_deployment(tmp_path: Path) -> None:
    home, store = tmp_path / "home", new_database()
    with Server(home, store=store) as one, Server(home, store=store) as two:
        assert one.admin_token == two.admin_token
        task_id, other = one.post({**AGES, "min_count": 40}), two.post(PETS)
        body = two.submission(task_id, {"age": 40})
        statuses: list[int] = []

        def send(server: Server, offset: int) -> None:
            for number in range(30):  # the middle ten are sent to both
                sent = {**body, "contributor": f"p{number + offset}"}
                statuses.append(server.submit(task_id, sent).status_code)

        threads = [threading.Thread(target=send, args=arguments) for arguments in ((one, 0), (two, 20))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        done = [server.wait_for(task_id, "done") for server in (one, two)]
        assert done[0]["result"] == done[1]["result"]
        assert done[0]["result"]["certificate"]["contributors"] == 40
        assert set(statuses) <= {202, 410}
        assert statuses.count(202) >= 40
        assert one.submit(task_id, {**body, "contributor": "late"}).status_code == 410
        assert two.client.delete(f"/api/task/{other}", headers=one.admin).status_code == 204
        assert one.task(other)["status"] == "cancelled"
        lists = [server.client.get("/api/log").json() for server in (one, two)]
        assert lists[0] == lists[1]
        assert len(task_log.verify(lists[0]).entries) == 3  # two tasks, and the answer of one
    assert not (home / "coordinator.db").exists()


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.parametrize("document", [AGES, EVENTS], ids=["median", "training"])
def test_a_database_that_is_gone_for_a_moment_costs_no_task_its_answer(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    """Its connection is cut before each statement in turn that ends a task."""
    import psycopg

    where, clock, count = new_database(), HandClock(), itertools.count()
    with Front(tmp_path / "home", store=where, clock=clock) as front, psycopg.connect(where, autocommit=True) as other:

        def cut(connection: Any, *_: object) -> None:
            if next(told) == number:
                pid = connection.connection.dbapi_connection.info.backend_pid
                assert other.execute("SELECT pg_terminate_backend(%s, 60000)", [pid]).fetchone() == (True,)

        sa.event.listen(sa.Engine, "before_cursor_execute", cut)
        try:
            for number in count:
                told: Iterator[int] = itertools.count(-(10**9))
                task = front.post(document)
                if document is AGES:
                    front.fill(task, 12, {"age": 41})
                else:
                    front.train(task, 12)
                    assert front.close_task(task).status_code == 204
                told = itertools.count()
                with suppress(StoreUnavailable):
                    front.closing.step()
                steps, told = next(told), itertools.count(-(10**9))
                clock.move(seconds=HOLD_SECONDS + 1)
                front.closing.step()
                ended = front.task(task)
                assert (ended["status"], ended["result"]["certificate"]["contributors"]) == ("done", 12), number
                if steps <= number:
                    break
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", cut)
    assert number > 5


@pytest.mark.slow
def test_a_coordinator_serves_and_ends_well_whose_starter_hears_nothing_any_more(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "thebes.cli.main", "coordinator", "--home", str(tmp_path / "home")]
    process = subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    end, answered = time.monotonic() + 120, None
    while answered is None and time.monotonic() < end:
        with suppress(httpx.TransportError):
            answered = httpx.get(f"http://127.0.0.1:{port}/api/health", timeout=120).json()
    assert answered == {"status": "ok"}
    process.terminate()
    assert process.stderr is not None
    with process.stderr as said:
        assert "Error" not in said.read()
    assert process.wait(timeout=120) == 0


@pytest.mark.slow
def test_tls_is_served_where_a_certificate_is_given(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    command = [sys.executable, "-m", "thebes.cli.main", "coordinator", "--home", str(tmp_path / "home")]
    process = subprocess.Popen(
        [*command, "--port", "0", "--tls-cert", str(cert), "--tls-key", str(key)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    url = json.loads(process.stdout.readline())["url"]
    assert url.startswith("https://")
    trusted = ssl.create_default_context(cafile=str(cert))
    assert httpx.get(f"{url}/api/health", verify=trusted, timeout=120).json() == {"status": "ok"}
    with CoordinatorClient(url.replace("https:", "http:"), retries=0) as plain, pytest.raises(Unreachable) as hint:
        plain.tasks()
    assert str(hint.value).endswith("if it speaks https there, write https:// instead")
    process.terminate()
    assert process.wait(timeout=120) == 0
    process.stdout.close()


@pytest.mark.slow
def test_https_to_a_plain_server_is_told_so(tmp_path: Path) -> None:
    with Server(tmp_path / "home") as server:
        secure = str(server.client.base_url).replace("http:", "https:")
        with CoordinatorClient(secure, retries=0) as client, pytest.raises(Unreachable) as hint:
            client.tasks()
    assert str(hint.value).endswith("if it is a Thebes coordinator, write http:// instead")


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return cert_file, key_file


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [["--port", "70000"], ["--store", "mysql://x"], ["--tls-cert", "/dev/null"]])
def test_a_start_that_cannot_work_ends_with_a_sentence_and_status_2(tmp_path: Path, wrong: list[str]) -> None:
    command = [sys.executable, "-m", "thebes.cli.main", "coordinator", "--home", str(tmp_path / "home"), *wrong]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_many_logins_at_once_stay_small(tmp_path: Path) -> None:
    with Server(tmp_path / "home") as server:
        before = _peak(server.process.pid)
        answers: list[int] = []

        def log_in() -> None:
            body = {"username": "nobody", "password": secrets.token_hex(8)}
            answers.append(server.client.post("/api/login", json=body).status_code)

        threads = [threading.Thread(target=log_in) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(answers) == {401}
        assert _peak(server.process.pid) - before < 3.5 * 65536  # two at a time, 64 MiB each, in KiB


def _peak(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
