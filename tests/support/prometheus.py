"""A real Prometheus for tests: its server as a process, and promtool."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import pytest

from tests.support.ports import free_port

REQUIRE = "THEBES_REQUIRE"
_PATIENCE = 120.0  #: seconds for what takes a few on an idle machine


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`. Without it the test is skipped, or fails where THEBES_REQUIRE names
    `prometheus`."""
    found = shutil.which(name)
    if found is None:
        reason = f"{name} is not installed"
        if "prometheus" in os.environ.get(REQUIRE, ""):
            pytest.fail(f"{reason}, and {REQUIRE} asks for it")
        pytest.skip(reason)
    return found


class Prometheus:
    """A server that scrapes as `config` says, until the block is left."""

    def __init__(self, folder: Path, config: Path) -> None:
        self._folder, self._config = folder, config
        self.url = f"http://127.0.0.1:{free_port()}"

    def __enter__(self) -> Self:
        with (self._folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    program("prometheus"),
                    f"--config.file={self._config}",
                    f"--storage.tsdb.path={self._folder / 'series'}",
                    f"--web.listen-address={self.url.removeprefix('http://')}",
                ],
                stdout=log,
                stderr=log,
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(_PATIENCE)

    def get(self, path: str, **parameters: str) -> Any:
        """Return what its interface answers; None while it does not."""
        try:
            answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=_PATIENCE)
        except httpx.TransportError:
            return None
        return answer.json()["data"] if answer.status_code == 200 else None

    def series(self, query: str) -> list[dict[str, Any]]:
        """Return what a query gives now."""
        told = self.get("query", query=query)
        return [] if told is None else list(told["result"])

    def until(self, query: str, least: int = 1) -> list[dict[str, Any]]:
        """Wait until a query gives so many series, and return them."""
        end = time.monotonic() + _PATIENCE
        while len(found := self.series(query)) < least:
            assert self._process.poll() is None, (self._folder / "prometheus.log").read_text()
            assert time.monotonic() < end, f"{query} gives {found}"
            time.sleep(0.5)
        return found
