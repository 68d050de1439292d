"""The start of a person's machine with the session of its owner: a user unit of systemd, or an agent of launchd.

What must stay true: nothing that lets anybody in is written down. The line that `thebes person` prints holds an address
that works once, and a journal can be read by others than the owner; so that line goes nowhere.
"""

from __future__ import annotations

import hashlib
import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from thebes import machine
from thebes.data import keys
from thebes.database import private_files
from thebes.person.settings import PersonSettings
from thebes.privacy.faults import Refusal

#: told where no systemd runs for this user: a container, a session without one, another system of services
UNHEARD = (
    "no systemd answers for this user just now (systemctl --user), as in a container or in a session without one, and "
    "without one nothing starts by itself"
)
_AGAIN_SECONDS = 30  #: after which a machine that failed starts again
_HEARD_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Autostart:
    """The start of one home with its owner's session: `path` is its file, `now` the command that starts it at once."""

    path: Path
    content: bytes
    now: str
    wanted: Path | None = None  #: the link by which systemd knows that the unit is wanted

    @property
    def on(self) -> bool:
        """Return whether the file is there and, where a link says so, wanted; an older file starts the home, too."""
        return self.path.is_file() and (self.wanted is None or self.wanted.is_symlink())

    def turn_on(self) -> None:
        """Write the file, whole or not at all, and say that it is wanted."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        private_files.write(self.path, self.content)
        if self.wanted is not None:
            self.wanted.parent.mkdir(parents=True, exist_ok=True)
            self.wanted.unlink(missing_ok=True)
            self.wanted.symlink_to(self.path)

    @property
    def left(self) -> bool:
        """Return whether anything of it lies there, wanted or not."""
        return self.path.is_file() or (self.wanted is not None and self.wanted.is_symlink())

    def heard(self) -> bool:
        """Let a systemd that runs for this user look again; return whether one does, or where none is needed."""
        return self._systemctl("daemon-reload")

    def answered(self) -> bool:
        """Return whether a systemd runs for this user, or where none is needed; it is asked, and changes nothing."""
        return self._systemctl("show-environment")

    def _systemctl(self, what: str) -> bool:
        if self.wanted is None:
            return True
        systemctl = shutil.which("systemctl")
        if systemctl is None:
            return False
        command = [systemctl, "--user", what]
        try:
            return subprocess.run(command, capture_output=True, timeout=_HEARD_SECONDS, check=False).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    def turn_off(self) -> None:
        """Remove both; a process that runs goes on until it is stopped."""
        if self.wanted is not None:
            self.wanted.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)


def autostart(home: Path, *, system: str = sys.platform, user: Path | None = None) -> Autostart:
    """Return what would start a home on this system; `user` is its owner's folder. Refused where there is no way."""
    user = user or Path.home()
    mark = hashlib.sha256(os.fsencode(home)).hexdigest()[:8]  # a name that is the home's own, and tells nothing of it
    words = (sys.executable, "-m", "thebes", "person", "--home", str(home))
    if system == "linux":
        name = f"thebes-person-{mark}.service"
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or user / ".config") / "systemd" / "user"
        wanted = folder / "default.target.wants" / name
        return Autostart(folder / name, _unit(words).encode(), f"systemctl --user restart {name}", wanted)
    if system == "darwin":
        label = f"org.thebes.person.{mark}"
        path = user / "Library" / "LaunchAgents" / f"{label}.plist"
        return Autostart(path, _agent(label, words), f"launchctl load {path}")
    raise machine.NotOnThisSystem(
        "nothing starts with a session on this system yet: only systemd (Linux) and launchd (macOS) are known here; "
        f"start it by hand: thebes person --home {home}"
    )


def startable(home: Path) -> None:
    """Refuse a home that could not start by itself: it knows no coordinator, or asks for a passphrase."""
    if PersonSettings.read(home).coordinator is None:
        raise Refusal(f"this home knows no coordinator; start it once: thebes person --home {home} --coordinator URL")
    if keys.kept(home) == "passphrase":
        raise Refusal(
            "the key of this home is made from a passphrase, which nobody types when a session begins, and a file "
            f"would give away; start it by hand: thebes person --home {home}"
        )


def _unit(words: Sequence[str]) -> str:
    return f"""\
# Written by `thebes person autostart on`; `off` removes it.
[Unit]
Description=Thebes, a person's own machine

[Service]
ExecStart={" ".join(map(_quoted, words))}
# The line it prints has an address that lets a browser in, once.
StandardOutput=null
Restart=on-failure
RestartSec={_AGAIN_SECONDS}
# What was a mistake is one the next time, too.
RestartPreventExitStatus=2
Environment=PYTHONUTF8=1
UMask=0077
NoNewPrivileges=yes
LimitCORE=0

[Install]
WantedBy=default.target
"""


def _quoted(word: str) -> str:
    """Write a word as systemd reads it back: in quotes, without its specifiers and variables."""
    if any(not letter.isprintable() for letter in word):
        raise Refusal(
            "a path with characters that cannot be printed cannot stand in a unit of systemd; rename the folder"
        )
    for letter in ("\\", '"'):
        word = word.replace(letter, f"\\{letter}")
    return f'"{word.replace("%", "%%").replace("$", "$$")}"'


def _agent(label: str, words: Sequence[str]) -> bytes:
    return plistlib.dumps(
        {
            "Label": label,
            "ProgramArguments": list(words),
            "EnvironmentVariables": {"PYTHONUTF8": "1"},
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},  # again where it failed, not where it was stopped
            "ThrottleInterval": _AGAIN_SECONDS,
            "ProcessType": "Background",
            "StandardOutPath": "/dev/null",
            "Umask": 0o077,
        }
    )
