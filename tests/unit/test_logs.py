"""The lines that a role says on standard error, in words or as JSON: one line each, and never an error's own words."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

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
    assert set(lines[0]) == {"at", "level", "logger", "message"}
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
