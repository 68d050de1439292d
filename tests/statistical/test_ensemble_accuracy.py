"""Accuracy of ensembles on census and student data: never below the floors, at the epsilon one person pays in all."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from evidence.bench import ensemble
from papers import datasets
from papers.targets import ODDS_FLOORS

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def people(name: str) -> datasets.People:
    found: datasets.People | None = getattr(datasets, name)()
    if found is None:
        pytest.skip(f"{name} is not in THEBES_DATA")
    return found


@pytest.mark.parametrize(
    ("name", "epsilon"), [(name, epsilon) for name, floors in ODDS_FLOORS.items() for epsilon in floors]
)
def test_log_odds_of_joint_histograms_reach_the_floor(name: str, epsilon: float) -> None:
    table = people(name)
    assert np.mean(ensemble.aucs(ensemble.joint(table, epsilon), table)) >= ODDS_FLOORS[name][epsilon]


@pytest.mark.parametrize(("epsilon", "floor"), [(2.0, 0.85), (8.0, 0.885)])
def test_subsets_chosen_by_scouts_reach_nearly_as_far(epsilon: float, floor: float) -> None:
    table = people("adult")
    assert np.mean(ensemble.aucs(ensemble.scouted(table, epsilon), table)) >= floor


@pytest.mark.parametrize(
    ("name", "epsilon"), [(name, epsilon) for name, floors in ODDS_FLOORS.items() for epsilon in floors]
)
def test_joints_by_public_rule_reach_the_floor(name: str, epsilon: float) -> None:
    table = people(name)
    asked = ensemble.automatic if name == "adult" else ensemble.cut_by_hand
    assert np.mean(ensemble.aucs(asked(table, epsilon), table)) >= ODDS_FLOORS[name][epsilon]


def test_log_odds_beat_the_papers_vote_at_equal_epsilon() -> None:
    table = people("adult")
    for epsilon, by in ((2.0, 0.02), (8.0, 0.02)):
        release = ensemble.released(ensemble.paper(table, epsilon), table, 0)
        ours = ensemble.auc(table, ensemble.released(ensemble.joint(table, epsilon), table, 0).model)
        assert ours - ensemble.auc(table, release.model) >= by  # with labels cut at the base rate
        assert ours - ensemble.as_printed(table, release) >= 0.05  # with labels cut at one half


def test_cutting_at_one_half_finds_nobody_where_a_label_is_rare() -> None:
    table = people("oulad")
    release: Any = ensemble.released(ensemble.paper(table, 8.0), table, 0)
    assert ensemble.as_printed(table, release) == pytest.approx(0.5, abs=0.03)
    assert ensemble.auc(table, release.model) > 0.6
