"""The words said of a request that cannot be read: what the field must be, in our words, and never what was sent."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from thebes.privacy.faults import Mistake
from thebes.privacy.field_errors import in_words
from thebes.tasks import registry

SECRET = "a-value-that-nobody-may-repeat"


class Inner(BaseModel):
    a: int


class Everything(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    whole: int = 0
    number: float = 0
    finite: Annotated[float, Field(allow_inf_nan=False)] = 0
    words: str = ""
    flag: bool = False
    listed: list[int] = []
    pair: tuple[int, int] = (1, 2)
    object: dict[str, int] = {}
    inner: Inner = Inner(a=1)
    nothing: None = None
    one: Literal["a", "b"] = "a"
    small: Annotated[int, Field(gt=0, le=9)] = 1
    below: Annotated[int, Field(ge=0, lt=9)] = 1
    short: Annotated[str, Field(min_length=2, max_length=4)] = "abc"
    few: Annotated[list[int], Field(min_length=1, max_length=2)] = [1]
    spelled: Annotated[str, Field(pattern="^a$")] = "a"
    day: date = date(2026, 1, 1)
    moment: datetime = datetime(2026, 1, 1)


SAID: list[tuple[str, Any, str]] = [
    ("whole", SECRET, "must be a whole number"),
    ("whole", 1.5, "must be a whole number"),
    ("number", SECRET, "must be a number"),
    ("finite", float("inf"), "must be a finite number"),
    ("words", 5, "must be text"),
    ("flag", SECRET, "must be true or false"),
    ("listed", SECRET, "must be a list"),
    ("pair", SECRET, "must be a list"),
    ("object", SECRET, "must be an object"),
    ("inner", SECRET, "must be an object"),
    ("nothing", SECRET, "must be left out"),
    ("one", SECRET, "must be 'a' or 'b'"),
    ("small", 0, "must be greater than 0"),
    ("small", 10, "must be at most 9"),
    ("below", -1, "must be at least 0"),
    ("below", 9, "must be less than 9"),
    ("short", "a", "must have at least 2 characters"),
    ("short", SECRET, "must have at most 4 characters"),
    ("few", [], "must have at least 1 entry"),
    ("few", [1, 2, 3], "must have at most 2 entries"),
    ("spelled", SECRET, "has characters that are not allowed here, or too few or too many of them"),
    ("unknown", SECRET, "is not a known field"),
    ("day", 7.5, "must be a day such as 2026-01-31"),
    ("moment", SECRET, "must be a moment such as 2026-01-31T12:00:00Z"),
]


@pytest.mark.parametrize(("field", "value", "words"), SAID)
def test_each_kind_of_mistake_has_words_of_its_own(field: str, value: Any, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Everything.model_validate_json(json.dumps({field: value})) if field != "finite" else Everything(finite=value)
    said = in_words(caught.value.errors()[0])
    assert said == words
    assert SECRET not in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"min_count": "many"}, "min_count: must be a whole number"),
        ({"name": 5}, "name: must be text"),
        ({"featurizer": ["SELECT"]}, "featurizer: must be text"),
        ({"bounds": [1]}, "bounds: must be an object"),
        ({"aggregator": "guess"}, "aggregator: must be "),
        ({"bounds": {"age": {"type": "range", "low": "low", "high": 1}}}, "bounds.age.low: must be a number"),
    ],
)
def test_documents_are_refused_in_the_same_words(change: dict[str, Any], said: str) -> None:
    document = {"type": "basic", "epsilon": 1, "featurizer": "SELECT age FROM p.t", "aggregator": "median"}
    with pytest.raises(Mistake) as refused:
        registry.check({**document, **change})
    assert str(refused.value).startswith(said)
    assert "Input should" not in str(refused.value)
