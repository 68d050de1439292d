"""Targets of the papers' experiments: kept figures reach every floor, and the page says where a goal is missed."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from papers.outcome import Outcome
from papers.results import Results, published
from papers.targets import Point, Target, everything
from thebes.privacy.faults import Fault

sys.path.insert(0, str(Path(__file__).parents[2]))
from tools.results.targets import reached, short, written

TARGETS = [target for targets in everything().values() for target in targets]


@pytest.fixture(scope="module")
def kept() -> dict[str, Outcome]:
    return Results(published()).kept(quick=False)


@pytest.mark.parametrize("target", [one for one in TARGETS if one.floor is not None], ids=lambda target: target.what)
def test_what_is_kept_reaches_its_floor(target: Target, kept: dict[str, Outcome]) -> None:
    assert short(target, reached(target, kept).ours, target.floor) <= 0


def test_a_goal_asks_for_more_than_its_floor_and_every_target_stands_once() -> None:
    assert not [one for one in TARGETS if one.floor is not None and short(one, one.floor, one.goal) < 0]
    assert len({one.what for one in TARGETS}) == len(TARGETS)


def test_the_page_has_a_line_for_each_and_says_by_how_much_a_goal_is_missed(kept: dict[str, Outcome]) -> None:
    lines = [line for line in written(kept).splitlines() if line.startswith("| ") and "---" not in line]
    assert len(lines) == len(TARGETS) + len(everything())
    missed = [one for one in TARGETS if short(one, reached(one, kept).ours, one.goal) > 0]
    assert missed
    assert sum("missed by" in line for line in lines) == len(missed)


def test_a_figure_that_falls_below_its_floor_is_seen(kept: dict[str, Outcome]) -> None:
    target = TARGETS[0]
    fallen = [
        replace(row, ours=0.5) if (row.panel, row.series) == (target.of.panel, target.of.series) else row
        for row in kept[target.of.experiment].rows
    ]
    worse = {**kept, target.of.experiment: replace(kept[target.of.experiment], rows=tuple(fallen))}
    assert short(target, reached(target, worse).ours, target.floor) > 0
    assert "short of its floor" in written(worse)
    assert "short of its floor" not in written(kept)


def test_a_target_of_what_no_experiment_keeps_is_a_fault(kept: dict[str, Outcome]) -> None:
    with pytest.raises(Fault, match="keeps nothing of 'wine', 'no such model'"):
        reached(Target(what="a", of=Point("tiresias-table-5-1", "wine", "no such model", 8.0)), kept)
