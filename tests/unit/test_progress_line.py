"""Whoever waits sees how far a task is: in one line, one display, or not at all where nobody looks."""

from __future__ import annotations

import io
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from thebes.privacy.faults import Mistake
from thebes.requestor.handle import Handle
from thebes.requestor.refusals import TaskExpired

STEPS = [
    {"status": "open", "contributions": 0, "min_count": 12},
    {"status": "open", "contributions": 6, "min_count": 12},
    {"status": "open", "contributions": 6, "min_count": 12},
    {"status": "running\x1b[2J<script>", "contributions": 12, "min_count": 12},
    {"status": "done", "contributions": 12, "min_count": 12, "result": None},
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def handle(steps: list[dict[str, Any]] = STEPS) -> Handle:
    told = iter(steps)
    client: Any = SimpleNamespace(url="http://here", task=lambda _, wait=0.0: next(told))
    return Handle(client, "t1", clock=lambda: 0.0, sleep=lambda _: None)


def test_a_terminal_has_one_line_that_is_drawn_anew_and_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    handle().finished()
    drawn = terminal.getvalue().split("\r\x1b[K")
    assert drawn[1] == f"[{'-' * 20}] open: 0 of the 12 contributions it needs"
    assert drawn[2].startswith(f"[{'#' * 10}{'-' * 10}] open: 6 of")
    assert drawn[-1] == ""
    assert len(drawn) == 6, "the same is drawn once"
    assert "\n" not in terminal.getvalue()
    assert "[2J" in drawn[3]
    assert "\x1b" not in "".join(drawn)
    assert all(len(line) < 80 for line in drawn)


def test_a_task_that_ends_badly_leaves_a_clean_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with pytest.raises(TaskExpired):
        handle([STEPS[0], {"status": "expired"}]).wait()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_pipe_hears_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    handle().finished()
    assert capfd.readouterr() == ("", "")


def test_a_notebook_has_one_display(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []
    updated: list[dict[str, str]] = []

    def display(told: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        shown.append(told)
        return SimpleNamespace(update=lambda told, raw: updated.append(told))

    notebook, part = ModuleType("IPython"), ModuleType("IPython.display")
    notebook.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    part.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", part)
    handle().finished()
    assert len(shown) == 1
    assert [told["text/plain"].partition(":")[0] for told in updated] == ["open", "running [2J<script>", "done"]
    assert 'value="0.500"' in updated[0]["text/html"]
    assert "<script>" not in updated[1]["text/html"]


def test_progress_of_ones_own_is_told_everything_and_none_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    seen: list[Any] = []
    handle().finished(progress=seen.append)
    handle().finished(progress=None)
    assert seen == STEPS
    assert terminal.getvalue() == ""
    with pytest.raises(Mistake, match="progress"):
        handle().finished(progress="loud")  # type: ignore[arg-type]
