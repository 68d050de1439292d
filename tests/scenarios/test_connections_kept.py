"""A connection that rests for as long as clients commonly keep one is still there when it is used again."""

from __future__ import annotations

import resource
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import pandas as pd
import pytest

from tests.scenarios.deployment import Institutions
from tests.scenarios.processes import PersonProcess
from thebes.wire.server_options import KEPT_SECONDS

pytestmark = pytest.mark.slow
COMMON = 5.0  #: seconds for which httpx and its like keep a connection


def test_of_a_coordinator_a_person_and_a_site(tmp_path: Path) -> None:
    with Institutions(tmp_path) as world:
        site = world.add("north", pd.DataFrame({"age": range(20, 40)}))
        site.start()
        assert site.process is not None
        person = PersonProcess(tmp_path / "person", f"http://127.0.0.1:{world.port}")
        try:
            person.ready()
            addresses = [
                f"http://127.0.0.1:{world.port}/api/task",
                person.process.facts["address"] + "/api/settings",
                site.process.ready()["address"] + "/api/datasets",
            ]
            with ThreadPoolExecutor() as pool:  # they rest at the same time
                assert all(pool.map(outlasts_once, addresses)), "one never rested for so long and no longer"
            assert world.coordinator is not None
            limits = resource.prlimit(world.coordinator.pid, resource.RLIMIT_NOFILE)
            assert limits[0] == limits[1]
        finally:
            person.process.kill()


def outlasts_once(address: str) -> bool:
    """Return whether one of some connections is used again after a rest."""
    return any(outlasts(address) for _ in range(20))


def outlasts(address: str) -> bool:
    """That a connection is used again after a rest; False where this machine stood still, and the rest took so long
    that the server may have closed it."""
    place = urlsplit(address)
    connection, began = HTTPConnection(place.netloc, timeout=120), time.monotonic()
    try:
        first = ask(connection, place.path)
        time.sleep(COMMON + 1)
        assert ask(connection, place.path) == first
    except (AssertionError, OSError, HTTPException):
        if time.monotonic() - began < KEPT_SECONDS:
            raise
        return False
    finally:
        connection.close()
    return True


def ask(connection: HTTPConnection, path: str) -> int:
    """The status of an answer on this very connection, which stays open."""
    if connection.sock is None:
        connection.connect()
    before = connection.sock
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    assert connection.sock is before, "the server closed it with its answer"
    return answer.status
