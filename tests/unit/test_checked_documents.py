"""A document is read once in a process: the same is found again, and nothing else is taken for it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from thebes.privacy.faults import Mistake
from thebes.tasks import registry
from thebes.tasks.checked_documents import CheckedDocuments, text_of

TRAIN: dict[str, Any] = {
    "type": "train", "dataset": "patients", "model": "LinearRegression", "inputs": ["age"], "output": "size",
    "rounds": 3, "epsilon": 1.0, "delta": 1e-6, "name": "read once",
}  # fmt: skip
#: a document of the rules before there were others
CONSTANT: dict[str, Any] = {
    "type": "basic", "epsilon": 1.0, "min_count": 11, "aggregator": "mean",
    "featurizer": "SELECT 1.5 AS age FROM profile.demographics",
    "bounds": {"age": {"type": "range", "low": 0.0, "high": 9.0}},
}  # fmt: skip


def test_what_was_read_is_not_read_again() -> None:
    first = registry.check(TRAIN)
    assert registry.check(json.loads(json.dumps(TRAIN))) is first
    assert registry.check(dict(reversed(TRAIN.items()))) is first
    assert registry.check(first.as_json()) is first
    assert registry.check(first) is first
    assert registry.accepted_earlier(TRAIN) is first
    other = registry.check({**TRAIN, "rounds": 4})
    assert other is not first
    assert other.digest != first.digest


def test_what_its_owner_changes_afterwards_changes_no_document() -> None:
    given = {**TRAIN, "inputs": ["age"], "features": {"old": {"square": "age"}}, "name": "changed later"}
    first = registry.check(given)
    digest = first.digest
    given["inputs"].append("old")
    assert registry.check(given).digest != digest
    assert registry.check({**given, "inputs": ["age"]}).digest == digest


@pytest.mark.parametrize("type_", ["query", "train"])
def test_what_its_owner_changes_within_a_feature_changes_no_document(type_: str) -> None:
    own = {"statistic": "mean", "column": "old"} if type_ == "query" else {}
    base = TRAIN if type_ == "train" else {"type": "query", "dataset": "patients", "epsilon": 1.0}

    def asked(top: int) -> dict[str, Any]:
        return {**base, **own, "features": {"old": {"clamp": ["age", 0, top]}}, "name": f"inside {type_}"}

    given = asked(10)
    first = registry.check(given)
    given["features"]["old"]["clamp"][2] = 90
    assert first.as_json()["features"] == asked(10)["features"]
    assert registry.check(asked(10)).as_json()["features"] == asked(10)["features"]
    assert registry.check(given).digest != first.digest


@pytest.mark.parametrize("rounds", [3.0, True, "3", None, [3]])
def test_another_type_is_not_taken_for_what_was_read(rounds: Any) -> None:
    registry.check(TRAIN)
    with pytest.raises(Mistake) as refused:
        registry.check({**TRAIN, "rounds": rounds})
    assert refused.value.argument == "rounds"


@pytest.mark.parametrize(
    ("value", "other"), [([1], (1,)), ({"a": 1}, {1: 1}), (1, 1.0), (1, True), ("1", 1), ({"a": [None]}, {"a": [""]})]
)
def test_text_stands_for_one_value_only(value: Any, other: Any) -> None:
    texts = [text_of({"value": each}) for each in (value, other)]
    assert texts[0] is not None
    assert texts[0] != texts[1]


def test_what_was_accepted_earlier_is_not_accepted_now() -> None:
    with pytest.raises(Mistake):
        registry.check(CONSTANT)
    kept = registry.accepted_earlier(CONSTANT)
    assert registry.accepted_earlier(CONSTANT) is kept
    with pytest.raises(Mistake):
        registry.check(CONSTANT)


def test_what_is_nested_too_deeply_is_refused_each_time() -> None:
    deep: Any = "age"
    for _ in range(100_000):
        deep = {"abs": deep}
    assert text_of({"features": deep}) is None
    for _ in range(2):
        with pytest.raises(Mistake):
            registry.check({**TRAIN, "features": {"old": deep}})


def test_only_so_many_are_kept_and_the_oldest_go_first() -> None:
    kept = CheckedDocuments(most=2, most_characters=20)
    for text in ("one", "two", "three"):
        kept.keep(text, text, new=True)
    assert [kept.find(text, str, new=True) for text in ("one", "two", "three")] == [None, "two", "three"]
    kept.find("two", str, new=True)
    kept.keep("four", "four", new=True)
    assert kept.find("three", str, new=True) is None, "what is found stays"
    kept.keep("x" * 18, "long", new=True)
    assert (kept.find("two", str, new=True), kept.find("x" * 18, str, new=True)) == (None, "long")
    kept.keep("y" * 21, "longer", new=True)
    assert kept.find("y" * 21, str, new=True) is None
    assert kept.find("x" * 18, bytes, new=True) is None, "read as another class"


def test_threads_that_read_together_get_the_same() -> None:
    asked = [{**TRAIN, "name": f"thread {number % 5}"} for number in range(200)]
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda each: (each["name"], registry.check(each)), asked))
    assert all(document.name == name for name, document in made)
    assert len({document.digest for _, document in made}) == 5
