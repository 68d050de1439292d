"""The command `thebes`, run in the process of a test."""

from __future__ import annotations

import pytest

from thebes.cli.main import main


def exit_status(*arguments: object) -> int:
    """Run one command and return its exit status."""
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)
