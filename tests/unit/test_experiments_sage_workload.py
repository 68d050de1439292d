"""A workload of pipelines: blocks never pay more than they have, and who waits for whom decides how long it takes."""

from __future__ import annotations

import numpy as np
import pytest

from papers.registry import experiment, experiments
from papers.sage.workload import STRATEGIES, Load, run

HEAVY = Load(rows=16_000, rate=0.7, least=8_000, most=800_000, hours=24 * 5)
LIGHT = Load(rows=16_000, rate=0.1, least=8_000, most=800_000, hours=24 * 5)


@pytest.mark.few(1)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_block_pays_more_than_it_has(strategy: str) -> None:
    for load in (LIGHT, HEAVY):
        found = run(load, strategy, 0)
        assert 0 < found.most_paid <= 1 + 1e-9
        assert 0 < found.released <= found.models


def test_pipelines_come_at_their_rate_and_need_rows_by_a_power_law() -> None:
    models = Load(rows=1, rate=2.0, least=10, most=1000, hours=5000).models(0)
    assert len(models) == pytest.approx(10_000, rel=0.05)
    needs = np.array([model.needs for model in models])
    assert 10 <= needs.min() < needs.max() <= 1000
    assert np.mean(needs > 100) == pytest.approx((0.01 - 0.001) / (0.1 - 0.001), abs=0.02)


def test_conserving_is_faster_than_taking_all_while_few_wait() -> None:
    hours = {name: run(LIGHT, name, 0).hours for name in ("block, aggressive", "block, conserve")}
    assert hours["block, conserve"] < hours["block, aggressive"]


@pytest.mark.slow
def test_schedulers_serve_a_load_under_which_others_break_down() -> None:
    hours = {name: np.mean([run(HEAVY, name, seed).hours for seed in (0, 1)]) for name in STRATEGIES}
    for scheduled in ("conserve, DPF", "conserve, DPack"):
        assert 3 * hours[scheduled] < min(hours["query composition"], hours["streaming composition"])


def test_a_workload_is_the_same_again() -> None:
    assert run(HEAVY, "conserve, DPack", 3) == run(HEAVY, "conserve, DPack", 3)


@pytest.mark.slow
def test_the_experiments_run_quickly() -> None:
    assert {"sage-8", "sage-workload"} <= set(experiments())
    outcome = experiment("sage-8").run(quick=True)
    assert {row.series for row in outcome.rows} == set(STRATEGIES) - {"conserve, DPF", "conserve, DPack"}
    assert len(experiment("sage-workload").run(quick=True, seeds=[0]).rows) == 2 * 2 * len(STRATEGIES)
