"""`thebes demo` says how far it is, also where there is no terminal and nothing moves."""

from __future__ import annotations

import threading

import pytest

from thebes.cli.demo import progress


def test_without_a_terminal_there_are_lines_until_the_step_is_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.001)
    spoken, said = threading.Event(), progress.typer.echo

    def echo(line: str, **how: bool) -> None:
        said(line, **how)
        if line.endswith("7 of 11"):
            spoken.set()

    monkeypatch.setattr(progress.typer, "echo", echo)
    with progress.step(None, "median age", 11) as told:
        told(7)
        assert spoken.wait(120)
    captured = capsys.readouterr()
    assert "median age: 7 of 11\n" in captured.err
    assert captured.out == ""
    assert not any(thread.name == "telling how far it is" for thread in threading.enumerate())
