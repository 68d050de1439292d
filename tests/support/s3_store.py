"""A store that speaks S3, as a process of its own on this machine, with packages in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from tests.support.ports import free_ports

_PLACE = Path(__file__).parents[2] / ".venv-s3"
_PACKAGES = "moto[server,s3]==5.2.5"
_SECONDS = 120.0


def environment() -> Path:
    """Return the store's program, installed where it is not there yet; skip where its packages cannot be had."""
    program = _PLACE / "bin" / "moto_server"
    if program.is_file():
        return program
    base = getattr(sys, "_base_executable", sys.executable)
    install = [str(_PLACE / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", _PACKAGES]
    for command in ([base, "-m", "venv", str(_PLACE)], install):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip("the packages of an S3 store cannot be had")
    return program


@contextmanager
def running_store(*buckets: str) -> Iterator[str]:
    """Yield the address of a store with these buckets; any key opens it."""
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    command = [str(environment()), "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for bucket in buckets:
            _make(f"{address}/{bucket}")
        yield address
    finally:
        process.kill()
        process.wait()


def _make(url: str) -> None:
    end = time.monotonic() + _SECONDS
    while True:
        try:
            urlopen(Request(url, method="PUT"), timeout=10).close()
            return
        except (URLError, OSError):
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
