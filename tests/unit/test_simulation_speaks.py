"""Nobody's data give no confident answer: simulations know which values did not fit, and say so."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import thebes
from thebes.data.rows import Rows
from thebes.privacy.faults import Mistake
from thebes.simulation.sweeps import plan, sweep
from thebes.tasks import fit, registry

N = 2000
DRAW = np.random.Generator(np.random.PCG64(1))
AGES = DRAW.integers(20, 80, N)
SEX = DRAW.choice(np.array(["female", "male"], dtype=object), N)
AGE = {"type": "range", "low": 0.0, "high": 100.0}
SETS = {"type": "set", "values": ["female", "male"]}
X = {"type": "range", "low": -3.0, "high": 3.0}
Y = {"type": "set", "values": [0, 1]}

KINDS: dict[str, dict[str, Any]] = {
    "basic": {"type": "basic", "epsilon": 4.0, "aggregator": "mean"},
    "counted": {"type": "basic", "epsilon": 4.0, "aggregator": "mean", "missing": "count"},
    "bounded": {"type": "bounded", "epsilon": 4.0},
    "privunit": {"type": "bounded", "epsilon": 4.0, "mechanism": "privunit"},
}
MODELS: dict[str, dict[str, Any]] = {
    "integrated": {"type": "integrated", "epsilon": 8.0, "model": "GaussianNB", "inputs": ["x"], "output": "y"},
    "ensemble": {"type": "ensemble", "epsilon": 8.0, "label": "y", "bins": {"x": [0.0]}, "partitions": 1},
    "draw-discard": {
        "type": "draw-discard", "epsilon": 8.0, "family": "logistic", "inputs": ["x"], "output": "y", "instances": 2,
    },
}  # fmt: skip


def mean(kind: str, bound: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**KINDS[kind], "featurizer": "SELECT age FROM p.t", "bounds": {"age": bound}, **more}


def said(document: dict[str, Any], rows: Any) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release = thebes.simulate(document, rows, seed=1)
    return release, [str(warning.message) for warning in caught]


def warned(ask: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ask()
    return [str(warning.message) for warning in caught]


def test_sweeps_and_plans_say_once_which_values_do_not_fit() -> None:
    document = mean("basic", {"type": "range", "low": 0.0, "high": 10.0})
    rows, line = {"age": AGES}, "age: 100 % above 10, cut to it"
    assert warned(lambda: sweep(document, rows, vary={"epsilon": [1.0, 2.0]}, repeats=3)) == [line]
    assert warned(lambda: plan(document, within=5.0, people=200, rows=rows, repeats=5)) == [line]
    assert warned(lambda: plan(document, within=5.0, people=200, repeats=5)) == []
    wider = [{"age": {"type": "range", "low": 0.0, "high": high}} for high in (10.0, 100.0)]
    assert warned(lambda: sweep(document, rows, vary={"bounds": wider}, repeats=2)) == [line]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("ages", "cause"),
    [
        ([None] * N, "100 % without a value"),
        (["forty"] * N, "100 % text, where a number is needed"),
        ([np.nan] * 1800 + ["old"] * 200, "90 % without a value, 10 % text, where a number is needed"),
    ],
)
def test_nobodys_data_are_refused_although_a_default_stands_in(kind: str, ages: list, cause: str) -> None:
    with pytest.raises(Mistake, match=f"no usable value in column 'age' .{cause}"):
        thebes.simulate(mean(kind, {**AGE, "default": 50.0}), {"age": ages}, seed=1)
    release, _ = said(mean(kind, {**AGE, "default": 50.0}, default_is_meant=True), {"age": ages})
    assert release.extra["rows_fit"]["age"]["usable"] == 0


@pytest.mark.parametrize("kind", ["basic", "bounded"])
def test_values_that_nobody_declared_are_refused_by_column(kind: str) -> None:
    document = {**KINDS[kind], "featurizer": "SELECT sex FROM p.t", "bounds": {"sex": {**SETS, "default": "male"}}}
    if kind == "basic":
        document["aggregator"] = "histogram"
    with pytest.raises(Mistake, match=r"column 'sex' .100 % not among the declared values.: the default stands in"):
        thebes.simulate(document, {"sex": ["F"] * 60 + ["M"] * 50}, seed=1)


@pytest.mark.parametrize("kind", KINDS)
def test_ages_above_their_bounds_are_said_to_be_cut(kind: str) -> None:
    release, lines = said(mean(kind, {"type": "range", "low": 0.0, "high": 10.0}), {"age": AGES})
    assert "age: 100 % above 10, cut to it" in lines
    assert release.extra["rows_fit"] == {"age": {"usable": 1.0, "shares": {"above 10, cut to it": 1.0}}}
    assert "rows simulated, age: 100.00% above 10, cut to it" in str(release)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("column", ["x", "y"])
def test_models_of_nobodys_data_are_refused_too(kind: str, column: str) -> None:
    x = np.clip(DRAW.normal(size=300), -2.9, 2.9)
    rows = {"x": x, "y": (x > 0).astype(int)}
    default = {"x": {**X, "default": 0.0}, "y": {**Y, "default": 0}}
    document = {
        **MODELS[kind],
        "featurizer": "SELECT x, y FROM p.t",
        "bounds": {"x": X, "y": Y, column: default[column]},
    }
    with pytest.raises(Mistake, match=f"no usable value in column '{column}'"):
        thebes.simulate(document, {**rows, column: ["text"] * 300}, seed=1)
    far = {**rows, "x": np.where(np.arange(300) < 30, 50.0, x)}
    assert "x: 10 % above 3, cut to it" in said(document, far)[1]


def test_a_gradient_of_nobodys_data_is_refused() -> None:
    from thebes.tasks.gradient.scene import LOSS, MODEL

    document = {
        "type": "gradient", "epsilon": 8.0, "featurizer": "SELECT a, b, y FROM p.t", "inputs": ["a", "b"],
        "outputs": ["y"], "model": MODEL, "loss": LOSS,
    }  # fmt: skip
    with pytest.raises(Mistake, match=r"no usable value in column 'b' .100 % without a value"):
        thebes.simulate(document, {"a": [1.0] * 20, "b": [None] * 20, "y": [1] * 20}, seed=1)


def test_a_few_that_do_not_fit_are_counted_and_not_warned_of() -> None:
    ages = [*AGES[:1960].tolist(), *[None] * 20, *["x"] * 10, *[200] * 10]
    release, lines = said(mean("counted", AGE), {"age": ages})
    assert lines == []
    shares = release.extra["rows_fit"]["age"]["shares"]
    assert shares == {"above 100, cut to it": 0.005, "text, where a number is needed": 0.005, "without a value": 0.01}
    worse = [*AGES[:1880].tolist(), *[None] * 60, *[200] * 60]
    assert said(mean("counted", AGE), {"age": worse})[1] == ["age: 3 % above 100, cut to it, 3 % without a value"]


def test_of_several_rows_each_counts_and_whoever_has_none_has_no_value() -> None:
    document = registry.check(
        {**MODELS["draw-discard"], "featurizer": "SELECT x, y FROM p.t", "bounds": {"x": X, "y": Y}}
    )
    rows = Rows(
        {"x": np.array([1.0, 9.0, np.nan]), "y": np.array([0, 1, 7])}, np.array([0, 0, 2]), 3, np.zeros(3, np.uint8)
    )
    x, y = fit.fits(document, rows)
    assert (x.rows, x.usable, x.faults["above 3, cut to it"], x.faults["without a value"]) == (4, 2, 1, 2)
    assert (y.usable, y.faults["not among the declared values"], y.faults["without a value"]) == (2, 1, 1)
    assert fit.outcomes(document, rows).tolist() == [0, fit.UNUSABLE, fit.UNUSABLE]


@pytest.mark.parametrize("kind", KINDS)
def test_worked_counts_values_that_counted(kind: str) -> None:
    ages = [None if i % 2 else 40 for i in range(N)]
    document = mean(kind, {**AGE, "default": 50.0}, diagnostics=0.5, epsilon=40.0)
    release, _ = said(document, {"age": ages})
    told = release.extra["diagnostics"]
    assert told["worked"] == pytest.approx(N / 2, abs=30)
    assert told["no usable value"] == pytest.approx(N / 2, abs=30)


ONE = {"type": "range", "low": 0.0, "high": 100.0}


@pytest.mark.parametrize(
    ("document", "ages", "line"),
    [
        (mean("basic", ONE), [120.0], "age: your value is above 100, cut to it"),
        (mean("bounded", ONE), [-3.0], "age: your value is below 0, cut to it"),
        (mean("basic", ONE), [None], "age: your value is missing: you cannot agree; if a rule agrees for you, "
         "your machine sends 50, the middle of the range, instead"),
        (mean("counted", ONE), [None], "age: your value is missing: it counts as missing"),
        (mean("bounded", {**ONE, "default": 50.0}), ["x"],
         "age: your value is text, where a number is needed: 50 counts instead"),
        (mean("bounded", ONE), [], "age: your value is missing: it counts as missing, as the task declares"),
    ],
)  # fmt: skip
def test_an_owner_is_told_what_becomes_of_the_own_value(document: dict, ages: list, line: str) -> None:
    rows = Rows({"age": np.array(ages, dtype=object)}, np.zeros(len(ages), np.int64), 1, np.zeros(1, np.uint8))
    assert fit.told_to_owner(registry.check(document), rows) == [line]
    assert fit.told_to_owner(registry.check(document), Rows.one_each({"age": [50.0]})) == []


NUMBER = {**ONE, "low": 20.0}
#: what is declared of a column, how what a trusted kind sends of a value that does not fit is called, and what it is
STAND_INS = [
    ("mean", NUMBER, "60, the middle of the range,", 60.0),
    ("mean", {**NUMBER, "default": 30.0}, "30", 30.0),
    ("median", NUMBER, "60, the middle of the range,", 60.0),
    ("mean", None, "0", 0.0),
]


@pytest.mark.parametrize(("aggregator", "bound", "words", "sent"), STAND_INS)
@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize("diagnostics", [None, 0.1])
def test_what_is_told_of_a_stand_in_is_what_is_sent(
    aggregator: str, bound: Any, words: str, sent: float, failed: bool, diagnostics: float | None
) -> None:
    from thebes.privacy.promise import Unit
    from thebes.privacy.randomness import seeded_for_simulation
    from thebes.simulation.budgets import SimulatedBudgets
    from thebes.tasks.protocols import Ask

    told = {"type": "basic", "epsilon": 1.0, "aggregator": aggregator, "featurizer": "SELECT age FROM p.t"}
    told |= {} if bound is None else {"bounds": {"age": bound}}
    told |= {} if diagnostics is None else {"diagnostics": diagnostics}
    document: Any = registry.check(told)
    rows = Rows({"age": np.array([None], dtype=object)}, np.zeros(1, np.int64), 1, np.array([failed], np.uint8))
    owner = registry.owner(document)
    (line,) = fit.told_to_owner(document, rows)
    able = bool(owner.able(document, rows)[0])
    assert ("you cannot agree" in line) == (not able)
    assert f"{words} counts instead" in line or f"sends {words} instead" in line
    claim = SimulatedBudgets(1, registry.kind("basic").price(document, unit=Unit.PERSON)).of(
        np.zeros(1, dtype=np.int64)
    )
    given = owner.contribute(document, Ask("ask", "", 0), rows, claim, randomness=seeded_for_simulation(1))
    assert given.fields["age"].tolist() == [sent]
    assert ("that the query failed" in line) == (
        failed and diagnostics is not None and not (bound or {}).get("default")
    )


@pytest.mark.parametrize("kind", ["draw-discard", "gradient"])
@pytest.mark.parametrize("default", [None, "a"])
def test_what_is_told_of_a_models_inputs_and_outputs_is_what_it_learns_from(kind: str, default: str | None) -> None:
    from thebes.tasks.draw_discard import features
    from thebes.tasks.gradient import network
    from thebes.tasks.gradient.scene import LOSS, MODEL

    sets: dict[str, Any] = {"type": "set", "values": ["a", "b", "c"]}
    label: dict[str, Any] = {"type": "set", "values": [0, 1]}
    if default is not None:
        sets["default"], label["default"] = default, 1
    body: dict[str, Any] = {
        "epsilon": 8.0, "featurizer": "SELECT k, x, y FROM p.t", "inputs": ["k", "x"],
        "bounds": {"k": sets, "x": {**X, "high": 5.0}, "y": label},
    }  # fmt: skip
    rows = Rows.one_each({name: np.array([None], dtype=object) for name in ("k", "x", "y", "z")})
    if kind == "gradient":
        body |= {"type": kind, "outputs": ["y"], "model": MODEL, "loss": LOSS}
        body |= {"inputs": ["x", "z"], "featurizer": "SELECT x, z, y FROM p.t"}
        body["bounds"] = {"x": body["bounds"]["x"], "z": X, "y": label}
        document: Any = registry.check(body)
        inputs, _, usable = network.tables(document, rows)
        category, number = None, inputs[0, 0]
    else:
        document = registry.check({**body, "type": kind, "family": "logistic", "output": "y", "instances": 2})
        _, usable = features.output_of(document, rows)
        category = sets["values"][int(features.encoded(document, rows, "k")[0])]
        number = 8 * features.encoded(document, rows, "x")[0] - 3
    told = dict(line.split(": your value is missing: ") for line in fit.told_to_owner(document, rows))
    assert number == 1.0
    assert told["x"] == "1, the middle of the range, counts instead"
    assert category is None or told["k"] == f"{category} counts instead"
    assert bool(usable[0]) == (told["y"] == "1 counts instead")
    assert usable[0] or told["y"] == "the row is left out, and who has no other sends noise alone"


def test_of_several_own_rows_it_is_said_of_how_many() -> None:
    document = {**MODELS["draw-discard"], "featurizer": "SELECT x, y FROM p.t", "bounds": {"x": X, "y": Y}}
    rows = Rows(
        {"x": np.array([1.0, 9.0, np.nan]), "y": np.array([0, 1, 7])}, np.zeros(3, np.int64), 1, np.zeros(1, np.uint8)
    )
    assert fit.told_to_owner(registry.check(document), rows) == [
        "x: 1 of your 3 values are above 3, cut to it",
        "x: 1 of your 3 values are missing: 0, the middle of the range, counts instead",
        "y: 1 of your 3 values are not among the declared values: the row is left out, and who has no other sends "
        "noise alone",
    ]


def test_a_real_answer_says_which_shares_were_not_bought() -> None:
    release, _ = said(mean("basic", {**AGE, "default": 50.0}), {"age": AGES})
    words = "It was not measured how many values were replaced by a default (age) or cut to their bounds (age)"
    assert words in release.certificate.text
    assert "not bought" not in said({**KINDS["counted"], "aggregator": "count", "featurizer": "SELECT age FROM p.t"}, {"age": AGES})[0].certificate.text  # fmt: skip  # noqa: E501
