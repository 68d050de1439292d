"""Ports that tests name beforehand: nobody else is given them."""

from __future__ import annotations

import socket

import pytest

from tests.support import ports


def test_no_port_is_told_twice_and_the_system_gives_none_of_them() -> None:
    told = ports.free_ports(30) + [ports.free_port() for _ in range(30)]
    assert len(set(told)) == 60
    with socket.create_server(("127.0.0.1", 0)) as given:
        assert max(told) < given.getsockname()[1]


def test_workers_beside_each_other_choose_from_ranges_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = []
    for worker in range(4):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", f"gw{worker}")
        ranges.append(ports._range())
    assert sum(map(len, ranges)) == len({port for each in ranges for port in each})
    assert all(len(each) >= 100 for each in ranges)


def test_a_port_that_is_in_use_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    port = ports.free_port()
    monkeypatch.setattr(ports, "_told", set())
    monkeypatch.setattr(ports, "_range", lambda: range(port, port + 1))
    with socket.create_server(("127.0.0.1", port)), pytest.raises(RuntimeError, match="too few"):
        ports.free_port()
