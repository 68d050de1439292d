"""The views of an owner: columns at a glance, what noise would do, when what was spent, whether it is whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator_in_memory import CoordinatorInMemory
from thebes.person.home import Person
from thebes.simulation import example
from thebes.web.person import words

AGE = {"age": {"type": "range", "low": 0.0, "high": 100.0}}
PETS = {
    "type": "bounded",
    "mechanism": "split",
    "epsilon": 2.0,
    "min_count": 20,
    "featurizer": "SELECT species, age FROM profile.pets",
    "bounds": {"species": {"type": "set", "values": ["cat", "dog"], "default": "dog"}, **AGE},
}
MEDIAN = {
    "type": "basic",
    "epsilon": 1.0,
    "delta": 1e-5,
    "min_count": 20,
    "featurizer": "SELECT age FROM profile.demographics",
    "aggregator": "median",
    "bounds": AGE,
}


class World:
    def __init__(self, home: Path) -> None:
        self.server = CoordinatorInMemory()
        self.me = Person(home, client=self.server, delay=False)  # type: ignore[arg-type]
        example.fill(self.me, seed=4)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "home")
    yield made
    made.me.close()


def diary(me: Person, kind: str, values: list[Any]) -> dict[str, Any]:
    me.register("diary", {"entry": {"columns": {"value": {"type": kind}}}})
    me.insert("diary", "entry", [{"value": value} for value in values])
    return me.glance("diary", "entry")[0]


def test_numbers_are_bars_of_equal_width_from_the_least_to_the_most(world: World) -> None:
    seen = diary(world.me, "float", [*range(120), None])
    assert (seen["kind"], seen["rows"], seen["missing"], seen["low"], seen["high"]) == ("numbers", 121, 1, 0.0, 119.0)
    assert [bar["count"] for bar in seen["bars"]] == [10] * 12


def test_numbers_far_from_each_other_and_equal_ones_are_counted_too(world: World) -> None:
    assert sum(bar["count"] for bar in diary(world.me, "float", [-1.7e308, 1.7e308, *range(20)])["bars"]) == 22


def test_few_different_numbers_have_a_bar_each(world: World) -> None:
    seen = diary(world.me, "integer", [3, 1, 3, 3])
    assert seen["bars"] == [{"label": "1", "count": 1}, {"label": "3", "count": 3}]


def test_words_are_the_most_frequent_ones_and_the_rest_together(world: World) -> None:
    seen = diary(world.me, "string", ["a"] * 5 + ["x" * 90] * 3 + [f"word {n}" for n in range(20)])
    assert seen["bars"][0] == {"label": "a", "count": 5}
    assert len(seen["bars"][1]["label"]) == 40
    assert seen["bars"][-1] == {"label": "all others", "count": 14}
    assert (seen["low"], seen["high"], seen["different"]) == (None, None, 22)


def test_truth_values_are_yes_and_no(world: World) -> None:
    assert diary(world.me, "boolean", [True, False, True, None])["bars"] == [
        {"label": "no", "count": 1},
        {"label": "yes", "count": 2},
    ]


def test_times_are_counted_by_day(world: World) -> None:
    seen = diary(world.me, "timestamp", ["2026-11-01T23:59:00Z", "2026-11-03T00:00:00Z", "2026-11-03T12:00:00Z"])
    assert seen["bars"] == [
        {"label": "2026-11-01", "count": 1},
        {"label": "2026-11-02", "count": 0},
        {"label": "2026-11-03", "count": 2},
    ]


def test_times_over_centuries_are_few_bars(world: World) -> None:
    seen = diary(world.me, "timestamp", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
    assert len(seen["bars"]) <= 42
    assert sum(bar["count"] for bar in seen["bars"]) == 2


def test_a_column_without_values_has_no_bars(world: World) -> None:
    assert diary(world.me, "float", [None, None])["bars"] == []
    assert diary(world.me, "float", [])["missing"] == 2


def test_an_example_is_a_fresh_draw_each_time_and_nobody_hears_of_it(world: World) -> None:
    task = world.server.post(PETS)
    asked: list[str] = []
    world.me.tasks()
    world.server.before = asked.append
    before = world.me.ledger()
    drawn = [world.me.example(task) for _ in range(12)]
    assert {one["leaves"] for one in drawn} == {"noised"}
    assert all(one["columns"]["species"] in ("cat", "dog") for one in drawn)
    assert len({one["columns"]["age"] for one in drawn}) > 1
    assert set(asked) == {"task"}  # the document is looked at; nothing is asked, nothing is sent
    assert world.server.bodies == []
    assert world.me.ledger() == before
    assert world.me.participations() == []


def test_what_is_sent_does_not_follow_from_the_examples(world: World) -> None:
    """Looking often at examples leaves the contribution a draw of its own: it is not any of those shown."""
    task = world.server.post({**PETS, "bounds": {**PETS["bounds"], "age": {"type": "range", "low": 0.0, "high": 1e6}}})
    shown = [world.me.example(task)["columns"]["age"] for _ in range(5)]
    world.me.accept(task)
    world.me.wait(task)
    import json

    sent = json.loads(world.server.bodies[0])["payload"]["age"]
    assert sent not in shown


def test_an_example_of_a_trusted_task_is_the_plain_value(world: World) -> None:
    task = world.server.post(MEDIAN)
    told = world.me.example(task)
    assert told["leaves"] == "values"
    assert told["columns"] == {"age": world.me.newest("profile", "demographics", 1)[0]["age"]}


def test_an_example_of_training_says_how_many_numbers_leave(world: World) -> None:
    import torch

    from thebes.task import gradient

    document = gradient(
        torch.nn.Linear(2, 1),
        torch.nn.MSELoss(),
        "SELECT x0, x1, z FROM profile.example",
        inputs=["x0", "x1"],
        outputs=["z"],
        epsilon=8.0,
        delta=1e-5,
        bounds=dict.fromkeys(("x0", "x1"), (-3.0, 3.0)) | {"z": (-12.0, 12.0)},
        min_count=20,
    )
    told = world.me.example(world.server.post(document))
    assert (told["leaves"], told["columns"]) == ("report", None)
    assert sum(told["numbers"].values()) >= 3


def test_spending_is_told_with_its_time_and_adds_up(world: World) -> None:
    tasks = [world.server.post(MEDIAN), world.server.post(PETS)]
    for task in tasks:
        world.me.accept(task)
        world.me.wait(task)
    history = world.me.ledger()["history"]
    assert [(h["task_id"], h["trust"], h["epsilon"], h["requestor"]) for h in history] == [
        (tasks[0], "trusted", 1.0, "ana"),
        (tasks[1], "local", 2.0, "ana"),
    ]
    assert all(h["at"].endswith("Z") for h in history)


def test_a_changed_limit_does_not_make_history_twice(world: World) -> None:
    task = world.server.post(PETS)
    world.me.accept(task)
    world.me.wait(task)
    world.me.set_settings({"local": {"epsilon": 40.0, "overall_epsilon": 400.0}})
    assert [h["epsilon"] for h in world.me.ledger()["history"]] == [2.0]


def test_receipts_stand_with_what_was_sent(world: World) -> None:
    task = world.server.post(PETS)
    world.me.accept(task)
    world.me.wait(task)
    assert [len(r) for r in world.me.participations()[0]["receipts"]] == [32]


def test_a_whole_journal_is_whole_and_an_altered_one_is_not(world: World) -> None:
    task = world.server.post(PETS)
    world.me.accept(task)
    told = world.me.verify()
    assert (told["whole"], told["findings"]) == (True, [])
    assert told["entries"] > 2
    with sqlite3.connect(world.me.home / "ledger.db") as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        journal = next(name for name in tables if "journal" in name or "entry" in name)
        db.execute(f"UPDATE {journal} SET body = replace(body, 'ana', 'eve')")
    told = world.me.verify()
    assert not told["whole"]
    assert "altered" in " ".join(told["findings"])


def test_numbers_are_told_only_where_the_document_alone_says_how_many(world: World) -> None:
    """The size of an ensemble's packets depends on what the server asks: no number is better than a wrong one."""
    task = world.server.post(
        {
            "type": "ensemble",
            "epsilon": 4.0,
            "min_count": 60,
            "featurizer": "SELECT age, gender FROM profile.demographics",
            "label": "gender",
            "bounds": {**AGE, "gender": {"type": "set", "values": ["Female", "Male"]}},
        }
    )
    told = world.me.example(task)
    assert (told["leaves"], told["numbers"]) == ("noised", {})
    assert sum(world.me.example(world.server.post(MEDIAN))["numbers"].values()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "columns"),
    [
        ({}, {"x0 with y", "x1 with y"}),
        ({"bins": 4, "subsets": 2}, {"x0 with y and x1 with y"}),
        ({"subset_size": 2, "perturbation": "krr"}, {"x0 with x1 with y"}),
        ({"method": "odds", "bins": {"x0": [0.0], "x1": [-1.0, 1.0]}}, {"x0 with y", "x1 with y"}),
        ({"method": "odds", "feature_subsets": [["x0", "x1"]], "perturbation": "subset"}, {"x0 with x1 with y"}),
        ({"scoring_share": 0.2, "perturbation": "rappor"}, {"x0 with y", "x1 with y"}),
    ],
)
def test_an_example_of_packets_is_a_fresh_draw_of_what_a_server_could_ask_for(
    world: World, more: dict[str, Any], columns: set[str]
) -> None:
    x = {"type": "range", "low": -3.0, "high": 3.0, "default": 0.0}
    packets = {
        "type": "ensemble",
        "epsilon": 1.0,
        "featurizer": "SELECT x0, x1, y FROM profile.example",
        "label": "y",
        "bounds": {"x0": x, "x1": x, "y": {"type": "set", "values": ["no", "yes"], "default": "no"}},
        **more,
    }
    task = world.server.post(packets)
    asked: list[str] = []
    world.me.tasks()
    world.server.before = asked.append
    drawn = [world.me.example(task)["columns"] for _ in range(40)]
    assert {" and ".join(one) for one in drawn} == columns
    assert len({tuple(one.items()) for one in drawn}) > 1
    assert any("with no" in told or "with yes" in told for one in drawn for told in one.values())
    assert set(asked) == {"task"}
    assert (world.server.bodies, world.me.participations()) == ([], [])


def test_an_example_of_a_packet_says_what_its_server_would_read(world: World) -> None:
    """At a large epsilon the noise is gone, and the example is the truth in coarse steps."""
    world.me.register("own", {"row": {"columns": {"age": {"type": "float"}, "pay": {"type": "string"}}}})
    world.me.insert("own", "row", [{"age": 41.0, "pay": "much"}])
    packets = {
        "type": "ensemble",
        "epsilon": 40.0,
        "featurizer": "SELECT age, pay FROM own.row",
        "label": "pay",
        "bounds": {
            "age": {"type": "range", "low": 0.0, "high": 90.0},
            "pay": {"type": "set", "values": ["little", "much"]},
        },
        "bins": 3,
        "perturbation": "krr",
    }
    assert world.me.example(world.server.post(packets))["columns"] == {"age with pay": "30 to 60 with much"}


def moving(**more: Any) -> dict[str, Any]:
    return {
        "type": "draw-discard",
        "epsilon": 3.0,
        "min_count": 20,
        "featurizer": "SELECT species, age FROM profile.pets",
        "family": "linear",
        "inputs": ["species"],
        "output": "age",
        "bounds": {"species": {"type": "set", "values": ["cat", "dog"], "default": "dog"}, **AGE},
        "learning_rate": 0.5,
        **more,
    }


def test_an_example_of_a_moved_model_holds_the_change_of_each_weight_and_costs_nothing(world: World) -> None:
    """At a large epsilon the noise is gone, and the change is the rate times what the person's rows say."""
    quiet = moving(mechanism="laplace-l1", epsilon=1e5, start=[1.0, 0.0], clip=2.0)
    told = world.me.example(world.server.post(quiet))
    rows = world.me.preview(world.server.post(quiet))["rows"]
    ages, cats = [row["age"] / 100 for row in rows], [row["species"] == "cat" for row in rows]
    errors = [1.0 - age for age in ages]  # the model begins with 1 for everybody
    gradient = [sum(errors) / len(rows), sum(e for e, cat in zip(errors, cats, strict=True) if cat) / len(rows)]
    assert list(told["columns"].values()) == pytest.approx([-0.5 * each for each in gradient], abs=2e-3)
    assert list(told["columns"]) == ["intercept", "species=cat"]
    noisy = world.server.post(moving())
    assert len({str(world.me.example(noisy)["columns"]) for _ in range(3)}) == 3
    assert (world.server.bodies, world.me.participations()) == ([], [])


def test_a_model_too_large_for_the_eye_is_counted_instead(world: World) -> None:
    bounds = {"species": {"type": "set", "values": [str(number) for number in range(50)]}, **AGE}
    told = world.me.example(world.server.post(moving(bounds=bounds)))
    assert (told["columns"], told["numbers"]["weights"]) == ({}, 50)


@pytest.mark.parametrize(
    ("name", "kind", "called"),
    [("sleep", "basic", "sleep"), (None, "basic", "A basic task"), ("", "ensemble", "An ensemble task")],
)
def test_a_task_without_a_name_is_called_by_its_kind(name: str | None, kind: str, called: str) -> None:
    assert words.called(name, kind) == called
