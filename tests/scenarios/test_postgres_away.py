"""A coordinator whose PostgreSQL stops and comes back: it lives, says that it is not ready and why, and goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.command import exit_status
from tests.support.coordinator import AGES, Server
from tests.support.postgres import Cluster, new_cluster
from tests.support.user_units import until

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    server = new_cluster()
    yield server
    with suppress(RuntimeError):  # a test that failed may have left it stopped
        server.halt()
    server.remove()


def test_while_postgresql_is_away_a_coordinator_says_so_and_without_a_restart_it_goes_on(
    tmp_path: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with Server(tmp_path / "home", store=cluster.new_database()) as server:
        client = server.client
        task = server.post(AGES)
        body = server.submission(task, {"age": 30})
        assert client.get("/api/ready").status_code == 200
        cluster.halt()
        until(lambda: client.get("/api/ready").status_code == 503)  # a second ago it was ready
        told = client.get("/api/ready").json()
        assert "database does not answer just now" in told["detail"]
        assert client.get("/api/live").status_code == 200
        refused = server.submit(task, body)
        assert (refused.status_code, refused.json()["detail"]) == (503, told["detail"])
        assert exit_status("doctor", "--probe", "ready", "--coordinator", server.ready["url"]) != 0
        assert "database does not answer just now" in "".join(capsys.readouterr())
        cluster.resume()
        until(lambda: client.get("/api/ready").status_code == 200)
        assert exit_status("doctor", "--probe", "ready", "--coordinator", server.ready["url"]) == 0
        for number in range(AGES["min_count"]):
            accepted = server.submit(task, {**body, "contributor": f"{number:032x}"})
            assert accepted.status_code == 202, accepted.text
        server.wait_for(task, "done")  # by its worker, which had lost the server, too
