"""A coordinator, some people and some hospitals on this machine, with a wire before the coordinator's two ports."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pandas as pd

from chaos import invariants
from chaos.process import Process
from chaos.wire import Wire
from thebes.coordinator.authority import Authority
from thebes.coordinator.clock import SystemClock
from thebes.site.home import Home, written
from thebes.testing.ports import free_ports
from thebes.testing.siting import EVERYBODY, declare

START_SECONDS = 120.0
_AGE = {"age": {"type": "range", "low": 0.0, "high": 100.0}}
_SCHEMA = {
    "unit": "person",
    "columns": {
        "age": {"type": "integer", "low": 0, "high": 100},
        "ill": {"type": "string", "values": ["no", "yes"]},
    },
}
#: as much as may be agreed to in advance
_RULES = [{"type": kind, "epsilon_at_most": 1} for kind in ("basic", "bounded")]
_GENEROUS = {"epsilon": 100_000, "overall_epsilon": 1_000_000}


class World:
    """Use in a `with` block. Everything in `folder`; nothing of it is left running."""

    def __init__(self, folder: Path, *, people: int, sites: int, seed: int) -> None:
        self.folder, self._dice = folder, random.Random(seed)
        port, site_port = free_ports(2)
        self.web, self.links = Wire(port, seed), Wire(site_port, seed + 1)
        self.wires = (self.web, self.links)
        home = folder / "coordinator"
        home.mkdir(parents=True, mode=0o700)
        (home / "coordinator.toml").write_text("min_count_floor = 1\nsite_ping = 1.0\nsite_silence = 4.0\n")
        ports = ("--port", str(port), "--site-port", str(site_port))
        self.coordinator = self._process("coordinator", home, "coordinator", "--home", str(home), *ports)
        self.people = [self._person(f"person-{number}") for number in range(people)]
        self.sites: list[Process] = []
        self.processes = [self.coordinator, *self.people]
        self._count = sites
        #: what somebody was served, by task
        self.witnessed: dict[str, Any] = {}
        self.posted: list[str] = []
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
            for number in range(self._count):
                self._add_site(f"site-{number}", number)
            for site in self.sites:
                site.start()
            for person in self.people:
                self._settle(person)
            for site in self.sites:
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
        return {"name": name, "epsilon": 0.5, **shapes[number % len(shapes)]}

    def look(self) -> None:
        """Read what is released, as a requestor does; what was once served must stay so."""
        for task in self.posted:
            if task not in self.witnessed:
                with suppress(httpx.HTTPError, ValueError):
                    told = self._through.get(f"/api/task/{task}").json()
                    if told["status"] == "done":
                        self.witnessed[task] = told["result"]

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
        order = [*self.people, *self.sites, self.coordinator]
        return [f"{process.name} ended with {status}" for process in order if (status := process.stop()) != 0]

    def broken(self) -> list[invariants.Broken]:
        """What its databases say, once it has stopped."""
        people, sites = ([process.home for process in some] for some in (self.people, self.sites))
        return invariants.broken(invariants.World(self.coordinator.home, people, sites, self.witnessed))

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
                if task["status"] == "running" or task["task_id"] not in given_up:
                    left.append(f"{task['document']['name']} ({task['type']}) is {task['status']}")
        except (httpx.HTTPError, ValueError) as error:
            return [f"the coordinator does not answer: {type(error).__name__}"]
        return left

    # --- how it begins ----------------------------------------------------------------------------------

    def _process(self, name: str, home: Path, *arguments: str) -> Process:
        return Process(name, home, *arguments, log=self.folder / f"{name}.log")

    def _person(self, name: str) -> Process:
        home = self.folder / name
        to = ("--coordinator", f"http://127.0.0.1:{self.web.port}", "--port", "0", "--no-delay", "--example")
        return self._process(name, home, "person", "--home", str(home), *to)

    def _add_site(self, name: str, number: int) -> None:
        home = Home(self.folder / name)
        ages = [18 + (7 * place + number) % 70 for place in range(120)]
        rows = pd.DataFrame({"age": ages, "ill": ["yes" if age > 50 else "no" for age in ages]})
        declare(home, rows, schema=_SCHEMA, epsilon=1_000_000, delta=1e-3)
        written(home.policy, EVERYBODY.replace("1000", "1000000"))
        Authority(self.coordinator.home, SystemClock()).issue(name, home.folder, days=1)
        to = ("--coordinator", f"127.0.0.1:{self.links.port}", "--port", "0")
        made = self._process(name, home.folder, "site", "--home", str(home.folder), *to)
        self.sites.append(made)
        self.processes.append(made)

    def _settle(self, person: Process) -> None:
        """What a person says once, on their page."""
        self._await(person)
        web = self._person_s(person)
        limits = {"local": _GENEROUS, "trusted": _GENEROUS}
        for path, body in (("/api/settings", limits), ("/api/rules", {"rules": _RULES})):
            web.put(path, json=body).raise_for_status()

    def _person_s(self, person: Process) -> httpx.Client:
        token = (person.home / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=person.facts["address"], headers=headers, timeout=15, trust_env=False)

    def _linked(self) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            told = {site["name"]: site for site in self._straight.get("/api/site").json()}
            if all(told.get(site.name, {}).get("state") == "connected" for site in self.sites):
                return
            time.sleep(0.1)
        raise RuntimeError(f"not every site is linked; the logs in {self.folder} say why")

    def _await(self, process: Process) -> None:
        if not process.ready(START_SECONDS):
            raise RuntimeError(f"{process.name} does not start; {self.folder}/{process.name}.log says why")
