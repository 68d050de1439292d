"""A command that is asked to end cleans up, wherever the request reaches it."""

from __future__ import annotations

import signal

import pytest

from thebes.cli.processes import Stopped, stoppable


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_is_one_thing_whatever_the_signal(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Stopped), stoppable():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_a_library_that_tells_of_ctrl_c_instead_is_understood() -> None:
    """DuckDB loses what a signal's handler raised while it worked."""
    with pytest.raises(Stopped), stoppable():
        raise KeyboardInterrupt
