"""`thebes demo`: "ok" of a model means better than guessing about others, and no luck fails the demo."""

from __future__ import annotations

import io
import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import typer
from rich.console import Console

from thebes.cli.demo import command
from thebes.cli.demo.scenes import scenes
from thebes.data.rows import Rows
from thebes.privacy.faults import Mistake
from thebes.tasks.scene import SceneVerdict, beside, far, told_right

DRAW = np.random.default_rng(1)
X0, X1 = DRAW.normal(0, 1, 300), DRAW.normal(0, 1, 300)
AGE = np.clip(50 + 20 * X0, 18, 95)
COLUMNS: dict[str, dict[str, Any]] = {
    "y, one after another": {"x0": X0, "x1": X1, "y": (X0 + X1 > 0).astype(int)},
    "y from a small network": {"x0": X0, "x1": X1, "y": (X0 + X1 > 0).astype(int)},
    "y from two packets each": {"x0": X0, "x1": X1, "y": (X0 + X1 > 0).astype(int)},
    "gender from sites": {"lean": X0, "gender": np.where(X0 > 0, "Male", "Female").astype(object)},
    "age from school, income": {"education": X0, "income": X1, "age": AGE},
    "age from sites visited": {"social": X0, "news": X1, "age": AGE},
}


def verdict(name: str, said: Any) -> SceneVerdict:
    rows = Rows.one_each(COLUMNS[name])
    scene = next(scene for scene in scenes(300) if scene.name == name)
    return scene.judge(SimpleNamespace(model=SimpleNamespace(predict=lambda table: said)), rows, rows)  # type: ignore[arg-type]


def test_every_scene_of_a_model_is_judged_here() -> None:
    assert {scene.name for scene in scenes(300) if scene.metric is not None} == set(COLUMNS)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_model_that_guesses_is_not_ok_and_no_failure(name: str) -> None:
    told = next(reversed(COLUMNS[name].values()))
    labels = np.unique(told) if len(np.unique(told)) == 2 else None
    good = verdict(name, told)
    assert (good.word, good.answer) == ("ok", None)
    guess = np.full(
        300, max(labels, key=lambda label: (told == label).sum()) if labels is not None else np.median(told)
    )
    alike = verdict(name, guess)
    assert (alike.word, alike.value) == ("guess", alike.guessing)
    assert str(alike.answer).startswith("no better than guessing: it ")
    assert "one guess for everybody" in str(alike.answer)
    worse = verdict(name, np.where(told == labels[0], labels[1], labels[0]) if labels is not None else told[::-1])
    assert worse.word == "guess"
    hardly = np.where(np.arange(300) < 30, told, guess)
    assert str(verdict(name, hardly).answer).startswith("hardly better than guessing: it ")


def test_where_no_model_could_beat_a_guess_a_guess_is_not_ok_either() -> None:
    told = np.array([0] * 60 + [1] * 40)
    assert told_right(0.5, np.zeros(100), told).word == "guess"
    assert told_right(0.5, told, told).word == "ok"
    assert not far(0.6, 0.6, 0.6)


def test_a_model_whose_lead_luck_explains_is_not_ok() -> None:
    told = np.array([0] * 60 + [1] * 40)
    barely = np.concatenate([np.repeat([1, 0], [10, 50]), np.repeat([1, 0], [14, 26])])
    assert (told_right(0.5, barely, told).value, told_right(0.5, barely, told).word) == (0.64, "guess")


def test_a_statistic_out_of_reach_of_its_bar_still_fails() -> None:
    scene = next(scene for scene in scenes(300) if scene.name == "share of men")
    rows = Rows.one_each({"man": np.ones(300)})
    bar = {"level": 0.95, "low": 0.49, "high": 0.51}
    far = SimpleNamespace(value=0.5, as_json=lambda: {"interval": bar})
    assert scene.judge(far, rows, rows).word == "FAILED"  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "word"), [(10.0, "ok"), (11.5, "ok"), (13.0, "outside"), (40.0, "FAILED")])
def test_ok_is_said_of_an_answer_only_where_its_bar_holds_the_truth(value: float, word: str) -> None:
    bar = {"level": 0.95, "low": value - 2, "high": value + 2}
    assert beside(10.0, value, bar).word == word


def without_processes(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """Let the demo have no stage, and every scene end with this verdict."""
    from thebes.cli.demo import deployment

    def stage(*_: Any, **__: Any) -> Any:
        return nullcontext(SimpleNamespace(hospitals=None, urls={"coordinator": "http://127.0.0.1:1"}))

    def played(stage: Any, scene: Any, progress: Any, *, leave: int = 0) -> dict[str, Any]:
        row = {"name": scene.name, "true": 1.0, "value": 0.5, "interval": None, "epsilon": 1.0, "seconds": 1.0}
        return row | {"guessing": 0.52, "metric": "right", "verdict": word, "ok": word == "ok"}

    monkeypatch.setattr(deployment, "Stage", stage)
    monkeypatch.setattr(command, "_play", played)


@pytest.mark.parametrize(("word", "status"), [("ok", None), ("outside", None), ("guess", None), ("FAILED", 1)])
def test_only_what_failed_ends_the_demo_with_status_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str, status: int | None
) -> None:
    without_processes(monkeypatch, word)
    if status is None:
        command.demo(people=50, sites=0, seed=7, exit=True, kind=[], json=None)
    else:
        with pytest.raises(typer.Exit) as ended:
            command.demo(people=50, sites=0, seed=7, exit=True, kind=[], json=None)
        assert ended.value.exit_code == status
    told = capsys.readouterr()
    assert f"y, one after another: {word}, 1.0 s" in told.err
    assert "right, guess 0.52" in told.out


def test_the_table_stands_beside_the_json_which_holds_every_task(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_processes(monkeypatch, "ok")
    command.demo(people=50, sites=0, seed=7, exit=True, kind=[], json="-")
    told = capsys.readouterr()
    body = json.loads(told.out)
    assert [task["name"] for task in body["tasks"]] == [scene.name for scene in scenes(50)]
    assert body["urls"] == {"coordinator": "http://127.0.0.1:1"}
    assert body["seconds"] >= 0
    assert "right, guess 0.52" in told.err
    assert "http" not in told.err  # nobody answers there any more


def test_what_guessing_gives_stands_beside_the_figure() -> None:
    row = {"name": "y", "true": 0.9, "value": 0.48, "interval": None, "metric": "right", "guessing": 0.5234}
    page = io.StringIO()
    command.show([{**row, "epsilon": 1.0, "seconds": 0.1, "verdict": "guess"}], 50, 0, Console(file=page, width=80))
    assert "right, guess 0.52" in page.getvalue()


def test_one_kind_can_be_played_alone_and_asks_no_hospital_for_nothing() -> None:
    alone = scenes(60, kinds=["basic"])
    assert {scene.document["type"] for scene in alone} == {"basic"}
    assert [scene.name for scene in alone] == [s.name for s in scenes(60) if s.document["type"] == "basic"]
    assert (command.sites_of(["basic"], 3), command.sites_of(["query"], 3), command.sites_of([], 3)) == (0, 3, 3)
    with pytest.raises(Mistake, match="must be one of basic, "):
        command.sites_of(["tall"], 3)


def test_what_takes_more_than_the_proposed_limit_is_said_to_be_asked_about_twice() -> None:
    console = Console(record=True, width=120)
    rows = [{"type": "basic", "epsilon": epsilon} for epsilon in (0.5, 1.0, 1.5, 3.0)]
    command.tell_dear([*rows, {"type": "query", "epsilon": 9.0}], console)
    told = " ".join(console.export_text().split())
    assert told == (
        "2 tasks of these took more than epsilon 1 of each person: with the proposed limits a person is asked twice "
        "before that."
    )
