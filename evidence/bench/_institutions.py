"""Institutions beside a crowd: sites that train together, and pipelines that wait for their turn at `local`, the
coordinator's own.

What must hold is asserted: in every training each site has answered every round and was charged once; every pipeline
has a verdict, and the blocks of its stream have paid for its attempts, no more and no less.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd

from papers.processes import Processes
from tests.support import training
from tests.support.coordinator import Server
from tests.support.pipelines import RIDES
from tests.support.site_home import EVERYBODY, declare
from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.clock import SystemClock
from thebes.data.growing.block_rule import block_by
from thebes.data.schema import schema_of
from thebes.database import private_files
from thebes.ledger import Block, Ledger, NoKeeper
from thebes.site.dataset import BlockDeclaration, BudgetDeclaration, DataSet, DataSets
from thebes.site.home import SiteHome
from thebes.site.streams import stream_of

ROWS, DAYS, DAILY = 1000, 8, 2000  #: of each site; of the stream, and rows of each of its days
BUDGET = 10_000.0
PATIENCE = 900.0
TRAINING: dict[str, Any] = {**training.DOCUMENT, "patience": PATIENCE}
PIPELINE: dict[str, Any] = {
    "type": "pipeline",
    "stream": "taxi",
    "model": "LinearRegression",
    "inputs": ["km"],
    "output": "minutes",
    "target": {"mse": 60.0},
    "largest": {"mse": 250.0},
    "epsilon": 1.0,
    "delta": 1e-6,
    "patience": PATIENCE,
}
_OVER = ("done", "failed", "cancelled", "expired")
_LOOK = 0.2


@dataclass
class Institutions:
    """So many sites, and so many pipelines; none of either is nobody at all."""

    folder: Path
    home: Path  #: the coordinator's
    sites: int
    pipelines: int
    rounds: int = 20
    names: list[str] = field(default_factory=list)
    told: dict[str, Any] = field(default_factory=dict)
    _processes: Processes = field(init=False)

    def prepare(self) -> None:
        """Write what lies in the homes before anything is started."""
        if self.pipelines:
            _stream(SiteHome(self.home))
        for number in range(self.sites):
            home = SiteHome(self.folder / f"site-{number:02}")
            rows = pd.DataFrame(training.patients(ROWS, seed=number))
            declare(home, rows, schema=training.SCHEMA, epsilon=BUDGET, delta=0.1, filter="basic")
            private_files.write(home.policy, EVERYBODY)
            self.names.append(home.folder.name)

    @contextmanager
    def linked(self, server: Server) -> Iterator[None]:
        """The sites run, and are linked, while the block does."""
        self._processes = Processes(self.folder)
        with self._processes:
            for name in self.names:
                CertificateAuthority(self.home, SystemClock()).issue(name, self.folder / name)
            for name in self.names:
                at = str(server.ready["site_url"])
                self._processes.begin("site", "--home", str(self.folder / name), "--coordinator", at)
            wanted = {*self.names, *(["local"] if self.pipelines else [])}
            _until(lambda: wanted <= _linked(server))
            yield

    def peak(self, peak_of: Any) -> list[int]:
        """The most memory that each site had at any time, its processes added up, in MiB."""
        return [sum(peak_of(pid) for pid in _family(process.pid)) for process in self._processes._running]

    @contextmanager
    def busy(self, server: Server) -> Iterator[None]:
        """While the block lasts one training follows another and pipelines wait; then all of them come to their end."""
        ended, failed = threading.Event(), list[BaseException]()

        def watched(work: Any) -> threading.Thread:
            def doing() -> None:
                try:
                    work()
                except BaseException as error:
                    failed.append(error)

            thread = threading.Thread(target=doing, daemon=True)
            thread.start()
            return thread

        works = [watched(lambda: self._train(server, ended))] if self.sites else []
        works += [watched(lambda: self._wait(server))] if self.pipelines else []
        try:
            yield
        finally:
            ended.set()
            for each in works:
                each.join()
        if failed:
            raise failed[0]

    def _train(self, server: Server, ended: threading.Event) -> None:
        seconds, parts, before = list[float](), defaultdict[str, float](float), self._left()
        with _asking(server) as web:
            while not (seconds and ended.is_set()):
                began = time.perf_counter()
                document = {**TRAINING, "rounds": self.rounds, "sites": self.names}
                done = _over(web, _put_up(web, document))
                seconds.append(time.perf_counter() - began)
                assert done["status"] == "done", done["status"]
                sites = _answer(web, f"/api/task/{done['task_id']}/training")["sites"]
                phases = [each["phase"] for each in sites["seconds"]["phases"]]
                assert phases == list(range(self.rounds)), phases
                assert (sites["answered"], sites["missing"]) == (self.names, {}), sites["missing"]
                for part, took in sites["seconds"]["total"].items():
                    parts[part] += took
        whole, rounds = sum(seconds), self.rounds * len(seconds)
        for name, left in self._left().items():
            paid = (before[name] - left) / len(seconds)
            assert abs(paid - TRAINING["epsilon"]) < 1e-6, f"{name} paid {paid} for each training"
        self.told["training"] = {
            "sites": self.sites,
            "trainings": len(seconds),
            "rounds": rounds,
            "a round, ms": round(1000 * whole / rounds, 1),
            **{f"a round, {part}, ms": round(1000 * took / rounds, 1) for part, took in sorted(parts.items())},
            "answers that were missing": 0,
            "charged twice": 0,
        }

    def _left(self) -> dict[str, float]:
        found = {}
        for name in self.names:
            with Ledger(SiteHome(self.folder / name).ledger, keeper=NoKeeper()) as ledger:
                ledger.verify()
                found[name] = float(ledger.block("patients").remaining.epsilon)
        return found

    def _wait(self, server: Server) -> None:
        before = {block.name: block.remaining.epsilon for block in self._blocks()}
        with _asking(server) as web:
            began = time.perf_counter()
            tasks, most = [_put_up(web, PIPELINE) for _ in range(self.pipelines)], 0
            took, releases = dict[str, float](), dict[str, Any]()
            while len(releases) < len(tasks):
                for task in [each for each in tasks if each not in releases]:
                    found = _answer(web, f"/api/task/{task}")
                    if found["status"] in _OVER:
                        assert found["status"] == "done", found["status"]
                        releases[task], took[task] = found["result"], time.perf_counter() - began
                most = max(most, len(tasks) - len(releases))
                time.sleep(1.0)
        paid = defaultdict[str, float](float)
        for release in releases.values():
            for attempt in release["attempts"]:
                for block in attempt["blocks"]:
                    paid[block] += attempt["epsilon"]
        sized = 0.0
        for block in self._blocks():
            spent = float(before[block.name] - block.remaining.epsilon)
            over = spent - paid[block.name]  # beside attempts a block pays once for its size
            assert -1e-9 < over < 0.5, f"{block.name} has paid {spent}, its attempts say {paid[block.name]}"
            sized += over
        waited = sorted(took.values())
        verdicts = [release["verdict"] for release in releases.values()]
        self.told["pipelines"] = {
            "put up": len(tasks),
            "waiting at once": most,
            "seconds until half, all had a verdict": [round(waited[len(waited) // 2], 1), round(waited[-1], 1)],
            "verdicts": {each: verdicts.count(each) for each in sorted(set(verdicts))},
            "attempts": sum(len(release["attempts"]) for release in releases.values()),
            "lost": 0,
        }

    def _blocks(self) -> list[Block]:
        with Ledger(SiteHome(self.home).ledger, keeper=NoKeeper()) as ledger:
            ledger.verify()
            return [block for block in ledger.blocks() if block.name.startswith("taxi/")]


def _stream(home: SiteHome) -> None:
    """Made-up rides of some days, in the coordinator's home."""
    schema = schema_of(RIDES)
    kept = BlockDeclaration(block_by("time:1d", schema))
    dataset = DataSet("taxi", schema, {"kind": "growing"}, BudgetDeclaration.of(BUDGET, 0.1, "basic"), kept)
    draw = np.random.default_rng(5)  # made-up rows, not noise
    km = draw.uniform(0, 10, DAYS * DAILY)
    at = pd.to_datetime("2026-01-01") + pd.to_timedelta(np.repeat(np.arange(DAYS), DAILY), unit="D")
    minutes = np.clip(5 + 4 * km + draw.normal(0, 2, len(km)), 0, 60)
    with ExitStack() as opened:
        ledger = opened.enter_context(Ledger(home.ledger, keeper=NoKeeper()))
        stream = opened.enter_context(closing(stream_of(home, dataset, ledger)))
        stream.ingest(pd.DataFrame({"at": at, "km": km, "minutes": minutes}))
        stream.seal([block.name for block in stream.blocks()])
    private_files.write(home.policy, EVERYBODY)
    DataSets(home).keep(dataset)


# --- asking ---------------------------------------------------------------------------------------------


@contextmanager
def _asking(server: Server) -> Iterator[httpx.Client]:
    url = server.ready["url"]
    with httpx.Client(base_url=url, headers=server.admin, timeout=60, trust_env=False) as client:
        yield client


def _answer(web: httpx.Client, path: str) -> Any:
    """Whatever happens to the process that was asked, another one answers."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            answer = web.get(path)
            answer.raise_for_status()
            return answer.json()
        except httpx.TransportError:
            assert time.monotonic() < end
            time.sleep(_LOOK)


def _put_up(web: httpx.Client, document: Mapping[str, Any]) -> str:
    """The task's id. The same twice would be two tasks: who hears nothing looks whether it is there."""
    named = {**document, "name": f"load {secrets.token_hex(8)}"}
    while True:
        try:
            answer = web.post("/api/task", json=named)
            assert answer.status_code == 201, answer.text
            return str(answer.json()["task_id"])
        except httpx.TransportError:
            time.sleep(1.0)
            there = _answer(web, "/api/task") + _answer(web, "/api/task?state=ended")
            known = [each["task_id"] for each in there if each["document"].get("name") == named["name"]]
            if known:
                return str(known[0])


def _over(web: httpx.Client, task: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    def ended() -> bool:
        found[:] = [_answer(web, f"/api/task/{task}")]
        return found[0]["status"] in _OVER

    _until(ended)
    return found[0]


def _until(condition: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(_LOOK)


def _linked(server: Server) -> set[str]:
    sites = server.client.get("/api/site").json()
    return {site["name"] for site in sites if site["state"] == "connected" and site["datasets"]}


def _family(pid: int) -> list[int]:
    """A process and those that it started."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except FileNotFoundError:  # it has ended
        return [pid]
    return [pid, *(each for child in children for each in _family(int(child)))]
