"""Schemas that say the same are one schema: many sites declare alike, and each is looked at for every task."""

from __future__ import annotations

import json
from typing import Any

import pytest

from thebes.data.schema import schema_of
from thebes.privacy.faults import Mistake

BODY: dict[str, Any] = {"unit": "event", "columns": {"age": {"type": "integer", "low": 0, "high": 120}}}


def _with(**age: Any) -> dict[str, Any]:
    return {**BODY, "columns": {"age": {**BODY["columns"]["age"], **age}}}


def test_what_says_the_same_is_read_once() -> None:
    assert schema_of(BODY) is schema_of(json.loads(json.dumps(BODY)))
    assert schema_of(BODY) != schema_of(_with(high=121))


@pytest.mark.parametrize("alike", [_with(low=False), _with(high="120"), _with(high=float("nan")), {**BODY, "time": 0}])
def test_what_only_looks_like_a_schema_is_refused_after_that_was_read(alike: dict[str, Any]) -> None:
    schema_of(BODY)
    for _ in range(2):
        with pytest.raises(Mistake):
            schema_of(alike)


def test_values_keep_their_types_when_others_equal_them() -> None:
    flags, numbers = ({"unit": "event", "columns": {"x": {"type": t, "values": v}}} for t, v in _EQUAL)
    assert schema_of(flags).columns["x"].values == (False, True)
    assert [type(value) for value in schema_of(flags).columns["x"].values or ()] == [bool, bool]
    assert [type(value) for value in schema_of(numbers).columns["x"].values or ()] == [int, int]
    as_tuple = {"unit": "event", "columns": {"x": {"type": "integer", "values": (0, 1)}}}
    assert schema_of(as_tuple) == schema_of(numbers)


_EQUAL = (("boolean", [False, True]), ("integer", [0, 1]))
