"""The page about growth: written from what was kept, complete, with the ratio that the two times give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MEASURED = {
    "does": "A count",
    "beside": "a bare engine",
    "of": "rows",
    "points": [{"size": 1_000, "seconds": 0.003, "bare": 0.0015}, {"size": 10_000_000, "seconds": 42.0, "bare": 10.5}],
}


@pytest.fixture
def growth(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    from evidence.growth import page, results

    return page, results


def test_what_was_measured_is_kept_beside_what_is_known_of_others(growth: Any, tmp_path: Path) -> None:
    _, results = growth
    for name in ("rows", "sites"):
        results.written_with(name, MEASURED, tmp_path / "kept.json")
    kept = results.kept(tmp_path / "kept.json")
    assert {*kept} == {"rows", "sites"}
    assert kept["rows"]["points"] == MEASURED["points"]
    assert {*kept["rows"]} >= {"day", "thebes", "cores"}


def test_every_figure_of_the_page_is_one_that_was_kept(growth: Any, tmp_path: Path) -> None:
    page, results = growth
    told = page.of_series(results.written_with("rows", MEASURED, tmp_path / "kept.json"))
    assert told[-3:] == ["| 1,000 | 3 ms | 1.5 ms | 2 |", "| 10,000,000 | 42 s | 10 s | 4 |", ""]


def test_the_page_has_every_series_there_is(growth: Any) -> None:
    page, results = growth
    kept = results.kept()
    assert {*kept} == {*page.ORDER}, "make growth keeps them all"
    written = page.written(kept)
    for series in kept.values():
        assert f"## {series['does']}\n" in written
        assert series["day"] in written
