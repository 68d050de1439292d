"""A real PostgreSQL for tests: a cluster in a temporary directory, reached through a socket only it and its
owner can open, gone when the tests end. Needs pytest and the server programs of any PostgreSQL >= 14.
"""

from __future__ import annotations

import atexit
import functools
import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NoReturn

import psycopg
import pytest

from tests.support.socket_folder import socket_folder

REQUIRE = "THEBES_REQUIRE"


def server_programs() -> Path | None:
    """The folder with initdb and pg_ctl of the newest installation, or None."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    on_path = shutil.which("pg_ctl")
    if on_path is not None:
        folders.insert(0, Path(on_path).resolve().parent)
    return next((folder for folder in reversed(folders) if (folder / "initdb").exists()), None)


class Cluster:
    """A running server. `new_database()` gives the address of an empty database. One that is `durable` waits for its
    disk, as those do that people run; a test's need not."""

    def __init__(self, programs: Path, *, durable: bool = False) -> None:
        self._programs = programs
        # PostgreSQL refuses to run as root, so root hands over to the user that Debian made for it.
        self._as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        self._root = socket_folder("thebes-pg-", durable=durable)
        if self._as_user:
            shutil.chown(self._root, "postgres")
        data, log = self._root / "data", self._root / "log"
        self._run("initdb", "-D", data, "-U", "thebes", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        kept = "on" if durable else "off"
        options = f"-c listen_addresses='' -c unix_socket_directories='{self._root}' -c fsync={kept}"
        options += " -c max_connections=60"
        self._start = ("pg_ctl", "start", "-w", "-D", data, "-l", log, "-o", options)
        self.resume()

    def resume(self) -> None:
        """Start the server, on what it wrote before."""
        self._run(*self._start)

    def halt(self) -> None:
        """End the server as a machine that is switched off does; what it wrote stays."""
        self._run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", self._root / "data")

    def new_database(self) -> str:
        """An address that psycopg and the ledger understand."""
        name = "t" + secrets.token_hex(6)
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.address(name)

    def address(self, name: str) -> str:
        """Return the address of a database of that name, whether there is one or not."""
        return f"postgresql://thebes@/{name}?host={self._root}"

    def stop(self) -> None:
        """End the server and remove everything it wrote."""
        self.halt()
        self.remove()

    def remove(self) -> None:
        """Remove everything that a stopped server wrote."""
        shutil.rmtree(self._root, ignore_errors=True)

    def _run(self, program: str, *arguments: str | Path) -> None:
        # Into a file and not a pipe: the server inherits it and would hold a pipe open for ever.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [*self._as_user, self._programs / program, *arguments],
                cwd=self._root,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
            )
            if done.returncode:
                output.seek(0)
                raise RuntimeError(f"{program} failed: {output.read().decode(errors='replace')[-2000:]}")


@functools.cache
def running_cluster() -> Cluster | None:
    """The one cluster of this process, started when first asked for; None where PostgreSQL is not installed."""
    programs = server_programs()
    if programs is None:
        return None
    cluster = Cluster(programs)
    owner = os.getpid()
    atexit.register(lambda: cluster.stop() if os.getpid() == owner else None)
    return cluster


def new_cluster() -> Cluster:
    """A server of its own, which whoever asked for it stops. Without PostgreSQL as `new_database`."""
    if (programs := server_programs()) is None:
        _missing()
    return Cluster(programs)


def _missing() -> NoReturn:
    reason = "PostgreSQL's server programs are not installed"
    if "postgres" in os.environ.get(REQUIRE, ""):
        pytest.fail(f"{reason}, and {REQUIRE} asks for them")
    pytest.skip(reason)


def new_database() -> str:
    """An empty database. Without PostgreSQL the test is skipped, or fails where THEBES_REQUIRE names it."""
    cluster = running_cluster()
    if cluster is None:
        _missing()
    return cluster.new_database()


@pytest.fixture
def postgres_url() -> str:
    """The address of an empty database of its own."""
    return new_database()
