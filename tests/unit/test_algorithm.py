"""Documents composed of blocks: each block is what it is elsewhere, and what does not fit together is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import thebes
from tests.support.training import DOCUMENT, SCHEMA, Silent, patients, run, site
from thebes.data.schema import schema_of
from thebes.learning.slopes import curvatures, squared, steepest, triangle
from thebes.learning.updates import Adam, Newton
from thebes.privacy.faults import Mistake
from thebes.tasks import registry

SITES = {"a": patients(90, 1), "b": patients(150, 2)}
TABLES = {name: site(rows) for name, rows in SITES.items()}
FEATURES = {"tall": {"divide": [{"subtract": ["height", 160]}, 60]}, "man": {"is": ["sex", "male"]}}
GRADIENT = {
    "type": "algorithm", "dataset": "patients", "epsilon": 1e6, "delta": 1e-6, "features": FEATURES,
    "map": {
        "gradient": {"model": "LogisticRegression", "inputs": ["age", "tall", "man"], "output": "ill", "clip": 9.0}
    },
    "reduce": "mean", "update": {"rule": "sgd", "learning_rate": 2.0}, "stop": {"rounds": 5}, "average": "last",
}  # fmt: skip
STATISTIC = {
    "type": "algorithm", "dataset": "patients", "epsilon": 1e5, "features": FEATURES,
    "map": {"statistic": {"column": "tall"}}, "reduce": "mean",
}  # fmt: skip

OF_FEATURES = {
    "sum": {"column": "tall"}, "mean": {"column": "tall", "by": ["sex"]}, "variance": {"column": "tall"},
    "histogram": {"column": "tall", "bins": 5}, "quantile": {"column": "tall", "quantile": 0.5, "bins": 32},
    "correlation": {"columns": ["tall", "age"]},
}  # fmt: skip


def everybody():
    rows = {column: np.concatenate([one[column] for one in SITES.values()]) for column in SITES["a"]}
    x = np.column_stack([rows["age"] / 50 - 1, (rows["height"] - 160) / 60, 2.0 * (rows["sex"] == "male") - 1])
    return np.column_stack([x, np.ones(len(x))]), rows["ill"].astype(float)


def slope(weights):
    x, y = everybody()
    likely = 1 / (1 + np.exp(-x @ weights))
    return x.T @ (likely - y) / len(y), (x * (likely * (1 - likely))[:, None]).T @ x / len(y)


def weights_of(release):
    return np.array(list(release.value["weights"].values()))


# --- the blocks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["site", "coordinator"])
def test_newton_goes_to_the_bottom_in_a_few_rounds(noise) -> None:
    document = {**GRADIENT, "noise": noise, "update": {"rule": "newton"}, "stop": {"rounds": 6}}
    release = run(document, TABLES, Silent())[0].release()
    weights = np.zeros(4)
    for _ in range(6):
        gradient, hessian = slope(weights)
        weights = weights - np.linalg.solve(hessian, gradient)
    np.testing.assert_allclose(weights_of(release), weights, atol=2e-3)
    assert np.linalg.norm(slope(weights_of(release))[0]) < 1e-4
    assert release.certificate.parameters["update"] == "newton"
    assert release.certificate.parameters["scale_of_curvature"] > 0


@pytest.mark.parametrize("noise", ["site", "coordinator"])
def test_adam_and_momentum_take_the_steps_of_their_papers(noise) -> None:
    document = {**GRADIENT, "noise": noise, "stop": {"rounds": 7}}
    adam = run({**document, "update": {"rule": "adam", "learning_rate": 0.3}}, TABLES, Silent())[0].release()
    first, second, weights = np.zeros(4), np.zeros(4), np.zeros(4)
    for step in range(1, 8):
        gradient, _ = slope(weights)
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        weights = weights - 0.3 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    np.testing.assert_allclose(weights_of(adam), weights, atol=1e-4)
    moved = run({**document, "update": {"rule": "momentum", "momentum": 0.5}}, TABLES, Silent())[0].release()
    velocity, weights = np.zeros(4), np.zeros(4)
    for _ in range(7):
        velocity = 0.5 * velocity + slope(weights)[0]
        weights = weights - velocity
    np.testing.assert_allclose(weights_of(moved), weights, atol=1e-4)


def test_a_gradient_without_features_is_a_train_task() -> None:
    own = {name: GRADIENT[name] for name in ("dataset", "epsilon", "delta", "average")}
    same = {"inputs": ["age", "height", "sex"], "output": "ill", "clip": 0.7}
    algorithm = {
        **own, "type": "algorithm", "map": {"gradient": {"model": "LogisticRegression", **same}}, "reduce": "mean",
        "update": {"rule": "momentum", "momentum": 0.5, "learning_rate": 2.0}, "stop": {"rounds": 5, "tolerance": 1e-9},
    }  # fmt: skip
    train = {**DOCUMENT, **own, **same, "momentum": 0.5, "learning_rate": 2.0, "tolerance": 1e-9}
    one, other = (run(document, TABLES, Silent())[0].release() for document in (algorithm, train))
    assert np.array_equal(weights_of(one), weights_of(other))
    assert one.certificate.parameters == other.certificate.parameters


@pytest.mark.parametrize("rule", ["adam", "newton", "momentum"])
def test_starting_anew_after_every_round_changes_nothing(rule) -> None:
    for noise in ("site", "coordinator"):
        document = {**GRADIENT, "epsilon": 3.0, "noise": noise, "update": {"rule": rule, "learning_rate": 0.5}}
        plain, again = (run(document, TABLES, restarted=how)[0].release().as_json() for how in (False, True))
        assert json.dumps(plain) == json.dumps(again)


def test_rules_remember_what_they_need() -> None:
    rule, weights = Adam(0.1), np.zeros(2)
    again = Adam(0.1)
    again.remember({})
    for gradient in (np.array([1.0, -2.0]), np.array([0.5, 1.0])):
        weights = rule.step(weights, gradient)
        fresh = Adam(0.1)
        fresh.remember(rule.memory())
        assert np.array_equal(fresh.step(weights, gradient), Adam.step(rule_copy(rule), weights, gradient))
    assert Newton(1.0, 0.1).memory() == {}


def rule_copy(rule: Adam) -> Adam:
    made = Adam(rule.rate)
    made.remember({name: array.copy() for name, array in rule.memory().items()})
    return made


def test_noise_in_the_curvature_makes_no_long_step() -> None:
    rule = Newton(1.0, 1e-3)
    flat = np.diag([1.0, -5.0])  # what noise makes of a direction without curvature
    assert np.allclose(rule.step(np.zeros(2), np.array([1.0, 1.0]), flat, doubt=0.5), [-1.0, -2.0])


def test_curvatures_are_the_slopes_of_slopes() -> None:
    draw = np.random.default_rng(0)
    inputs, weights = draw.uniform(-1, 1, (30, 3)), draw.normal(size=4)
    line = curvatures(inputs, weights, logistic=True)
    assert line.shape == (30, triangle(3))
    assert (np.linalg.norm(line, axis=1) <= steepest(3, logistic=True) + 1e-12).all()
    one = np.column_stack([inputs, np.ones(30)])
    likely = 1 / (1 + np.exp(-one @ weights))
    for row, p, found in zip(one, likely, line, strict=True):
        np.testing.assert_allclose(squared(found), p * (1 - p) * np.outer(row, row), atol=1e-12)
    assert np.array_equal(curvatures(inputs[4:9], weights, logistic=True), line[4:9])
    assert curvatures(inputs[:0], weights, logistic=False).shape == (0, triangle(3))


# --- statistics -----------------------------------------------------------------------------------------------


def _all(column):
    return np.concatenate([one[column] for one in SITES.values()])


@pytest.mark.parametrize("noise", ["site", "coordinator"])
def test_statistics_of_features_are_those_of_their_rows(noise) -> None:
    import pandas as pd

    rows = {name: pd.DataFrame(one) for name, one in SITES.items()}
    tall, man = (_all("height") - 160) / 60, _all("sex") == "male"
    made = thebes.simulate({**STATISTIC, "noise": noise}, rows, seed=1, schema=SCHEMA)
    assert made.value == pytest.approx(tall.mean(), abs=1e-3)
    assert made.interval(0.95).low < tall.mean() < made.interval(0.95).high
    total = thebes.simulate({**STATISTIC, "noise": noise, "reduce": "sum"}, rows, seed=1, schema=SCHEMA)
    assert total.value == pytest.approx(tall.sum(), abs=0.1)
    counts = thebes.simulate(
        {**STATISTIC, "noise": noise, "reduce": "histogram", "map": {"statistic": {"column": "man", "bins": 2}}},
        rows, seed=1, schema=SCHEMA,
    )  # fmt: skip
    assert [round(v) for v in counts.value.values()] == [(~man).sum(), man.sum()]
    by = thebes.simulate(
        {**STATISTIC, "noise": noise, "map": {"statistic": {"column": "tall", "by": ["sex"]}}},
        rows, seed=1, schema=SCHEMA,
    )  # fmt: skip
    assert by.value["male"] == pytest.approx(tall[man].mean(), abs=1e-2)
    assert by.extra["coverage"]["answered"] == ["a", "b"]


def test_a_condition_is_over_the_data_sets_own_columns() -> None:
    import pandas as pd

    rows = {name: pd.DataFrame(one) for name, one in SITES.items()}
    old = thebes.simulate({**STATISTIC, "where": "age >= 60"}, rows, seed=1, schema=SCHEMA)
    assert old.value == pytest.approx(((_all("height") - 160) / 60)[_all("age") >= 60].mean(), abs=1e-2)


@pytest.mark.few(2)
@pytest.mark.parametrize("noise", ["site", "coordinator"])
@pytest.mark.parametrize("statistic", OF_FEATURES)
def test_every_statistic_of_a_feature_is_that_of_the_column_written_out(statistic, noise) -> None:
    import pandas as pd

    fields = {**OF_FEATURES[statistic], "noise": noise}
    rows = {name: pd.DataFrame(one) for name, one in SITES.items()}
    whole = {name: one.assign(tall=(one["height"] - 160) / 60) for name, one in rows.items()}
    declared = {**SCHEMA, "columns": {**SCHEMA["columns"], "tall": {"type": "float", "low": -1, "high": 1}}}
    asked = {"type": "query", "dataset": "patients", "epsilon": 1e5, "statistic": statistic, **fields}
    made = thebes.simulate({**asked, "features": FEATURES}, rows, seed=1, schema=SCHEMA)
    plain = thebes.simulate(asked, whole, seed=1, schema=declared)
    if isinstance(plain.value, dict):
        assert made.value == pytest.approx(plain.value, abs=1e-9)
    else:
        assert made.value == pytest.approx(plain.value, rel=1e-6)
    assert made.certificate.parameters == plain.certificate.parameters
    assert made.certificate.bounds["tall"] == {"type": "range", "low": -1.0, "high": 1.0}
    assert made.certificate.bounds["height"] == {"type": "range", "low": 100.0, "high": 220.0}


# --- what does not fit -----------------------------------------------------------------------------------------


NETWORK = {"model": "x", "loss": "y"}  # that nobody can read


@pytest.mark.parametrize(
    ("base", "change", "field"),
    [
        (GRADIENT, {"map": {}}, "map"),
        (GRADIENT, {"map": {**GRADIENT["map"], "statistic": {"column": "age"}}}, "map"),
        (GRADIENT, {"reduce": "sum"}, "reduce"),
        (GRADIENT, {"update": None}, "update"),
        (GRADIENT, {"update": {"rule": "magic"}}, "update.rule"),
        (GRADIENT, {"stop": None}, "stop"),
        (GRADIENT, {"stop": {"rounds": 0}}, "stop.rounds"),
        (GRADIENT, {"delta": 0}, "delta"),
        (GRADIENT, {"map": {"gradient": {**GRADIENT["map"]["gradient"], "output": "age"}}}, "map.gradient.output"),
        (GRADIENT, {"map": {"gradient": {**GRADIENT["map"]["gradient"], "model": "x"}}}, "map.gradient.loss"),
        (GRADIENT, {"map": {"gradient": {**GRADIENT["map"]["gradient"], **NETWORK}}}, "map.gradient.model"),
        (GRADIENT, {"map": {"gradient": {**GRADIENT["map"]["gradient"], "clip": "1"}}}, "map.gradient.clip"),
        (GRADIENT, {"map": {"gradient": {**GRADIENT["map"]["gradient"], "clip": 5e-324}}}, "map.gradient.clip"),
        (GRADIENT, {"features": {"1x": "age"}}, "features"),
        (GRADIENT, {"features": {"x": {"run": "age"}}}, "features"),
        (GRADIENT, {"where": "tall > 3"}, "where"),
        (GRADIENT, {"where": "tall >"}, "where"),
        (STATISTIC, {"update": {"rule": "sgd"}}, "update"),
        (STATISTIC, {"stop": {"rounds": 3}}, "stop"),
        (STATISTIC, {"loss_share": 0.1}, "loss_share"),
        (STATISTIC, {"reduce": "median"}, "reduce"),
        (STATISTIC, {"map": {"statistic": {"column": "tall", "bins": 4}}}, "map.statistic.bins"),
        (STATISTIC, {"epsilon": 0}, "epsilon"),
    ],
)  # fmt: skip
def test_blocks_that_do_not_fit_together_are_refused_naming_the_field(base, change, field) -> None:
    with pytest.raises(Mistake) as refused:
        registry.check({**base, **change})
    assert refused.value.argument == field


@pytest.mark.parametrize(
    ("base", "change", "field"),
    [
        (GRADIENT, {"features": {**FEATURES, "tall": {"abs": "shoe"}}}, "features.tall"),
        (GRADIENT, {"features": {**FEATURES, "tall": {"log": "age"}}}, "features.tall"),
        (GRADIENT, {"features": {**FEATURES, "Age": {"abs": "height"}}}, "features"),
        (GRADIENT, {"features": {"tall": FEATURES["tall"]}}, "inputs"),
        (STATISTIC, {"map": {"statistic": {"column": "sex"}}}, "column"),
        (STATISTIC, {"map": {"statistic": {"column": "tall", "by": ["age"]}}}, "by"),
    ],
)  # fmt: skip
def test_a_schema_from_which_it_cannot_be_made_is_refused_naming_the_field(base, change, field) -> None:
    document = registry.check({**base, **change})
    with pytest.raises(Mistake) as refused:
        registry.kind(document.type).fits(document, schema_of(SCHEMA))
    assert refused.value.argument == field


def test_newton_is_refused_where_there_is_no_such_curvature() -> None:
    schema = {**SCHEMA, "columns": {**SCHEMA["columns"], "ill": {"type": "string", "values": ["a", "b", "c"]}}}
    document = registry.check({**GRADIENT, "update": {"rule": "newton"}})
    with pytest.raises(Mistake, match="newton") as refused:
        registry.kind(document.type).fits(document, schema_of(schema))
    assert refused.value.argument == "update"


def test_the_explanation_says_what_is_made_and_what_leaves() -> None:
    said = told({**GRADIENT, "epsilon": 2.0, "update": {"rule": "adam"}})
    for words in ("man, tall", "up to 5 rounds", "LogisticRegression", "predict ill", "adam", "epsilon 2", "height"):
        assert words in said
    asked = told({**STATISTIC, "where": "age > 3"})
    for words in ("the mean of tall", "age > 3", "height"):
        assert words in asked


def told(document) -> str:
    checked = registry.check(document)
    return registry.kind(checked.type).explain(checked)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"update": {"rule": "sgd", "momentum": 0.5}}, "update.momentum"),
        ({"update": {"rule": "adam", "ridge": [None]}}, "update.ridge"),
    ],
)
def test_a_field_that_its_update_does_not_have_is_refused_by_its_name(change, field: str) -> None:
    with pytest.raises(Mistake) as refused:
        registry.check({**GRADIENT, **change})
    assert refused.value.argument == field


@pytest.mark.parametrize("field", ["average", "size_share", "loss_bound"])
def test_a_statistic_has_no_field_of_a_training(field: str) -> None:
    assert registry.check(STATISTIC).type == "query"
    with pytest.raises(Mistake) as refused:
        registry.check({**STATISTIC, field: "last" if field == "average" else 0.5})
    assert refused.value.argument == field
