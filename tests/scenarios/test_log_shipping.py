"""A log goes through the system's `logger` into a syslog socket: every line arrives, whole, once and in order."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from tests.support.coordinator import AGES, Server
from tests.support.socket_folder import socket_folder

pytestmark = pytest.mark.slow
MANY = 2_000


class SyslogSocket:
    """A datagram socket as /dev/log is one, that keeps what it is sent."""

    def __init__(self, path: Path) -> None:
        self.path, self.lines = path, list[str]()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while told := self._socket.recv(65_536):
            if told == b"over":
                return
            self.lines.append(told.decode().partition("thebes: ")[2])

    def close(self) -> list[str]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"over", str(self.path))
        self._thread.join()
        self._socket.close()
        return self.lines


@pytest.fixture
def short(tmp_path: Path) -> Path:
    """A path that is short enough for a socket."""
    return socket_folder("thebes-log-")


def documented() -> list[str]:
    """The words of `logger` as docs/monitoring.md has them."""
    page = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text(encoding="utf-8")
    line = next(line.strip() for line in page.splitlines() if line.strip().startswith("logger "))
    return line.partition(" <")[0].split()


def test_what_a_coordinator_says_arrives_at_syslog_as_it_was_written(
    tmp_path: Path, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shutil.which("logger"), "a part of every Debian"
    monkeypatch.setenv("THEBES_LOG", "json")
    written = tmp_path / "log"
    server = Server(tmp_path / "home", log=written)
    task_id = server.post(AGES)
    host, port = server.ready["url"].removeprefix("http://").split(":")
    for number in range(MANY):
        with socket.create_connection((host, int(port))) as raw:
            raw.sendall(b"\x16\x03\x01 no request %d\r\n\r\n" % number)
            raw.recv(1000)
    assert server.stop() == 0
    said = written.read_text().splitlines()
    assert len(said) >= MANY
    there = SyslogSocket(short / "log")
    words = documented()
    words[words.index("/dev/log")] = str(there.path)
    with written.open("rb") as log:
        subprocess.run(words, stdin=log, check=True, timeout=120)
    assert there.close() == said
    told = [json.loads(line) for line in there.lines]
    assert {line["event"] for line in told} == {"other"}
    assert task_id not in str(told)
    shutil.rmtree(short)
