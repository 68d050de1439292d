"""Real people, a real coordinator and a whole Tor network between them, on this machine alone.

What is shown is plumbing: which way bytes go and do not go. What Tor hides from whom is in docs/anonymity.md.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from processes import PersonProcess, stopped

from tests.support.coordinator import Server
from tests.support.tor import Network, Watch, Witness, network
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import Unreachable

pytestmark = pytest.mark.slow
SECONDS = 240.0  #: for anything that goes through the network, on a machine that has other things to do
TASKS = 2
AGE = {"age": {"type": "range", "low": 0.0, "high": 100.0}}
PETS: dict[str, Any] = {
    "type": "bounded",
    "server": "untrusted",
    "epsilon": 0.5,
    "min_count": 2,
    "featurizer": "SELECT species, age FROM profile.pets",
    "bounds": {"species": {"type": "set", "values": ["cat", "dog"], "default": "dog"}, **AGE},
}
MEDIAN: dict[str, Any] = {
    "type": "basic",
    "server": "trusted",
    "epsilon": 0.5,
    "min_count": 2,
    "featurizer": "SELECT age FROM profile.demographics",
    "aggregator": "median",
    "bounds": AGE,
}


class World:
    """A coordinator that is reached over the network only: by its exits, and as an onion service."""

    def __init__(self, folder: Path, tor: Network) -> None:
        self.tor, self.home, self.log = tor, folder / "coordinator", folder / "log"
        self.home.mkdir(mode=0o700)
        (self.home / "coordinator.toml").write_text("min_count_floor = 2\n")
        self.server = Server(self.home, log=self.log)
        port = int(self.server.ready["url"].rpartition(":")[2])
        self.witness = Witness(tor.target, ("127.0.0.1", port), {node.pid: node.name for node in tor.nodes})
        self.by_exit, self.by_onion = f"http://127.0.0.1:{tor.target}", f"http://{tor.onion}"

    def close(self) -> None:
        self.witness.close()
        assert self.server.stop() == 0

    def reach(self, url: str) -> None:
        """Wait until the network leads there: an onion service is known some seconds after it has started."""
        end, alive = time.monotonic() + SECONDS, False
        with CoordinatorClient(url, proxy=self.tor.proxy, retries=0, timeout=SECONDS / 4) as client:
            while not alive:
                assert time.monotonic() < end, f"the network does not lead to {url}"
                with suppress(Unreachable):
                    alive = client.health() == {"status": "ok"}


@pytest.fixture(scope="session")
def tor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with network(tmp_path_factory.mktemp("tor")) as made:
        yield made


@pytest.fixture
def world(tor: Network, tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, tor)
    yield made
    made.close()


@pytest.fixture
def watch(tor: Network) -> Iterator[Watch]:
    made = Watch(tor.client)
    yield made
    made.close()


def started(folders: list[Path], url: str, proxy: str) -> list[PersonProcess]:
    people = [PersonProcess(folder, url, "--proxy", proxy, "--example") for folder in folders]
    for me in people:
        me.ready()
        me.http.timeout = httpx.Timeout(SECONDS)
    return people


def settled(witness: Witness) -> tuple[int, int]:
    """Count who had come, and who had gone too soon, once nobody new came for a while."""
    before, now = None, (len(witness.callers), witness.gone)
    while now != before:
        time.sleep(2)
        before, now = now, (len(witness.callers), witness.gone)
    return now


def accept(me: PersonProcess, task_id: str) -> int:
    """As a person would who tries again while the network does not answer."""
    end = time.monotonic() + SECONDS
    while (status := me.accept(task_id)) == 502:
        assert time.monotonic() < end, "nothing answered through the network"
        time.sleep(0.5)
    return status


@pytest.mark.parametrize("way", ["exit", "onion"])
def test_contributions_arrive_over_tor_each_on_circuits_of_its_own_and_no_other_way(
    way: str, world: World, watch: Watch, tor: Network, tmp_path: Path
) -> None:
    url = world.by_exit if way == "exit" else world.by_onion
    world.reach(url)
    tasks = [world.server.post({**PETS, "name": f"pets {number}"}) for number in range(TASKS)]
    trusted = world.server.post(MEDIAN)
    people = started([tmp_path / "person-0", tmp_path / "person-1"], url, tor.proxy)
    try:
        for me in people:
            assert [accept(me, task_id) for task_id in tasks] == [202] * TASKS
            # An exit reads plain http, so values go unperturbed to an onion service only.
            assert accept(me, trusted) == (403 if way == "exit" else 202)
        for task_id in tasks if way == "exit" else [*tasks, trusted]:
            assert world.server.wait_for(task_id, "done", seconds=SECONDS)["contributions"] == 2
        sent = TASKS + (way == "onion")
        for me in people:
            for task_id in tasks:
                me.wait(task_id, "sent", "done", timeout=SECONDS)
    finally:
        assert stopped([me.process for me in people]) == [0, 0]

    # Whoever came to the coordinator was a relay, or its own onion service: never a person.
    callers = set(world.witness.callers)
    assert callers <= ({node.name for node in tor.exits} if way == "exit" else {tor.service.name}), callers
    assert callers

    # Every ask and every packet was an identity of its own, and no circuit carried two identities.
    streams = [s for s in watch.streams() if s.arrived]
    host = f"127.0.0.1:{tor.target}" if way == "exit" else f"{tor.onion}:80"
    assert {s.target for s in streams} == {host}
    by_identity, by_circuit = defaultdict(list), defaultdict(set)
    for stream in streams:
        by_identity[stream.name].append(stream)
        for circuit in stream.circuits:
            by_circuit[circuit].add(stream.name)
    once = [name for name, found in by_identity.items() if len(found) == 1]
    assert len(once) >= 2 * 2 * sent  # two people, an ask and a submission each
    assert max(len(names) for names in by_circuit.values()) == 1, by_circuit

    # The coordinator noted nothing of all that.
    assert world.log.read_text() == ""


def test_with_tor_stopped_nothing_is_sent_and_it_is_said(world: World, tor: Network, tmp_path: Path) -> None:
    world.reach(world.by_onion)
    task_id = world.server.post(PETS)
    tor.client.stop()
    before, gone = settled(world.witness)
    # The address is one that this machine could also reach without Tor.
    (me,) = started([tmp_path / "person"], world.by_exit, tor.proxy)
    try:
        answer = me.http.get("/api/tasks")
        assert answer.status_code == 502
        assert f"the proxy {tor.proxy} does not answer" in answer.json()["detail"]
        assert "Nothing goes any other way" in answer.json()["detail"]
        assert me.accept(task_id) == 502
        time.sleep(3)  # some rounds of its own looking
        assert (len(world.witness.callers), world.witness.gone) == (before, gone)
        assert me.get("/api/ledger")["entries"] == []
        tor.client.start()
        tor.wait()
        assert accept(me, task_id) == 202
        me.wait(task_id, "sent", timeout=SECONDS)
    finally:
        if not tor.client.runs:
            tor.client.start()
            tor.wait()
        assert stopped([me.process]) == [0]
    assert set(world.witness.callers[before:]) <= {node.name for node in tor.exits}
    assert len(world.witness.callers) > before
    # And the witness would have noticed somebody who came directly.
    earlier = len(world.witness.callers)
    assert httpx.get(f"{world.by_exit}/api/health", trust_env=False, timeout=SECONDS).status_code == 200
    assert "" in world.witness.callers[earlier:]
