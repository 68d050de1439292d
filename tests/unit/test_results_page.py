"""The page of results: what the script writes out of what is kept, and nothing else."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from papers.experiment import Experiment, Headline
from papers.outcome import Found, Made, Outcome, Row
from papers.registry import experiments
from papers.results import Results, published
from papers.tiresias.table_people import SHARE

sys.path.insert(0, str(Path(__file__).parents[2]))
from tools.results.epsilons import Line, matrix
from tools.results.page import made, page
from tools.results.papers import section
from tools.results.people import WANTED, expected
from tools.results.tables import table
from tools.results.trust import by_trust


def test_the_page_links_to_its_pictures_and_outcomes_and_to_no_other() -> None:
    files = page(Results(published()).kept())
    linked = set(re.findall(r"\]\((results/[^)#]+)\)", files["results-tables.md"]))
    pictures, outcomes = (
        set(files) - {"results.md", "results-tables.md"},
        {path.name for path in (published() / "results").iterdir()},
    )
    assert pictures == {name for name in linked if name.endswith(".svg")}
    assert {name.removeprefix("results/") for name in linked - pictures} <= outcomes
    assert all(name.endswith(".json") for name in outcomes)


def test_the_summary_is_short_and_leads_to_what_stands_behind_it() -> None:
    files = page(Results(published()).kept())
    assert len(files["results.md"].split()) < 1000
    led = re.findall(r"\]\(results-tables\.md#([\w-]+)\)", files["results.md"])
    assert len(led) > 15
    behind = files["results-tables.md"]
    headings = {
        re.sub(r"[^a-z]+", "-", line.lower()).strip("-") for line in behind.splitlines() if line.startswith("## ")
    }
    assert not [to for to in led if f'<a id="{to}"></a>' not in behind and to not in headings]


def test_pictures_stand_alone_and_load_nothing() -> None:
    for name, text in page(Results(published()).kept()).items():
        if name.endswith(".svg"):
            root = ElementTree.fromstring(text)
            assert root.tag == "{http://www.w3.org/2000/svg}svg"
            assert not [attribute for each in root.iter() for attribute in each.attrib if "href" in attribute]


def test_every_paper_and_every_committed_outcome_is_on_the_page() -> None:
    kept = Results(published()).kept()
    assert len(kept) > 30
    told = page(kept)["results-tables.md"]
    for name, outcome in kept.items():
        assert f'<a id="{name}"></a>' in told
        assert f"(results/{name}{'.quick' if outcome.quick else ''}.json)" in told
        assert f"\n## {experiments()[name].paper}\n" in told


# --- made-up outcomes -----------------------------------------------------------------------------------------


def outcome(rows: list[Row], **more: Any) -> Outcome:
    told: dict[str, Any] = {"name": "anonml-5", "paper": "Nobody", "place": "figure 1", "shows": "Nothing."}
    told |= {"measure": "share", "across": "epsilon", "unit": "person", "data": "none", "made_up": False}
    told |= {"quick": False, "seeds": (0, 1), "seconds": 1.0, "notes": ("We differ | here.", "More <b>.")}
    return Outcome(**{**told, "rows": tuple(rows), **more})


def experiment(headline: Headline | None = None) -> Experiment:
    def find(quick: bool, seeds: Any) -> Found:
        raise AssertionError("nobody runs this")

    return Experiment(name="anonml-5", paper="Nobody", place="figure 1", shows="Nothing.", measure="share",
                      across="epsilon", find=find, headline=headline)  # fmt: skip


def curve(*points: tuple[float, float], **more: Any) -> list[Row]:
    return [Row(series="ours", at=at, ours=ours, epsilon=at, ceiling=0.9, **more) for at, ours in points]


def test_a_curve_becomes_a_line_with_a_column_for_each_place() -> None:
    told = list(table(outcome([]), curve((1.0, 0.6), (4.0, 0.8), spread=0.012)))
    assert told == [
        "| epsilon: | 1 | 4 | not private |",
        "| --- | ---: | ---: | ---: |",
        "| ours | 0.6 ± 0.01 | 0.8 ± 0.01 | 0.9 |",
    ]


def test_what_is_printed_stands_beside_what_came_out() -> None:
    rows = [*curve((1.0, 0.6), panel="a"), Row(panel="a", series="other", ours=1234.5, printed=0.5)]
    told = list(table(outcome([]), rows))
    assert told[0] == "|  |  | epsilon | printed | ours | not private |"
    assert told[2:] == ["| a | ours | 1 |  | 0.6 | 0.9 |", "|  | other |  | 0.5 | 1,234 |  |"]


def test_the_headline_chooses_or_the_ends_of_curves_are_told() -> None:
    whole = outcome(curve((1.0, 0.6), (4.0, 0.8)))
    assert [row.at for row in experiment().told(whole)] == [4.0]
    assert [row.at for row in experiment(Headline(at=(1.0,))).told(whole)] == [1.0]
    assert [row.at for row in experiment(Headline(at=(2.0,))).told(whole)] == [4.0]
    printed = replace(whole, rows=(replace(whole.rows[0], printed=0.5), whole.rows[1]))
    assert [row.at for row in experiment().told(printed)] == [1.0]


@pytest.mark.parametrize(
    ("ours", "cell"),
    [
        (0.5, "0.5<br>(0\u00a0%)"),
        (0.7, "0.7<br>(50\u00a0%)"),
        (0.8, "0.8<br>75\u00a0%"),
        (0.87, "0.87<br>**92\u00a0%**"),
    ],
)
def test_the_summary_says_how_much_of_what_there_is_to_learn_was_learned(ours: float, cell: str) -> None:
    rows = [replace(row, panel="p") for row in curve((1.0, ours))]
    line = Line(words="w", name="anonml-5", panel="p", series=("ours",), naive=0.5)
    assert list(matrix({"anonml-5": outcome(rows)}, [line]))[2] == f"| [w](#anonml-5) |  | {cell} | 0.9 |"


def test_errors_count_downwards_and_what_is_not_kept_is_left_out() -> None:
    rows = [Row(series="epsilon 1", at="rides", ours=0.004, ceiling=0.002, epsilon=1.0)]
    line = Line(words="w", name="anonml-5", series=("epsilon *",), at="rides", naive=0.01, people=1000)
    lines = [line, replace(line, name="gone")]
    assert list(matrix({"anonml-5": outcome(rows)}, lines))[2:] == [
        "| [w](#anonml-5) | 1,000 | 0.004<br>75\u00a0% | 0.002 |"
    ]
    quick = list(matrix({"anonml-5": outcome(rows, quick=True)}, lines))
    assert quick[2] == "| [w](#anonml-5), *quick* |  | 0.004<br>75\u00a0% | 0.002 |"


def test_a_section_tells_the_run_and_the_sentence_where_we_differ() -> None:
    told = "\n".join(section([(experiment(Headline(differs=0)), outcome(curve((1.0, 0.6)), quick=True))]))
    assert "### Figure 1" in told
    assert "A quick run" in told
    assert "Where we differ: We differ | here." in told
    assert "<li>More &lt;b&gt;.</li>" in told
    assert "[all 1 rows](results/anonml-5.quick.json)" in told
    assert "`anonml-5`: 2 seeds, 1.0 s." in told
    assert "Epsilon is what one person pays in all." in told


def test_panels_along_axes_of_their_own_have_tables_of_their_own() -> None:
    rows = [*curve((1.0, 0.6), (4.0, 0.8), panel="by epsilon"), *curve((2.0, 12.5), panel="by size", spread=11.0)]
    told = list(table(outcome([], across="place"), rows))
    assert [line.strip() for line in told if line.strip().startswith("*")] == ["*by epsilon*", "*by size*"]
    assert "| place: | 1 | 4 | not private |" in told
    assert "| ours | 2 | 12.5 ± 11 | 0.9 | 2 |" in told


def test_what_to_expect_is_told_by_people_and_epsilon_and_left_out_where_it_was_not_run() -> None:
    share, chance = (next(p for p in WANTED if p.startswith(w)) for w in ("a share", "a forecast"))
    rows = [
        Row(panel=panel, series="nobody is trusted, epsilon 1", at=at, ours=ours, ceiling=ceiling, epsilon=1.0)
        for panel, at, ours, ceiling in (
            (share, 100.0, 7.8, 0.0), (share, 1000.0, 2.5, 0.0),
            (chance, 100.0, 0.6, 0.9), (chance, 1000.0, 0.88, 0.9),
        )
    ]  # fmt: skip
    lines = list(expected({"tiresias-people": outcome(rows, name="tiresias-people", across="people")}))
    assert "| wanted | trusted | epsilon | 100 people | 1,000 people | not private |" in lines
    assert "|  | nobody | 1 | 7.8 | 2.5 | 0 |" in lines
    assert "|  | nobody | 1 | (0.60) | **0.88** | 0.9 |" in lines
    assert list(expected({})) == []


def test_errors_by_trust_are_told_with_what_mixed_answers_cost_people() -> None:
    told = {"at": 1000.0, "panel": SHARE}
    rows = [
        Row(**told, series="nobody, epsilon 1", ours=3.2, epsilon=1.0),
        Row(**told, series="mixed, epsilon 1", ours=0.83, epsilon=2.66),
        Row(**told, series="split, epsilon 0.1", ours=2.0, epsilon=0.1),
    ]
    lines = list(by_trust({"tiresias-trust": outcome(rows, name="tiresias-trust", across="people")}))
    assert "| wanted | trusted | epsilon 1: 1,000 | epsilon 0.1: 1,000 |" in lines
    assert "| a share: percentage points off | nobody | 3.2 |  |" in lines
    assert "|  | nobody, mixed | 0.83 (2.66) |  |" in lines
    assert "|  | one of two servers |  | 2 |" in lines
    assert list(by_trust({})) == []


def test_days_are_told_once_for_all_that_was_made_with_the_same() -> None:
    first = Made.here()
    kept = {
        "a": outcome([], made=replace(first, day="2026-01-01")),
        "b": outcome([], made=replace(first, day="2026-01-03")),
    }
    told = made({**kept, "c": outcome([])})
    assert told.count("Made with") == 1
    assert told.endswith("2026-01-01 to 2026-01-03.")
