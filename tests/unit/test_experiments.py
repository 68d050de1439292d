"""Experiments: one shape for all, real data or people who say that they are made up, outcomes kept and shown."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from papers import command, datasets
from papers.anonml import asking
from papers.experiment import Experiment
from papers.outcome import Found, Outcome, Row
from papers.registry import experiment, experiments
from papers.results import Results
from thebes.privacy.faults import Fault, Mistake


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run one command in this process: (exit status, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("THEBES_HOME", raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            command.main([*arguments])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def coin(**more: Any) -> Experiment:
    def find(quick: bool, seeds: Any) -> Found:
        rows = [Row.over([seed / 10 for seed in seeds], series="a <b>", at=at, epsilon=at) for at in (1.0, 16.0)]
        return Found(rows=rows, data="none", notes=("one & another",))

    told = {"paper": "Nobody", "place": "figure 1", "shows": "Nothing.", "measure": "share", "across": "epsilon"}
    return Experiment(**{"name": "coin", "find": find, **told, **more})


# --- the shape ------------------------------------------------------------------------------------------------


def test_every_experiment_says_what_it_is() -> None:
    known = experiments()
    assert list(known)[:1] == ["anonml-2"]
    assert {f"anonml-{number}" for number in range(2, 8)} <= set(known)
    for name, one in known.items():
        assert re.fullmatch(r"[a-z0-9.-]+", name)
        assert one.shows.endswith(".")
        assert one.paper
        assert one.place
        assert one.measure
        assert 1 <= one.quick_seeds <= one.seeds
        assert one.find.__module__.startswith("papers.")


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(Mistake, match="did you mean anonml-4"):
        experiment("anonml4")


def test_an_outcome_is_the_mean_over_its_seeds_and_comes_back_from_json() -> None:
    outcome = coin().run(seeds=[1, 3])
    assert outcome.rows[0].ours == pytest.approx(0.2)
    assert outcome.rows[0].spread == pytest.approx(0.1414, abs=1e-4)
    assert coin().run(quick=True).seeds == (0, 1)
    assert Outcome.from_json(json.loads(json.dumps(outcome.as_json()))) == outcome
    assert Row.over([0.5], series="one").spread is None
    with pytest.raises(Mistake, match="at least one"):
        coin().run(seeds=[])


def test_what_is_no_number_is_a_fault_of_the_experiment() -> None:
    with pytest.raises(Fault, match="no number"):
        Row(series="a", ours=float("nan"))


# --- what is kept ---------------------------------------------------------------------------------------------


def test_a_quick_run_never_takes_the_place_of_a_whole_one(tmp_path: Path) -> None:
    results = Results(tmp_path)
    assert results.kept() == {}
    results.keep(coin().run(quick=True))
    assert results.kept()["coin"].quick
    results.keep(coin().run())
    results.keep(coin().run(quick=True))
    assert not results.kept()["coin"].quick


@pytest.mark.parametrize("text", ["{", "[]", '{"name": "coin"}', '{"rows": 3}'])
def test_what_no_experiment_wrote_is_named(text: str, tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.keep(coin().run()).write_text(text)
    with pytest.raises(Mistake, match=r"coin\.json"):
        results.kept()


# --- data -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["adult", "oulad"])
def test_without_the_data_made_up_people_stand_in_and_say_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THEBES_DATA", str(tmp_path))
    people = datasets.people(name)
    assert people.made_up
    assert "made-up" in asking.about(people)
    assert set(people.train) == set(people.bounds)
    for asks in (asking.automatic, asking.joint, asking.one_by_one):
        assert asking.aucs(asks(people, 8.0), people, [0])[0] > 0.55


@pytest.mark.slow
def test_a_run_on_made_up_people_says_so_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from papers.page import page

    monkeypatch.setenv("THEBES_DATA", str(tmp_path))
    outcome = experiment("anonml-7").run(quick=True)
    assert outcome.made_up
    assert all(row.epsilon is not None and row.ceiling is not None for row in outcome.rows)
    assert "only stand in for the real ones" in page([outcome])
    assert "only stand in for the real ones" not in page([replace(outcome, made_up=False)])


@pytest.mark.slow
def test_formulas_of_the_paper_agree_with_the_mechanisms() -> None:
    """Figure 2 counts coins, figure 3 simulates: both lie beside what equations 4 and 5 say."""
    for name, within in (("anonml-2", 0.03), ("anonml-3", 0.35)):
        outcome = experiment(name).run(quick=True)
        printed = [row for row in outcome.rows if row.printed is not None]
        assert len(printed) > 20
        for row in printed:
            assert row.ours == pytest.approx(row.printed, rel=within, abs=0.004)


# --- the command ----------------------------------------------------------------------------------------------


def test_an_experiment_is_listed_run_kept_and_reported(papers: Any) -> None:
    status, out, _ = papers("list", "--json")
    assert status == 0
    assert {"name", "paper", "place", "shows"} == set(json.loads(out)[0])
    assert "anonml-2" in papers("list")[1]
    status, out, err = papers("run", "anonml-2", "--quick", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["rows"][0]["printed"] == pytest.approx(0.6225, abs=1e-4)
    assert Path("thebes-experiments/results/anonml-2.quick.json").is_file()
    status, out, _ = papers("report")
    assert status == 0
    assert out.strip() == "thebes-experiments/report/index.html"
    page = Path(out.strip()).read_text(encoding="utf-8")
    assert "p of (p, q)" in page
    assert "A quick run" in page
    assert "2 seeds" in page
    assert "Thebes" in page.partition("seeds, ")[2][:40]
    assert "Where we differ: Printed is the paper" in page
    assert "All 28 rows" in page
    status, out, _ = papers("run", "anonml-2", "--quick", "--home", "elsewhere")
    assert "0.6225" in out
    assert "Epsilon is what one person pays in all." in out


def test_what_cannot_be_run_or_reported_is_said_in_a_sentence(papers: Any) -> None:
    status, _, err = papers("run", "anonml-99")
    assert status == 2
    assert "there is no experiment 'anonml-99'" in err
    status, _, err = papers("report", "--home", "empty")
    assert status == 2
    assert "holds no outcome" in err


# --- the page -------------------------------------------------------------------------------------------------


class _Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_page_loads_nothing_and_escapes_what_it_is_told() -> None:
    from papers.page import page

    body = page([coin().run(seeds=[1, 2]), coin(name="two", across="").run()])
    seen = _Seen()
    seen.feed(body)
    assert not [tag for tag, _ in seen.tags if tag in ("script", "link", "img", "iframe")]
    assert not [attrs for _, attrs in seen.tags if {"src", "style", "onclick"} & set(attrs)]
    assert "a &lt;b&gt;" in body
    assert "one &amp; another" in body
    assert [attrs["id"] for tag, attrs in seen.tags if tag == "section"] == ["coin", "two"]
    curves = [attrs for tag, attrs in seen.tags if tag == "polyline"]
    assert len(curves) == 2


def test_a_curve_of_one_point_and_one_of_equal_values_can_be_drawn() -> None:
    from thebes.web.charts import curves

    assert "circle" in curves({"a": [(1.0, 0.5, None)]}, title="t", across="x")
    assert "nan" not in curves({"a": [(0.0, 0.5, 0.0), (3.0, 0.5, None)]}, title="t", across="x")


def test_places_that_lie_close_are_named_only_where_they_can_be_read() -> None:
    from thebes.web.charts import curves

    drawn = str(curves({"a": [(float(x), 1.0, None) for x in (1, 400, 450, 500)]}, title="t", across="x"))
    assert drawn.count('class="axis"') == 5  # each has its mark
    assert ">500</text>" in drawn
    assert ">450</text>" not in drawn
    assert ">32 000</text>" in str(curves({"a": [(1.0, 1.0, None), (32_000.0, 2.0, None)]}, title="t", across="x"))


def test_one_place_only_is_drawn_as_bars_and_a_measure_leaves_its_words_to_the_panel() -> None:
    from papers.page import pictures

    rows = tuple(Row(panel="seconds", series=name, at=2, ours=1.5) for name in ("whole", "compute"))
    outcome = replace(coin().run(seeds=[1]), rows=rows, measure="seconds, or what its panel says", across="sites")
    [(panel, picture)] = pictures(outcome)
    assert panel == outcome.of(panel) == "seconds"
    assert ">whole</text>" in picture
    assert "polyline" not in picture
    assert outcome.table()["sites"] == ["2", "2"]
    assert replace(outcome, rows=(Row(series="a", at=10_000, ours=32_000.0),)).table()["sites"] == ["10,000"]
    assert outcome.of("") == outcome.measure
