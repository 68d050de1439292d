"""A virtual environment for each peer, made once and made anew when its requirements change."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
#: where environments lie; PEERS_HOME is another place
HOME = Path(os.environ.get("PEERS_HOME") or HERE.parents[1] / ".venv-peers")


class NotInstalled(Exception):
    """A peer's requirements cannot be installed on this machine; its works are left out."""


def python_of(peer: str) -> Path:
    """The interpreter of the peer's environment, which is made if there is none yet."""
    place, wanted = HOME / peer, HERE / peer / "requirements.txt"
    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()
    mark, python = place / ".made-from", place / "bin" / "python"
    if mark.is_file() and mark.read_text(encoding="utf-8") == digest:
        return python
    print(f"Setting up {peer} in {HOME.name} (once; some minutes) ...", file=sys.stderr, flush=True)
    shutil.rmtree(place, ignore_errors=True)
    base = getattr(sys, "_base_executable", sys.executable)  # an environment made by an environment is no clean one
    for command in (
        [base, "-m", "venv", str(place)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(wanted)],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise NotInstalled(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "pip failed")
    mark.write_text(digest, encoding="utf-8")
    return python


def pinned(peer: str) -> dict[str, str]:
    """The requirements that are named first, before those that these bring along."""
    found = {}
    for line in (HERE / peer / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if not line.strip():
            break
        if not line.startswith("#"):
            name, _, version = line.partition("==")
            found[name] = version
    return found
