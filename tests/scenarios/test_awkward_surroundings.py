"""Real processes in surroundings that nobody chose for them: masks, languages, clocks, proxies, homes and folders."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import thebes

sys.path.insert(0, str(Path(__file__).parent))
from processes import PATIENCE, PersonProcess, Process, stopped

from tests.support.ports import free_ports
from tests.support.site_home import site_home
from thebes.testing.command import typed

pytestmark = pytest.mark.slow
DEAD = "http://127.0.0.1:9"  #: a proxy that nobody is
PROXIES = {
    name: DEAD for word in ("HTTP", "HTTPS", "ALL", "GRPC") for name in (f"{word}_PROXY", f"{word}_PROXY".lower())
}
ASCII = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}  #: then the language decides how letters are written


@dataclass(frozen=True)
class Surroundings:
    """The environment of a process. `home` makes HOME of a folder of the test, None takes it away."""

    umask: int
    folder: str
    home: Callable[[Path], str] | None
    environment: dict[str, str]


def below_a_file(folder: Path) -> str:
    """A HOME in which not even root can make anything."""
    (folder / "file").touch()
    return str(folder / "file" / "home")


AROUND = {
    "open mask, no language, dead proxies, no HOME, far east": Surroundings(
        umask=0o000,
        folder="Ein Plätzchen für Größen",
        home=None,
        environment={"LC_ALL": "C", "TZ": "Pacific/Auckland", **PROXIES, "NO_PROXY": "", "no_proxy": ""},
    ),
    "closed mask, turkish, no proxy for anybody, HOME that is not there, half an hour": Surroundings(
        umask=0o077,
        folder="a path",
        home=lambda _: "/nonexistent",
        environment={"LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kolkata", **PROXIES, "NO_PROXY": "*", "no_proxy": "*"},
    ),
    "usual mask, german letters of one byte, a HOME where nothing can be made, no such zone": Surroundings(
        umask=0o022,
        folder="größer",
        home=below_a_file,
        environment={"LC_ALL": "de_DE", "LANG": "de_DE", "TZ": "Nowhere/Atall", **ASCII},
    ),
}
COUNT = {"type": "query", "sites": "all", "dataset": "patients", "statistic": "count", "epsilon": 0.5}
PETS: dict[str, Any] = {
    "type": "bounded",
    "server": "untrusted",
    "epsilon": 1.0,
    "min_count": 1,
    "name": "Größen",
    "featurizer": "SELECT species, age FROM profile.pets",
    "bounds": {
        "species": {"type": "set", "values": ["cat", "dog"], "default": "dog"},
        "age": {"type": "range", "low": 0.0, "high": 100.0},
    },
}


@pytest.fixture(params=AROUND)
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the homes, while everything around this process is as the parameter says."""
    around = AROUND[request.param]
    monkeypatch.delenv("HOME", raising=False)
    if around.home is not None:
        monkeypatch.setenv("HOME", around.home(tmp_path))
    for name, value in around.environment.items():
        monkeypatch.setenv(name, value)
    before = os.umask(around.umask)
    try:
        yield tmp_path / around.folder
    finally:
        os.umask(before)


def open_to_others(*homes: Path) -> list[str]:
    """List what of these homes somebody else may read, write or look into."""
    found = [path for home in homes for path in (home, *home.rglob("*"))]
    return sorted(str(path) for path in found if stat.S_IMODE(path.lstat().st_mode) & 0o077 and not path.is_symlink())


def linked(server: thebes.Server) -> None:
    """Wait until the coordinator knows what the site can be asked."""
    end = time.monotonic() + PATIENCE
    while not any(each["datasets"] for each in server.sites()):
        assert time.monotonic() < end, "the site and the coordinator do not come together"
        time.sleep(0.05)


def test_all_three_work_together_and_open_nothing_to_others_whatever_is_around_them(folder: Path) -> None:
    homes = {name: folder / name for name in ("coordinator", "person", "site")}
    homes["coordinator"].mkdir(parents=True, mode=0o700)
    (homes["coordinator"] / "coordinator.toml").touch(mode=0o600)
    (homes["coordinator"] / "coordinator.toml").write_text("min_count_floor = 1\n")
    north = site_home(homes["site"])
    (north.folder / "patients.csv").chmod(0o600)  # the steward's own file
    place, address = ("--home", str(homes["coordinator"])), [str(port) for port in free_ports(2)]
    here = f"http://127.0.0.1:{address[0]}"
    running = [Process("coordinator", *place, "--port", address[0], "--site-port", address[1])]
    try:
        me = PersonProcess(homes["person"], here, "--example")
        running.append(me.process)
        assert running[0].ready()["url"] == here
        issued = typed("ca", "issue", "north", *place, "--out", north.folder)
        assert issued.returncode == 0, issued.stderr
        site = Process("site", "--home", str(north.folder), "--coordinator", f"127.0.0.1:{address[1]}")
        running.append(site)
        me.ready()
        token = (homes["coordinator"] / "admin.token").read_text().strip()
        with closing(thebes.connect(here, token=token, timeout=PATIENCE)) as server:
            task = server.submit(PETS)
            assert me.accept(task.task_id) == 202
            assert me.wait(task.task_id, "sent", "done", timeout=PATIENCE) in ("sent", "done")
            assert task.wait(timeout=PATIENCE).certificate is not None
            site.ready()
            linked(server)
            assert 50 < server.submit(COUNT).wait(timeout=PATIENCE).value < 150
        assert open_to_others(*homes.values()) == []
    finally:
        assert stopped(running) == [0] * len(running)
    assert open_to_others(*homes.values()) == []
