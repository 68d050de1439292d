"""The noise of split trust: each server's own suffices, where the other adds none; error bars count both."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from tests.support.training import Silent
from thebes.data.rows import Rows
from thebes.privacy.accounting import gaussian
from thebes.privacy.mechanisms.additive import Additive, Gaussian, Laplace
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import Randomness, system
from thebes.privacy.stability import Sensitivity
from thebes.tasks import registry
from thebes.tasks.aggregation.split_servers import totals
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.basic.quantile_of_bins import QuantileOfBins
from thebes.tasks.basic.split_answer import BareStatistic, SplitAggregator
from thebes.tasks.gradient.scene import LOSS, MODEL
from thebes.tasks.gradient.split_answer import SimulatedGradientServers
from thebes.tasks.protocols import Ask, Setting
from thebes.testing.statistics import LEVEL, assert_size

NOON = datetime(2030, 1, 1, tzinfo=UTC)
AGES = np.repeat([12.0, 42.0, 61.0, 88.0], 5)  # none lies between two bins
RANGE = {"age": {"type": "range", "low": 0.0, "high": 100.0, "default": 50.0}}
EPSILON = 0.1  # small, so that whole numbers look continuous
STEPS = 2.0**20


def document(aggregator: str, **more: Any) -> Any:
    asked = {"type": "basic", "server": "split", "epsilon": EPSILON, "min_count": 10, "bounds": RANGE}
    return registry.check({**asked, "featurizer": "SELECT age FROM p.t", "aggregator": aggregator, **more})


def opening(asked: Any, noise: tuple[Randomness, Randomness], rows: Rows) -> Callable[[], np.ndarray]:
    """Have both servers hear twenty people; return what opens their sums, each time with noise of its own."""
    servers = SplitAggregator if asked.type == "basic" else SimulatedGradientServers
    aggregator: Any = servers(asked, Setting(Unit.DEVICE, Silent(), simulated=True), noise=noise)
    ask = aggregator.ask("somebody")
    assert isinstance(ask, Ask)
    aggregator.expect(rows.people)
    aggregator.accept(
        registry.owner(asked, simulated=True).contribute(asked, ask, rows, RecordedClaim(), randomness=system())
    )
    both, noises = (aggregator._leader, aggregator._helper), aggregator.splitting.noises
    return lambda: totals([copy(server).close() for server in both], noises)


def drawn(asked: Any, noise: tuple[Randomness, Randomness], draws: int, rows: Rows | None = None) -> np.ndarray:
    """Return what is added to the sums where the servers draw from these."""
    people = rows or Rows.one_each({"age": AGES})
    exact, noised = opening(asked, (Silent(), Silent()), people)(), opening(asked, noise, people)
    return np.concatenate([noised() - exact for _ in range(draws)])


def alone(server: int) -> tuple[Randomness, Randomness]:
    """Return where both draw from, of whom one adds nothing."""
    return (system(), Silent()) if server == 0 else (Silent(), system())


@pytest.mark.parametrize("server", [0, 1], ids=["leader", "helper"])
@pytest.mark.parametrize(
    ("asked", "scales"),
    [
        (document("count", missing="count", bounds=None), {1: 1 / EPSILON}),
        (document("mean"), {1: STEPS / EPSILON}),
        (document("sum"), {1: 100 / EPSILON / (200 / STEPS)}),
        # the sum, and beside it how many have no value, for a twentieth of epsilon
        (document("sum", missing="count"), {1: 100 / (0.95 * EPSILON) / (200 / STEPS), 2: 1 / (0.05 * EPSILON)}),
        (document("variance"), {2: 25 / 8 * STEPS / EPSILON}),
        (document("histogram", bins=20), {20: 2 / EPSILON}),
        (document("median", bins=20), {20: 2 / EPSILON}),
    ],
    ids=["count", "mean", "sum", "sum with missing values", "variance", "histogram", "median"],
)
def test_each_server_alone_adds_laplace_noise_that_suffices(asked, scales, server) -> None:
    """`scales` are those of the coordinates that end there."""
    width, start = max(scales), 0
    noise = drawn(asked, alone(server), -(-1200 // min(scales))).reshape(-1, width)
    for end, scale in scales.items():
        assert_size(noise[:, start:end], "laplace", scale)
        start = end


@pytest.mark.parametrize("server", [0, 1], ids=["leader", "helper"])
def test_each_server_alone_adds_gaussian_noise_that_suffices(server) -> None:
    asked = document("histogram", bins=50, epsilon=0.5, delta=0.1)
    noise = drawn(asked, alone(server), 15)
    assert_size(noise, "gaussian", gaussian.ratio_for(0.5, 0.1) * np.sqrt(2))


@pytest.mark.parametrize("server", [0, 1], ids=["leader", "helper"])
@pytest.mark.parametrize(("delta", "kind"), [(0.0, "laplace"), (0.1, "gaussian")])
def test_each_server_alone_adds_noise_that_suffices_for_a_gradient_turned_round(delta, kind, server) -> None:
    """A gradient may turn into its opposite: by twice 2^14 in L2, and the root of four times that in L1."""
    clip = {"type": "gradient", "server": "split", "clip": 3.0, "epsilon": 0.5, "delta": delta, "min_count": 10}
    columns = {"featurizer": "SELECT x0, x1, y FROM p.t", "inputs": ["x0", "x1"], "outputs": ["y"]}
    asked = registry.check({**clip, **columns, "model": MODEL, "loss": LOSS})
    rows = Rows.one_each({"x0": np.linspace(-9, 9, 20), "x1": np.ones(20), "y": np.arange(20) % 2})
    noise = drawn(asked, alone(server), 1000, rows=rows)
    turned = 2 * 2**14
    scale = turned * 2 / 0.5 if kind == "laplace" else turned * gaussian.ratio_for(0.5, delta)
    assert_size(noise, kind, scale)


def test_the_two_servers_noises_are_independent_and_add_up() -> None:
    asked = document("histogram", bins=200)
    noise = drawn(asked, (system(), system()), 20)
    # of two Laplace noises of scale b the mean of |sum| is 3b/2, with standard deviation sqrt(7)/2 b
    mean, deviation = np.abs(noise).mean() / (2 / EPSILON), np.sqrt(7) / 2 / np.sqrt(noise.size)
    assert abs(mean - 1.5) < 6 * deviation


def test_a_simulation_without_proofs_has_the_noise_of_both_servers_too() -> None:
    asked, rows = document("histogram", bins=200), Rows.one_each({"age": AGES})

    def opened(source: Randomness) -> np.ndarray:
        aggregator = BareStatistic(asked, Setting(Unit.DEVICE, source, simulated=True))
        ask = aggregator.ask("somebody")
        assert isinstance(ask, Ask)
        aggregator.expect(rows.people)
        owner = registry.owner(asked, simulated=True)
        aggregator.accept(owner.contribute(asked, ask, rows, RecordedClaim(), randomness=source))
        return aggregator.opened()

    exact = opened(Silent())
    noise = np.concatenate([opened(system()) - exact for _ in range(20)])
    mean, deviation = np.abs(noise).mean() / (2 / EPSILON), np.sqrt(7) / 2 / np.sqrt(noise.size)
    assert abs(mean - 1.5) < 6 * deviation  # as of the servers themselves, above; 30 % more or less is far outside


NOISES: dict[str, Additive] = {
    "laplace": Laplace(0.1).noise(Sensitivity(2, 2, 16)),
    "gaussian": Gaussian(0.1, 1e-5).noise(Sensitivity(2, 2, 16)),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_interval_of_a_quantile_holds_the_exact_one_as_often_as_it_says(kind, alpha, level) -> None:
    noise, bins, people, source = NOISES[kind], 16, 2000, system()
    draw = np.random.default_rng(5)
    values = np.sort(np.clip(draw.normal(8, 3, people), 0, 15.99))
    counts = np.bincount(values.astype(int), minlength=bins)
    truth = values[int(np.ceil(alpha * people)) - 1]
    edges = np.arange(bins + 1.0)
    hits, draws = 0, 1000
    for _ in range(draws):
        noised = noise.add(counts, source) + noise.add(np.zeros(bins, dtype=np.int64), source)
        low, high = QuantileOfBins(noised, people, edges, alpha, noise).ends(level)
        hits += low <= truth <= high
    assert binomtest(hits, draws, level, alternative="less").pvalue > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("aggregator", ["mean", "sum", "variance", "histogram", "median"])
def test_error_bars_hold_what_was_added_up_as_often_as_they_say(aggregator) -> None:
    asked = document(aggregator, epsilon=2, **({"bins": 20} if aggregator in ("histogram", "median") else {}))
    exact = {
        "mean": AGES.mean(),
        "sum": AGES.sum(),
        "variance": AGES.var(),
        "histogram": np.histogram(AGES, 20, (0, 100))[0],
        "median": 42.0,
    }[aggregator]
    hits = total = 0
    for _ in range(300):
        aggregator_ = SplitAggregator(asked, Setting(Unit.DEVICE, system(), simulated=True))
        aggregator_.expect(len(AGES))
        ask = aggregator_.ask("somebody")
        owner = registry.owner(asked, simulated=True)
        aggregator_.accept(
            owner.contribute(asked, ask, Rows.one_each({"age": AGES}), RecordedClaim(), randomness=system())
        )
        aggregator_.advance(NOON)
        bar = aggregator_.release().interval(0.95)
        held = (np.asarray(bar.low) <= np.asarray(exact) + 1e-3) & (np.asarray(exact) - 1e-3 <= np.asarray(bar.high))
        hits, total = hits + int(held.sum()), total + held.size
    assert binomtest(hits, total, 0.95, alternative="less").pvalue > LEVEL
