"""Deliveries: rows and a collector's state are accepted as one, once, or not at all."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pytest

from thebes.data.store import Store
from thebes.data.store.delivery import Overtaken
from thebes.privacy.faults import Mistake

KEY = bytes(range(32))
WALKS = {"walks": {"columns": {"day": {"type": "timestamp"}, "steps": {"type": "integer"}}}}


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.open(tmp_path, key=KEY) as made:
        made.register("steps", {"tables": WALKS, "description": "Counts steps.", "release": 3})
        yield made


def part(name: str, number: int, *counts: Any, after: int = 0, keys: Any = None, **more: Any) -> dict[str, Any]:
    body = {"delivery": name, "after": after, "part": number, "rows": {"walks": [{"steps": n} for n in counts]}, **more}
    return body if keys is None else {**body, "keys": {"walks": keys}}


def fresh() -> str:
    return secrets.token_hex(16)


def held(store: Store) -> list[int]:
    return [row["steps"] for row in store.export()["collectors"]["steps"]["tables"]["walks"]["rows"]]


def test_nothing_shows_before_the_last_part_and_then_everything_in_order(store: Store) -> None:
    one = fresh()
    assert store.deliver("steps", part(one, 0, 1, 2))["inserted"] == 0
    assert store.deliver("steps", part(one, 1, 3))["inserted"] == 0
    assert held(store) == []
    assert store.progress("steps") == {"number": 0, "release": 0, "state": None, "at": None}
    receipt = store.deliver("steps", part(one, 2, 4, last=True, release=3, state={"day": 4}))
    assert receipt == {"number": 1, "inserted": 4, "known": 0}
    assert held(store) == [1, 2, 3, 4]
    assert store.progress("steps")["state"] == {"day": 4}


def test_the_same_part_and_the_same_delivery_again_change_nothing(store: Store) -> None:
    one = fresh()
    for _ in range(2):
        store.deliver("steps", part(one, 0, 1))
    for _ in range(2):
        store.deliver("steps", part(one, 1, 2))
    receipts = [store.deliver("steps", part(one, 2, 3, last=True, state={})) for _ in range(3)]
    assert receipts == [{"number": 1, "inserted": 3, "known": 0}] * 3
    assert held(store) == [1, 2, 3]


def test_what_was_begun_and_never_ended_is_forgotten(store: Store) -> None:
    store.deliver("steps", part(fresh(), 0, 1, 2))
    store.deliver("steps", part(fresh(), 0, 7, last=True, state={}))
    assert held(store) == [7]


def test_two_runs_at_once_never_mix(store: Store) -> None:
    one, other = fresh(), fresh()
    store.deliver("steps", part(one, 0, 1))
    store.deliver("steps", part(other, 0, 2))
    with pytest.raises(Overtaken):
        store.deliver("steps", part(one, 1, 3, last=True, state={}))
    store.deliver("steps", part(other, 1, 4, last=True, state={}))
    with pytest.raises(Overtaken):
        store.deliver("steps", part(one, 0, 1, last=True, state={}))
    assert held(store) == [2, 4]


def test_a_part_that_is_missing_is_noticed(store: Store) -> None:
    one = fresh()
    store.deliver("steps", part(one, 0, 1))
    with pytest.raises(Overtaken, match="missing"):
        store.deliver("steps", part(one, 2, 3, last=True, state={}))


def test_a_row_that_does_not_fit_is_named_and_neither_rows_nor_state_change(store: Store) -> None:
    one = fresh()
    store.deliver("steps", part(one, 0, 1))
    with pytest.raises(Mistake) as refused:
        store.deliver("steps", part(one, 1, 2, "many", last=True, state={"day": 9}))
    assert refused.value.argument == "rows[1].steps"
    assert held(store) == []
    assert store.progress("steps")["state"] is None


def test_a_key_is_accepted_once_within_and_across_deliveries(store: Store) -> None:
    a, b, c = (fresh() for _ in range(3))
    first = store.deliver("steps", part(fresh(), 0, 1, 2, 3, keys=[a, b, a], last=True, state={}))
    assert first == {"number": 1, "inserted": 2, "known": 1}
    second = store.deliver("steps", part(fresh(), 0, 2, 4, keys=[b, c], after=1, last=True, state={}))
    assert second == {"number": 2, "inserted": 1, "known": 1}
    assert held(store) == [1, 2, 4]


def test_state_and_keys_stay_with_kept_data_and_go_with_the_data(store: Store) -> None:
    key = fresh()
    body = part(fresh(), 0, 1, keys=[key], last=True, state={"day": 1})
    store.deliver("steps", body)
    store.remove("steps", keep_data=True)
    with pytest.raises(Mistake, match="register again"):
        store.deliver("steps", part(fresh(), 0, 1, after=1, last=True, state={}))
    store.register("steps", WALKS)
    assert store.progress("steps")["state"] == {"day": 1}
    assert store.deliver("steps", {**body, "delivery": fresh(), "after": 1})["known"] == 1
    store.remove("steps", keep_data=False)
    store.register("steps", WALKS)
    assert store.progress("steps")["number"] == 0
    assert store.deliver("steps", {**body, "delivery": fresh()})["inserted"] == 1


def test_what_a_collector_is_stands_in_the_description(store: Store) -> None:
    (described,) = store.describe()
    assert (described["description"], described["release"], described["delivered"]) == ("Counts steps.", 3, None)
    store.deliver("steps", part(fresh(), 0, 1, last=True, state={}))
    assert store.describe()[0]["delivered"] is not None


def test_our_own_tables_are_not_for_featurizers(store: Store) -> None:
    store.deliver("steps", part(fresh(), 0, 1, last=True, state={"secret": 1}))
    rows = store.featurize("SELECT count(*) AS n FROM steps.thebes_progress")
    assert rows.failures[0] != 0


def test_state_outlives_the_process(tmp_path: Path) -> None:
    with Store.open(tmp_path, key=KEY) as store:
        store.register("steps", WALKS)
        store.deliver("steps", part(fresh(), 0, 1))
        store.deliver("steps", part(fresh(), 0, 5, last=True, state={"day": 1}))
    with Store.open(tmp_path, key=KEY) as store:
        assert store.progress("steps")["state"] == {"day": 1}
        assert held(store) == [5]


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"delivery": "short"}, "delivery"),
        ({"after": -1}, "after"),
        ({"part": True}, "part"),
        ({"rows": {"walks": "x"}}, "rows"),
        ({"rows": {"nothing": []}}, "table"),
        ({"keys": {"walks": []}}, "keys"),
        ({"keys": {"walks": ["x"]}}, "keys"),
        ({"keys": {"other": []}}, "keys"),
        ({"last": 1}, "last"),
        ({"state": [1]}, "state"),
        ({"state": {"x": "y" * 2**20}}, "state"),
        ({"state": {"x": float("nan")}}, "state"),
        ({"last": False}, "state"),
        ({"release": "1"}, "release"),
        ({"more": 1}, "delivery"),
    ],
)
def test_what_cannot_be_read_is_named(store: Store, change: dict[str, Any], argument: str) -> None:
    body = {**part(fresh(), 0, 1, last=True, state={"day": 1}), **change}
    with pytest.raises(Mistake) as refused:
        store.deliver("steps", body)
    assert refused.value.argument == argument
    assert held(store) == []
