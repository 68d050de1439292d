"""A coordinator under load: durable submissions beside its own empty endpoint, and how long an answer takes.

Both sides of the ratio are the same server in the same run, reached by the same client over 16 connections; goal:
at least 0.25, and 99 of 100 submissions within 100 ms. For the time from the last submission to the release, all
but the last of the contributions are put into the store directly, in batches, as the server itself writes them.
`disk` waits for a real disk; `memory` shows what the coordinator itself costs.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from tests.support.coordinator import Front
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.people.contribution_record import form_of
from thebes.coordinator.storage.contribution_intake import ContributionDelivery, Taken
from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.store import CoordinatorStore
from thebes.coordinator.tasks.phase_end import setting
from thebes.coordinator.tasks.task_keys import place_of
from thebes.tasks import registry

CONNECTIONS, ROUNDS, SECONDS = 16, 5, 1.0
SIZES = (100, 1_000, 10_000, 100_000)
MEMORY_SIZES = (1_000, 10_000, 50_000)
SERVING = """
import sys
from pathlib import Path
from thebes.coordinator.process.server import serve
serve(Path(sys.argv[1]), host="127.0.0.1", port=0)
"""
MEDIAN = {
    "type": "basic",
    "epsilon": 1.0,
    "server": "trusted",
    "featurizer": "SELECT age FROM profile.demographics",
    "aggregator": "median",
    "bounds": {"age": {"type": "range", "low": 0, "high": 120}},
}


def run() -> dict[str, Any]:
    """Rates and times over a real socket."""
    loads: dict[str, Any] = {}
    for where, directory in (("disk", None), ("memory", "/dev/shm")):
        if directory is None or os.access(directory, os.W_OK):
            with tempfile.TemporaryDirectory(dir=directory) as home, _server(Path(home)) as url:
                loads[where] = asyncio.run(_load(url, _post(url, home, {**MEDIAN, "min_count": 10_000_000})))
    loads["disk"]["one synchronisation, ms"] = _synchronisation()
    waits = {}
    for size in SIZES:
        with tempfile.TemporaryDirectory() as home, _server(Path(home)) as url:
            waits[f"{size} contributors"] = _wait_for_release(url, Path(home), size)
    return {"submissions": loads, "from the last submission to the release": waits, "worker's peak MiB": _memory()}


def _synchronisation() -> float:
    """Measure what the disk takes for the least durable write there is, just now; every transaction waits for one at
    least."""
    took = []
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(100):
            file.write(b"x" * 4096)
            file.flush()
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - start)
    return round(float(np.median(took)) * 1000, 2)


# --- load -----------------------------------------------------------------------------------------------


async def _load(url: str, task_id: str) -> dict[str, float]:
    ask = httpx.get(f"{url}/api/task/{task_id}/ask", params={"slot": "bench"}).json()
    address = httpx.URL(url)
    lines = [await asyncio.open_connection(address.host, address.port) for _ in range(CONNECTIONS)]
    empty = b"GET /api/health HTTP/1.1\r\nHost: bench\r\n\r\n"

    def submission() -> bytes:
        body = json.dumps(
            {
                "ask_id": ask["ask_id"],
                "part": ask["part"],
                "contributor": secrets.token_hex(16),
                "payload": {"age": 20 + secrets.randbelow(60)},
            }
        )
        return (
            f"POST /api/task/{task_id}/submit HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        ).encode()

    rates: dict[str, list[float]] = {"empty": [], "submit": []}
    times: list[float] = []
    for _ in range(ROUNDS):  # in turns, so that both meet the same neighbours on the machine
        rates["empty"].append(len(await _side(lines, lambda: empty, b"200")) / SECONDS)
        took = await _side(lines, submission, b"202")
        rates["submit"].append(len(took) / SECONDS)
        times += took
    for _, writer in lines:
        writer.close()
    submit, nothing = float(np.median(rates["submit"])), float(np.median(rates["empty"]))
    return {
        "ratio to the empty endpoint": round(submit / nothing, 3),
        "durable submissions/s": round(submit),
        "empty requests/s": round(nothing),
        "p50 ms": round(float(np.percentile(times, 50)) * 1000, 2),
        "p99 ms": round(float(np.percentile(times, 99)) * 1000, 2),
    }


async def _side(lines: list[Any], request: Any, wanted: bytes) -> list[float]:
    end = time.perf_counter() + SECONDS

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[float]:
        took = []
        while (start := time.perf_counter()) < end:
            writer.write(request())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.split(b" ", 2)[1] == wanted, head
            length = head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]
            await reader.readexactly(int(length))
            took.append(time.perf_counter() - start)
        return took

    return [t for took in await asyncio.gather(*(one(*line) for line in lines)) for t in took]


# --- the time to a release ------------------------------------------------------------------------------


def _wait_for_release(url: str, home: Path, size: int) -> float:
    task_id = _post(url, home, {**MEDIAN, "min_count": size})
    _fill(home, task_id, (age.tobytes() for age in np.random.default_rng(1).integers(20, 80, size - 1).astype("<f8")))
    with httpx.Client(base_url=url) as client:
        ask = client.get(f"/api/task/{task_id}/ask", params={"slot": "bench"}).json()
        body = {
            "ask_id": ask["ask_id"],
            "part": ask["part"],
            "contributor": secrets.token_hex(16),
            "payload": {"age": 40},
        }
        assert client.post(f"/api/task/{task_id}/submit", json=body).status_code == 202
        start = time.perf_counter()
        while client.get(f"/api/task/{task_id}").json()["status"] != "done":
            time.sleep(0.002)
        return round(time.perf_counter() - start, 3)


def _fill(home: Path, task_id: str, records: Iterable[bytes]) -> None:
    """Put contributions into the store as the server writes them, sealed if the task is trusted."""
    place = CoordinatorHome(home)
    key, store = place.keys.of(task_id), CoordinatorStore(Database(place.store))
    assert key is not None
    trusted = store.standing(task_id).trusted
    pending = iter(records)
    while some := list(islice(pending, 2000)):
        deliveries = []
        for record in some:
            who = secrets.token_hex(16)
            kept = key.seal(record, place_of(task_id, "phase-0", who)) if trusted else record
            deliveries.append(ContributionDelivery(task_id, "phase-0", who, b"bench", kept))
        assert all(isinstance(taken, Taken) for taken in store.take(deliveries))
    store.database.close()


# --- memory ---------------------------------------------------------------------------------------------

_WORK = """
import json, logging, resource, sys
logging.basicConfig(level="INFO")
from pathlib import Path
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.tasks.phase_end import Closing
from thebes.coordinator.storage.database import Database
from thebes.coordinator.tasks.phase_queue import PhaseQueue
from thebes.coordinator.home import CoordinatorHome
home = CoordinatorHome(Path(sys.argv[1]))
Closing(PhaseQueue(Database(home.store), "bench"), home.keys, SystemClock()).step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def _memory() -> dict[str, int]:
    """MiB at the most in the worker that sums up a gradient task of 210 weights: local, and its answer is no rows."""
    import torch

    from thebes.torch import encode

    model, loss = encode(torch.nn.Linear(20, 10), torch.nn.MSELoss())
    columns = [f"x{n}" for n in range(20)], [f"y{n}" for n in range(10)]
    document = {
        "type": "gradient",
        "epsilon": 4.0,
        "server": "untrusted",
        "featurizer": f"SELECT {', '.join(columns[0] + columns[1])} FROM profile.example",
        "inputs": columns[0],
        "outputs": columns[1],
        "model": model,
        "loss": loss,
        "clip": 1.0,
    }
    peaks = {}
    for size in MEMORY_SIZES:
        with tempfile.TemporaryDirectory() as home, Front(Path(home)) as front:
            task_id = front.post({**document, "min_count": size})
            aggregator = registry.aggregator(registry.check(document), setting())
            ((name, slot),) = aggregator.layout("phase-0").items()
            record = np.full(slot.length, slot.high, dtype=form_of({name: slot})[name].base).tobytes()
            _fill(Path(home), task_id, (record for _ in range(size)))
            command = [sys.executable, "-c", _WORK, home]
            peaks[f"{size} contributors"] = int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            assert front.task(task_id)["status"] == "done", front.task(task_id)["status"]
    return peaks


# --- the server -----------------------------------------------------------------------------------------


def _post(url: str, home: str | Path, document: dict[str, Any]) -> str:
    token = (Path(home) / "admin.token").read_text().strip()
    answer = httpx.post(f"{url}/api/task", json=document, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["task_id"])


@contextmanager
def _server(home: Path) -> Iterator[str]:
    with started(SERVING, str(home)) as (url, _):
        yield url


@contextmanager
def started(program: str, *arguments: str) -> Iterator[tuple[str, int]]:
    """A server as a process of its own, which says where it listens: its address, and the number of the process."""
    process = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"], process.pid
    finally:
        process.terminate()
        process.wait()
