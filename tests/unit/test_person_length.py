"""The length of a message tells nothing of the answer in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thebes.coordinator.people.contribution_record import most_bytes
from thebes.person.participation.message_length import filled
from thebes.tasks.contributions import Layout, Slot

LAYOUT: Layout = {
    "age": Slot("number"),
    "count": Slot("integer", low=-1000, high=1000, nullable=True),
    "free": Slot("integer"),
    "bits": Slot("integer", low=0, high=1, length=5),
    "sums": Slot("number", length=3),
    "words": Slot("text", length=8),
    "größe": Slot("number", nullable=True),
}
NUMBER = st.floats(allow_nan=False, allow_infinity=False)


def body(payload: dict[str, Any], part: str = "phase-0") -> bytes:
    message = {"ask_id": "a" * 32, "part": part, "contributor": "c" * 32, "payload": payload}
    return filled(json.dumps(message).encode(), message, LAYOUT)


@given(
    st.fixed_dictionaries(
        {
            "age": NUMBER,
            "count": st.none() | st.integers(-1000, 1000),
            "free": st.integers(-(2**53) + 1, 2**53 - 1),
            "bits": st.lists(st.integers(0, 1), min_size=5, max_size=5),
            "sums": st.lists(NUMBER, min_size=3, max_size=3),
            "words": st.text(max_size=8),
            "größe": st.none() | NUMBER,
        }
    )
)
def test_every_answer_is_as_long_as_any_other(payload: dict[str, Any]) -> None:
    shortest = {"age": 0, "count": 0, "free": 0, "bits": [0] * 5, "sums": [0] * 3, "words": "", "größe": 0}
    sent = body(payload)
    assert len(sent) == len(body(shortest))
    assert len(sent) % 256 == 0
    assert json.loads(sent)["payload"] == payload
    assert len(sent) <= most_bytes(LAYOUT)


@pytest.mark.parametrize("number", [-1.2345678901234567e-308, -1.7976931348623157e308, 5e-324])
def test_no_number_is_written_longer_than_expected(number: float) -> None:
    assert len(json.dumps(number)) <= 24


def test_a_vote_of_a_thousand_cells_is_not_blown_up() -> None:
    layout = {"cells": Slot("integer", low=0, high=1, length=1000)}
    message = {"payload": {"cells": [0, 1] * 500}}
    assert len(filled(json.dumps(message).encode(), message, layout)) < 2.2 * len(json.dumps(message))
