"""A coordinator and sites as processes of their own on this machine, asked over sockets like those of anybody else."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pandas as pd

from papers.processes import Processes, client, run_all, told
from thebes.privacy.faults import Fault

DATASET = "records"
_POLICY = """\
[[allow]]
requestors = ["*"]
datasets = ["records"]
kinds = ["query", "train"]
epsilon = 1000000
"""
_READY_SECONDS, _DONE_SECONDS = 180.0, 1800.0
_WAIT = {"wait": "20"}  #: for the end, so that whoever measures does not take the coordinator's time
_OVER = ("done", "failed", "cancelled", "expired")


@dataclass(frozen=True, slots=True)
class Asked:
    """One task: its release as JSON, the seconds until whoever asked had it, and those of its phases, added up:
    `compute` of the slowest site, `transfer` and waiting, `aggregation`."""

    release: Mapping[str, Any]
    seconds: float
    phases: Mapping[str, float]


class Deployment:
    """Use in a `with` block. Every site of `rows` has one data set with these rows, named DATASET."""

    def __init__(self, folder: Path, rows: Mapping[str, pd.DataFrame], schema: Mapping[str, Any]) -> None:
        self._folder, self._rows, self._schema = folder, rows, schema
        self._processes = Processes(folder)

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._processes.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._processes.close()

    def ask(self, document: Mapping[str, Any], sites: Sequence[str]) -> Asked:
        """Put a task up at these sites and wait for its end."""
        began = time.perf_counter()
        asked = {**document, "dataset": DATASET, "sites": list(sites)}
        task = told(self._web.post("/api/task", json=asked))["task_id"]
        while (standing := told(self._web.get(f"/api/task/{task}", params=_WAIT)))["status"] not in _OVER:
            if time.perf_counter() - began > _DONE_SECONDS:
                raise Fault("a task of sites did not end")
        seconds = time.perf_counter() - began
        progress = told(self._web.get(f"/api/task/{task}/training"))["sites"]
        if standing["result"] is None:
            raise Fault(f"a task of sites ended as {standing['status']}: {progress.get('missing')}")
        return Asked(standing["result"], seconds, progress["seconds"]["total"])

    def computed(self) -> dict[str, float]:
        """Seconds that the coordinator and all sites together have computed so far, with every process of theirs."""
        coordinator, *sites = [process.pid for process in self._processes._running]
        return {"coordinator": _computed(coordinator), "site": sum(map(_computed, sites))}

    # --- processes --------------------------------------------------------------------------------------

    def _open(self) -> None:
        home = self._folder / "coordinator"
        facts = self._processes.start("coordinator", "--home", str(home), "--port", "0", "--site-port", "0")
        self._web = client(facts["url"], home / "admin.token")
        schema = self._folder / "schema.json"
        schema.write_text(json.dumps(self._schema), encoding="utf-8")
        for name, table in self._rows.items():
            place = self._folder / name
            place.mkdir(mode=0o700)
            table.to_parquet(place / "rows.parquet")
            (place / "policy.toml").write_text(_POLICY, encoding="utf-8")
        run_all(self._declaring(name, schema) for name in self._rows)
        run_all([("ca", "issue", name, "--home", str(home), "--out", str(self._folder / name))] for name in self._rows)
        for name in self._rows:
            self._processes.begin("site", "--home", str(self._folder / name), "--coordinator", facts["site_url"])
        end = time.monotonic() + _READY_SECONDS
        while not {*self._rows} <= self._linked():
            if time.monotonic() > end or self._processes.ended:
                raise Fault("the sites of an experiment do not start")
            time.sleep(0.05)

    def _declaring(self, name: str, schema: Path) -> list[tuple[str, ...]]:
        home = self._folder / name
        budget = ("--epsilon", "1000000", "--delta", "0.001", "--filter", "renyi")  # which alone prices samples
        source = ("--schema", str(schema), "--source", str(home / "rows.parquet"))
        return [("dataset", "create", DATASET, "--home", str(home), *source, *budget)]

    def _linked(self) -> set[str]:
        found = told(self._web.get("/api/site"))
        return {site["name"] for site in found if site["state"] == "connected" and site["datasets"]}


def _computed(process: int) -> float:
    """Seconds for which a process and its children have computed so far."""
    place = Path("/proc") / str(process)
    fields = (place / "stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    children = (place / "task" / str(process) / "children").read_text(encoding="ascii").split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(_computed(int(child)) for child in children)
