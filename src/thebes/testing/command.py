"""`thebes ...` as somebody types it, without the second that a process takes to start."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from thebes.cli import main


def typed(*arguments: str | os.PathLike[str]) -> subprocess.CompletedProcess[str]:
    """One command in this process: its exit status, and what it said. Not for commands that serve until they are
    stopped, or set up signals or logging."""
    line = [os.fspath(argument) for argument in arguments]
    out, err, status = io.StringIO(), io.StringIO(), 0
    mask = os.umask(0o022)
    os.umask(mask)
    try:
        with patch.object(sys, "argv", ["thebes", *line]), redirect_stdout(out), redirect_stderr(err):
            main.main()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        os.umask(mask)
    return subprocess.CompletedProcess(line, status, out.getvalue(), err.getvalue())
