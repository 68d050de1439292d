"""Runs the commands that people type, as they stand in ours.commands and theirs.commands: a server, three sites and
somebody who asks, all of them processes of this machine.

A line that ends in & keeps running until the end. Nothing but the standard library: both environments import this.
"""

from __future__ import annotations

import atexit
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
SITES = ("site-0", "site-1", "site-2")
_PATIENCE, _TURNS = 600.0, 5


class Failed(Exception):
    """A command did not do what it is for; says what it wrote."""


@contextmanager
def deployed(side: str, rows: Mapping[str, Path], folder: Path) -> Iterator[dict[str, str]]:
    """A server and the sites with these rows, running, and asked once, so that everything is loaded and linked. Gives
    what the commands' words in braces mean."""
    names = {
        "here": str(HERE),
        "server": str(folder / "server"),
        "port": str(_free_port()),
        "site_port": str(_free_port()),
        "model": str(folder / "model"),
    }
    home = folder / "flwr"
    home.mkdir()
    (home / "config.toml").write_text(_filled(HERE / "config.toml", names), encoding="utf-8")
    running: list[subprocess.Popen[bytes]] = []
    try:
        _all(side, "server", names, folder, running)
        _listening(int(names["port"]), running)
        for site in SITES:
            own = {"site": site, "home": str(folder / site), "own_port": str(_free_port()), "rows": str(rows[site])}
            _all(side, "site", {**names, **own}, folder, running)
        for turn in range(_TURNS):
            if any(process.poll() is not None for process in running):
                raise Failed(f"a process ended:\n{_log(folder)}")
            try:
                asked(side, names, rounds=1)
                break
            except Failed:
                if turn == _TURNS - 1:
                    raise
                time.sleep(2.0)  # a site may still be on its way, and Thebes refuses what names it
        yield names
    finally:
        for process in reversed(running):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in running:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def asked(side: str, names: Mapping[str, str], *, rounds: int) -> float:
    """Ask for a model of so many rounds; the seconds until it lies at `names["model"]`."""
    folder = Path(names["model"]).parent
    for old in folder.glob("model*"):
        old.unlink()
    began = time.perf_counter()
    _all(side, "asker", {**names, "rounds": str(rounds)}, folder, [])
    seconds = time.perf_counter() - began
    if not any(folder.glob("model*")):
        raise Failed(f"no model came:\n{_log(folder)}")
    return seconds


def _all(side: str, whose: str, names: Mapping[str, str], folder: Path, running: list[subprocess.Popen[bytes]]) -> None:
    for line in _lines(side, whose):
        words = [word.format(**names) for word in shlex.split(line.removesuffix("&"))]
        words = [sys.executable, *words[1:]] if words[0] == "python" else [_beside(words[0]), *words[1:]]
        with (folder / "log").open("ab") as log:
            if line.endswith("&"):
                more = {"stdout": log, "stderr": log, "env": _environment(folder), "start_new_session": True}
                running.append(subprocess.Popen(words, **more))  # type: ignore[call-overload]
            else:
                done = subprocess.run(words, stdout=log, stderr=log, env=_environment(folder), timeout=_PATIENCE)
                if done.returncode:
                    raise Failed(f"{line} failed:\n{_log(folder)}")


def _log(folder: Path) -> str:
    return (folder / "log").read_text(encoding="utf-8")[-2000:]


def _lines(side: str, whose: str) -> list[str]:
    found, at = [], ""
    for line in (HERE / f"{side}.commands").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            at = line.strip("[]")
        elif at == whose:
            found.append(line)
    return found


def _filled(path: Path, names: Mapping[str, str]) -> str:
    return path.read_text(encoding="utf-8").replace("{port}", names["port"])


def _beside(program: str) -> str:
    """A program of the environment that runs this."""
    return str(Path(sys.executable).parent / program)


def _environment(folder: Path) -> dict[str, str]:
    """Homes in a temporary folder leave nothing behind them, in a keyring neither."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("THEBES_", "FLWR_"))}
    told = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring", "FLWR_HOME": str(folder / "flwr")}
    return {**kept, **told, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"}


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _listening(port: int, running: list[subprocess.Popen[bytes]]) -> None:
    end = time.monotonic() + 180
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end or any(process.poll() is not None for process in running):
                raise
            time.sleep(0.1)


_STANDING = ExitStack()
atexit.register(_STANDING.close)


@cache
def standing(side: str) -> Path:
    """A folder of `side` for rows and homes, which is gone when this process ends."""
    return Path(_STANDING.enter_context(tempfile.TemporaryDirectory(prefix="peers-")))


_NAMES: dict[str, dict[str, str]] = {}


def once(side: str, rows: Mapping[str, Path]) -> dict[str, str]:
    """`deployed` by the first call, and until this process ends: whoever asks again finds it standing."""
    if side not in _NAMES:
        _NAMES[side] = _STANDING.enter_context(deployed(side, rows, standing(side)))
    return _NAMES[side]
