"""Error bars hold as often as they say, and are no wider than they must be: a quick part of `make bars`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t

from evidence.bars import page
from evidence.bars.asked import Barred, everything
from evidence.bars.measured import EPSILONS, BarCell, measured
from evidence.bars.results import kept
from evidence.bars.running import without
from thebes.privacy.mechanisms.local.shape import about


def quick() -> Iterator[pytest.param]:
    for each in everything():
        for n in (100, 1000):
            yield pytest.param(each, n, id=f"{each.name}, {n}")


@pytest.mark.few(4, slow=12)
@pytest.mark.parametrize(("barred", "n"), list(quick()))
def test_bars_hold_as_often_as_they_say_and_are_not_too_wide(barred: Barred, n: int) -> None:
    cells = [measured(barred, barred.laws[0], n, epsilon, 150) for epsilon in EPSILONS]
    assert not [page.line(cell) for cell in cells if cell.too_rarely(1000) or cell.too_wide]


def test_everything_was_measured_all_of_it_is_good_and_the_page_has_each_cell() -> None:
    cells = kept()
    assert {(cell.statistic, cell.way) for cell in cells} == {(each.statistic, each.way) for each in everything()}
    assert page.bad(cells) == []
    assert page.written(cells).count("held ") + page.written(cells).count("| no bar") >= len(cells)


def test_a_bar_that_holds_too_rarely_or_is_too_wide_is_found() -> None:
    good = BarCell("mean", "people", "normal", 100, 1.0, 1000, 1000, 950, 1.0, 0.9, 1.2)
    assert page.bad([good, replace(good, held=1000), replace(good, held=930)]) == []
    rare, wide = replace(good, held=900), replace(good, half=1.3)
    assert page.bad([good, rare, wide]) == [rare, wide]


def test_a_run_that_was_cut_short_goes_on_with_the_cells_that_are_missing() -> None:
    known = BarCell("mean", "people", "normal", 100, 1.0, 200, 200, 190, 1.0, 0.9, 1.2)
    wanted = [("mean, people", "normal", n, 1.0, 200) for n in (100, 1000)]
    assert without(wanted, [known]) == wanted[1:]
    assert without([("mean, people", "normal", 100, 1.0, 201)], [known])


@pytest.mark.parametrize("reports", [30, 100, 1000])
def test_the_bar_of_few_reports_is_students(reports: int) -> None:
    """Their scatter is all that is known of the noise."""
    bar = about(np.asarray(0.0), np.asarray(1.0), reports).interval(0.95)
    assert float(bar.high) == pytest.approx(t.isf(0.025, reports - 1), rel=2e-3)
