"""A real systemd for tests: process 1 of namespaces of its own, on a copy of this machine's files that is written to
beside them. Needs root, systemd and overlayfs; what it starts ends with it.

The machine's own users, folders and units are seen there, and nothing that is done there is done to them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

import pytest

REQUIRE = "THEBES_REQUIRE"
PATIENCE = 120.0
_INIT = "/lib/systemd/systemd"
_ROOT = Path(__file__).parents[2]
#: run as the first process of the namespaces; $1 is the folder that keeps what is written, $2 where the interpreter
#: lies, $3 its packages, $4 the project
_BEGIN = """
set -e
mount --make-rprivate /
mkdir -p "$1/up" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/up,workdir=$1/work" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs tmpfs sys/fs/cgroup
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs dev
mknod -m 666 dev/null c 1 3
mknod -m 666 dev/zero c 1 5
mknod -m 666 dev/full c 1 7
mknod -m 666 dev/random c 1 8
mknod -m 666 dev/urandom c 1 9
mknod -m 666 dev/tty c 5 0
mkdir -p dev/pts dev/shm opt/python opt/packages opt/project
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs tmpfs dev/shm
mount --bind "$2" opt/python
mount --bind "$3" opt/packages
mount --bind "$4" opt/project
ip link set lo up
if [ ! -e "$1/begun" ]; then rm -f etc/systemd/system/*.wants/*; : > "$1/begun"; fi  # other services stay out of it
mkdir -p mnt/before
pivot_root . mnt/before
umount -l mnt/before
mount --make-rshared /
exec /usr/bin/env -i container=thebes-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --system --unit=multi-user.target --show-status=no --log-target=journal
"""
_PROGRAM = """#!/opt/thebes/bin/python
import sys
from thebes.cli.main import main
sys.exit(main())
"""


def available() -> str | None:
    """Return why there can be none here; None where there can."""
    if not Path(_INIT).exists():
        return "systemd is not installed"
    if os.geteuid() != 0:
        return "systemd as a process of a test needs root"
    tried = subprocess.run(
        ["unshare", "--mount", "--pid", "--net", "--cgroup", "--fork", "mount", "-t", "tmpfs", "none", "/mnt"],
        capture_output=True,
        check=False,
    )
    return None if tried.returncode == 0 else "namespaces cannot be made here"


class ServiceManager:
    """Use in a `with` block. `/opt/thebes` has this project there, as `pip install` would put it."""

    def __init__(self) -> None:
        # A folder that is no overlay itself: in memory, where there is some.
        self._folder = Path(tempfile.mkdtemp(prefix="thebes-systemd-", dir="/dev/shm"))
        self.root = self._folder / "up"
        self._running: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.boot()
        self._install()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        shutil.rmtree(self._folder, ignore_errors=True)

    def boot(self) -> None:
        """Start the manager, with what is enabled; wait until that is up."""
        packages = next(path for path in sys.path if path.endswith("site-packages"))
        command = ["unshare", "--mount", "--pid", "--net", "--cgroup", "--ipc", "--uts", "--fork"]
        command += ["--kill-child"]
        command += ["sh", "-c", _BEGIN, "sh", str(self._folder), sys.base_prefix, packages, str(_ROOT)]
        with (self._folder / "log").open("ab") as log:
            self._running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + PATIENCE
        while self.run("systemctl", "is-system-running", check=False).stdout.strip() not in ("running", "degraded"):
            assert self._running.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < end, self.run("systemctl", "list-jobs", check=False).stdout
            time.sleep(0.2)

    def cut(self) -> None:
        """The power fails."""
        if self._running is not None:
            self._running.kill()
            self._running.wait()
            self._running = None

    def run(self, *command: str, check: bool = True, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """A command in there, as root."""
        assert self._running is not None
        first = _child(self._running.pid)
        if first is None:
            return subprocess.CompletedProcess(command, 1, "", "not up yet")
        entered = ["nsenter", "--target", str(first), "--all", "--root", "env", "-i", "TERM=dumb"]
        entered += ["LANG=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin", *command]
        ended = subprocess.run(entered, input=given, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert not check or ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
        return ended

    def shell(self, line: str, *, given: str | None = None) -> str:
        """A line as it is typed, as root."""
        return self.run("sh", "-ec", line, given=given).stdout

    def main_process(self, unit: str) -> int:
        """The process of a service that systemd takes for its own; 0 while none runs."""
        return int(self.run("systemctl", "show", "--property=MainPID", "--value", unit).stdout)

    def _install(self) -> None:
        # An interpreter with a shared library looks for it where it was installed, which services may not.
        self.shell("mkdir -p /etc/ld.so.conf.d && echo /opt/python/lib > /etc/ld.so.conf.d/00-thebes.conf && ldconfig")
        self.run("/opt/python/bin/python3", "-m", "venv", "--without-pip", "/opt/thebes")
        for place in (self.root / "opt" / "thebes" / "lib").glob("python*/site-packages"):
            (place / "project.pth").write_text("/opt/project/src\n/opt/packages\n")
        program = self.root / "opt" / "thebes" / "bin" / "thebes"
        program.write_text(_PROGRAM)
        program.chmod(0o755)


def _child(pid: int) -> int | None:
    """The one process that it started, once that is the manager."""
    try:
        (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(child) if Path(f"/proc/{child}/exe").resolve().name == "systemd" else None
    except (OSError, ValueError):
        return None


@pytest.fixture
def service_manager() -> ServiceManager:
    """A manager that is not up yet. Without systemd the test is skipped, or fails where THEBES_REQUIRE names it."""
    why = available()
    if why is not None:
        if "systemd" in os.environ.get(REQUIRE, "").split(","):
            pytest.fail(why)
        pytest.skip(why)
    return ServiceManager()
