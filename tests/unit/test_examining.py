"""The marks that a submission is recognised by."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thebes.coordinator.people.contribution_check import Submission
from thebes.privacy.faults import Mistake
from thebes.wire import frames

NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
LONG = st.lists(st.integers(-5, 5) | st.floats(-5, 5), min_size=frames.SHORTEST, max_size=frames.SHORTEST + 2)
VALUES = st.recursive(
    NUMBERS | st.booleans() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=3), max_leaves=4
)


def body(payload: Any) -> bytes:
    return Submission("a", "0", "c", frames.arrayed(payload)).body()


def otherwise(value: Any) -> Any:
    """The same value with its whole numbers written the other way."""
    if isinstance(value, list):
        return [otherwise(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if type(value) is int and abs(value) < 2**53:
        return float(value)
    return value


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from("abc"), VALUES | LONG, max_size=3))
def test_one_content_is_one_however_it_is_spelled_and_framed(payload: dict[str, Any]) -> None:
    one = body(payload)
    assert body(dict(reversed(payload.items()))) == one
    assert body({name: otherwise(value) for name, value in payload.items()}) == one
    assert body(json.loads(json.dumps(payload, indent=2))) == one
    sent = {"payload": payload}
    assert body(frames.read(frames.write(frames.split(sent))).message()["payload"]) == one


@pytest.mark.slow
@given(LONG, st.integers(0, frames.SHORTEST - 1), st.booleans())
def test_another_number_is_another_content(numbers: list[float], place: int, down: bool) -> None:
    other = [*numbers]
    other[place] = float(np.nextafter(numbers[place], -9 if down else 9))
    assert body({"v": other}) != body({"v": numbers})
    assert body({"w": numbers}) != body({"v": numbers})
    assert body({"v": numbers[:-1]}) != body({"v": numbers})


def test_short_and_long_floats_are_numbers_and_bytes_and_truths_are_not() -> None:
    halves = [number / 2 for number in range(100)]
    short = np.array(halves, dtype="<f4")
    assert Submission("a", "0", "c", {"v": short}).body() == body({"v": halves})
    assert body({"v": [1] * 100}) == body({"v": [1.0] * 100}) == body({"v": [1] * 99 + [1.0]})
    assert body({"v": [0.0] * 100}) == body({"v": [-0.0] * 100}) == body({"v": [0] * 100})
    assert body({"v": True}) != body({"v": 1})
    assert body({"v": np.ones(100, dtype="|u1")}) != body({"v": [1] * 100})
    assert body({"v": 2**64}) == body({"v": 2.0**64})
    assert body({"v": 2**64 + 1}) != body({"v": 2.0**64})


def test_what_is_nested_bottomlessly_is_a_mistake() -> None:
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    with pytest.raises(Mistake, match="nested"):
        body({"v": nested})
