"""Composing a model that keeps learning: the form's fields, what is wrong with them, and a document's way back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator import Front
from tests.support.forms import composing, filled, put_up, write
from tests.support.peers import group_of
from thebes.tasks import registry

COLUMNS = {
    "age": {"type": "float", "description": "years"},
    "town": {"type": "string", "description": ""},
    "votes": {"type": "string", "description": "yes or no"},
}
SQL = "SELECT age, town, votes FROM town.hall"
BOUNDS: dict[str, Any] = {
    "age": {"type": "range", "low": 18, "high": 90},
    "town": {"type": "set", "values": ["Thebes", "Delphi", "Argos"]},
    "votes": {"type": "set", "values": ["no", "yes"]},
}
VOTES: dict[str, Any] = {
    "type": "draw-discard",
    "epsilon": 8.0,
    "min_count": 20,
    "featurizer": SQL,
    "family": "logistic",
    "inputs": ["age", "town"],
    "output": "votes",
    "bounds": BOUNDS,
}
FORM = {
    "mode": "form",
    "was": "form",
    "kind": "draw-discard",
    "table": "town.hall",
    "column": list(COLUMNS),
    "featurizer": SQL,
    "made": SQL,
    "output": "votes",
    "family": "logistic",
    "mechanism": "privunit",
    "epsilon": "8",
    "min_count": "20",
    "bound-0-column": "age",
    "bound-0-kind": "range",
    "bound-0-low": "18",
    "bound-0-high": "90",
    "bound-1-column": "town",
    "bound-1-kind": "set",
    "bound-1-values": "Thebes, Delphi, Argos",
    "bound-2-column": "votes",
    "bound-2-kind": "set",
    "bound-2-values": "no, yes",
}


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with composing(tmp_path / "home", "town", "hall", COLUMNS) as made:
        yield made


def test_a_published_table_becomes_a_model_that_keeps_learning(front: Front) -> None:
    other = {"kind": "bounded", "mechanism": "split", "table": "town.hall", "column": list(COLUMNS)}
    ticked = {**other, "mode": "form", "was": "form", "kind": "draw-discard"}  # perturbed rows were chosen before
    body = filled(write(front, "/ask/fields", ticked))
    assert (body["family"], body["mechanism"], body["output"]) == ("logistic", "privunit", "")
    assert 'href="#output">Predicted column</a> is missing' in write(front, "/ask/check", body)
    typed = {"bound-0-low": "18", "bound-0-high": "90", "bound-1-values": "Thebes, Delphi, Argos"}
    body |= {**typed, "bound-2-values": "no, yes", "output": "votes", "epsilon": "8"}
    verdict = write(front, "/ask/check", body)
    assert "This can be put up" in verdict
    assert "cannot be taken back" in verdict  # what people are told
    document = put_up(front, body)
    assert (document["inputs"], document["output"], document["mechanism"]) == (["age", "town"], "votes", "privunit")


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("typed", "means"),
    [
        ({"learning_rate": "0.05"}, {"learning_rate": 0.05}),
        ({"learning_rate": "0.05, 0.5", "keep": "0.5"}, {"learning_rate": [0.05, 0.5], "keep": 0.5}),
        ({"learning_rate": "0.05", "keep": "0.5"}, {"learning_rate": 0.05, "keep": None}),  # of one rate none is chosen
        ({"crosses": "pairwise"}, {"crosses": "pairwise"}),
        ({"crosses": "age, town\n"}, {"crosses": [["age", "town"]]}),
        ({"crosses": ""}, {"crosses": None}),
        ({"instances": "7", "decay": "1e4", "reduce": "sum"}, {"instances": 7, "decay": 10000.0, "reduce": "sum"}),
        ({"max_participations": "3"}, {"max_participations": 3}),
        ({"mechanism": "gaussian", "delta": "1e-6"}, {"mechanism": "gaussian", "delta": 1e-6}),
        (
            {"mechanism": "laplace-l1", "epsilon_per_weight": "3"},
            {"mechanism": "laplace-l1", "epsilon_per_weight": None},
        ),
        ({"mechanism": "laplace", "epsilon_per_weight": "2.5"}, {"epsilon_per_weight": 2.5, "epsilon": 10.0}),
        ({"family": "multinomial", "output": "town"}, {"family": "multinomial", "inputs": ["age", "votes"]}),
        ({"family": "linear", "output": "age"}, {"family": "linear", "inputs": ["town", "votes"]}),
    ],
)
def test_what_is_typed_is_put_up(front: Front, typed: dict[str, str], means: dict[str, Any]) -> None:
    document = put_up(front, {**FORM, **typed})
    assert {name: document.get(name) for name in means} == means


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("typed", "words", "anchor"),
    [
        ({"learning_rate": "fast"}, "Learning rate</a> must be a number, or numbers with commas", "learning_rate"),
        ({"learning_rate": "0.1, 0.1"}, "Learning rate</a>", "learning_rate"),
        ({"learning_rate": "0.1, 0.2", "keep": "0.3"}, "must be one of the learning rates", "keep"),
        ({"learning_rate": "0.1, 0.2", "keep": "x"}, "Learning rate to show</a> must be a number", "keep"),
        ({"crosses": "age"}, "list of pairs of different inputs", "crosses"),
        ({"crosses": "age, votes"}, "list of pairs of different inputs", "crosses"),
        ({"mechanism": "laplace"}, "Epsilon of each weight</a> is needed", "epsilon_per_weight"),
        ({"mechanism": "laplace", "epsilon_per_weight": "x"}, "must be a number", "epsilon_per_weight"),
        ({"mechanism": "gaussian"}, "Delta</a> must be given", "delta"),
        ({"mechanism": "magic"}, "Hidden by</a>", "mechanism"),
        ({"family": "logistic", "output": "town"}, "must be a set of 2 values", "output"),
        ({"instances": "many"}, "Instances</a> must be a number", "instances"),
        ({"instances": "0"}, "Instances</a>", "instances"),
        ({"max_participations": "0"}, "Times a person may take part</a>", "max_participations"),
    ],
)
def test_a_problem_leads_to_where_it_is_mended(front: Front, typed: dict[str, str], words: str, anchor: str) -> None:
    verdict = write(front, "/ask/check", {**FORM, **typed})
    assert words in verdict
    assert f'href="#{anchor}"' in verdict
    assert f'id="{anchor}"' in write(front, "/ask/fields", {**FORM, **typed})


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({}, set()),
        ({"learning_rate": [0.1, 0.01], "keep": 0.01, "decay": 500, "reduce": "sum"}, set()),
        ({"crosses": "pairwise", "instances": 7, "max_participations": 4}, set()),
        ({"crosses": [["town", "age"]]}, set()),
        ({"mechanism": "gaussian", "delta": 1e-6}, set()),
        ({"mechanism": "laplace", "epsilon_per_weight": 1.5, "epsilon": 6.0}, set()),
        ({"outliers": "quarantine", "stale_after": 50, "clip": 2.0}, set()),
        ({"start": [0.0, 0.1, 0.2, 0.3], "target": {"moved": 0.1, "over": 10}}, set()),
    ],
)
def test_a_form_like_such_a_task_means_that_task(front: Front, more: dict[str, Any], kept: set[str]) -> None:
    task_id = front.post({**VOTES, **more})
    body = filled(front.client.get(f"/ask?like={task_id}").text)
    assert set(json.loads(body.get("rest", "{}"))) == kept
    assert put_up(front, body) == front.task(task_id)["document"]


def test_a_network_stands_in_the_form_beside_no_family(front: Front) -> None:
    from thebes.tasks.gradient.scene import LOSS, MODEL

    numbers = {"type": "range", "low": 0, "high": 1}
    asked = "SELECT age AS x0, age AS x1, votes FROM town.hall"
    network: dict[str, Any] = {
        **{name: value for name, value in VOTES.items() if name != "family"},
        "featurizer": asked,
        "inputs": ["x0", "x1"],
        "model": MODEL,
        "loss": LOSS,
        "bounds": {"x0": numbers, "x1": numbers, "votes": BOUNDS["votes"]},
    }
    task_id = front.post(network)
    body = filled(front.client.get(f"/ask?like={task_id}").text)
    assert body["family"] == ""
    assert (body["model"], body["loss"]) == (MODEL, LOSS)
    assert "rest" not in body
    assert put_up(front, body) == front.task(task_id)["document"]


def test_what_only_another_choice_needs_outlasts_a_change_of_mind(front: Front) -> None:
    chosen = {**FORM, "mechanism": "laplace", "epsilon_per_weight": "2", "learning_rate": "1, 2", "keep": "2"}
    body = filled(write(front, "/ask/fields", {**chosen, "mechanism": "privunit", "learning_rate": "1"}))
    body = filled(write(front, "/ask/fields", {**body, "mechanism": "laplace", "learning_rate": "1, 2"}))
    assert (body["epsilon_per_weight"], body["epsilon"], body["keep"]) == ("2", "8", "2")


def test_what_cannot_be_read_is_left_out_of_the_json_and_nothing_else(front: Front) -> None:
    for wrong in (
        {"learning_rate": "x"},
        {"learning_rate": "1, 2", "keep": "x"},
        {"instances": "x"},
        {"max_participations": "x"},
    ):
        document = json.loads(filled(write(front, "/ask/fields", {**FORM, **wrong, "mode": "json"}))["raw"])
        assert not {"keep", "instances", "max_participations"} & set(document)
        assert document["family"] == "logistic"
        assert registry.check(document).type == "draw-discard"


def test_members_of_a_group_may_be_asked(front: Front) -> None:
    group_of(front.service.register, front.client, 30)
    document = put_up(front, {**FORM, "group": "city/one"})
    assert (document["anonymity"], document["group"], document["epoch"]) == ("token", "city", "one")
