"""Pull requests: what was known when each was opened, who is drawn, and what every way to learn from them is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from papers.registry import experiment
from papers.tiresias import merging, pulls
from papers.tiresias.pulls import INPUTS, MERGED, PEOPLE, WHO
from thebes.data.schema import schema_of
from thebes.privacy.certificate import Certificate
from thebes.privacy.faults import Mistake
from thebes.simulation.world import simulate
from thebes.tasks import registry


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("THEBES_DATA", str(tmp_path))
    return tmp_path


def raw(**changed: list[object]) -> pd.DataFrame:
    """Three requests of one person to one project, the second opened before the first was closed."""
    usual: dict[str, list[object]] = {name: [3, 3, 3] for name in pulls._RAW}
    told = {
        "created_at": [100, 150, 300],
        "merged_at": [200, None, 400],
        "closed_at": [200, 250, 400],
        "requester_succ_rate": [0.0, 0.0, 0.5],
        "prev_pullreqs": [0, 1, 2],
        "intra_branch": [True, False, True],
        "main_team_member": [True, True, False],
        "commits_on_files_touched": [0, 4, 0],
    }
    return pd.DataFrame({**usual, **told, **changed})


def test_a_project_s_share_counts_only_what_was_closed_before_a_request_was_opened() -> None:
    table = pulls._tidied(raw())
    assert table["project"].tolist() == pytest.approx([0.8, 0.8, (1 + 4) / (2 + 5)])
    assert table["accepted"].tolist() == pytest.approx([0.8, 1.6 / 3, 2.6 / 4])
    assert table["known"].tolist() == [0, 1, 0]
    assert table[MERGED].tolist() == [1, 0, 1]


def test_no_column_tells_what_came_after_a_request_was_opened() -> None:
    before = pulls._tidied(raw())
    after = pulls._tidied(raw(merged_at=[None, 220, None], closed_at=[900, 220, 1000]))
    assert after[MERGED].tolist() == [0, 1, 0]
    pd.testing.assert_frame_equal(before.loc[:1, list(INPUTS)], after.loc[:1, list(INPUTS)])


def test_nobody_is_learned_from_and_tested_on_as_another(nothing: Path) -> None:
    held = pulls.pulls()
    assert held.made_up
    assert "made-up" in str(held)
    drawn = held.drawn(0)
    own, again = set(drawn.own[WHO]), set(drawn.held_out[WHO])
    assert (len(own), again <= own) == (PEOPLE, True)
    assert not own & set(drawn.others[WHO])
    counts = pd.concat([drawn.own, drawn.held_out])[WHO].value_counts()
    assert counts.min() >= pulls.LEAST
    assert len(pd.concat([drawn.own, drawn.held_out]).drop_duplicates()) == counts.sum()
    pd.testing.assert_frame_equal(drawn.own, pulls.pulls().drawn(0).own)
    assert set(held.drawn(1).own[WHO]) != own


def test_another_file_than_the_published_one_is_refused(nothing: Path) -> None:
    (nothing / pulls.FILE).parent.mkdir()
    (nothing / pulls.FILE).write_bytes(b"something else")
    with pytest.raises(Mistake, match="SHA-256"):
        pulls.pulls()


@pytest.mark.few(2)
@pytest.mark.parametrize("series", [name for name in merging.WAYS if "all rounds" not in name])
def test_every_way_learns_from_made_up_requests(series: str, nothing: Path) -> None:
    """Seeded, so it is no matter of luck."""
    drawn = pulls.pulls().drawn(0)
    few = ("known", "project", "member", "commits")
    chance = merging.WAYS[series](drawn.own, few, 8.0, 1)(drawn.others)
    assert roc_auc_score(drawn.others[MERGED], chance) > 0.65


@pytest.mark.slow
def test_what_is_called_person_level_is_certified_for_persons(monkeypatch: pytest.MonkeyPatch, nothing: Path) -> None:
    """The certificate of every way: whose loss it states, how many contributed, what they pay."""
    told: list[Certificate] = []

    def noting(*asked: Any, **more: Any) -> Any:
        release = simulate(*asked, **more)
        told.append(release.certificate)
        return release

    monkeypatch.setattr(merging, "simulate", noting)
    drawn = pulls.pulls().drawn(0)
    for series, learn in merging.WAYS.items():
        learn(drawn.own, ("known", "project"), 4.0, 1)
        certificate = told.pop()
        assert str(certificate.unit) == "person"  # a row-level one declares every request to be somebody
        assert float(certificate.epsilon) <= 4.0
        if series == "integrated, person-level":
            assert str(certificate.adjacency) == "add-remove-one"
        elif "row-level" in series:
            assert certificate.contributors == len(drawn.own)
        else:
            assert certificate.contributors == PEOPLE * (merging.ALL_ROUNDS if "all rounds" in series else 1)


def test_the_documents_and_the_schema_fit_each_other() -> None:
    read = schema_of(pulls.schema())
    assert read.unit == "person"
    asked = registry.check(
        {
            "type": "train", "sites": ["server"], "dataset": "pulls", "model": "LogisticRegression",
            "inputs": list(INPUTS), "output": MERGED, "epsilon": 8.0, "delta": 1e-5,
        }
    )  # fmt: skip
    registry.kind("train").fits(asked, read)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_real_pull_requests_reach_the_floors() -> None:
    held = pulls.pulls()
    if held.made_up:
        pytest.skip("THEBES_DATA holds no pull requests")
    floors = {"integrated, row-level": 0.83, "integrated, person-level": 0.78, "bounded, row-level": 0.68}
    aucs: dict[str, list[float]] = {series: [] for series in floors}
    gains: dict[str, list[float]] = {series: [] for series in floors}
    for seed in range(5):
        drawn = held.drawn(seed)
        truth = drawn.others[MERGED].to_numpy()
        for series in floors:
            chance = merging.WAYS[series](drawn.own, INPUTS, 8.0, seed)(drawn.others)
            aucs[series].append(float(roc_auc_score(truth, chance)))
            gains[series].append(float(np.mean((chance > 0.5) == truth) - max(truth.mean(), 1 - truth.mean())))
    for series, floor in floors.items():
        assert np.mean(aucs[series]) >= floor, series
    for series in ("integrated, row-level", "integrated, person-level"):
        assert np.mean(gains[series]) >= 0.005, series


@pytest.mark.slow
def test_a_quick_run_says_what_it_found_at_one_epsilon(nothing: Path) -> None:
    outcome = experiment("tiresias-table-5-3").run(quick=True, seeds=[0])
    assert outcome.made_up
    assert {row.epsilon for row in outcome.rows} == {8.0}
    assert {row.series for row in outcome.rows} == set(merging.WAYS)
    assert all(row.ceiling is not None for row in outcome.rows)
