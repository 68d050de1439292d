"""Documents in one line: explicit, accepted as they are, and refused at once where they cannot work."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import pytest

import thebes
import thebes.task as task
from thebes.privacy.faults import Mistake
from thebes.tasks import registry
from thebes.tasks.document import InvalidDocument

AGE = "SELECT age FROM profile.demographics"
PAIR = "SELECT x0, x1, y FROM profile.example"
BOUNDS = {"age": (0, 120)}
SQUARE = {"x0": task.range_(-4, 4), "x1": (-4.0, 4.0)}

WRITTEN: dict[str, dict[str, Any]] = {
    "count": task.count(AGE, epsilon=0.1, missing="count"),
    "sum": task.sum(AGE, epsilon=1, bounds=BOUNDS),
    "mean": task.mean(AGE, epsilon=1),
    "median": task.median(AGE, epsilon=1, delta=1e-6, min_count=100, max_count=200, name="ages", purpose="to know"),
    "variance": task.variance(AGE, epsilon=1, bounds={"age": task.range_(0, 120, default=40)}),
    "quantile": task.quantile(AGE, 0.9, epsilon=1, bounds=BOUNDS),
    "histogram": task.histogram(AGE, epsilon=1, bounds=BOUNDS, bins=12),
    "histogram of values": task.histogram(AGE, epsilon=1, bounds={"age": task.values("young", "old", default="old")}),
    "histogram of unknown values": task.histogram(AGE, epsilon=1, delta=1e-6),
    "function": task.function("iqr", AGE, epsilon=1, bounds=BOUNDS, subsets=30),
    "function of two": task.function("correlation", "SELECT x0, x1 FROM profile.example", epsilon=1, bounds=SQUARE),
    "gaussian_nb": task.gaussian_nb(PAIR, inputs=["x0", "x1"], output="y", epsilon=4, bounds=SQUARE),
    "linear_regression": task.linear_regression(PAIR, inputs=["x0"], output="x1", epsilon=4, delta=1e-6, bounds=SQUARE),
    "logistic_regression": task.logistic_regression(
        PAIR, inputs=("x0", "x1"), output="y", epsilon=4, delta=1e-6, bounds={**SQUARE, "y": task.values(0, 1)}
    ),
    "random_forest": task.random_forest(
        PAIR, inputs=["x0"], output="y", epsilon=4, bounds={**SQUARE, "y": task.values(0, 1)}
    ),
    "random_forest of numbers": task.random_forest(PAIR, inputs=["x0"], output="x1", epsilon=4, bounds=SQUARE),
    "ensemble": task.ensemble(PAIR, label="y", epsilon=2, bounds={**SQUARE, "y": task.values(0, 1)}, method="odds"),
    "draw_discard": task.draw_discard(
        PAIR,
        inputs=["x0"],
        output="y",
        bounds={**SQUARE, "y": task.values(0, 1)},
        mechanism="laplace",
        epsilon_per_weight=0.5,
        crosses=None,
        learning_rate=[0.1, 0.01],
    ),
    "bounded": task.bounded(PAIR, epsilon=2, bounds={**SQUARE, "y": task.values(0, 1)}, mechanism="auto"),
}

RIDES: dict[str, Any] = {
    "model": "LinearRegression", "inputs": ["km"], "output": "took", "target": {"mse": 2}, "epsilon": 1, "delta": 1e-6
}  # fmt: skip
GRADIENT = {"gradient": {"model": "LinearRegression", "inputs": ["bmi"], "output": "age", "clip": 1.5}}
OF_SITES: dict[str, dict[str, Any]] = {
    "query": task.query("patients", "mean", column="age", where="sex = 'female'", by=["ward"], epsilon=0.5),
    "query of groups": task.query("patients", "count", by="ward", epsilon=1, sites="north", patience=5),
    "query of two": task.query("patients", "correlation", columns=("age", "bmi"), epsilon=1, noise="coordinator"),
    "query of a public one": task.query("patients", "histogram", column="age", bins=5, privacy="none"),
    "train": task.train("patients", inputs=("age", "bmi"), output="ill", epsilon=2, delta=1e-6, sites=("a", "b")),
    "algorithm": task.algorithm(
        "patients", map=GRADIENT, reduce="mean", update={"rule": "adam"}, stop={"rounds": 5}, epsilon=2, delta=1e-6
    ),
    "pipeline": task.pipeline(
        "rides", model="LinearRegression", inputs=("km",), output="took", target={"mse": 2}, epsilon=1, delta=1e-6
    ),
    "pipeline of a statistic": task.pipeline(
        "rides", model="Histogram", inputs=["km"], target={"absolute_error": 0.1}, epsilon=1, bins={"km": 5}, site="a"
    ),
    "algorithm of a statistic": task.algorithm(
        "patients",
        features={"old": {"square": "age"}},
        map={"statistic": {"column": "old", "bins": [0, 10, 20.5]}},
        reduce="histogram",
        epsilon=2,
        where="age > 3",
        min_sites=2,
    ),
}


@pytest.mark.parametrize("name", OF_SITES)
def test_a_document_for_sites_is_plain_explicit_and_accepted(name: str) -> None:
    document = OF_SITES[name]
    assert type(document) is dict
    assert json.loads(json.dumps(document)) == document
    assert registry.check(document).as_json() == document
    assert {"type", "version", "epsilon", "delta", "dataset", "sites", "noise", "patience"} <= set(document)


def test_a_written_question_is_the_one_written_by_hand_and_answered() -> None:
    import numpy as np

    by_hand = {"type": "query", "sites": ["north"], "dataset": "patients", "statistic": "mean", "column": "age"}
    written = task.query("patients", "mean", column="age", epsilon=2, sites="north")
    assert registry.check(written).digest == registry.check({**by_hand, "epsilon": 2.0}).digest
    schema = {"unit": "person", "columns": {"age": {"type": "integer", "low": 0, "high": 100}}}
    release = thebes.simulate(written, {"north": {"age": np.full(2000, 40)}}, schema=schema, seed=1)
    assert abs(release.value - 40) < 1


@pytest.mark.parametrize("name", WRITTEN)
def test_a_written_document_is_plain_explicit_and_accepted(name: str) -> None:
    document = WRITTEN[name]
    assert type(document) is dict
    assert json.loads(json.dumps(document)) == document
    assert registry.check(document).as_json() == document
    assert {"type", "version", "epsilon", "delta", "server", "min_count", "featurizer", "anonymity"} <= set(document)


def test_a_written_document_is_the_one_written_by_hand() -> None:
    by_hand = {
        "type": "basic",
        "epsilon": 1.0,
        "delta": 1e-5,
        "server": "trusted",
        "min_count": 100,
        "featurizer": AGE,
        "aggregator": "median",
    }
    assert registry.check(task.median(AGE, epsilon=1.0, delta=1e-5, min_count=100)).digest == (
        registry.check(by_hand).digest
    )


def test_a_question_by_accuracy_may_say_it_in_short() -> None:
    short = thebes.task.query("patients", "count", accuracy=(20, 0.05), max_epsilon=1)
    assert short["accuracy"] == {"alpha": 20.0, "beta": 0.05}
    assert short == thebes.task.query("patients", "count", accuracy={"alpha": 20, "beta": 0.05}, max_epsilon=1.0)
    with pytest.raises(Mistake) as refused:
        thebes.task.query("patients", "count", accuracy=(20, 0.05, 3))  # type: ignore[arg-type]
    assert refused.value.argument == "accuracy"


def test_every_examples_line_works() -> None:
    import torch

    shown = {name: getattr(task, name) for name in task.__all__}
    for name, function in shown.items():
        found = re.search(r"Example: (.+)", inspect.getdoc(function) or "", re.DOTALL)
        assert found, f"{name} shows no example"
        line = found.group(1).replace("\n", " ").removeprefix("bounds=")
        assert eval(line, {**shown, "torch": torch})


def test_every_public_name_is_listed() -> None:
    public = {n for n, f in vars(task).items() if inspect.isfunction(f) and not n.startswith("_")}
    assert public == set(task.__all__)


@pytest.mark.parametrize(
    ("write", "field"),
    [
        (lambda: task.median(AGE, epsilon=0), "epsilon"),
        (lambda: task.median(AGE, epsilon=float("nan")), "epsilon"),
        (lambda: task.median(AGE, epsilon="1"), "epsilon"),
        (lambda: task.median("DROP TABLE x", epsilon=1), "featurizer"),
        (lambda: task.median(AGE, epsilon=1, bounds={"height": (0, 1)}), "bounds"),
        (lambda: task.median(AGE, epsilon=1, bounds={"age": (120, 0)}), "bounds.age.low"),
        (lambda: task.median(AGE, epsilon=1, bounds={"age": (0, 1, 2, 3)}), "bounds.age"),
        (lambda: task.median(AGE, epsilon=1, bounds={"age": "0 to 120"}), "bounds"),
        (lambda: task.median(AGE, epsilon=1, bounds=(0, 120)), "bounds"),
        (lambda: task.median(AGE, epsilon=1, minimum=3), "minimum"),
        (lambda: task.median(AGE, epsilon=1, aggregator="mean"), "aggregator"),
        (lambda: task.quantile(AGE, 1.5, epsilon=1), "quantile"),
        (lambda: task.quantile(AGE, None, epsilon=1), "quantile"),
        (lambda: task.histogram(AGE, epsilon=1, bounds=BOUNDS), "bins"),
        (lambda: task.histogram(AGE, epsilon=1), "bounds"),
        (lambda: task.function("median_of_medians", AGE, epsilon=1), "aggregator"),
        (lambda: task.gaussian_nb(PAIR, inputs="x0", output="y", epsilon=1), "inputs"),
        (lambda: task.gaussian_nb(PAIR, inputs=["x9"], output="y", epsilon=1), "inputs"),
        (lambda: task.linear_regression(PAIR, inputs=["x0"], output="x1", epsilon=1), "delta"),
        (lambda: task.bounded(PAIR, epsilon=1, bounds=SQUARE), "bounds.y"),
        (lambda: task.bounded(PAIR, epsilon=1, bounds=SQUARE, server="trusted"), "server"),
        (lambda: task.gradient("{}", object(), PAIR, inputs=["x0"], outputs=["y"], epsilon=1), "loss"),
        (lambda: task.gradient("{}", "{}", PAIR, inputs=["x0"], outputs=["y"], epsilon=1, shape=2), "shape"),
        (lambda: task.gradient("{}", "{}", PAIR, inputs=["x0"], outputs=["y"], epsilon=1), "model"),
        (lambda: task.query("patients", "mean", column="age"), "epsilon"),
        (lambda: task.query("patients", "mode", column="age", epsilon=1), "statistic"),
        (lambda: task.query("patients", "mean", epsilon=1), "column"),
        (lambda: task.query("patients", "correlation", columns="age", epsilon=1), "columns"),
        (lambda: task.query("patients", "count", where="age >", epsilon=1), "where"),
        (lambda: task.query("patients", "count", sites=[], epsilon=1), "sites"),
        (lambda: task.train("patients", inputs="age", output="ill", epsilon=1, delta=1e-6), "inputs"),
        (lambda: task.train("patients", inputs=["age"], output="ill", epsilon=1, delta=0), "delta"),
        (lambda: task.train("patients", inputs=["a"], output="b", epsilon=1, delta=1e-6, loss=object()), "loss"),
        (lambda: task.train("patients", inputs=["a"], output="b", epsilon=1, delta=1e-6, model=object()), "loss"),
        (lambda: task.train("patients", inputs=["a"], output="b", epsilon=1, delta=1e-6, shape=2), "shape"),
        (lambda: task.algorithm("patients", map={}, reduce="sum", epsilon=1), "map"),
        (lambda: task.pipeline("rides", **{**RIDES, "model": "Forest"}), "model"),
        (lambda: task.pipeline("rides", **{**RIDES, "target": {"luck": 1}}), "target"),
        (lambda: task.pipeline("rides", **RIDES, site=["a", "b"]), "site"),
        (lambda: task.pipeline("rides", **RIDES, sites="all"), "sites"),
        (lambda: task.pipeline("rides", **RIDES, layers=[4]), "layers"),
        (lambda: task.pipeline("rides", **{**RIDES, "delta": 0}), "delta"),
        (lambda: task.algorithm("patients", map=GRADIENT, reduce="mean", epsilon=1, delta=1e-6), "update"),
    ],
)
def test_what_cannot_work_is_refused_at_once_naming_the_field(write: Any, field: str) -> None:
    with pytest.raises(Mistake) as refused:
        write()
    named = [f for f, _ in refused.value.problems] if isinstance(refused.value, InvalidDocument) else []
    assert field in (refused.value.argument, *named)


def test_a_torch_module_becomes_a_document_for_sites() -> None:
    import torch

    import thebes.torch

    module, loss = torch.nn.Linear(2, 1), torch.nn.MSELoss()
    told: dict[str, Any] = {"inputs": ["x0", "x1"], "output": "y", "epsilon": 2, "delta": 1e-6}
    written = task.train("patients", model=module, loss=loss, **told)
    model, text = thebes.torch.encode(module, loss)
    assert (written["model"], written["loss"]) == (model, text)
    assert task.train("patients", model=model, loss=text, **told) == written


def test_a_torch_module_becomes_a_gradient_document_that_trains() -> None:
    import torch

    import thebes.torch

    module, loss = torch.nn.Linear(2, 1), torch.nn.MSELoss()
    written = task.gradient(
        module, loss, PAIR, inputs=["x0", "x1"], outputs=["y"], epsilon=8, delta=1e-5, rounds=3, momentum=0.5
    )
    model, text = thebes.torch.encode(module, loss)
    assert (written["model"], written["loss"], written["rounds"]) == (model, text, 3)
    again = task.gradient(
        model, text, PAIR, inputs=["x0", "x1"], outputs=["y"], epsilon=8, delta=1e-5, rounds=3, momentum=0.5
    )
    assert again == written
