"""A coordinator and institutions as real processes, for scenario tests: each can be killed and started again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pandas as pd

from tests.scenarios.processes import Process, stopped
from tests.support.ports import free_ports
from tests.support.site_home import EVERYBODY, declare
from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.clock import SystemClock
from thebes.database import private_files
from thebes.ledger import Block, JournalEntry, Ledger, NoKeeper
from thebes.site.home import AUDIT, SiteHome
from thebes.site.steward.audit_log import Audit

SOON = 240.0  #: for whatever takes seconds on an idle machine


class Institution:
    """One site's home, and its processes while they run."""

    def __init__(self, name: str, home: SiteHome, coordinator: str) -> None:
        self.name, self.home = name, home
        self._command = ("site", "--home", str(home.folder), "--coordinator", coordinator, "--port", "0")
        self.process: Process | None = None

    @property
    def running(self) -> bool:
        return self.process is not None

    def start(self) -> None:
        """Without waiting until it listens."""
        self.process = Process(*self._command)

    def kill(self, which: int = 0) -> None:
        """SIGKILL to the supervisor (0) or to one of its two processes (1, 2), which it starts again by itself."""
        assert self.process is not None
        if which == 0:
            self.process.kill()
            self.process = None
            return
        supervisor = self.process.pid

        def both() -> list[int] | None:  # one that was killed a moment ago is not there yet
            found = children(supervisor)
            return found if len(found) == 2 else None

        with suppress(ProcessLookupError):
            os.kill(until(both, SOON)[which - 1], signal.SIGKILL)

    def end(self) -> None:
        if self.process is not None:
            assert stopped([self.process]) == [0]
            self.process = None

    def block(self, name: str = "patients") -> Block:
        """The state of the data set's budget, once the whole ledger was checked."""
        with Ledger(self.home.ledger, keeper=NoKeeper()) as ledger:
            ledger.verify()
            return ledger.block(name)

    def audited(self) -> list[JournalEntry]:
        """The audit log, once its chain was checked."""
        audit = Audit(self.home.folder / AUDIT)
        try:
            audit.verify()
            return audit.entries()
        finally:
            audit.close()


class Institutions:
    """Use in a `with` block: everything that runs at its end is stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.site_port = free_ports(2)
        self.home = folder / "coordinator"
        self.sites: dict[str, Institution] = {}
        self.coordinator: Process | None = None

    def __enter__(self) -> Institutions:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        running = [site for site in self.sites.values() if site.running]
        processes = [site.process for site in running if site.process is not None]
        if self.coordinator is not None:
            processes.append(self.coordinator)
        stopped(processes)

    # --- the coordinator --------------------------------------------------------------------------------

    def start(self) -> None:
        ports = ("--port", str(self.port), "--site-port", str(self.site_port))
        self.coordinator = Process("coordinator", "--home", str(self.home), *ports)
        self.coordinator.ready()
        token = (self.home / "admin.token").read_text().strip()
        self.web = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}", headers={"Authorization": f"Bearer {token}"}, timeout=120
        )

    def kill(self) -> None:
        assert self.coordinator is not None
        self.web.close()
        self.coordinator.kill()
        self.coordinator = None

    @property
    def authority(self) -> CertificateAuthority:
        return CertificateAuthority(self.home, SystemClock())

    def submit(self, document: Mapping[str, Any]) -> str:
        answer = self.web.post("/api/task", json=document)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["task_id"])

    def task(self, task: str) -> dict[str, Any]:
        found: dict[str, Any] = self.web.get(f"/api/task/{task}").json()
        return found

    def progress(self, task: str) -> dict[str, Any]:
        found: dict[str, Any] = self.web.get(f"/api/task/{task}/training").json()
        return found

    def phase(self, task: str) -> int:
        """The phase it is in; 0 while it has not begun."""
        return int((self.progress(task)["sites"] or {}).get("phase", 0))

    def ended(self, task: str, *, within: float = SOON) -> dict[str, Any]:
        """The task once it is over."""
        return until(lambda: told if (told := self.task(task))["status"] not in ("open", "running") else None, within)

    # --- sites ------------------------------------------------------------------------------------------

    def add(
        self, name: str, rows: pd.DataFrame, *, policy: str = EVERYBODY, days: int = 30, **declared: Any
    ) -> Institution:
        """A site with one data set and a certificate, not started yet."""
        home = SiteHome(self.folder / name)
        declare(home, rows, **declared)
        private_files.write(home.policy, policy)
        self.authority.issue(name, home.folder, days=days)
        self.sites[name] = Institution(name, home, f"127.0.0.1:{self.site_port}")
        return self.sites[name]

    def start_sites(self) -> None:
        for site in self.sites.values():
            if not site.running:
                site.start()
        self.connected(*self.sites)

    def connected(self, *names: str, within: float = SOON) -> None:
        """Wait until these sites are linked and have said what they have."""

        def look() -> bool | None:
            there = {each["name"]: each for each in self.web.get("/api/site").json()}
            linked = (there.get(n, {}).get("state") == "connected" and there[n]["datasets"] for n in names)
            return True if all(linked) else None

        until(look, within)


def children(pid: int) -> list[int]:
    """The processes that this one started, oldest first."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                fields = (place / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == pid:
                    found.append((int(fields[19]), int(place.name)))
    return [child for _, child in sorted(found)]


def until(look: Callable[[], Any], within: float) -> Any:
    """Return what `look` gives once it is not None."""
    end = time.monotonic() + within
    while (found := look()) is None:
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)
    return found
