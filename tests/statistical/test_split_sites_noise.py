"""Totals of sites in shares: what either server has of them is chance, the noise of each suffices alone, and error
bars count both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, ks_1samp, uniform

from tests.support.training import Silent
from thebes.data.engines.source import frame_table
from thebes.data.schema import Schema, schema_of
from thebes.privacy.accounting import gaussian
from thebes.privacy.randomness import Randomness, seeded_for_simulation, system
from thebes.sharing import SealingKey
from thebes.sharing.field import ORDER
from thebes.sharing.site_totals import helper_share
from thebes.simulation.sites import run
from thebes.tasks import registry
from thebes.tasks.aggregation.site_shares import (
    LeaderShares,
    SealedShare,
    context_at,
    declaration_of,
    helper_sum,
    shared_totals,
)
from thebes.testing.statistics import LEVEL, assert_size

EPSILON = 0.02  # small, so that whole numbers look continuous
PART = "phase-0"
#: fields, and how many steps of the totals a row moves in L1 (in L2 as many)
QUESTIONS: dict[str, tuple[dict[str, Any], int]] = {
    "count": ({"statistic": "count"}, 1),
    "sum": ({"statistic": "sum", "column": "age"}, 2**22),
    "mean": ({"statistic": "mean", "column": "age"}, 2**20),
    "histogram": ({"statistic": "histogram", "column": "age", "bins": 5}, 1),
}


def schema(rows: int = 1) -> Schema:
    columns = {"who": {"type": "string", "key": True}, "age": {"type": "float", "low": 0, "high": 100}}
    return schema_of({"unit": "person", "max_rows_per_unit": rows, "columns": columns})


def document(question: str, **more: Any) -> Any:
    asked = {"type": "query", "dataset": "d", "noise": "split", "epsilon": EPSILON, **QUESTIONS[question][0]}
    return registry.check({**asked, **more})


class Servers:
    """Both servers and sites with these schemas, whose totals are all 7; each draws from a source of its own."""

    def __init__(self, asked: Any, schemas: list[Schema]) -> None:
        self.asked, self.key = asked, SealingKey.generate()
        self.size = asked.plan(schemas[0]).size
        self.schemas = {f"s{place}": each for place, each in enumerate(schemas)}
        self.noises = registry.noises(asked, [SealedShare(b"", b"", each) for each in schemas])
        self.context = context_at(asked, PART, "t")

    def opened(self, leader: Randomness, helper: Randomness) -> np.ndarray:
        """Return what is opened, less what was added up."""
        mine, totals = LeaderShares(self.size), np.full(self.size, 7)
        for site, own in self.schemas.items():
            fields = shared_totals(self.asked, self.context, own, totals, self.key.public, system())
            mine.sites[site] = mine.read(fields)
        shares = mine.shown(self.schemas)
        mine.hear(helper_sum(self.asked, self.context, shares, self.noises, self.key, helper))
        return np.asarray(mine.opened(self.noises, leader)) - 7 * len(self.schemas)


def alone(server: str) -> tuple[Randomness, Randomness]:
    return (system(), Silent()) if server == "leader" else (Silent(), system())


def test_sums_are_exact_where_nobody_adds_noise() -> None:
    for question in QUESTIONS:
        assert (Servers(document(question), [schema()] * 3).opened(Silent(), Silent()) == 0).all()


@pytest.mark.few(2, slow=2)
@pytest.mark.parametrize("server", ["leader", "helper"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_each_server_alone_adds_laplace_noise_that_suffices(question: str, server: str) -> None:
    """For three rows of one person at one of the sites, though others let one have one."""
    servers = Servers(document(question), [schema(), schema(3), schema()])
    drawn = np.concatenate([servers.opened(*alone(server)) for _ in range(-(-1200 // servers.size))])
    assert_size(drawn, "laplace", 3 * QUESTIONS[question][1] / EPSILON)


@pytest.mark.parametrize("server", ["leader", "helper"])
def test_each_server_alone_adds_gaussian_noise_that_suffices(server: str) -> None:
    delta = 0.3  # so large that Gaussian noise is the smaller one
    servers = Servers(document("histogram", epsilon=0.05, delta=delta), [schema()] * 3)
    drawn = np.concatenate([servers.opened(*alone(server)) for _ in range(130)])
    assert_size(drawn, "gaussian", gaussian.ratio_for(0.05, delta * 0.999))


def test_the_two_noises_are_independent_and_add_up() -> None:
    servers = Servers(document("histogram"), [schema()] * 3)
    noise = np.concatenate([servers.opened(system(), system()) for _ in range(240)])
    # of two Laplace noises of scale b the mean of |sum| is 3b/2, with standard deviation sqrt(7)/2 b
    mean, deviation = np.abs(noise).mean() * EPSILON, np.sqrt(7) / 2 / np.sqrt(noise.size)
    assert abs(mean - 1.5) < 6 * deviation


def test_what_either_server_has_of_a_site_is_that_of_a_simulator_without_its_rows() -> None:
    """The simulator draws uniform numbers. Shares of two unlike totals are held against it."""
    asked, own, key = document("histogram"), schema(), SealingKey.generate()
    context = context_at(asked, PART, "t")
    tests = 2 * 2 * 5
    for total in (0, 10**12):
        both: dict[str, list[Any]] = {"leader": [], "helper": []}
        mine = LeaderShares(5)
        for _ in range(400):
            sent = mine.read(shared_totals(asked, context, own, np.full(5, total), key.public, system()))
            told = {"nonce": sent.nonce, "sealed": sent.sealed, "declaration": declaration_of(asked, own)}
            both["leader"].append(sent.share)
            both["helper"].append(helper_share(key, **told, context=context, size=5))
        for numbers in both.values():
            for column in (np.array(numbers) / float(ORDER)).T:
                assert ks_1samp(column, uniform.cdf).pvalue > LEVEL / tests


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"delta": 0.05}], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_error_bars_hold_the_truth_as_often_as_they_say(question: str, more: dict[str, float]) -> None:
    draw = np.random.default_rng(3)
    ages = [np.clip(draw.normal(45, 15, 200), 1, 99) for _ in range(3)]
    frames = [pd.DataFrame({"who": [f"p{n}" for n in range(200)], "age": each}) for each in ages]
    tables = {f"s{place}": frame_table(schema(), frame) for place, frame in enumerate(frames)}
    every = np.concatenate(ages)
    truth = np.asarray(
        {
            "count": every.size,
            "sum": every.sum(),
            "mean": every.mean(),
            "histogram": np.histogram(every, 5, (0, 100))[0],
        }[question]
    )
    asked, source, hits, tries = document(question, epsilon=1.0, **more), seeded_for_simulation(2), 0, 200
    for _ in range(tries):
        bar = run(asked, tables, source).interval(0.95)
        hits += int(np.sum((np.asarray(bar.low) <= truth) & (truth <= np.asarray(bar.high))))
    assert binomtest(hits, tries * truth.size, 0.95, alternative="less").pvalue > LEVEL
