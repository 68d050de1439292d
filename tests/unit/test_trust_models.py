"""The same question with the same promise, whoever is trusted: which models there are, and how far off each is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thebes
from thebes.privacy.faults import Mistake
from thebes.simulation.trust_errors import as_lines, trust_errors
from thebes.tasks import registry
from thebes.tasks.trust_models import MODELS, offered, trust_model, trust_models

SQL = "SELECT age FROM profile.demographics"
RANGE = {"age": thebes.task.range_(0, 100)}
TOWNS = {"age": thebes.task.values("a", "b", default="a")}
PEOPLE = [each for each in registry.types() if each not in registry.site_types()]


def asked(document: dict[str, Any]) -> Any:
    return registry.check(document)


def of(document: dict[str, Any]) -> dict[str, Any]:
    return {model.name: model for model in trust_models(asked(document))}


@pytest.mark.parametrize(
    "document",
    [
        thebes.task.mean(SQL, epsilon=1, bounds=RANGE, min_count=1000),
        thebes.task.histogram(SQL, epsilon=1, bounds=TOWNS, min_count=1000),
        thebes.task.bounded(SQL, epsilon=1, bounds=RANGE, min_count=1000),
        thebes.task.bounded(SQL, bounds=TOWNS, min_count=1000, group="town", anonymity="token", mixed={"epsilon": 1.0}),
    ],
    ids=["mean", "histogram", "rows", "mixed rows"],
)
def test_a_question_is_asked_in_all_four_models_with_the_same_promise(document) -> None:
    found = of(document)
    assert list(found) == list(MODELS)
    for name, model in found.items():
        again = asked(model.document)
        assert trust_model(again) == name
        assert again.featurizer == SQL
        assert again.bounds == asked(document).bounds
        promise = again.mixed.epsilon if name == "mixed" else again.epsilon
        assert promise == 1
    assert found["mixed"].document["epsilon"] > 2  # which is what people pay
    if "group" in document:
        assert all(model.document["group"] == "town" for model in found.values())


def test_a_model_that_a_question_cannot_have_says_why() -> None:
    median = of(thebes.task.median(SQL, epsilon=1, bounds=RANGE))
    assert median["nobody"].document is median["mixed"].document is None
    assert "Perturbed rows" in median["nobody"].why
    assert "bins" in median["split"].why
    two = of(thebes.task.bounded("SELECT a, b FROM p.t", epsilon=1, bounds={"a": (0, 1), "b": (0, 1)}))
    assert "one column" in two["split"].why
    assert two["mixed"].document is not None
    forest = of(registry.samples("integrated")[0].document)
    assert "Perturbed rows" in forest["nobody"].why


@pytest.mark.parametrize("type_", PEOPLE)
def test_every_kind_offers_what_its_documents_can_have_and_says_the_rest(type_) -> None:
    document = registry.samples(type_)[0].document
    there = offered(registry.kind(type_).document)
    assert trust_model(asked(document)) in there
    for model in trust_models(asked(document)):
        assert (model.document is None) == bool(model.why)
        assert model.why or model.name in there or type_ in ("basic", "bounded")


def test_the_less_somebody_is_trusted_the_further_an_answer_is_off() -> None:
    document = thebes.task.mean(SQL, epsilon=1, bounds=RANGE, min_count=20)
    found = {one.model: one for one in trust_errors(asked(document), people=4000, repeats=10)}
    off = {name: one.errors["the mean of age"] for name, one in found.items()}
    assert off["nobody"] > 2 * off["mixed"] > 4 * off["split"]
    assert off["nobody"] > 50 * off["trusted"]
    assert found["mixed"].epsilon > 3 > found["split"].epsilon == 1
    lines = as_lines(list(found.values()))
    assert sum("the mean of age" in line for line in lines) == 4


def test_shares_of_a_histogram_are_told_in_the_measure_of_perturbed_rows() -> None:
    document = thebes.task.histogram(SQL, epsilon=1, bounds=TOWNS, min_count=1000)
    found = trust_errors(asked(document), repeats=8)
    assert {tuple(one.errors) for one in found} == {("each value's share of age",)}
    assert all(0 < off < 0.2 for one in found for off in one.errors.values())


def test_what_cannot_be_rehearsed_is_said_of_each_model_and_sites_are_refused() -> None:
    found = trust_errors(asked(registry.samples("gradient")[0].document))
    assert all(one.why and not one.errors for one in found)
    with pytest.raises(Mistake, match="institutions"):
        trust_errors(asked({"type": "query", "dataset": "patients", "statistic": "count", "epsilon": 1.0}))


@pytest.mark.parametrize("aggregator", ["count", "sum", "mean", "variance", "histogram", "median"])
def test_a_simulation_without_proofs_opens_the_same_sums(aggregator) -> None:
    more: dict[str, Any] = {"bins": 20} if aggregator in ("histogram", "median") else {}
    more |= {} if aggregator == "count" else {"bounds": {"age": thebes.task.range_(0, 100)}}
    document = {"type": "basic", "server": "split", "aggregator": aggregator, "featurizer": SQL, "epsilon": 1e5, **more}
    document |= {"missing": "count"} if aggregator == "count" else {}
    people = {"age": np.linspace(1, 99, 40)}
    shared, bare = (thebes.simulate(document, people, seed=1, proofs=proofs) for proofs in (True, False))
    told = [list(one.value.values()) if isinstance(one.value, dict) else [one.value] for one in (shared, bare)]
    assert np.allclose(*told, rtol=1e-3, atol=0.01)
    assert shared.certificate.as_json() == bare.certificate.as_json()
