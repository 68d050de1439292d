"""One's own place in an answer: told on one's own machine only, and never finer than the error bar."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thebes
from thebes.privacy.measurement import Interval
from thebes.tasks import registry
from thebes.tasks.answer_view import Bars
from thebes.tasks.document import PeopleDocument
from thebes.tasks.release import Release
from thebes.tasks.release_reader import release_from_json
from thebes.web.person import answer as readable

sys.path.insert(0, str(Path(__file__).parent))
from test_person_pages import MEDIAN, harmless
from test_person_rest import World

CERTIFICATE = {
    "unit": "device", "adjacency": "replace-one", "epsilon": 1.0, "delta": 0.0, "guarantee": "pure", "mechanism": "m",
    "estimated": [],
}  # fmt: skip
RANGE = {"type": "range", "low": 0, "high": 100}


def document(aggregator: str, **more: Any) -> PeopleDocument:
    made = registry.check(
        {
            "type": "basic",
            "epsilon": 1.0,
            "min_count": 20,
            "featurizer": "SELECT v FROM a.t",
            "aggregator": aggregator,
            "bounds": {"v": RANGE},
            **more,
        }
    )
    assert isinstance(made, PeopleDocument)
    return made


def release(value: Any, low: Any, high: Any) -> Release:
    told = release_from_json({"value": value, "interval": None, "certificate": CERTIFICATE})
    return Release(value, told.certificate, {0.95: Interval(0.95, low, high)})


def place(made: PeopleDocument, answer: Release, value: Any) -> str:
    return registry.place(made, answer, [{"v": value}])


@pytest.mark.parametrize("aggregator", ["mean", "median"])
def test_a_value_is_above_below_or_not_to_be_told_apart(aggregator: str) -> None:
    made, answer = document(aggregator), release(40.0, 38.0, 42.0)
    assert "above" in place(made, answer, 43)
    assert "below" in place(made, answer, 37.5)
    for within in (38, 40.0, 41.9, 42):
        assert "cannot be told apart" in place(made, answer, within)
    assert "100" in place(made, answer, 1e6), "what does not count as it is, is told as it counts"


def test_a_value_stands_in_its_bar_of_a_histogram() -> None:
    made = document("histogram", bins=4)
    keys = ["0 to 25", "25 to 50", "50 to 75", "75 to 100"]
    counts = np.array([10.0, 30.0, 40.0, 20.0])
    answer = release(dict(zip(keys, counts, strict=True)), counts - 3, counts + 3)
    for value, key in ((0, keys[0]), (24.9, keys[0]), (25, keys[1]), (99, keys[3]), (100, keys[3]), (-5, keys[0])):
        assert f"under {key}:" in place(made, answer, value)
    assert "30 % of all" in place(made, answer, 30)
    assert "between 27 and 33" in place(made, answer, 30)


def test_a_word_stands_in_its_bar() -> None:
    made = document("histogram", bounds={"v": {"type": "set", "values": ["cat", "dog"]}})
    answer = release({"cat": 7.0, "dog": 13.0}, np.array([5.0, 11.0]), np.array([9.0, 15.0]))
    assert "under dog: about 13 people, 65 % of all, do (between 11 and 15)" in place(made, answer, "dog")
    assert place(made, answer, "bird") == ""


def test_where_nothing_can_be_said_nothing_is() -> None:
    mean, answer = document("mean"), release(40.0, 38.0, 42.0)
    assert place(mean, answer, None) == ""
    assert place(mean, answer, "text") == ""
    assert registry.place(mean, answer, []) == ""
    assert place(document("variance"), answer, 40) == ""
    assert place(mean, Release(None, answer.certificate), 40) == ""


def test_the_tasks_page_shows_the_answer_and_ones_place_and_nobody_is_asked(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    try:
        task = world.server.post({**MEDIAN, "aggregator": "mean", "delta": 0.0, "epsilon": 20.0, "min_count": 11})
        assert world.me.place(task) == ""
        world.me.accept(task)
        world.me.wait(task, state="sent")
        sent = json.loads(world.server.bodies[0])
        for number in range(10):
            other = {**sent, "contributor": str(number), "payload": {"age": 99.0}}
            world.server.submit(task, json.dumps(other).encode())
        world.me.poll()
        page = harmless(world.http.get(f"/tasks/{task}"))
        assert "The answer" in page
        asked: list[str] = []
        world.server.before = asked.append
        told = world.http.get(f"/api/tasks/{task}/place").json()["place"]
        assert told.startswith("Your value")
        assert told in page
        assert asked == []
    finally:
        world.me.close()


def rows_document(**bounds: Any) -> PeopleDocument:
    columns = ", ".join(bounds)
    made = registry.check(
        {
            "type": "bounded",
            "epsilon": 8.0,
            "min_count": 20,
            "featurizer": f"SELECT {columns} FROM a.t",
            "bounds": bounds,
        }
    )
    assert isinstance(made, PeopleDocument)
    return made


def answered(made: PeopleDocument, people: dict[str, Any]) -> Release:
    return thebes.simulate(made.as_json(), people, seed=3)


def test_a_row_stands_beside_the_means_and_shares_that_perturbed_rows_say() -> None:
    """Of 2,000 people whose hours are all 2 of 0 to 12, at epsilon 8: no bar reaches 9."""
    hours = {"type": "range", "low": 0, "high": 12, "default": 0}
    one = rows_document(hours=hours)
    answer = answered(one, {"hours": np.full(2000, 2.0)})
    assert registry.place(one, answer, [{"hours": 9.0}]).startswith("Your value, 9, lies above the mean of all, ")
    assert "cannot be told apart from the mean of all" in registry.place(
        one, answer, [{"hours": float(answer.mean("hours")[0])}]
    )
    assert registry.place(one, answer, [{"hours": None}]) == ""
    assert registry.place(one, answer, []) == ""
    two = rows_document(hours=hours, pet={"type": "set", "values": ["cat", "dog"], "default": "dog"})
    answer = answered(two, {"hours": np.full(2000, 2.0), "pet": np.array(["cat", "dog"] * 1000)})
    told = registry.place(two, answer, [{"hours": 9.0, "pet": "cat"}])
    assert told.startswith("Your hours, 9, lies above the mean of all, ")
    assert re.search(r"Your pet, cat, is that of between [\d.]+ and [\d.]+ % of those who took part[.]$", told)
    assert registry.place(two, answer, [{"hours": None, "pet": "bird"}]) == ""


def test_the_mean_comes_before_shares_and_who_has_a_value_after_them() -> None:
    made = rows_document(
        pet={"type": "set", "values": ["cat", "dog"], "default": "dog"}, hours={"type": "range", "low": 0, "high": 12}
    )
    answer = answered(made, {"pet": np.array(["cat", "dog"] * 100), "hours": np.full(200, 2.0)})
    sections = registry.view("bounded").sections(answer, made)
    assert [section.title for section in sections] == ["hours", "pet", "Who has a value for hours", "Rows"]
    assert "The mean among those who took part" in sections[0].words
    there = sections[2].picture
    assert isinstance(there, Bars)
    assert list(there.values) == ["yes", "no"]
    beyond = any(not 0 <= share <= 100 for share in there.values.values())
    assert ("Noise can put a share below 0 or above 100 %" in sections[2].words) is beyond


def test_perturbed_rows_are_shown_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    made = rows_document(hours={"type": "range", "low": 0, "high": 12})
    answer = answered(made, {"hours": np.full(200, 2.0)})
    monkeypatch.setitem(sys.modules, "pandas", None)
    head, rows = registry.view("bounded").table(answer)
    assert head == ("hours", "hours.present")
    assert len(rows) == 200
    assert readable.shown(json.loads(json.dumps(answer.as_json())), made) is not None
