"""A command that is asked to end cleans up, wherever the request reaches it."""

from __future__ import annotations

import select
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from thebes.cli.processes import Process
from thebes.cli.stop_signals import Rest, StopAsked, stoppable

NUMBERS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_request_to_end_is_one_thing_whatever_the_signal(number: signal.Signals) -> None:
    before, step = signal.getsignal(number), []

    def work() -> None:
        with stoppable() as heed:
            heed()
            step.append("begun")
            signal.raise_signal(number)
            heed()
            step.append("gone on")

    with pytest.raises(StopAsked):
        work()
    assert step == ["begun"]
    assert signal.getsignal(number) is before


class Careless:
    """Python prints what comes out of its end, and goes on."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        signal.raise_signal(self.number)


def library(number: signal.Signals) -> None:
    """Somebody's code that catches everything, as C code does that calls Python."""
    with suppress(BaseException):
        signal.raise_signal(number)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("careless", [Careless, library])
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_request_that_comes_where_exceptions_are_lost_is_heeded_and_nothing_is_printed(
    number: signal.Signals, careless: type, capsys: pytest.CaptureFixture[str]
) -> None:
    step = []

    def work() -> None:
        with stoppable() as heed:
            careless(number)
            step.append("what was under way ends in order")
            heed()
            step.append("and nothing is begun after it")

    with pytest.raises(StopAsked):
        work()
    assert step == ["what was under way ends in order"]
    assert capsys.readouterr().err == ""


def test_later_requests_do_not_disturb_the_cleaning_up() -> None:
    cleaned = []

    def work() -> None:
        with stoppable() as heed:
            try:
                signal.raise_signal(signal.SIGTERM)
                heed()
            finally:
                for number in NUMBERS:
                    signal.raise_signal(number)
                cleaned.append(True)

    with pytest.raises(StopAsked):
        work()
    assert cleaned


def test_who_waits_for_a_process_hears_the_request_within_a_moment(tmp_path: Path) -> None:
    """The process goes on for ever and says nothing."""
    with stoppable() as heed:
        process = Process("quiet", "http.server", "0", "--bind", "127.0.0.1", log=tmp_path / "log", heed=heed)
        try:
            threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, signal.SIGTERM)).start()
            with pytest.raises(StopAsked):
                process.hear(timeout=600)
        finally:
            process.stop()


@pytest.mark.parametrize("careless", [Careless, library])
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_staying_command_that_is_told_in_such_a_moment_ends_in_its_rest(
    careless: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it rests Python runs somebody else's code, such as a finaliser, and the request comes in it."""
    before, waiting = signal.getsignal(signal.SIGTERM), select.select

    def interrupted(*asked: Any) -> Any:
        careless(signal.SIGTERM)
        return waiting(*asked)

    monkeypatch.setattr("thebes.cli.stop_signals.select.select", interrupted)
    rest = Rest()
    rest.end_in_it(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit):
            rest.rest(600)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_rest_ends_as_soon_as_it_is_told() -> None:
    before = signal.getsignal(signal.SIGTERM)
    rest = Rest()
    rest.end_in_it(signal.SIGTERM)
    try:
        threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, signal.SIGTERM)).start()
        with pytest.raises(SystemExit) as ended:
            rest.rest(600)
        assert ended.value.code == 0
    finally:
        signal.signal(signal.SIGTERM, before)
