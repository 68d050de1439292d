"""A small runner of a user's systemd units, for machines whose systemd runs no session: it honours ExecStart,
Environment, UMask, StandardOutput, Restart, RestartSec and RestartPreventExitStatus, as systemd.service(5) says, and
refuses what it does not know."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

HONOURED = {
    "ExecStart", "Environment", "UMask", "StandardOutput", "Restart", "RestartSec", "RestartPreventExitStatus",
}  # fmt: skip
#: they take rights away, and change nothing of what is done here
LEFT_OUT = {"NoNewPrivileges", "LimitCORE"}


def settings(unit: Path, section: str) -> dict[str, str]:
    """Read one section of a unit."""
    found, here = dict[str, str](), ""
    for line in unit.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            here = line.strip("[]")
        elif line and not line.startswith(("#", ";")) and here == section:
            key, equals, value = line.partition("=")
            assert equals, line
            assert key not in found, line
            found[key] = value
    return found


def words(line: str) -> list[str]:
    """Split a command as systemd.syntax(7) says: quotes, backslashes, then specifiers and variables."""
    found = []
    for quoted, plain in re.findall(r'"((?:[^"\\]|\\.)*)"(?=\s|$)|(\S+)', line):
        word = re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
        assert "%" not in word.replace("%%", ""), f"a specifier: {word}"
        assert "$" not in word.replace("$$", ""), f"a variable: {word}"
        found.append(word.replace("%%", "%").replace("$$", "$"))
    return found


class UserService:
    """One unit at work, until it ends and is not to be started again. `pause` is called for RestartSec."""

    def __init__(self, unit: Path, user: Path, log: Path, pause: Callable[[float], None]) -> None:
        told = settings(unit, "Service")
        assert set(told) <= HONOURED | LEFT_OUT, set(told) - HONOURED - LEFT_OUT
        self._told, self._user, self._log, self._pause = told, user, log, pause
        self.starts = 0
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        assert self._told["StandardOutput"] == "null"
        environment = {"HOME": str(self._user), "PATH": "/usr/bin:/bin"}
        environment |= dict(each.split("=", 1) for each in words(self._told.get("Environment", "")))
        with self._log.open("ab") as errors:
            return subprocess.Popen(
                words(self._told["ExecStart"]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=environment,
                cwd=self._user,
                umask=int(self._told["UMask"], 8),
            )

    def follow(self, seconds: float = 60.0) -> bool:
        """Wait for the end of the process, and start it again where the unit says so; whether it did."""
        status = self.process.wait(seconds)
        assert self._told["Restart"] == "on-failure"
        final = {int(each) for each in self._told.get("RestartPreventExitStatus", "").split()}
        if status in {0, *final} or -status in (1, 2, 13, 15):  # these signals are a clean end
            return False
        self._pause(float(self._told["RestartSec"]))
        self.process = self._start()
        return True

    def stop(self) -> int:
        """Ask it to end, as systemd does, and return its status."""
        self.process.terminate()
        return self.process.wait(30)


def until(true: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to that in time"
        time.sleep(0.05)


def systemd(folder: Path, monkeypatch: pytest.MonkeyPatch, *, answers: bool) -> None:
    """Put a systemctl into the way that finds a systemd for this user, or none."""
    program = folder / "systemctl"
    program.write_text(f"#!/bin/sh\nexit {0 if answers else 1}\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
