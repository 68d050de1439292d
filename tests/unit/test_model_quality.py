"""The figure of what a model is worth: read off a noisy table, told in a sentence, shown with the release."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import thebes
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.additive import Gaussian, Laplace
from thebes.privacy.model_quality import NOT_CHECKED, Quality, Worth, of_table, verdict_of
from thebes.privacy.stability import Sensitivity
from thebes.tasks.quality_view import sections
from thebes.tasks.release_reader import release_from_json

SENSITIVITY = Sensitivity(2, 2, 4)
FAINT = Laplace(100).noise(SENSITIVITY)
LOUD = Laplace("0.1").noise(SENSITIVITY)


def judged(table: list[list[float]], noise=FAINT) -> Quality:
    return of_table(table, noise, share=0.1, epsilon=1.0, of="rows that it was not made from")


def release():
    document = {
        "type": "basic", "epsilon": 1.0, "min_count": 11, "featurizer": "SELECT age FROM p.t", "aggregator": "mean",
        "bounds": {"age": {"type": "range", "low": 0, "high": 100}},
    }  # fmt: skip
    return thebes.simulate(document, {"age": np.arange(50.0)}, seed=1)


def test_a_model_that_tells_most_rows_right_is_better_than_guessing() -> None:
    found = judged([[140, 10], [130, 20]])
    assert found.verdict is Worth.BETTER
    assert not found.warns
    assert found.value == pytest.approx(0.9)
    assert found.guessing == pytest.approx(0.5)
    assert found.interval.low < 0.9 < found.interval.high
    assert found.people == 300


def test_a_model_that_says_the_most_frequent_class_of_everybody_is_no_better() -> None:
    found = judged([[900, 0], [0, 600]])
    assert found.verdict is Worth.NO_BETTER
    assert found.warns


def test_one_class_that_is_told_well_is_not_enough_where_another_is_more_frequent() -> None:
    assert judged([[500, 300], [150, 50]]).verdict is not Worth.BETTER


def test_few_rows_or_much_noise_leave_it_open() -> None:
    assert judged([[6, 1], [6, 2]]).verdict is Worth.UNTOLD
    assert judged([[140, 10], [130, 20]], LOUD).verdict is Worth.UNTOLD
    assert judged([[0, 0], [0, 0]]).verdict is Worth.UNTOLD


def test_noise_widens_the_interval_of_either_kind() -> None:
    table = [[140.0, 10.0], [130.0, 20.0]]
    smooth = Gaussian(1, "1e-6").noise(SENSITIVITY)
    widths = [f.interval.high - f.interval.low for f in (judged(table), judged(table, smooth), judged(table, LOUD))]
    assert widths == sorted(widths)


def test_cells_that_noise_made_negative_are_read() -> None:
    found = judged([[-3.0, -2.0], [-4.0, 1.0]], LOUD)
    assert (found.value, found.people) == (0.0, 0)
    assert (found.interval.low, found.interval.high) == (0.0, 1.0)


@pytest.mark.parametrize("table", [[[1.0, 2.0]], [[np.nan, 1.0], [1.0, 1.0]]])
def test_what_is_no_table_is_refused(table) -> None:
    with pytest.raises(Mistake, match="table"):
        judged(table)


def test_a_verdict_needs_a_gain_that_is_sure_or_one_that_is_surely_small() -> None:
    assert verdict_of(0.01, 0.3) is Worth.BETTER
    assert verdict_of(-0.1, 0.04) is Worth.NO_BETTER
    assert verdict_of(-0.1, 0.3) is Worth.UNTOLD


def test_the_figure_is_one_sentence_with_its_interval_and_the_guess() -> None:
    said = judged([[140, 10], [130, 20]]).sentence
    assert said.startswith("the model is better than guessing: on 300 rows that it was not made from (10 % of all) it ")
    assert "gets 90 % right (95% interval 85.4 % to" in said
    assert said.endswith("the most frequent class alone 50 %")


def test_a_release_says_what_its_model_is_worth_everywhere() -> None:
    told = release().beside(quality=judged([[6, 1], [6, 2]]).as_json())
    back = release_from_json(json.loads(json.dumps(told.as_json(), allow_nan=False)))
    assert back.quality == told.quality == judged([[6, 1], [6, 2]])
    assert "warning: the model cannot be told from guessing" in str(back)
    assert "warning: the model cannot be told from guessing" in back._repr_html_()
    (section,) = sections(back)
    assert "Warning: the model cannot be told from guessing" in section.words


def test_of_a_model_whose_guess_was_not_bought_no_verdict_is_given() -> None:
    found = replace(judged([[140, 10], [130, 20]]), guessing=None, verdict=None)
    assert Quality.of_json(found.as_json()) == found
    assert not found.warns
    assert found.sentence.startswith("the model was tested: on 300 rows")
    assert "most frequent" not in found.sentence


def test_a_release_says_that_its_model_was_not_checked() -> None:
    told = release().beside(quality=None)
    assert told.quality is None
    assert NOT_CHECKED in str(told)
    assert "not checked" in sections(told)[0].words


def test_an_answer_that_is_no_model_has_no_quality() -> None:
    assert release().quality is None
    assert sections(release()) == ()
    assert "guessing" not in str(release())


@pytest.mark.parametrize("body", [{}, [], "good", {**judged([[9, 1], [9, 1]]).as_json(), "verdict": "splendid"}])
def test_a_figure_that_is_none_is_refused_as_the_release_is_read(body) -> None:
    with pytest.raises(Mistake, match="quality"):
        release_from_json({**release().as_json(), "quality": body})
