"""Laws of the wire: everything comes back as it was; whatever a stranger sends, only our own errors are raised."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.privacy.faults import Mistake, ThebesError
from thebes.wire import frames, task_log
from thebes.wire.problems import from_problem, to_problem
from thebes.wire.refusals import BrokenLog

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
LONG = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=64, max_size=90),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=64, max_size=90),
    st.binary(min_size=60, max_size=90).map(lambda raw: base64.b64encode(raw).decode()),
)
MESSAGES = st.dictionaries(st.text(max_size=10), JSON, max_size=4) | st.fixed_dictionaries(
    {
        "ask_id": st.text(max_size=5),
        "payload": st.dictionaries(st.text(min_size=1, max_size=9), JSON | LONG, max_size=4),
    }
)
GOOD = frames.write(frames.split({"a": 1, "payload": {"x": [0.5] * 70, "y": list(range(64)), "z": "QUJD" * 30}}))


@pytest.mark.slow
@given(MESSAGES)
def test_every_message_comes_back_from_a_frame(message: dict[str, Any]) -> None:
    content = frames.write(frames.split(message))
    back = frames.decode(content)
    assert json.dumps(back, sort_keys=True) == json.dumps(message, sort_keys=True)
    assert frames.write(frames.split(message)) == content


@given(st.binary(max_size=300))
def test_random_bytes_raise_only_a_mistake(content: bytes) -> None:
    for candidate in (content, GOOD[:16] + content, GOOD + content):
        try:
            frames.decode(candidate)
        except Mistake:
            continue
        assert candidate == GOOD


@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=4))
@examples(60)
def test_a_damaged_frame_raises_only_a_mistake_or_differs_in_its_header_alone(damage: list[tuple[int, int]]) -> None:
    content = bytearray(GOOD)
    for place, value in damage:
        content[place] = value
    try:
        read = frames.read(bytes(content))
    except Mistake:
        return
    whole = frames.read(GOOD)
    for name, (_, array) in whole.arrays.items():
        if name in read.arrays:
            assert read.arrays[name][1].tobytes() == array.tobytes()


@given(JSON, st.integers(0, 3))
def test_a_header_of_any_json_raises_only_a_mistake(header: Any, at: int) -> None:
    good = {"name": "x", "form": "list", "dtype": "<f8", "shape": [0], "sha256": "0"}
    bodies = [header, {"body": header, "fields": []}, {"body": {}, "fields": header}]
    bodies.append({"body": {}, "fields": [dict(zip(good, [header] * 5, strict=True))]})
    raw = json.dumps(bodies[at]).encode()
    try:
        frames.decode(GOOD[:12] + len(raw).to_bytes(4, "little") + raw)
    except Mistake:
        return
    assert at in (0, 1, 2)


@given(st.integers(400, 599), JSON)
@example(402, {"error": "BudgetExceeded", "requested": {"epsilon": "1", "delta": "0"}, "remaining": {"epsilon": "x"}})
def test_any_problem_reads_as_an_error_that_can_travel_on(status: int, body: Any) -> None:
    error = from_problem(status, body)
    assert isinstance(error, ThebesError)
    again, told = to_problem(error)
    assert type(from_problem(again, told)) is type(error)
    json.dumps(told)


KEY = bytes(range(32))
IDS = st.text("abcdef0123456789-", min_size=1, max_size=12)


def entries_of(ids: list[str]) -> list[task_log.TaskLogEntry]:
    made: list[task_log.TaskLogEntry] = []
    for i, task_id in enumerate(ids):
        made.append(task_log.TaskLogEntry.after(made[-1] if made else None, task_id, f"{i:064x}"))
    return made


@given(st.lists(IDS, max_size=8, unique=True), st.data())
def test_a_list_read_in_any_pieces_is_the_list_read_at_once(ids: list[str], data: st.DataObject) -> None:
    entries = entries_of(ids)
    whole = task_log.verify(task_log.published(KEY, entries))
    assert list(whole.entries) == entries
    half = data.draw(st.integers(0, len(ids)))
    first = task_log.verify(task_log.published(KEY, entries[:half]))
    rest = task_log.verify(task_log.published(KEY, entries, after=half), key=first.key, seen=first.seen)
    assert first.entries + rest.entries == whole.entries
    assert rest.seen == whole.seen
    assert task_log.verify(task_log.published(KEY, entries), key=first.key, seen=first.seen).seen == whole.seen


@given(st.lists(IDS, min_size=1, max_size=6, unique=True), st.data())
def test_any_change_to_a_list_is_noticed(ids: list[str], data: st.DataObject) -> None:
    entries = entries_of(ids)
    body = json.loads(json.dumps(task_log.published(KEY, entries)))
    seen = task_log.verify(body).seen
    other = task_log.published(bytes(32), entries)
    change = data.draw(st.sampled_from(["drop", "swap", "rename", "digest", "shorter", "key", "signature", "head"]))
    place = data.draw(st.integers(0, len(ids) - 1))
    if change == "drop":
        del body["entries"][place]
    elif change == "swap" and len(ids) > 1:
        body["entries"][place], body["entries"][place - 1] = body["entries"][place - 1], body["entries"][place]
    elif change == "rename":
        body["entries"][place]["task_id"] += "x"
    elif change == "digest":
        body["entries"][place]["digest"] = "f" * 64
    elif change in ("shorter", "swap"):
        body = task_log.published(KEY, entries[:-1])
    elif change == "key":
        body["key"] = other["key"]
    elif change == "signature":
        body["signature"] = other["signature"]
    else:
        body["head"] = "e" * 64
    for known in (task_log.Seen(), seen):
        try:
            found = task_log.verify(body, key=task_log.public_key(KEY), seen=known)
        except BrokenLog:
            continue
        if known == seen:  # who has read it all is sent nothing new, rightly
            assert change == "drop"
            assert not body["entries"]
        else:  # a shorter list that was never seen longer is a list like any other
            assert change in ("shorter", "swap")
            assert found.seen.length == len(ids) - 1


@given(JSON)
def test_any_body_for_a_list_raises_only_a_refusal(body: Any) -> None:
    for candidate in (
        body,
        {"key": task_log.public_key(KEY), "entries": body},
        {"key": body, "entries": [], "head": task_log.START},
    ):
        try:
            task_log.verify(candidate)
        except BrokenLog:
            continue
        raise AssertionError("nobody signed this")
