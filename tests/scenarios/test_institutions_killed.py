"""Sites and the coordinator die without warning while a model is trained: it comes out as if nothing had happened, and
every site's ledger has charged exactly the rounds that were run."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from tests.scenarios.deployment import SOON, Institution, Institutions, until
from thebes.data.schema import schema_of
from thebes.privacy.accounting import concentrated
from thebes.privacy.promise import Adjacency
from thebes.tasks import registry

ROUNDS, RATE, CLIP = 60, 1.0, 1.5  # no gradient is longer than the root of 2
SCHEMA = {
    "unit": "person",
    "columns": {
        "x": {"type": "float", "low": -1.0, "high": 1.0},
        "y": {"type": "string", "values": ["no", "yes"]},
    },
}
#: So large that noise does not hide a round that was lost or counted twice.
TRAIN: dict[str, Any] = {
    "type": "train",
    "dataset": "patients",
    "model": "LogisticRegression",
    "inputs": ["x"],
    "output": "y",
    "rounds": ROUNDS,
    "learning_rate": RATE,
    "clip": CLIP,
    "average": "last",
    "epsilon": 100_000.0,
    "delta": 1e-6,
    "patience": 300.0,
}
POLICY = """
[[allow]]
requestors = ["*"]
datasets = ["patients"]
kinds = ["train"]
epsilon = 1000000
"""
#: which of a site's three processes is killed: the one that starts the others, or one of those two
ALL, ONE, OTHER = 0, 1, 2


def people(seed: int, count: int = 150) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    x = np.round(draw.uniform(-1, 1, count), 3)
    return pd.DataFrame({"x": x, "y": np.where(draw.random(count) < 1 / (1 + np.exp(-3 * x - 0.5)), "yes", "no")})


def centrally(*sites: pd.DataFrame) -> NDArray[np.float64]:
    """The weights after as many rounds of gradient descent over all rows in one place."""
    rows = pd.concat(sites)
    inputs, truth = np.column_stack([rows["x"], np.ones(len(rows))]), (rows["y"] == "yes").to_numpy(dtype=float)
    weights = np.zeros(2)
    for _ in range(ROUNDS):
        weights -= RATE * inputs.T @ (1 / (1 + np.exp(-inputs @ weights)) - truth) / len(rows)
    return weights


def weights_of(task: dict[str, Any]) -> NDArray[np.float64]:
    told = task["result"]["value"]["weights"]
    return np.array([told["x"], told["intercept"]])


class Trained:
    """Sites with people, and what was spent on them before a task."""

    def __init__(self, there: Institutions, sites: int) -> None:
        self.there = there
        self.rows = {f"site-{n}": people(n) for n in range(sites)}
        for name, table in self.rows.items():
            there.add(name, table, policy=POLICY, schema=SCHEMA, epsilon=1_000_000, delta=1e-5)
        there.start_sites()
        self.spent = dict.fromkeys(self.rows, 0)

    def assert_right(self, ended: dict[str, Any]) -> None:
        """As if nobody had died: all rounds were run, with everybody in each of them."""
        assert ended["status"] == "done"
        assert ended["result"]["coverage"]["rounds"] == dict.fromkeys(self.rows, ROUNDS)
        told = ended["result"]["value"]["weights"]
        assert [told["x"], told["intercept"]] == pytest.approx(centrally(*self.rows.values()), abs=5e-3)

    def assert_paid(self, task: str, rounds: dict[str, int], once: float | None = None) -> None:
        """Each site charged its rounds and nothing else, holds nothing back any more, and drew noise once for each."""
        once = of_one_round(ROUNDS) if once is None else once
        for name, count in rounds.items():
            site = self.there.sites[name]
            until(lambda site=site: None if reserved(site) else True, SOON)
            meter = site.block().meters["rho"]
            spent, self.spent[name] = meter.spent - self.spent[name], meter.spent
            assert spent * 1e-12 == pytest.approx(count * once, rel=1e-9)
            assert meter.spent <= (meter.capacity or 0)
            answers = [e.facts for e in site.audited() if e.event == "answer" and e.facts["task"] == task]
            made = [facts["part"] for facts in answers if not facts["again"]]
            assert len(made) == len(set(made)) <= count


def of_one_round(rounds: int) -> float:
    """The rho that one of so many rounds costs one person."""
    document, kind = registry.check({**TRAIN, "rounds": rounds}), registry.kind("train")
    return float(concentrated.price(kind.event(document, schema_of(SCHEMA)), adjacency=Adjacency.ADD_REMOVE_ONE).rho)


def reserved(site: Institution) -> int:
    return sum(meter.reserved for meter in site.block().meters.values())


def harassed(trained: Trained, kills: int) -> None:
    """Train while sites' processes are killed in rounds, and in ways, drawn beforehand. Where this process was kept
    waiting until a training was over, another one is struck."""
    assert any(struck(trained, kills) == kills for _ in range(4))


def struck(trained: Trained, kills: int) -> int:
    """Count the kills that came before the training was over."""
    there, draw = trained.there, random.Random(7)  # repeatable kills, not noise
    plan = sorted((draw.randrange(1, ROUNDS - 2), draw.choice((ALL, ONE, OTHER))) for _ in range(kills))
    task, killed = there.submit(TRAIN), 0
    while there.task(task)["status"] in ("open", "running"):
        if killed < len(plan) and there.phase(task) >= plan[killed][0]:
            site = there.sites[draw.choice(sorted(there.sites))]
            site.kill(plan[killed][1])
            if not site.running:
                site.start()
            killed += 1
        time.sleep(0.02)
    trained.assert_right(there.task(task))
    trained.assert_paid(task, dict.fromkeys(trained.rows, ROUNDS))
    return killed


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    """Three sites, for all tests here but the heavy one: starting them takes longer than what is tried with them."""
    with Institutions(tmp_path_factory.mktemp("institutions")) as there:
        yield Trained(there, 3)


@pytest.mark.slow
def test_a_model_is_trained_right_while_sites_are_killed_and_restarted(trained: Trained) -> None:
    harassed(trained, 3)


@pytest.mark.heavy
def test_a_model_is_trained_right_while_ten_sites_are_killed_and_restarted(tmp_path: Path) -> None:
    with Institutions(tmp_path) as there:
        harassed(Trained(there, 10), 12)


@pytest.mark.slow
def test_a_training_goes_on_where_a_killed_coordinator_left_it(trained: Trained) -> None:
    there = trained.there
    task = there.submit(TRAIN)
    for least in (ROUNDS // 4, ROUNDS // 2):
        until(lambda least=least: True if there.phase(task) >= least else None, SOON)
        there.kill()
        there.start()
    trained.assert_right(there.ended(task))
    trained.assert_paid(task, dict.fromkeys(trained.rows, ROUNDS))


@pytest.mark.slow
def test_a_site_that_is_stopped_for_good_is_named_and_the_others_go_on(trained: Trained) -> None:
    there = trained.there
    rounds = 3 * ROUNDS  # so many that it has gone before they are over, however long a clean end takes
    task = there.submit({**TRAIN, "rounds": rounds, "min_sites": 2, "patience": 20.0})
    until(lambda: True if there.phase(task) >= 3 else None, SOON)
    there.sites["site-1"].end()
    ended = there.ended(task, within=2 * SOON)
    assert ended["status"] == "done"
    covered = ended["result"]["coverage"]
    gone = covered["rounds"]["site-1"]
    assert covered["rounds"] == {"site-0": rounds, "site-1": gone, "site-2": rounds}
    assert covered["missed"] == {"site-1": {"rounds": rounds - gone, "why": "is not linked"}}
    assert [told["sites"] for told in ended["result"]["rounds"]] == [3] * gone + [2] * (rounds - gone)
    once = of_one_round(rounds)
    trained.assert_paid(task, {"site-0": rounds, "site-2": rounds}, once)
    meter = there.sites["site-1"].block().meters["rho"]
    # Its answer to the round in which it went may not have arrived; that was paid for all the same.
    assert gone - 0.001 <= (meter.spent - trained.spent["site-1"]) * 1e-12 / once <= gone + 1.001
