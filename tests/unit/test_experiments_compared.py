"""Outcomes beside earlier ones: what fell beyond what seeds differ by is named, and nothing else is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papers import command
from papers.comparing import Comparison, compare, family
from papers.experiment import Experiment, Headline
from papers.outcome import Found, Made, Outcome, Row
from papers.registry import experiments
from papers.results import Results, published, text

SEEDS = (0, 1, 2, 3, 4)


def nothing(quick: bool, seeds: Any) -> Found:
    raise AssertionError("nobody runs this")


def judged(**more: Any) -> Experiment:
    told = {"paper": "Nobody", "place": "figure 1", "shows": "Nothing.", "measure": "share", "across": "epsilon"}
    return Experiment(**{"name": "made", "find": nothing, "better": "more", **told, **more})


def outcome(rows: list[Row], *, seeds: tuple[int, ...] = SEEDS, **more: Any) -> Outcome:
    told = {"paper": "Nobody", "place": "figure 1", "shows": "Nothing.", "measure": "share", "across": "epsilon"}
    same: dict[str, Any] = {"unit": "person", "data": "none", "made_up": False, "quick": False, "notes": ()}
    return Outcome(**{"name": "made", "seconds": 1.0, "seeds": seeds, "rows": tuple(rows), **told, **same, **more})


def drawn(draw: np.random.Generator, spreads: Any, *, by: float = 0.0, seeds: int = 5) -> Outcome:
    rows = [
        Row.over(list(draw.normal(0.8 - by, spread, seeds)), series=f"row {place}", at=1.0)
        for place, spread in enumerate(spreads)
    ]
    return outcome(rows, seeds=tuple(range(seeds)))


def one(experiment: Experiment, before: Outcome, now: Outcome, **more: Any) -> Comparison:
    return compare([(experiment, before, now)], **more)[0]


# --- what falls -----------------------------------------------------------------------------------------------


def test_a_drop_far_beyond_the_spread_is_named_and_one_within_it_is_not() -> None:
    before = outcome([Row(series=f"s{n}", ours=0.8, spread=0.01, at=1.0) for n in range(8)])
    worse = [replace(row, ours=0.7 if row.series == "s3" else 0.79) for row in before.rows]
    found = one(judged(), before, outcome(worse))
    assert [(fall.series, fall.before, fall.now) for fall in found.fell] == [("s3", 0.8, 0.7)]
    assert (found.rows, found.blind) == (8, 0)
    assert 0.01 < found.fell[0].allowed < 0.1
    better = [replace(row, ours=0.9) for row in before.rows]
    assert not one(judged(), before, outcome(better)).fell


@pytest.mark.parametrize(("better", "falls"), [("more", -1), ("less", 1), ("same", -1), ("same", 1)])
def test_which_way_is_better_is_the_experiments_word(better: Any, falls: int) -> None:
    before = outcome([Row(series="s", ours=1.0)])
    for sign in (-1, 1):
        now = outcome([Row(series="s", ours=1.0 + sign * 0.5)])
        fell = one(judged(better=better), before, now).fell
        assert bool(fell) == (sign == falls or better == "same")


def test_directions_go_by_the_first_word_of_panel_and_series_that_is_found() -> None:
    asked = judged(better={"hours": "less", "no SLA": None, "share": "more"})
    told = [("mean hours", "no SLA"), ("share of all", "no SLA"), ("share of all", "ours"), ("seconds", "ours")]
    assert [asked.direction(Row(series=s, panel=p, ours=1.0)) for p, s in told] == ["less", None, "more", None]


def test_rows_without_a_direction_are_not_compared() -> None:
    rows = [Row(panel=panel, series="s", ours=1.0) for panel in ("seconds", "accuracy")]
    now = [replace(row, ours=0.1 if row.panel == "seconds" else 1.0) for row in rows]
    found = one(judged(better={"accuracy": "more"}), outcome(rows), outcome(now))
    assert (found.rows, found.fell) == (1, ())
    assert "times only" in one(judged(better=None), outcome(rows), outcome(now)).why_not


def test_a_row_that_is_gone_fell_and_a_new_one_is_welcome() -> None:
    rows = [Row(series=name, ours=1.0) for name in ("kept", "lost")]
    found = one(judged(), outcome(rows), outcome([rows[0], Row(series="new", ours=0.0)]))
    assert [(fall.series, fall.now) for fall in found.fell] == [("lost", None)]


def test_single_seeds_are_judged_by_a_share_of_the_value_and_counted_as_blind() -> None:
    before = outcome([Row(series="s", ours=0.5)], seeds=(0,))
    near, far = (outcome([Row(series="s", ours=ours)], seeds=(0,)) for ours in (0.46, 0.44))
    assert not one(judged(), before, near).fell
    found = one(judged(), before, far)
    assert found.blind == 1
    assert found.fell[0].allowed == pytest.approx(0.05)
    assert not one(judged(blind=0.3), before, far).fell


def test_the_same_draws_must_give_nearly_the_same_numbers() -> None:
    before = outcome([Row(series="s", ours=0.5, spread=0.2)])
    now = outcome([Row(series="s", ours=0.48, spread=0.2)])
    assert not one(judged(), before, now).fell
    assert one(judged(), before, now, same_draws=True).fell
    assert not one(judged(), before, replace(now, seeds=(5, 6, 7, 8, 9)), same_draws=True).fell


@pytest.mark.parametrize(
    ("changed", "why"),
    [({"made_up": True}, "made-up"), ({"data": "other"}, "other data"), ({"quick": True}, "quick run")],
)
def test_what_cannot_be_compared_is_said(changed: dict[str, Any], why: str) -> None:
    before = outcome([Row(series="s", ours=0.5)])
    found = one(judged(), before, replace(outcome([Row(series="s", ours=0.1)]), **changed))
    assert why in found.why_not
    assert (found.rows, found.fell) == (0, ())


# --- the odds -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_where_only_the_draws_change_hardly_anything_falls_and_a_real_drop_does() -> None:
    """400 checks of 12 rows at odds of .05, seeded: about 20 may fall; 44 would be five standard deviations more."""
    draw = np.random.default_rng(5)
    fell = sum(bool(one(judged(), *_both(draw, 0.0), odds=0.05).fell) for _ in range(400))
    assert 2 <= fell <= 44
    assert all(one(judged(), *_both(draw, 0.06)).fell for _ in range(20))  # three times the largest spread


def _both(draw: np.random.Generator, by: float) -> tuple[Outcome, Outcome]:
    spreads = 0.01 * np.sqrt(8 / draw.chisquare(8, 12)).clip(0.5, 2)
    return drawn(draw, spreads), drawn(draw, spreads, by=by)


def test_more_rows_in_one_check_ask_for_more() -> None:
    rows = [Row(series=f"s{n}", ours=0.8, spread=0.01 + n / 1000) for n in range(6)]
    pair = (judged(), outcome(rows), outcome([replace(row, ours=0.7) for row in rows]))
    alone, many = compare([pair])[0], compare([pair] * 50)[0]
    assert many.fell[0].allowed > 1.05 * alone.fell[0].allowed


def test_a_family_of_equal_spreads_teaches_a_row_and_a_motley_one_does_not() -> None:
    draw = np.random.default_rng(3)
    alike = family(list(4.0 * draw.chisquare(8, 40) / 8), [8] * 40)
    assert alike[0] > 8
    assert alike[1] == pytest.approx(4.0, rel=0.25)
    motley = family(list(np.geomspace(1e-8, 1.0, 12)), [8] * 12)
    assert motley[0] < 2
    assert family([1.0, 1.0, 1.0], [8, 8, 8]) == (0.0, 0.0)


# --- what is kept ---------------------------------------------------------------------------------------------


def test_an_outcome_is_written_a_line_for_each_row_and_says_what_made_it(tmp_path: Path) -> None:
    rows = [Row(series="a", ours=1 / 3, at=2.0), Row(series="b", ours=0.5, spread=0.25, panel="p")]
    told = outcome(rows, made=Made.here())
    lines = text(told).splitlines()
    assert '  {"series": "a", "ours": 0.333333, "at": 2.0},' in lines
    assert '  {"series": "b", "ours": 0.5, "panel": "p", "spread": 0.25}' in lines
    Results(tmp_path).keep(told)
    kept = Results(tmp_path).kept()["made"]
    assert kept == replace(told, rows=(replace(rows[0], ours=0.333333), rows[1]))
    assert kept.made is not None
    assert kept.made.day == Made.here().day
    assert "Thebes" in str(kept.made)


def test_quick_and_whole_outcomes_lie_side_by_side(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.keep(outcome([Row(series="a", ours=1.0)]))
    results.keep(outcome([Row(series="a", ours=0.5)], quick=True))
    assert [results.kept(quick=quick)["made"].rows[0].ours for quick in (False, True)] == [1.0, 0.5]


# --- every experiment -----------------------------------------------------------------------------------------

#: measured in time alone, or counted where nobody knows which way is better
NOT_COMPARED = {"leap-5-3", "tiresias-figure-5-1"}


def test_every_experiment_says_which_way_is_better() -> None:
    assert {name for name, one in experiments().items() if one.better is None} <= NOT_COMPARED


def test_what_was_committed_has_no_row_twice_no_made_up_data_and_rows_to_compare_and_to_tell() -> None:
    for quick in (False, True):
        for name, kept in Results(published()).kept(quick=quick).items():
            asked = experiments()[name]
            places = [(row.panel, row.series, row.at) for row in kept.rows]
            assert len(set(places)) == len(places), name
            assert not kept.made_up, name
            assert kept.made is not None, name
            assert name in NOT_COMPARED or any(asked.direction(row) for row in kept.rows), name
            assert quick or asked.headline is None or asked.headline.of(kept.rows), name


def test_a_headline_chooses_by_words_and_places() -> None:
    rows = [Row(panel=p, series=s, at=at, ours=1.0) for p in ("x, one", "y") for s in ("a", "b") for at in (1.0, 8.0)]
    chosen = Headline(panels=("one",), series=("b",), at=(8.0,)).of(rows)
    assert [(row.panel, row.series, row.at) for row in chosen] == [("x, one", "b", 8.0)]
    assert Headline().of(rows) == tuple(rows)


# --- the command ----------------------------------------------------------------------------------------------


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            command.main([*arguments])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def test_check_fails_with_a_table_of_what_fell(papers: Any, tmp_path: Path) -> None:
    assert papers("run", "anonml-2", "--quick", "--home", "then")[0] == 0
    status, out, _ = papers("check", "all", "--quick", "--against", "then", "--same-draws")
    assert status == 0
    assert "Nothing fell" in out
    then = Results(tmp_path / "then").kept()["anonml-2"]
    moved = replace(then.rows[0], ours=0.1, spread=0.001)
    Results(tmp_path / "now").keep(replace(then, rows=(moved, *then.rows[1:])))
    arguments = ("check", "anonml-2", "--quick", "--against", "then", "--home", "now")
    status, out, _ = papers(*arguments)
    assert status == 1
    assert "1 rows fell" not in out
    assert "1 row fell" in out
    assert "p of (p, q): 2" in out
    status, out, _ = papers(*arguments, "--json")
    told = json.loads(out)
    assert (status, told["ok"], told["odds"]) == (1, False, 1e-4)
    assert told["compared"][0]["fell"][0]["now"] == 0.1


def test_check_says_what_is_missing(papers: Any, tmp_path: Path) -> None:
    status, _, err = papers("check", "anonml-2", "--against", "nowhere")
    assert (status, "holds no whole outcome" in err) == (2, True)
    papers("run", "anonml-2", "--quick", "--home", "then")
    status, _, err = papers("check", "anonml-3", "--quick", "--against", "then")
    assert (status, "no earlier quick outcome of 'anonml-3'" in err) == (2, True)
    status, _, err = papers("check", "all", "--quick", "--against", "then", "--home", "empty")
    assert (status, "nothing could be compared" in err) == (2, True)
    status, _, err = papers("check", "anonml-2", "--quick", "--against", "then", "--home", "empty")
    assert (status, "holds no quick outcome of 'anonml-2'" in err) == (2, True)
    Results(tmp_path / "up").keep(replace(Results(tmp_path / "then").kept()["anonml-2"], made_up=True))
    status, out, err = papers("check", "anonml-2", "--quick", "--against", "then", "--home", "up")
    assert (status, "nothing could be compared" in err, "made-up" in out) == (2, True, True)
