"""Hospitals with made-up patients, each a real site, linked to a real coordinator."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from processes import PATIENCE

from thebes.cli.demo.hospitals import Hospitals
from thebes.cli.processes import Process
from thebes.requestor.server import connect


class Institutions:
    """`pages` are the sites' one-time addresses. The last of the hospitals lets no exact totals out."""

    def __init__(self, folder: Path, count: int = 2, seed: int = 3) -> None:
        self.folder = folder
        self.processes: dict[str, Process] = {}
        self.hospitals = Hospitals(folder, count, seed)
        try:
            home = folder / "coordinator"
            facts = self._start("coordinator", "--home", str(home), "--port", "0", "--site-port", "0").ready()
            self.url = str(facts["url"])
            self.hospitals.start(home, str(facts["site_url"]), self._start)
            self.token = (home / "admin.token").read_text().strip()
            self.server = connect(self.url, token=self.token, timeout=PATIENCE)
            self.pages = self.hospitals.ready(self.server, lambda: None)
        except BaseException:
            self.close()
            raise

    def state(self, site: str) -> str:
        return str(next(known["state"] for known in self.server.sites() if known["name"] == site))

    def stop(self, site: str) -> int:
        """End a site cleanly; its exit status."""
        process = self.processes.pop(f"site-{site}")
        process.ask_to_stop()
        return _stopped(process)

    def close(self) -> list[int]:
        for process in self.processes.values():
            process.ask_to_stop()
        return [_stopped(process) for process in self.processes.values()]

    def _start(self, command: str, *arguments: str, called: str | None = None) -> Process:
        name = called or command
        process = Process(name, "thebes.cli.main", command, *arguments, log=self.folder / f"{name}.log")
        self.processes[name] = process
        return process


def _stopped(process: Process) -> int:
    """Its exit status, however long a busy machine takes for a clean end. It is asked once: a second signal would meet
    a process that is about to end and no longer takes any."""
    with suppress(subprocess.TimeoutExpired):
        process._process.wait(PATIENCE)
    return process.stop()
