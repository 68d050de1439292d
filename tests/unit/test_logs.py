"""The lines that a role says on standard error, in words or as JSON: one line each, and never an error's own words."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import thebes
from thebes.privacy.faults import Mistake
from thebes.wire import log_output

SECRET = "31459"


@pytest.fixture
def said() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger of its own, and what it wrote as JSON."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(log_output.Lines())
    log = logging.getLogger("thebes.test_logs")
    log.propagate = False
    log.addHandler(handler)
    yield log, written
    log.removeHandler(handler)


def test_every_line_is_one_object_whatever_was_said(said: tuple[logging.Logger, io.StringIO]) -> None:
    log, written = said
    log.warning("two\nlines of %s", "a\x1b[2J \u2028 name")
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert len(lines) == 1
    assert set(lines[0]) == {"at", "level", "logger", "event", "message"}
    assert lines[0]["event"] == "other"
    assert lines[0]["message"] == "two\nlines of a\x1b[2J \u2028 name"
    assert lines[0]["at"].endswith("+00:00")
    assert (lines[0]["level"], lines[0]["logger"]) == ("warning", log.name)


def test_what_cannot_be_put_into_words_is_said_to_be_so() -> None:
    record = logging.LogRecord("thebes", logging.ERROR, "/some/place.py", 7, "too %d", (SECRET,), None)
    assert (
        json.loads(log_output.Lines().format(record))["message"] == "place.py:7 said something that cannot be written"
    )


def test_an_error_is_told_by_kind_and_place(said: tuple[logging.Logger, io.StringIO]) -> None:
    log, written = said
    try:
        raise ValueError(f"could not convert {SECRET}")
    except ValueError:
        log.exception("an answer failed")
    line = json.loads(written.getvalue())
    assert line["error"].startswith("ValueError at ")
    assert "test_logs.py:" in line["error"]
    assert SECRET not in written.getvalue()


def test_the_choice_reaches_the_processes_that_a_role_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    from thebes.site.process_start import algorithm_environment, connector_environment

    monkeypatch.setenv(log_output.CHOICE, "text")
    assert (log_output.in_json(), log_output.of_uvicorn()) == (False, {})
    log_output.choose("json")
    assert (log_output.in_json(), log_output.of_uvicorn()) == (True, {"log_config": None})
    assert algorithm_environment(3)[log_output.CHOICE] == connector_environment(3)[log_output.CHOICE] == "json"
    with pytest.raises(Mistake, match="text or json"):
        log_output.choose("xml")


def test_a_line_names_what_happened_and_whom_it_is_about(said: tuple[logging.Logger, io.StringIO]) -> None:
    log, written = said
    log.warning("the site %s left", "north", extra={"event": "site.excused", "site": "north", "task": "t1"})
    line = json.loads(written.getvalue())
    assert (line["event"], line["site"], line["task"]) == ("site.excused", "north", "t1")


def events() -> dict[str, list[str]]:
    """The events that the program tells, each with the places that do; calls that name none under an empty name."""
    found: dict[str, list[str]] = {}
    for path in sorted(Path(thebes.__file__).parent.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"\blog(ging)?\b", text):  # most: reading each takes long
            continue
        tree = ast.parse(text)
        constants = {
            target.id: each.value
            for each in tree.body
            if isinstance(each, ast.Assign)
            for target in each.targets
            if isinstance(target, ast.Name)
        }
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            if call.func.attr not in ("debug", "info", "warning", "error", "exception", "critical"):
                continue
            if not ast.unparse(call.func).startswith(("log.", "logging.")):
                continue
            extra = next((each.value for each in call.keywords if each.arg == "extra"), None)
            told = constants.get(extra.id) if isinstance(extra, ast.Name) else extra
            pairs = (
                {}
                if told is None
                else {ast.unparse(k): ast.unparse(v) for k, v in zip(told.keys, told.values, strict=True)}
            )
            name = pairs.get("'event'", "''").strip("'")
            found.setdefault(name, []).append(f"{path.name}:{call.lineno}")
    return found


def test_everything_that_is_said_has_a_stable_name_that_the_documentation_lists() -> None:
    found = events()
    assert found.pop("", []) == [], "name the event"
    page = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text(encoding="utf-8")
    section = page.partition("### What a log says\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `([a-z]+\.[a-z-]+)` \|", section, re.MULTILINE)
    assert sorted(listed) == sorted(found)
    assert len(listed) == len(set(listed))
