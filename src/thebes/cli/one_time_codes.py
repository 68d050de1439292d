"""One-time codes as they are given to a command, from where no other program of this machine reads them."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path

from thebes.privacy.faults import Mistake

_MOST = 1000


def code_of(
    code: str | None, *, from_stdin: bool, file: Path | None = None, options: str = "--code-stdin", prompt: str
) -> str:
    """The code as it was given, or from where no other program of this machine can read it."""
    if sum((code is not None, from_stdin, file is not None)) > 1:
        raise Mistake("--code", "is given in more than one way; keep one of them")
    if code is not None:
        return code
    if file is not None:
        try:
            return file.read_text(encoding="utf-8")[:_MOST].strip()
        except (OSError, UnicodeDecodeError):
            raise Mistake("--code-file", "cannot be read") from None
    if from_stdin:
        return sys.stdin.readline().strip()
    if not sys.stdin.isatty():
        raise Mistake("--code", f"is missing, and there is no terminal to ask for it; use {options}")
    return getpass.getpass(prompt).strip()
