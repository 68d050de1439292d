"""The curve of expected errors over epsilon and people, beside no noise and beside a guess."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

from tests.support.command import exit_status
from thebes.privacy.faults import Mistake
from thebes.simulation.error_curve import OFF, SQUARED, WRONG, error_curve

DRAW = np.random.default_rng(0)
AGES = {"age": DRAW.normal(70, 10, 4000).clip(0, 120)}
RANGE = {"age": {"type": "range", "low": 0, "high": 120}}


def asked(aggregator: str, **more: object) -> dict:
    fields = {"type": "basic", "featurizer": "SELECT age FROM p.t", "aggregator": aggregator, "bounds": RANGE}
    return {**fields, "min_count": 11, **more}


def test_errors_fall_with_epsilon_and_people_to_those_without_noise_and_below_a_guess() -> None:
    points = error_curve(asked("mean"), AGES, epsilons=[0.1, 50], people=[30, 2000], repeats=8)
    assert [(point.people, point.epsilon) for point in points] == [(30, 0.1), (30, 50), (2000, 0.1), (2000, 50)]
    few_cheap, few_dear, many_cheap, many_dear = points
    assert few_cheap.error > few_dear.error > many_dear.error
    assert few_cheap.error > many_cheap.error
    assert many_dear.error == pytest.approx(many_dear.not_private, rel=0.1)
    assert few_cheap.guessing == pytest.approx(abs(60 - AGES["age"].mean()), abs=0.1)
    assert few_cheap.error > few_cheap.guessing > many_cheap.error
    assert {point.measure for point in points} == {OFF}
    assert json.loads(json.dumps(few_cheap.as_json())) == asdict(few_cheap)
    assert list(pd.DataFrame(points).columns) == ["epsilon", "people", "error", "not_private", "guessing", "measure"]


@pytest.mark.parametrize(
    ("aggregator", "more", "guess"),
    [("sum", {}, 100 * 60), ("histogram", {"bins": 4}, 25), ("std", {}, 120 / 12**0.5), ("count", {}, 50)],
)
def test_an_answer_that_grows_is_held_against_as_many_people(aggregator, more, guess) -> None:
    missing = {"missing": "count"} if aggregator in ("count", "sum", "histogram") else {}
    (point,) = error_curve(asked(aggregator, **more, **missing), AGES, epsilons=[1e4], people=[100], repeats=6)
    spread = {"sum": 70 * 100, "histogram": 100, "std": 10, "count": 100}[aggregator]
    assert point.error < 0.4 * spread
    assert point.guessing > 0.1 * guess


def test_without_rows_no_guess_is_told_because_people_are_made_up_like_it() -> None:
    (point,) = error_curve(asked("median"), epsilons=[1], people=[50], repeats=2)
    assert point.guessing is None
    assert np.isfinite(point.error)


def test_without_rows_a_column_without_bounds_is_refused_with_what_to_give() -> None:
    with pytest.raises(Mistake, match="'age' can have; give a table of people like them, or declare its bounds"):
        error_curve({**asked("median"), "bounds": None}, epsilons=[1], people=[50], repeats=2)


@pytest.mark.parametrize(("output", "measure"), [("kind", WRONG), ("weight", SQUARED)])
def test_a_model_is_judged_over_people_it_did_not_learn_from(output, measure) -> None:
    x = DRAW.uniform(0, 1, 1200)
    kind, weight = np.where(x > 0.5, "b", "a"), 3 * x + DRAW.normal(0, 0.1, 1200)
    bounds = {"x": {"type": "range", "low": 0, "high": 1}}
    bounds["kind"] = {"type": "set", "values": ["a", "b"]}
    bounds["weight"] = {"type": "range", "low": 0, "high": 4}
    document = {
        "type": "integrated",
        "model": "GaussianNB" if output == "kind" else "LinearRegression",
        "featurizer": f"SELECT x, {output} FROM p.t",
        "inputs": ["x"],
        "output": output,
        "min_count": 11,
        "delta": 1e-6,
        "bounds": {name: bounds[name] for name in ("x", output)},
    }
    rows = {"x": x, "kind": kind, "weight": weight}
    (point,) = error_curve(document, rows, epsilons=[20], people=[400], repeats=2)
    assert point.measure == measure
    assert point.error < 0.5 * point.guessing
    assert point.not_private < 0.5 * point.guessing


def test_the_command_prints_a_table_or_plain_data(tmp_path, capsys) -> None:
    task, people = tmp_path / "task.json", tmp_path / "people.csv"
    task.write_text(json.dumps(asked("mean")))
    pd.DataFrame(AGES).head(200).to_csv(people, index=False)
    given = ["task", "curve", str(task), "--people", "20", "--epsilon", "1", "--repeats", "2", "--data", str(people)]
    assert exit_status(*given) == 0
    head, columns, line = capsys.readouterr().out.splitlines()
    assert head == "distance from the truth:"
    assert columns.split() == ["people", "epsilon", "error", "not", "private", "guessing"]
    assert line.split()[:2] == ["20", "1"]
    assert exit_status(*given, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["measure"] == OFF
    assert [point["people"] for point in told["points"]] == [20]


@pytest.mark.parametrize(
    ("argument", "value"), [("epsilons", []), ("people", []), ("share", 1.0), ("repeats", 0), ("epsilons", [0])]
)
def test_bad_input_is_refused_by_name(argument, value) -> None:
    options = {"epsilons": [1.0], "people": [20], "share": 0.9, "repeats": 1, argument: value}
    with pytest.raises(Mistake) as refused:
        error_curve(asked("mean"), AGES, **options)
    assert refused.value.argument == ("epsilon" if value == [0] else argument)
