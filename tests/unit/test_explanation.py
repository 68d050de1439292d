"""The words that people are told of a task: the same sentences for every kind and in every place."""

from __future__ import annotations

from typing import Any

import pytest

from thebes.privacy.accounting.odds import meaning
from thebes.privacy.certificate import Certificate
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Adjacency, Unit
from thebes.requestor.quote import Quote
from thebes.tasks import explanation, registry
from thebes.tasks.choice import DocumentChoice
from thebes.web.coordinator import words as asking
from thebes.web.person import words as own

ONE_OF_EACH = [registry.samples(type_)[-1] for type_ in registry.people_types()]


@pytest.fixture(params=ONE_OF_EACH, ids=lambda sample: sample.document["type"])
def document(request: pytest.FixtureRequest) -> Any:
    return registry.check(request.param.document)


def told(document: Any) -> str:
    return registry.kind(document.type).explain(document)


def test_every_kind_says_what_leaves_in_one_of_two_ways(document: Any) -> None:
    trusting = "You would have to trust the server: it promises to keep that only until at least "
    changing = (
        "at random, so strongly that the price of this task holds against everybody, the server too. Only what was "
    )
    assert (trusting in told(document)) == (document.server == "trusted")
    assert (changing in told(document)) == (document.server == "untrusted")


def test_every_kind_says_what_it_costs_and_what_somebody_could_learn_in_the_same_words(document: Any) -> None:
    seen = "the answer" if document.server == "trusted" else "everything you send"
    guess = meaning(document.epsilon, document.delta).how_often
    assert (
        f"Somebody who has to guess, fifty-fifty, which of two answers you gave is right {guess} after seeing {seen}. "
        "This is all it may ever cost you, over every part of the task."
    ) in told(document)


def test_a_persons_page_says_what_the_explanation_says(document: Any) -> None:
    trusted = document.server == "trusted"
    task = {
        "price": {"epsilon": document.epsilon, "delta": document.delta},
        "trust": "server" if trusted else "none",
    }
    assert own.odds(task) in told(document)
    beside = own.in_plain_words({"document": document.as_json(), "explanation": told(document)})
    assert not [line for line in beside if "guess" in line]  # it stands in the card of the price, and only there
    assert own.leaves(task) == explanation.what_leaves(trusted=trusted)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e-6, 0.0), (0.5, 0.0), (1.0, 0.1), (2.0, 1e-6), (20.0, 0.0), (800.0, 0.0)]
)
def test_pages_and_certificate_tell_one_guess(epsilon: float, delta: float) -> None:
    guess = meaning(epsilon, delta).how_often
    certificate = Certificate(
        Unit.DEVICE, Adjacency.REPLACE_ONE, epsilon, delta, "approximate" if delta else "pure", "test"
    )
    assert f"is right {guess} after seeing that outcome" in certificate.text
    assert own.guess(epsilon, delta) == f"right {guess}"
    assert asking.guess({"epsilon": epsilon, "delta": delta}) == guess


def test_what_was_released_without_noise_names_no_guess() -> None:
    bare = Certificate(Unit.DEVICE, Adjacency.REPLACE_ONE, 1.0, 0.0, "none", "none")
    assert "guess" not in bare.text


def test_people_are_told_of_a_choice_without_names_of_mechanisms() -> None:
    chosen = 0
    for type_ in registry.people_types():
        for sample in registry.samples(type_):
            document: Any = registry.check(sample.document)
            choice = registry.choice(document)
            if isinstance(choice, DocumentChoice):
                names = choice.errors
                chosen += 1
                assert not [name for name in names if name in choice.sentence]
            assert "privunit" not in told(document)
    assert chosen >= 3


def test_a_large_delta_is_told_in_words_to_whoever_asks_and_whoever_answers() -> None:
    people = {"type": "basic", "aggregator": "mean", "featurizer": "SELECT x FROM p.t", "epsilon": 1}
    people["bounds"] = {"x": {"type": "range", "low": 0, "high": 1}}
    site = {"type": "query", "statistic": "count", "dataset": "patients", "epsilon": 1}
    for document in (people, site):
        for delta, large in ((0.5, True), (0.02, True), (1e-6, False), (0, False)):
            checked = registry.check({**document, "delta": delta})
            told = registry.drawn(checked.type).explain(checked)
            assert ("is large: with that chance" in told) is large
            assert ("is large: with that chance" in str(Quote(Price(1.0, delta, Unit.DEVICE), None))) is large
    for epsilon, large in ((20.5, True), (20, False), (0, False)):
        assert ("protects hardly at all" in str(Quote(Price(epsilon, 0, Unit.DEVICE), None))) is large
    many = registry.check({**people, "delta": 1e-3, "min_count": 1000})
    assert "Delta 0.001 is large" in registry.drawn("basic").explain(many)  # one in a thousand people
