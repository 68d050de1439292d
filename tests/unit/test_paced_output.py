"""A command that takes long says what it does every few seconds, and one that does not says nothing."""

from __future__ import annotations

import pytest

from thebes.cli.output import paced


def test_what_is_done_is_said_every_five_seconds_and_for_how_long_already(capsys: pytest.CaptureFixture[str]) -> None:
    moments = iter([100.0, 101.0, 104.9, 105.0, 106.0, 112.5])
    told = paced(clock=lambda: next(moments))
    for doing in ("a", "b", "c", "d", "e"):
        told(doing)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["c (5 s)", "e (12 s)"]
