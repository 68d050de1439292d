"""A coordinator, some people and some hospitals on this machine, with a wire before the coordinator's two ports."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd

from evidence.chaos import invariants
from evidence.chaos.process import Process
from evidence.chaos.reading import Registry
from evidence.chaos.wire import Wire
from tests.support.pipelines import RIDES
from tests.support.ports import free_ports
from tests.support.site_home import EVERYBODY, declare
from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.people.groups import ContributorGroups
from thebes.coordinator.storage.database import Database
from thebes.data.growing.block_rule import block_by
from thebes.data.schema import schema_of
from thebes.database import private_files
from thebes.ledger import Ledger, NoKeeper
from thebes.site.dataset import BlockDeclaration, BudgetDeclaration, DataSet, DataSets
from thebes.site.helping.keys import HelperKeys
from thebes.site.home import SiteHome
from thebes.site.streams import stream_of

START_SECONDS = 120.0
_AGE = {"age": {"type": "range", "low": 0.0, "high": 100.0}}
_SCHEMA = {
    "unit": "person",
    "columns": {
        "age": {"type": "integer", "low": 0, "high": 100},
        "ill": {"type": "string", "values": ["no", "yes"]},
    },
}
#: further kinds that can be asked for
KINDS = ("draw-discard", "tokens", "pipeline", "split")
#: as much as may be agreed to in advance
_RULES: list[dict[str, Any]] = [
    *({"type": kind, "epsilon_at_most": 1} for kind in ("basic", "bounded", "draw-discard")),
    {"type": "basic", "server": "split", "epsilon_at_most": 1},
]
_WARD = "ward"  #: the helper of tasks with two servers
_HELPS = '[[help]]\nrequestors = ["*"]\nepsilon = 1\ndelta = 1e-5\nmin_count = 2\nsites = true\n'
_FEWEST = 3  #: sites that two servers add up
_GROUP, _EPOCH = "friends", "first"
_POINT = {"type": "range", "low": -5.0, "high": 5.0}
_CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
_GENEROUS = {"epsilon": 100_000, "overall_epsilon": 1_000_000}


class World:
    """Use in a `with` block. Everything in `folder`; nothing of it is left running. `store` is an empty database of
    PostgreSQL's for the coordinator, which then may be several `processes`; `kinds` are further kinds of tasks that are
    asked."""

    def __init__(
        self,
        folder: Path,
        *,
        people: int,
        sites: int,
        seed: int,
        store: str | None = None,
        processes: int = 1,
        kinds: Collection[str] = (),
    ) -> None:
        self.folder, self.store, self._kinds = folder, store, kinds
        port, site_port = free_ports(2)
        self.web, self.links = Wire(port, seed), Wire(site_port, seed + 1)
        self.wires = (self.web, self.links)
        home = folder / "coordinator"
        home.mkdir(parents=True, mode=0o700)
        (home / "coordinator.toml").write_text("min_count_floor = 1\nsite_ping = 1.0\nsite_silence = 4.0\n")
        ports = ("--port", str(port), "--site-port", str(site_port))
        kept = () if store is None else ("--store", store, "--processes", str(processes))
        self.coordinator = self._process("coordinator", home, "coordinator", "--home", str(home), *ports, *kept)
        self.people = [self._person(f"person-{number}") for number in range(people)]
        self.sites: list[Process] = []
        self.ward: Process | None = None  #: an institution without rows, which helps
        self.processes = [self.coordinator, *self.people]
        self._count = sites
        #: what somebody was served, by task
        self.witnessed: dict[str, Any] = {}
        self.posted: list[str] = []
        self.asked: Counter[str] = Counter()  #: how many of each kind were put up
        self._straight = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10, trust_env=False)
        self._through = httpx.Client(base_url=f"http://127.0.0.1:{self.web.port}", timeout=5, trust_env=False)

    def __enter__(self) -> World:
        try:
            self.coordinator.start()
            for person in self.people:
                person.start()
            self._await(self.coordinator)
            token = (self.coordinator.home / "admin.token").read_text().strip()
            for client in (self._straight, self._through):
                client.headers["Authorization"] = f"Bearer {token}"
            if "split" in self._kinds:
                self._add_ward()
            for number in range(self._count):
                self._add_site(f"site-{number}", number)
            for site in self._institutions:
                site.start()
            for person in self.people:
                self._settle(person)
            if "tokens" in self._kinds:
                self._gather()
            for site in self._institutions:
                self._await(site)
            self._linked()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.stop()
        for wire in self.wires:
            wire.close()
        self._straight.close()
        self._through.close()

    # --- what goes on in it -----------------------------------------------------------------------------

    def ask(self, document: Mapping[str, Any]) -> None:
        """Put a task up if anybody answers; whether it arrived may stay unknown."""
        with suppress(httpx.HTTPError, KeyError, ValueError):
            answer = self._through.post("/api/task", json=dict(document))
            if answer.status_code == 201:
                self.posted.append(str(answer.json()["task_id"]))
                self.asked[str(document["type"])] += 1

    def document(self, number: int) -> dict[str, Any]:
        """One that people answer, or one that sites answer; no two are the same but those that should be."""
        name, ages = f"question {number}", "SELECT age FROM profile.demographics"
        count = len(self.people)
        shapes: list[dict[str, Any]] = [
            {"type": "basic", "aggregator": "median", "featurizer": ages, "bounds": _AGE, "min_count": count},
            {"type": "bounded", "featurizer": ages, "bounds": _AGE, "min_count": count},
        ]
        if self.sites:
            asked = {"dataset": "patients", "patience": 60.0}
            shapes += [
                {"type": "query", "statistic": "count", **asked, "where": f"age > {number % 7}"},
                {
                    "type": "train", **asked, "model": "LogisticRegression", "inputs": ["age"], "output": "ill",
                    "rounds": 3, "delta": 1e-6, "clip": 1.0,
                },
            ]  # fmt: skip
        if self.sites and "pipeline" in self._kinds:
            shapes.append(
                {
                    "type": "pipeline", "sites": [self.sites[0].name], "stream": "taxi", "model": "LinearRegression",
                    "inputs": ["km"], "output": "minutes", "target": {"mse": 60.0}, "largest": {"mse": 250.0},
                    "delta": 1e-6,
                }
            )  # fmt: skip
        if "draw-discard" in self._kinds:
            shapes.append(
                {
                    "type": "draw-discard", "featurizer": "SELECT x0, y FROM profile.example", "family": "linear",
                    "inputs": ["x0"], "output": "y", "bounds": {"x0": _POINT, "y": _POINT}, "min_count": count,
                    "instances": 2, "learning_rate": 0.01,
                }
            )  # fmt: skip
        if "split" in self._kinds:
            until = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="seconds")
            by_two = [{**shapes[0], "server": "split", "helper": _WARD, "expires_at": until, "aggregator": "mean"}]
            if len(self.sites) >= _FEWEST:
                by_two += [{**asked, "noise": "split", "helper": _WARD} for asked in shapes[2:4]]
            shapes = by_two + shapes
        if "tokens" in self._kinds:
            shapes.append({**shapes[0], "anonymity": "token", "group": _GROUP, "epoch": _EPOCH})
        return {"name": name, "epsilon": 0.5, **shapes[number % len(shapes)]}

    def look(self) -> None:
        """Read what is released, as a requestor does; what was once served must stay so."""
        for task in self.posted:
            if task not in self.witnessed:
                with suppress(httpx.HTTPError, ValueError):
                    told = self._through.get(f"/api/task/{task}").json()
                    if told["status"] == "done":
                        self.witnessed[task] = told["result"]

    def cut_store(self) -> None:
        """Every connection to the coordinator's database ends."""
        if self.store is not None:
            import psycopg

            with psycopg.connect(self.store, autocommit=True) as connection:
                connection.execute(_CUT)

    # --- calm -------------------------------------------------------------------------------------------

    def settle(self, within: float) -> list[str]:
        """Let everything come to rest without any blow; what did not."""
        for wire in self.wires:
            wire.calm()
        for process in self.processes:
            process.clear()
        for process in self.processes:
            if process.skew or not process.alive:  # once more, with the right time
                process.kill()
                process.start()
        for process in self.processes:
            self._await(process)
        end, left = time.monotonic() + within, ["nothing was looked at"]
        while left and time.monotonic() < end:
            time.sleep(0.3)
            left = self._unfinished()
        self.look()
        return left

    def stop(self) -> list[str]:
        """End everything cleanly; whom that did not succeed with."""
        order = [*self.people, *self._institutions, self.coordinator]
        return [f"{process.name} ended with {status}" for process in order if (status := process.stop()) != 0]

    def broken(self) -> list[invariants.Broken]:
        """Find the invariants that its databases break, once it has stopped."""
        people, sites = ([process.home for process in some] for some in (self.people, self.sites))
        ward = None if self.ward is None else self.ward.home
        return invariants.broken(
            invariants.World(self.coordinator.home, people, sites, self.witnessed, self.store, ward)
        )

    def ended(self) -> Counter[str]:
        """Count the tasks by their status."""
        tasks = Registry(self.coordinator.home, self.store).tasks.values()
        return Counter(str(row["status"]) for row in tasks)

    def _unfinished(self) -> list[str]:
        """Every task is put up for so many as there are, so each must end, unless somebody's machine gave it up and
        told them so."""
        left: list[str] = []
        given_up: set[str] = set()
        for person in self.people:
            try:
                told = self._person_s(person).get("/api/participations").json()
            except (httpx.HTTPError, OSError) as error:
                return [f"{person.name} does not answer: {type(error).__name__}"]
            given_up |= {p["task_id"] for p in told if p["state"] in ("failed", "refused", "closed")}
            on_their_way = [p for p in told if p["state"] in ("reserved", "asked", "computed", "sending")]
            left += [f"{person.name} has {p['name']} at {p['state']} ({p['note']})" for p in on_their_way]
        try:
            for task in self._straight.get("/api/task").json():
                if task["type"] == "draw-discard" and not left:  # it never ends by itself
                    self._straight.post(f"/api/task/{task['task_id']}/close")
                if task["status"] == "running" or task["task_id"] not in given_up:
                    left.append(f"{task['document']['name']} ({task['type']}) is {task['status']}")
        except (httpx.HTTPError, ValueError) as error:
            return [f"the coordinator does not answer: {type(error).__name__}"]
        return left

    # --- how it begins ----------------------------------------------------------------------------------

    @property
    def _institutions(self) -> list[Process]:
        return [*self.sites, *([] if self.ward is None else [self.ward])]

    def _process(self, name: str, home: Path, *arguments: str) -> Process:
        return Process(name, home, *arguments, log=self.folder / f"{name}.log")

    def _person(self, name: str) -> Process:
        home = self.folder / name
        to = ("--coordinator", f"http://127.0.0.1:{self.web.port}", "--port", "0", "--no-delay", "--example")
        return self._process(name, home, "person", "--home", str(home), *to)

    def _add_site(self, name: str, number: int) -> None:
        home = SiteHome(self.folder / name)
        ages = [18 + (7 * place + number) % 70 for place in range(120)]
        rows = pd.DataFrame({"age": ages, "ill": ["yes" if age > 50 else "no" for age in ages]})
        declare(home, rows, schema=_SCHEMA, epsilon=1_000_000, delta=1e-3)
        if number == 0 and "pipeline" in self._kinds:
            _grow(home)
        policy = EVERYBODY.replace("1000", "1000000")
        if self.ward is not None:
            policy = policy.replace('"coordinator"', '"coordinator", "split"')
            policy += f'helpers = ["{self._helper}"]\n'
        private_files.write(home.policy, policy)
        self.sites.append(self._institution(home, name))

    def _add_ward(self) -> None:
        home = SiteHome(self.folder / _WARD)
        private_files.write(home.policy, _HELPS)
        self.ward = self._institution(home, _WARD)

    @property
    def _helper(self) -> str:
        """The fingerprint that the ward publishes."""
        return HelperKeys(self.folder / _WARD).identity().fingerprint

    def _institution(self, home: SiteHome, name: str) -> Process:
        CertificateAuthority(self.coordinator.home, SystemClock()).issue(name, home.folder, days=1)
        to = ("--coordinator", f"127.0.0.1:{self.links.port}", "--port", "0")
        made = self._process(name, home.folder, "site", "--home", str(home.folder), *to)
        self.processes.append(made)
        return made

    def _settle(self, person: Process) -> None:
        """Send what a person says once, on their page."""
        self._await(person)
        web = self._person_s(person)
        limits: dict[str, Any] = {"local": _GENEROUS, "trusted": _GENEROUS}
        if self.ward is not None:
            limits["helpers"] = {_WARD: self._helper}
        for path, body in (("/api/settings", limits), ("/api/rules", {"rules": _RULES})):
            web.put(path, json=body).raise_for_status()

    def _gather(self) -> None:
        """Everybody joins one group, which is published then."""
        home, names = CoordinatorHome(self.coordinator.home), [person.name for person in self.people]
        with closing(Database(self.store or home.store)) as database:
            groups = ContributorGroups(database, home, SystemClock())
            groups.create(_GROUP, minimum=len(names), epoch=_EPOCH)
            codes = groups.admit(_GROUP, names, epoch=_EPOCH)
            for person in self.people:
                body = {"code": codes[person.name], "epoch": _EPOCH}
                self._person_s(person).post(f"/api/groups/{_GROUP}/enrol", json=body).raise_for_status()
            groups.publish(_GROUP, epoch=_EPOCH)

    def _person_s(self, person: Process) -> httpx.Client:
        token = (person.home / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=person.facts["address"], headers=headers, timeout=15, trust_env=False)

    def _linked(self) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            told = {site["name"]: site for site in self._straight.get("/api/site").json()}
            here = [told.get(site.name, {}) for site in self._institutions]
            if all(site.get("state") == "connected" for site in here) and all(
                told[site.name]["datasets"] for site in self.sites
            ):
                return  # and has said what it has, else nobody could ask for it
            time.sleep(0.1)
        raise RuntimeError(f"not every site is linked; the logs in {self.folder} say why")

    def _await(self, process: Process) -> None:
        if not process.ready(START_SECONDS):
            raise RuntimeError(f"{process.name} does not start; {self.folder}/{process.name}.log says why")


def _grow(home: SiteHome) -> None:
    """A stream of rides, a block for each day."""
    schema = schema_of(RIDES)
    terms = BudgetDeclaration.of(100_000, 1e-2, "basic")
    dataset = DataSet("taxi", schema, {"kind": "growing"}, terms, BlockDeclaration(block_by("time:1d", schema)))
    DataSets(home).keep(dataset)
    km = np.tile(np.linspace(0.0, 10.0, 500), 6)
    days = pd.to_datetime("2026-01-01") + pd.to_timedelta(np.repeat(np.arange(6), 500), unit="D")
    with Ledger(home.ledger, keeper=NoKeeper()) as ledger, closing(stream_of(home, dataset, ledger)) as stream:
        stream.ingest(pd.DataFrame({"at": days, "km": km, "minutes": 5 + 4 * km}))
