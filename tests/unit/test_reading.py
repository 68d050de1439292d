"""JSON of others is read as it stands or not at all, wherever it comes from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thebes.privacy.reading import NotJSON, read_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_what_is_json_is_read_as_everybody_reads_it(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert read_json(text) == read_json(text.encode(), finite=True) == json.loads(text) == value


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b'{"a": 1, "a": 1}', "names 'a' twice"),
        (b'[{"b": {"a": 1, "c": 2, "a": 3}}]', "names 'a' twice"),
        (b'{"a": 1, "\\u0061": 2}', "names 'a' twice"),  # one name, however it is spelled
        ('{"' + "x" * 500 + '": 1, "' + "x" * 500 + '": 2}', "names '" + "x" * 40 + "' twice"),
        (b"NaN", "NaN is not a number of JSON"),
        (b"[-Infinity]", "-Infinity is not a number of JSON"),
        (b'{"a":\n }', "line 2, column 2"),
        (b"", "line 1, column 1"),
        (b"\xff", "UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "UTF-8"),
        (b'"\\ud800"', "half of a character"),
        (b"[" * 200_000, "nested"),
        (b"1" * 5000, "too long"),
    ],
)
def test_what_two_readers_may_read_differently_is_not_read(raw: str | bytes, says: str) -> None:
    with pytest.raises(NotJSON, match=says):
        read_json(raw)


def test_only_who_wants_finite_numbers_is_refused_others() -> None:
    assert read_json("[1e999]") == [float("inf")]
    with pytest.raises(NotJSON, match="too large"):
        read_json("[1e999]", finite=True)


#: readers of what this same process, or this same home, has written; of tables of people, whose odd rows are handled as
#: declared and never refused; and of somebody's own exports
OURS = {
    "cli/demo/crowd.py", "cli/demo/deployment.py", "cli/homes/archive.py", "cli/homes/identities.py",
    "cli/processes.py", "collectors/installation.py", "collectors/shipped/table.py", "coordinator/auth/authority.py",
    "coordinator/auth/join_codes.py",
    "coordinator/home.py", "coordinator/people/groups.py", "coordinator/process/fronts.py",
    "coordinator/process/worker.py", "coordinator/sites/quote_queue.py", "coordinator/sites/site_store.py",
    "coordinator/sites/helped_store.py", "coordinator/tasks/task_keys.py", "site/helping/store.py",
    "coordinator/storage/restored_home.py", "coordinator/storage/store.py", "coordinator/storage/task_list.py",
    "coordinator/storage/task_standing.py",
    "coordinator/tasks/phase_queue.py", "data/connectors/bulk_export.py", "person/participation/lineage.py",
    "wire/release_record.py",
    "requestor/stored_logins.py", "web/coordinator/sql_page.py",
    "coordinator/training/model_store.py", "curator/cache/forecast.py", "curator/cache/store.py",
    "curator/pipelines/attempt_store.py", "curator/pipelines/bundles.py", "curator/pipelines/scheduler.py",
    "curator/questions/question.py", "data/connectors/web.py", "data/derived_columns.py", "data/keys.py",
    "data/schema.py",
    "data/sandbox/child.py", "data/sandbox/process.py", "data/store/collector.py", "data/store/delivery.py",
    "ledger/journal.py", "ledger/losses.py", "person/participation/group_tokens.py", "person/tasks/task_store.py",
    "cli/homes/persons_machine.py", "person/notices.py",
    "privacy/reading.py", "site/link/control.py", "site/requests/response_store.py", "site/steward/cache_savings.py",
    "tasks/aggregation/snapshots.py", "web/coordinator/rehearsal.py", "web/coordinator/result.py",
    "wire/local_server.py",
}  # fmt: skip


def test_nothing_else_reads_json_of_others() -> None:
    source = Path(__file__).parents[2] / "src" / "thebes"
    found = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if any(sign in path.read_text(encoding="utf-8") for sign in ("json.load", ".json()", "validate_json"))
    }
    assert {name for name in found if not name.startswith("testing/")} <= OURS


def test_a_text_of_too_many_values_is_not_read() -> None:
    assert read_json("[1,2]", most_values=3) == [1, 2]
    for raw in ("[1,2]", b"[1,2]", '{"a":{}}', "[[],[]]"):
        with pytest.raises(NotJSON, match="too many values"):
            read_json(raw, most_values=2)
