"""From people's own stores to a requestor's certified answer, over real processes and real sockets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thebes

sys.path.insert(0, str(Path(__file__).parent))
from processes import PATIENCE, PersonProcess, coordinator, stopped

from thebes.person.home import Person
from thebes.simulation import example

pytestmark = pytest.mark.slow
PROCESSES, TOGETHER = 3, 47
PEOPLE = PROCESSES + TOGETHER
AGE = {"age": {"type": "range", "low": 0.0, "high": 100.0}}
X = {c: {"type": "range", "low": -3.0, "high": 3.0} for c in ("x0", "x1")}

GENEROUS = {trust: {"epsilon": 200.0, "overall_epsilon": 1000.0} for trust in ("local", "trusted")}


class World:
    """A coordinator, three people in processes of their own, and 47 in this one, all over HTTP."""

    def __init__(self, folder: Path) -> None:
        self.coordinator = coordinator(folder / "coordinator")
        url = self.coordinator.ready()["url"]
        self.token = (folder / "coordinator" / "admin.token").read_text().strip()
        self.server = thebes.connect(url, token=self.token, timeout=PATIENCE)
        self.processes = [PersonProcess(folder / f"person-{i}", url, "--example") for i in range(PROCESSES)]
        self.people = [self._person(folder / f"together-{i}", url, i) for i in range(TOGETHER)]
        for process in self.processes:
            process.ready()
            assert process.http.put("/api/settings", json=GENEROUS).status_code == 200
        self.prices: list[tuple[Decimal, Decimal]] = []

    def _person(self, home: Path, url: str, seed: int) -> Person:
        person = Person(home, coordinator=url, delay=False)
        example.fill(person, seed=seed)
        person.set_settings(GENEROUS)
        return person

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return everybody's first row of a table: nobody but this test can know."""
        found = [p.get(f"/api/store/profile/{table}")[-1] for p in self.processes]
        return found + [p.newest("profile", table)[-1] for p in self.people]

    def answered(self, document: dict[str, Any]) -> Any:
        """Everybody takes part in a task, and its release."""
        handle = self.server.submit({"min_count": PEOPLE, **document})
        self.prices.append((Decimal(str(document["epsilon"])), Decimal(str(document.get("delta", 0)))))

        def take_part(person: PersonProcess | Person) -> str:
            if isinstance(person, PersonProcess):
                assert person.accept(handle.task_id) == 202
                return person.wait(handle.task_id, "sent", "done")
            person.accept(handle.task_id)
            return str(person.wait(handle.task_id, timeout=PATIENCE)["state"])

        with ThreadPoolExecutor(8) as crowd:
            states = list(crowd.map(take_part, [*self.processes, *self.people]))
        assert set(states) <= {"sent", "done"}
        release = handle.wait(timeout=2 * PATIENCE)
        self.balanced()
        return release

    def close(self) -> list[int]:
        statuses = stopped([p.process for p in self.processes])
        for person in self.people:
            person.close()
        self.server.close()
        return [*statuses, self.coordinator.stop()]

    def balanced(self) -> None:
        """Check that what everybody spent is what everybody's contributions cost, no more and no less."""
        epsilon, delta = (sum(prices) for prices in zip(*self.prices, strict=True))
        for view in [*(p.get("/api/ledger") for p in self.processes), *(p.ledger() for p in self.people)]:
            overall = [view[trust]["overall"] for trust in ("local", "trusted")]
            assert sum(Decimal(str(o["spent"]["epsilon"])) for o in overall) == epsilon
            assert sum(Decimal(str(o["spent"]["delta"])) for o in overall) == delta
            assert all(o["reserved"] == {"epsilon": 0.0, "delta": 0.0} for o in overall)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("spine"))
    yield made
    assert set(made.close()) == {0}


def inside(truth: float, bar: Any, widened: float = 4.0) -> bool:
    """Within an error bar made so much wider that missing it by chance is out of the question."""
    middle, half = (bar.low + bar.high) / 2, (bar.high - bar.low) / 2
    return bool(abs(truth - middle) <= widened * half)


def certified(release: Any, document: dict[str, Any], trust: str) -> None:
    certificate = release.certificate
    assert certificate.epsilon == document["epsilon"]
    assert (certificate.unit, certificate.adjacency) == ("device", "replace-one")
    assert (certificate.contributors, certificate.trust, certificate.simulated) == (PEOPLE, trust, False)


def test_a_median_of_fifty_people(world: World) -> None:
    document = {
        "type": "basic",
        "epsilon": 5.0,
        "server": "trusted",
        "featurizer": "SELECT age FROM profile.demographics",
        "aggregator": "median",
        "bounds": AGE,
    }
    release = world.answered(document)
    certified(release, document, "server")
    ages = np.array([row["age"] for row in world.rows("demographics")])
    bar = release.interval(0.95)
    assert bar.low <= release.value <= bar.high
    assert inside(float(np.median(ages)), bar)


def test_a_classifier_learned_from_fifty_people(world: World) -> None:
    document = {
        "type": "integrated",
        "epsilon": 60.0,  # at 10 noise would bring it below the bound once in forty times
        "server": "trusted",
        "featurizer": "SELECT x0, x1, y FROM profile.example",
        "model": "GaussianNB",
        "inputs": ["x0", "x1"],
        "output": "y",
        "bounds": {**X, "y": {"type": "set", "values": [0, 1]}},
    }
    release = world.answered(document)
    certified(release, document, "server")
    x = np.random.default_rng(1).normal(size=(2000, 2))
    # 0.98 without noise; labels at random would have 0.5
    assert (release.model.predict(x) == (x.sum(axis=1) > 0)).mean() > 0.75


def test_perturbed_rows_of_fifty_people(world: World) -> None:
    document = {
        "type": "bounded",
        "epsilon": 6.0,
        "server": "untrusted",
        "featurizer": "SELECT species, age FROM profile.pets",
        "bounds": {"species": {"type": "set", "values": ["cat", "dog"], "default": "dog"}, **AGE},
        "mechanism": "split",
    }
    release = world.answered(document)
    certified(release, document, "none")
    assert len(release.rows) == PEOPLE
    assert set(release.rows["species"]) <= {"cat", "dog"}
    assert np.isfinite(release.rows["age"]).all()
    truth = world.rows("pets")
    _, bar = release.mean("age")
    assert inside(float(np.mean([row["age"] for row in truth])), bar)
    cats = np.mean([row["species"] == "cat" for row in truth])
    assert abs(release.frequencies["species"]["cat"] - cats) < 0.5


def test_a_rule_from_two_packets_of_each_of_fifty_people(world: World) -> None:
    document = {
        "type": "ensemble",
        "epsilon": 12.0,
        "server": "untrusted",
        "featurizer": "SELECT x0, x1, y FROM profile.example",
        "label": "y",
        "bounds": {c: {**X[c], "default": 0.0} for c in X} | {"y": {"type": "set", "values": [0, 1], "default": 0}},
        "bins": {"x0": [0.0], "x1": [0.0]},
        "partitions": 2,
        "subsets": 2,
        "votes": "probability",
    }
    release = world.answered(document)
    certified(release, document, "none")
    assert [told["mechanism"] for told in release.certificate.parameters["mechanisms"]] == ["randomized-response"]
    shares = release.extra["base_rate"]
    truth = np.mean([row["y"] for row in world.rows("example")])
    half = (shares["interval"]["high"]["1"] - shares["interval"]["low"]["1"]) / 2
    assert abs(shares["value"]["1"] - truth) < 5 * half + 0.1
    x = np.random.default_rng(1).normal(size=(2000, 2))
    same = np.sign(x[:, 0]) == np.sign(x[:, 1])  # where both packets say the same
    assert (release.model.predict(x) == (x.sum(axis=1) > 0))[same].mean() > 0.9


def test_one_round_of_training_with_fifty_people(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from thebes.task import gradient
    from thebes.tasks import registry
    from thebes.tasks.gradient import owner
    from thebes.tasks.gradient.network import network

    # three machines confine the network in a child of its own; for the 47 in this process that would take minutes
    monkeypatch.setattr(owner, "OWNER", owner.SIMULATED)
    torch.manual_seed(0)
    document = gradient(
        torch.nn.Linear(2, 1),
        torch.nn.MSELoss(),
        "SELECT x0, x1, z FROM profile.example",
        inputs=["x0", "x1"],
        outputs=["z"],
        epsilon=8.0,
        delta=1e-5,
        bounds=dict.fromkeys(("x0", "x1"), (-3.0, 3.0)) | {"z": (-12.0, 12.0)},
        min_count=PEOPLE,
    )
    release = world.answered(dict(document))
    certified(release, dict(document), "none")
    made = network(registry.check(document))
    weights = [made.model.values[w.name].ravel() for w in made.model.graph.trained]
    flat = np.concatenate(weights).astype(float)
    names = [w.name for w in made.model.graph.trained]
    truth = np.mean([_gradient(row, dict(zip(names, weights, strict=True)), names) for row in world.rows("example")], 0)
    error = np.linalg.norm(release.gradient - truth)
    # the expected squared length of the noise in the mean of fifty; five times its root is out of reach
    mechanism = made.mechanism
    spread = mechanism.expected_error(1) if hasattr(mechanism, "probability") else _expected(mechanism)
    assert error < 5 * np.sqrt(spread / PEOPLE)
    assert release.gradient.shape == flat.shape


def _expected(mechanism: Any) -> float:
    try:
        return float(mechanism.expected_error(1))
    except TypeError:
        return float(mechanism.expected_error())


def _gradient(row: dict[str, Any], weights: dict[str, Any], names: list[str]) -> Any:
    """By hand, for a linear model and the squared error: shortened to length 1."""
    x = np.clip([row["x0"], row["x1"]], -3, 3)
    by_name = {("weight" if weights[n].size == 2 else "bias"): weights[n] for n in names}
    error = 2 * (float(by_name["weight"] @ x) + float(by_name["bias"][0]) - row["z"])
    parts = {"weight": error * x, "bias": np.array([error])}
    flat = np.concatenate([parts["weight" if weights[n].size == 2 else "bias"] for n in names])
    return flat / max(1.0, float(np.linalg.norm(flat)))


def test_a_python_session_speaks_to_the_running_process(world: World, tmp_path: Path) -> None:
    running = PersonProcess(tmp_path / "home", world.server.url, "--example")
    running.ready()
    with thebes.open_person(running.home) as me:
        assert type(me).__name__ == "PersonClient"
        assert me.ledger() == running.get("/api/ledger")
        handle = world.server.submit(thebes.task.median("SELECT age FROM profile.demographics", epsilon=0.5))
        assert handle.task_id in [task["task_id"] for task in me.tasks()]
        assert me.preview(handle.task_id)["rows"][0].keys() == {"age"}
        me.accept(handle.task_id)
        assert me.wait(handle.task_id, timeout=PATIENCE)["state"] == "sent"
        with pytest.raises(thebes.privacy.faults.Refusal, match="participation"):
            me.accept(handle.task_id)
        assert me.withdraw(handle.task_id)["state"] == "withdrawn"
    handle.cancel()
    assert running.process.stop() == 0
    with thebes.open_person(running.home) as me:  # nothing runs any more: the same home, used directly
        assert type(me).__name__ == "Person"
        assert [p["state"] for p in me.participations()] == ["withdrawn"]
