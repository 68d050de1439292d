"""A real cluster of Spark for tests: a master and two workers, each a process of its own on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen

import pytest

from tests.support.ports import free_ports

_START_SECONDS = 180.0
#: small, as workers with a core and a gigabyte each are; nothing listens beyond this machine
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "700m",
    "spark.sql.shuffle.partitions": "4",
}


class SparkCluster:
    """`url` is the master's address, `settings` are those of a session that fits."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self.folder, self.settings = folder, SETTINGS
        self._home = Path(pyspark.__file__).parent
        self._processes: list[subprocess.Popen[bytes]] = []
        port, self._page = free_ports(2)
        self.url = f"spark://127.0.0.1:{port}"
        self._begin("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(self._page))
        for _ in range(2):
            self.add_worker()

    def __enter__(self) -> Self:
        self.wait_for(2)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            self._kill(process)

    def add_worker(self) -> None:
        """Start another worker; the master hears of it in a moment."""
        place = self.folder / f"worker-{len(self._processes)}"
        more = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(place)]
        self._begin("worker.Worker", *more, self.url)

    def kill_worker(self) -> None:
        """Kill the worker that was started last, with the executors that it runs."""
        self._kill(self._processes.pop())

    def wait_for(self, workers: int) -> None:
        """Wait until the master knows that many living workers."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            for process in self._processes:
                assert process.poll() is None, self._said()
            try:
                if sum(worker["state"] == "ALIVE" for worker in self._told()["workers"]) >= workers:
                    return
            except OSError:
                pass  # the master is not there yet
            time.sleep(0.2)
        pytest.fail(f"the cluster does not come: {self._said()}")

    def _told(self) -> dict[str, Any]:
        with urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=30) as answer:
            told: dict[str, Any] = json.load(answer)
        return told

    def _begin(self, role: str, *words: str) -> None:
        with (self.folder / "log").open("ab") as log:
            command = [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", *words]
            env = {
                **os.environ,
                "SPARK_HOME": str(self._home),
                "SPARK_NO_DAEMONIZE": "1",
                "SPARK_LOCAL_IP": "127.0.0.1",
            }
            self._processes.append(subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True))

    def _said(self) -> str:
        return (self.folder / "log").read_text()[-2000:]

    @staticmethod
    def _kill(process: subprocess.Popen[bytes]) -> None:
        # A worker's executors are of its session: with the machine, all of it is gone.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def running_spark(folder: Path) -> Iterator[SparkCluster]:
    """Run a cluster in this folder; the test is skipped where Spark is not installed."""
    pytest.importorskip("pyspark", reason="Spark is not installed")
    with SparkCluster(folder) as cluster:
        _stop()  # of another test in this process: one process has one
        yield cluster
        _stop()


def _stop() -> None:
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
