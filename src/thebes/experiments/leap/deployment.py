"""A coordinator and sites as processes of their own on this machine, asked over sockets like those of anybody else.

They are started by the commands that people type, so what is measured is what people run. All of them share this
machine's cores, which hospitals do not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import pandas as pd

from thebes.privacy.faults import Fault

DATASET = "records"
_POLICY = """\
[[allow]]
requestors = ["*"]
datasets = ["records"]
kinds = ["query", "train"]
epsilon = 1000000
"""
_READY_SECONDS, _DONE_SECONDS, _STOP_SECONDS = 180.0, 1800.0, 15.0
_LOOK_SECONDS = 0.002
_TOGETHER = 4  #: commands at once
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
        self._running: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def ask(self, document: Mapping[str, Any], sites: Sequence[str]) -> Asked:
        """Put a task up at these sites and wait for its end."""
        began = time.perf_counter()
        asked = {**document, "dataset": DATASET, "sites": list(sites)}
        task = self._told(self._web.post("/api/task", json=asked))["task_id"]
        while (told := self._told(self._web.get(f"/api/task/{task}")))["status"] not in _OVER:
            if time.perf_counter() - began > _DONE_SECONDS:
                raise Fault("a task of sites did not end")
            time.sleep(_LOOK_SECONDS)
        seconds = time.perf_counter() - began
        progress = self._told(self._web.get(f"/api/task/{task}/training"))["sites"]
        if told["result"] is None:
            raise Fault(f"a task of sites ended as {told['status']}: {progress.get('missing')}")
        return Asked(told["result"], seconds, progress["seconds"]["total"])

    # --- processes --------------------------------------------------------------------------------------

    def _open(self) -> None:
        home = self._folder / "coordinator"
        facts = self._start("coordinator", "--home", str(home), "--port", "0", "--site-port", "0")
        token = (home / "admin.token").read_text(encoding="utf-8").strip()
        self._web = httpx.Client(
            base_url=facts["url"], headers={"Authorization": f"Bearer {token}"}, timeout=60, trust_env=False
        )
        schema = self._folder / "schema.json"
        schema.write_text(json.dumps(self._schema), encoding="utf-8")
        for name, table in self._rows.items():
            place = self._folder / name
            place.mkdir(mode=0o700)
            table.to_parquet(place / "rows.parquet")
            (place / "policy.toml").write_text(_POLICY, encoding="utf-8")
        _all(self._declaring(name, schema) for name in self._rows)
        _all([("ca", "issue", name, "--home", str(home), "--out", str(self._folder / name))] for name in self._rows)
        for name in self._rows:
            self._start("site", "--home", str(self._folder / name), "--coordinator", facts["site_url"], wait=False)
        end = time.monotonic() + _READY_SECONDS
        while not {*self._rows} <= self._linked():
            if time.monotonic() > end or any(process.poll() is not None for process in self._running):
                raise Fault("the sites of an experiment do not start")
            time.sleep(0.05)

    def _declaring(self, name: str, schema: Path) -> list[tuple[str, ...]]:
        home = self._folder / name
        budget = ("--epsilon", "1000000", "--delta", "0.001", "--filter", "renyi")  # which alone prices samples
        source = ("--schema", str(schema), "--source", str(home / "rows.parquet"))
        return [("dataset", "create", DATASET, "--home", str(home), *source, *budget)]

    def _linked(self) -> set[str]:
        found = self._told(self._web.get("/api/site"))
        return {site["name"] for site in found if site["state"] == "connected" and site["datasets"]}

    def _start(self, *arguments: str, wait: bool = True) -> dict[str, Any]:
        with (self._folder / "log").open("a") as log:
            process = subprocess.Popen(
                _command(*arguments), stdout=subprocess.PIPE, stderr=log, text=True, env=_environment()
            )
        self._running.append(process)
        if not wait:
            return {}
        assert process.stdout is not None  # noqa: S101
        facts: dict[str, Any] = json.loads(process.stdout.readline() or "{}")
        if not facts.get("ready"):
            raise Fault(f"thebes {arguments[0]} does not start")
        return facts

    def _close(self) -> None:
        for process in reversed(self._running):
            process.terminate()
        end = time.monotonic() + _STOP_SECONDS
        for process in self._running:
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @staticmethod
    def _told(answer: httpx.Response) -> Any:
        if answer.is_error:
            raise Fault(f"the coordinator of an experiment refused: {answer.text[:300]}")
        return answer.json()


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "thebes", *arguments]


def _environment() -> dict[str, str]:
    """A home in a temporary folder leaves nothing in the keyring of whoever runs this."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("THEBES_")}
    return {**kept, "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}


def _all(jobs: Iterable[Sequence[tuple[str, ...]]]) -> None:
    """Run commands, some at a time."""
    waiting = [job for some in jobs for job in some]
    while waiting:
        now, waiting = waiting[:_TOGETHER], waiting[_TOGETHER:]
        running = [
            subprocess.Popen(
                _command(*job), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=_environment()
            )
            for job in now
        ]
        for process in running:
            _, said = process.communicate()
            if process.returncode:
                raise Fault(f"an experiment cannot prepare its sites: {said.strip()[-300:]}")
