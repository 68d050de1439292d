"""A real MariaDB for tests: a server in a temporary directory, reached through a socket only its owner can open,
gone when the tests end. Needs pytest, PyMySQL and the server programs of any MariaDB >= 10.5.
"""

from __future__ import annotations

import atexit
import functools
import os
import secrets
import shutil
import subprocess
import time
from typing import Any

import pytest

from tests.support.socket_folder import socket_folder

REQUIRE = "THEBES_REQUIRE"
PATIENCE = 60.0  #: seconds until a server answers


class MariaDb:
    """A running server; `connect` opens a database of it as its administrator."""

    def __init__(self, server: str, install: str) -> None:
        self._root = socket_folder("thebes-mariadb-")
        self.socket = self._root / "socket"
        data, log = self._root / "data", self._root / "log"
        as_user = ["--user=root"] if os.geteuid() == 0 else []
        made = [install, "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", *as_user]
        subprocess.run(made, check=True, stdin=subprocess.DEVNULL, capture_output=True)
        options = [f"--datadir={data}", f"--socket={self.socket}", f"--log-error={log}", f"--pid-file={self._root}/pid"]
        options += ["--skip-networking", "--innodb-flush-log-at-trx-commit=0", "--character-set-server=utf8mb4"]
        self._process = subprocess.Popen(
            [server, "--no-defaults", *options, *as_user],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started = time.monotonic()
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() - started > PATIENCE:
                told = log.read_text(errors="replace")[-2000:] if log.exists() else ""
                self.stop()
                raise RuntimeError(f"mariadbd does not answer: {told}")
            time.sleep(0.05)

    def connect(self, database: str = "") -> Any:
        import pymysql

        return pymysql.connect(
            unix_socket=str(self.socket), user="root", database=database or None, charset="utf8mb4", autocommit=True
        )

    def new_database(self) -> str:
        """Make an empty database; give its name."""
        name = "t" + secrets.token_hex(6)
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        return name

    def url(self, database: str, user: str = "root") -> str:
        """The address as a source of kind `sql` names it."""
        return f"mysql+pymysql://{user}@localhost/{database}?unix_socket={self.socket}&charset=utf8mb4"

    def stop(self) -> None:
        """End the server and remove everything it wrote."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._root, ignore_errors=True)

    def _answers(self) -> bool:
        import pymysql

        try:
            self.connect().close()
        except pymysql.err.OperationalError:
            return False
        return True


@functools.cache
def _running() -> MariaDb | None:
    server, install = shutil.which("mariadbd"), shutil.which("mariadb-install-db")
    if server is None or install is None:
        return None
    found, owner = MariaDb(server, install), os.getpid()
    atexit.register(lambda: found.stop() if os.getpid() == owner else None)
    return found


def running_mariadb() -> MariaDb:
    """The one server of this process. Without MariaDB the test is skipped, or fails where THEBES_REQUIRE names it."""
    found = _running()
    if found is None:
        reason = "MariaDB's server programs are not installed"
        if "mariadb" in os.environ.get(REQUIRE, ""):
            pytest.fail(f"{reason}, and {REQUIRE} asks for them")
        pytest.skip(reason)
    return found
